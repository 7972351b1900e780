/*
 * The owner of control work
 *
 * Purpose: of all threads that use a private pool one does control work at a time, and none is barred by one that
 * ended.
 *
 * Invariants
 *   1. One word has all of it: the state, and the owner's entry in the client table and thread. With it is a number
 *      that counts the owners, so that a word which was seen to be that of a dead owner is no later owner's.
 *   2. An owner is known as threads are known to repair: by the entry of its process, which names the program, and its
 *      thread. The entry stands while the process owns control work.
 *   3. No call does control work inside of control work, and none may be made in a signal handler. So a thread that
 *      finds itself the owner was left in the middle by its last call: it is gone, though it still runs.
 *
 * Who may do what: any thread takes control work that is free, or left, or of an owner that is gone.
 *
 * Crash: the word names the dead owner. The next one goes on from record 0, as after a death of a daemon.
 */
#include "shm/owner/owner.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "shm/arena/client.h"
#include "shm/arch/process.h"

/* client + 1: 13 | thread: 22 | left: 1 | waited for: 1 | number: 27 */
#define TID_SHIFT 13
#define LEFT (UINT64_C(1) << 35)
#define WAITED (UINT64_C(1) << 36)
#define NUMBER_SHIFT 37

#define CLIENT_MASK ((UINT64_C(1) << TID_SHIFT) - 1)
#define TID_MASK ((UINT64_C(1) << 22) - 1)

static uint64_t *owner_at(const ShmArena *arena) {
        return &arena->header->control_owner.value;
}

static uint64_t word_number(uint64_t word) {
        return word >> NUMBER_SHIFT;
}

static uint32_t word_tid(uint64_t word) {
        return (uint32_t) (word >> TID_SHIFT & TID_MASK);
}

/* The transitions. */
static uint64_t word_take(uint64_t word, uint32_t client, uint32_t tid) {
        return (client + 1) | (uint64_t) tid << TID_SHIFT | (word_number(word) + 1) << NUMBER_SHIFT;
}

static uint64_t word_release(uint64_t word, bool left) {
        return (left ? LEFT : 0) | word_number(word) << NUMBER_SHIFT;
}

uint64_t shm_owner_load(const ShmArena *arena) {
        /* ORDER: acq, pairs with shm_owner_take(); the owner's entry is there. */
        return shm_load_acq(owner_at(arena));
}

ShmOwnerState shm_owner_state(uint64_t word) {
        return word & CLIENT_MASK ? SHM_OWNER_HELD : word & LEFT ? SHM_OWNER_LEFT : SHM_OWNER_FREE;
}

uint32_t shm_owner_client(uint64_t word) {
        return (uint32_t) (word & CLIENT_MASK) - 1;
}

bool shm_owner_is(uint64_t word, uint32_t client, uint32_t tid) {
        return shm_owner_state(word) == SHM_OWNER_HELD && shm_owner_client(word) == client &&
               word_tid(word) == tid;
}

bool shm_owner_is_gone(const ShmArena *arena, uint64_t word, uint32_t client, uint32_t tid) {
        uint32_t owner = shm_owner_client(word);
        uint64_t started;
        ShmClientInfo info;
        bool gone;
        int fd;

        if (owner == client)
                return word_tid(word) == tid || shm_own_thread_has_ended(word_tid(word));
        if (shm_client_get(arena, owner, &info) < 0)
                return false;
        if (info.state == SHM_CLIENT_DEAD || shm_client_is_gone(&info))
                return true;
        fd = shm_process_open(info.pid, info.start_time);
        if (fd < 0)
                return false;
        gone = shm_thread_has_ended(fd, word_tid(word), &started);
        close(fd);
        return gone;
}

bool shm_owner_stands_still(const ShmArena *arena) {
        uint64_t word = shm_owner_load(arena);
        ShmClientInfo info;
        bool stopped;
        int fd;

        if (shm_owner_state(word) != SHM_OWNER_HELD ||
            shm_client_get(arena, shm_owner_client(word), &info) < 0)
                return false;
        fd = shm_process_open(info.pid, info.start_time);
        if (fd < 0)
                return false;
        stopped = shm_thread_is_stopped(fd, word_tid(word));
        close(fd);
        return stopped;
}

bool shm_owner_take(ShmArena *arena, uint64_t word, uint32_t client, uint32_t tid) {
        /* ORDER: acqrel, pairs with shm_owner_release(); the last owner's stores are seen. */
        return shm_cas_acqrel(owner_at(arena), &word, word_take(word, client, tid));
}

void shm_owner_release(ShmArena *arena, bool left) {
        uint64_t *at = owner_at(arena), old = shm_load_rlx(at); /* ORDER: rlx; ours. */

        /* ORDER: acqrel, pairs with shm_owner_take(); our stores precede it. Others may set WAITED meanwhile. */
        while (!shm_cas_acqrel(at, &old, word_release(old, left)))
                ;
        if (old & WAITED)
                (void) syscall(SYS_futex, at, FUTEX_WAKE, 1, NULL, NULL, 0);
}

void shm_owner_wait(const ShmArena *arena, uint64_t word, uint64_t usec) {
        const struct timespec timeout = { .tv_nsec = (long) usec * 1000 };
        uint64_t seen = word;

        /* ORDER: acqrel; nothing is ordered by it. The lower half, which has the client, tells a change. */
        if ((word & WAITED) || shm_cas_acqrel(owner_at(arena), &seen, word | WAITED))
                (void) syscall(SYS_futex, owner_at(arena), FUTEX_WAIT, (uint32_t) word, &timeout, NULL, 0);
}
