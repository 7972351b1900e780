/*
 * Locks between the threads of one process
 *
 * Purpose: locks that do not stay locked when their holder ends.
 *
 * Invariants
 *   1. The word names the holder. A holder that has ended (tgkill(2)) is no holder: the next thread takes the lock over
 *      by compare-and-set from that word.
 *   2. No thread takes a lock that it has, and no call is made in a signal handler. So a thread that finds itself the
 *      holder has left the call that took the lock: a handler ended it, and it runs destructors.
 *
 * Who may do what: any thread of the process.
 *
 * Crash: the lock is memory of the process, and goes with it. If a thread has the number of a holder that
 *   ended by a raw exit, it counts as the holder until it takes the lock, or ends.
 */
#include "libclient/pool/lock.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "libclient/pool/thread-model.h"
#include "shm/arch/atomic.h"
#include "shm/arch/process.h"

#define LOCK_WAITED (UINT32_C(1) << 31)
#define LOOK_NSEC 10000000 /* a thread that waits looks so often whether the holder has ended */

/* Memory that the kernel zeroes in a forked child. */
typedef struct Wiped {
        Lock lock;
        uint32_t
                process; /* a number that neither the process's ancestors have nor another process of this memory;
                             0: a forked child gave itself none yet */
} Wiped;

static Wiped *wiped;
static uint32_t last_process; /* a child goes on from its parent's */

/* This thread's number, which the kernel gave to it in the process with that number. */
static __thread uint32_t own_number THREAD_MODEL, own_process THREAD_MODEL;

int lock_init(Lock **ret_wiped) {
        /* ORDER: acq, pairs with lock_init(); the memory is mapped. */
        Wiped *seen = shm_load_acq(&wiped), *page;

        if (!seen) {
                page = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
                if (page == MAP_FAILED)
                        return -ENOMEM;
                /* ORDER: acqrel, pairs with lock_init(); the memory is mapped. */
                if (madvise(page, sizeof(*page), MADV_WIPEONFORK) == 0 && shm_cas_acqrel(&wiped, &seen, page))
                        seen = page;
                else
                        (void) munmap(page, sizeof(*page));
        }
        if (!seen)
                return -ENOMEM;
        *ret_wiped = &seen->lock;
        return 0;
}

/* Which thread of this process comes first does not matter: the forking thread's own_process is older. */
static uint32_t own_process_number(void) {
        /* ORDER: rlx; says nothing of other memory. */
        uint32_t process = shm_load_rlx(&wiped->process), next;

        if (process != 0)
                return process;
        next = shm_add_rlx(&last_process, 1) + 1; /* ORDER: rlx; as above. */
        /* ORDER: acqrel; as above. */
        return shm_cas_acqrel(&wiped->process, &process, next) ? next : process;
}

uint32_t lock_own_number(void) {
        uint32_t process;

        /* ORDER: acq, pairs with lock_init(); the memory is mapped. */
        if (!shm_load_acq(&wiped))
                return (uint32_t) gettid(); /* a test without a registry */
        process = own_process_number();
        if (own_process != process) {
                own_number = (uint32_t) gettid();
                own_process = process;
        }
        return own_number;
}

/* One attempt to take it from the value that was seen. `waited`: others may sleep. */
static bool take_from(Lock *lock, uint32_t seen, uint32_t own, uint32_t waited) {
        /* ORDER: acqrel, pairs with lock_release(); the last holder's stores are seen. */
        return shm_cas_acqrel(&lock->word, &seen, own | waited);
}

/* True: the lock stayed as it was seen. */
static bool lock_sleep(Lock *lock, uint32_t seen) {
        const struct timespec timeout = { .tv_nsec = LOOK_NSEC };
        uint32_t waited = seen | LOCK_WAITED;

        /* ORDER: acqrel; nothing is ordered by it. */
        if (seen == waited || shm_cas_acqrel(&lock->word, &seen, waited))
                (void) syscall(SYS_futex, &lock->word, FUTEX_WAIT_PRIVATE, waited, &timeout, NULL, 0);
        return shm_hint_load(&lock->word) == waited;
}

bool lock_take(Lock *lock) {
        uint32_t own = lock_own_number(), waited = 0;
        bool stays = false;

        for (;;) {
                /* ORDER: rlx; the compare-and-set that takes it orders. */
                uint32_t seen = shm_load_rlx(&lock->word), holder = seen & ~LOCK_WAITED;

                if (holder == 0 || holder == own || (stays && shm_own_thread_has_ended(holder))) {
                        if (take_from(lock, seen, own, (seen & LOCK_WAITED) | waited))
                                return holder != 0;
                } else {
                        stays = lock_sleep(lock, seen);
                        waited = LOCK_WAITED; /* one thread is woken at a time, and others may still sleep */
                }
        }
}

bool lock_try(Lock *lock, bool *ret_left) {
        uint32_t own = lock_own_number(), seen = shm_load_rlx(&lock->word); /* ORDER: rlx; as above. */
        uint32_t holder = seen & ~LOCK_WAITED;

        if ((holder != 0 && holder != own && !shm_own_thread_has_ended(holder)) ||
            !take_from(lock, seen, own, seen & LOCK_WAITED))
                return false;
        *ret_left = holder != 0;
        return true;
}

void lock_release(Lock *lock) {
        /* ORDER: acqrel, pairs with take_from(); our stores precede it. */
        if (shm_xchg_acqrel(&lock->word, 0) & LOCK_WAITED)
                (void) syscall(SYS_futex, &lock->word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}
