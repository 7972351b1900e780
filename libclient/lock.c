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
 * Crash: the lock is memory of the process, and goes with it. If a thread has the number of a holder that ended by a
 * raw
 *   exit, it counts as the holder until it takes the lock, or ends.
 */
#include "libclient/lock.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "shm/arch/atomic.h"
#include "shm/arch/process.h"

#define LOCK_WAITED (UINT32_C(1) << 31)
#define LOOK_NSEC 10000000 /* a thread that waits looks so often whether the holder has ended */

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
        return shm_load_rlx(&lock->word) == waited; /* ORDER: rlx; a hint. */
}

bool lock_take(Lock *lock) {
        uint32_t own = (uint32_t) gettid(), waited = 0;
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
        uint32_t own = (uint32_t) gettid(), seen = shm_load_rlx(&lock->word); /* ORDER: rlx; as above. */
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
