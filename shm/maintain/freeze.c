/*
 * Freezing
 *
 * Purpose: the handshake by which the maintainer may write the caches of another thread.
 *
 * Kernel facts (5.10 to 6.18): MEMBARRIER_CMD_GLOBAL_EXPEDITED interrupts the processors that are marked as running a
 *   process that registered. When a thread ends, its processor loses the mark, and does not get it back as long as only
 *   threads of the same process follow there. The command leaves such a processor out, and stores of a thread may still
 *   be in its buffer when the command has returned. MEMBARRIER_CMD_PRIVATE_EXPEDITED goes by the threads that run, not
 *   by marks, but reaches the caller's own process only. MEMBARRIER_CMD_GLOBAL reaches all, in 12 ms, for which threads
 *   would work past their caches.
 *
 * Invariants
 *   1. `attention` is written by the maintainer alone; apart from the freeze bit it only rises.
 *   2. A thread reads attention after its seq went odd. The maintainer writes attention, issues a membarrier, then
 *      reads seq. So either the thread saw the freeze, or the maintainer sees its seq odd. If membarrier fails, this
 *      holds only for threads that fence for themselves (SHM_RECORD_FENCES).
 *   3. So a record is the maintainer's when its seq is even, or differs from the odd value that was read first: every
 *      operation that began since then found the freeze. It stays the maintainer's until the maintainer clears the bit.
 *      This seq is read once the owner's stores of before the freeze are seen: right after a membarrier that leaves out
 *      none of the pool's threads, else SHM_STORES_USEC later. Until then the thread is pending, whatever its seq: a
 *      buffer holds several short operations, so a seq that changes does not prove that the last of them is seen.
 *   4. A record that came into use while the bits were being set is found by n_records_ever, which is read again after
 *      the membarrier.
 *   5. A record that is LEFT is the maintainer's, frozen or not: its owner does nothing after it left the record.
 *   6. When all caches of a record are empty, their pages go back before the freeze bit is cleared.
 *
 * Who may do what: the maintainer sets the bit, empties caches, and clears the bit; owners only read it.
 *
 * Crash: if the maintainer dies, bits stay set, and the owners work uncached. The first freeze of the next maintainer
 *   takes up these records, for all epochs. If an owner dies, its record is DEAD, and repair takes it.
 */
#include "shm/maintain/freeze.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shm/arena/clock.h"
#include "shm/clock/pool-clock.h"
#include "shm/cache/cache-drain.h"
#include "shm/epoch/attention.h"
#include "shm/slab/pages.h"

#define SEEN_NEVER UINT64_MAX /* no membarrier has worked yet */

static int membarrier_call(int command) {
        return syscall(SYS_membarrier, command, 0, 0) < 0 ? -errno : 0;
}

int shm_membarrier(void) {
        return membarrier_call(MEMBARRIER_CMD_GLOBAL_EXPEDITED);
}

int shm_membarrier_own(void) {
        return membarrier_call(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
}

void shm_await_stores(void) {
        uint64_t usec = shm_monotonic_usec() + SHM_STORES_USEC;
        const struct timespec end = { .tv_sec = (time_t) (usec / 1000000),
                                      .tv_nsec = (long) (usec % 1000000 * 1000) };

        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL) == EINTR)
                ;
}

/* Without the first, shm_membarrier_own() fails, and its caller has another way. */
int shm_membarrier_register(void) {
        (void) membarrier_call(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
        return membarrier_call(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED);
}

/*
 * Whether all threads that use the pool are of the maintainer's own process. Its earlier stores are before: a thread of
 * another process that takes a record after this look finds them.
 */
static bool is_alone(const ShmActor *control) {
        ShmRecordOwner owner;

        if (control->process == 0)
                return false;
        shm_fence_sc(); /* ORDER: sc, pairs with shm_record_take(); attention is written before the heads are read. */
        for (uint32_t i = 1; i < shm_arena_n_records_ever(control->arena); i++) {
                owner = shm_record_owner(control->arena, i);
                if (owner.state == SHM_RECORD_USED && owner.client + 1 != control->process)
                        return false;
        }
        return true;
}

/*
 * Orders the maintainer's earlier stores before its later loads. Returns the time from which on threads have seen the
 * former, and the latter see all stores that threads made before: 0: now. SEEN_NEVER, and *ret_error: membarrier
 * failed; this holds for threads that fence for themselves.
 */
static uint64_t freeze_barrier(const ShmActor *control, int *ret_error) {
        *ret_error = 0;
        if (is_alone(control) && shm_membarrier_own() == 0)
                return 0;
        *ret_error = shm_membarrier();
        if (*ret_error == 0)
                return shm_monotonic_usec() + SHM_STORES_USEC;
        shm_fence_sc(); /* ORDER: sc, pairs with cache_is_ours(); attention is written before seq is read. */
        return SEEN_NEVER;
}

static void set_epochs(ShmFreeze *freeze, uint32_t record, uint64_t epochs) {
        freeze->n_left += freeze->epochs[record] == 0 && epochs != 0;
        freeze->n_left -= freeze->epochs[record] != 0 && epochs == 0;
        freeze->epochs[record] = epochs;
}

static bool is_left(ShmRecordOwner owner) {
        return owner.state == SHM_RECORD_LEFT;
}

static void read_seq(const ShmArena *arena, ShmFreeze *freeze, uint32_t record) {
        /* ORDER: acq, pairs with shm_actor_leave(); even: that operation is over and seen. */
        freeze->seq[record] = shm_load_acq(&shm_arena_record(arena, record)->seq);
}

static uint64_t *shared_seen(const ShmArena *arena, uint32_t record) {
        return &arena->heads[record].seen_usec;
}

/* For the next maintainer, which may be another process, perhaps in another time namespace. */
static void store_seen(const ShmArena *arena, uint32_t record, uint64_t seen_usec) {
        uint64_t now_usec = shm_clock_exact_ns(arena) / 1000;

        if (seen_usec != 0)
                now_usec += seen_usec - shm_monotonic_usec();
        /* ORDER: rel, pairs with load_seen(); the membarrier. */
        shm_store_rel(shared_seen(arena, record), now_usec);
}

/* When the stores of before an earlier maintainer's freeze are seen; not 0, since seq is to be read after that. */
static uint64_t load_seen(const ShmArena *arena, uint32_t record) {
        uint64_t seen =
                shm_load_acq(shared_seen(arena, record)); /* ORDER: acq, pairs with store_seen(); as there. */
        uint64_t now_usec = shm_clock_exact_ns(arena) / 1000, left = seen > now_usec ? seen - now_usec : 0;

        if (seen == 0)
                return SEEN_NEVER;
        return shm_monotonic_usec() + (left < SHM_STORES_USEC ? left : SHM_STORES_USEC);
}

bool shm_freeze_is_early(const ShmArena *arena, uint32_t record) {
        return shm_hint_load(shared_seen(arena, record)) > shm_clock_exact_ns(arena) / 1000;
}

/* A record that was left, or that a maintainer froze and did not finish, is to be emptied of all epochs. */
static void freeze_record(ShmArena *arena, ShmFreeze *freeze, uint32_t record, uint64_t version,
                          uint64_t epochs) {
        bool frozen = shm_attention_load(arena, record) & SHM_ATTENTION_FREEZE;

        if (record >= freeze->n)
                freeze->epochs[record] = 0;
        if (is_left(shm_record_owner(arena, record)) || (frozen && freeze->epochs[record] == 0))
                epochs = UINT64_MAX;
        /* If somebody froze it before, it has been the same freeze since. */
        if (!frozen) {
                freeze->seen_usec[record] = SEEN_NEVER;
                /* ORDER: rlx; in front of the bit, which orders it. */
                shm_store_rlx(shared_seen(arena, record), 0);
        } else if (freeze->epochs[record] == 0) {
                freeze->seen_usec[record] = load_seen(arena, record);
                /* By this, a thread that fences for itself is judged before that time. */
                read_seq(arena, freeze, record);
        }
        set_epochs(freeze, record, freeze->epochs[record] | epochs);
        shm_attention_store(arena, record,
                            version | (freeze->epochs[record] != 0 ? SHM_ATTENTION_FREEZE : 0));
}

/* A membarrier came after all records were frozen; for records that no membarrier has served yet. */
static void note_barrier(const ShmArena *arena, ShmFreeze *freeze, uint64_t seen_usec) {
        freeze->unfenced = seen_usec == SEEN_NEVER;
        freeze->last_usec = freeze->unfenced ? 0 : seen_usec;
        for (uint32_t i = 1; i < freeze->n; i++)
                if (freeze->epochs[i] != 0 && freeze->seen_usec[i] == SEEN_NEVER) {
                        read_seq(arena, freeze, i);
                        freeze->seen_usec[i] = seen_usec;
                        if (!freeze->unfenced)
                                store_seen(arena, i, seen_usec);
                }
}

/* Freezes all records or, with `only`, the records whose bit is set there. The others are left as they are. */
static int freeze_records(ShmActor *control, ShmFreeze *freeze, uint64_t epochs, const uint64_t *only) {
        ShmArena *arena = control->arena;
        uint64_t version = shm_attention_next_version(arena), seen_usec;
        uint32_t i = 1;
        int r;

        do {
                for (; i < shm_arena_n_records_ever(arena); i++)
                        if (!only || only[i / 64] >> i % 64 & 1)
                                freeze_record(arena, freeze, i, version, epochs);
                        else if (i >= freeze->n)
                                freeze->epochs[i] = 0;
                seen_usec = freeze_barrier(control, &r);
        } while (i < shm_arena_n_records_ever(arena));

        freeze->n = i;
        note_barrier(arena, freeze, seen_usec);
        return r;
}

int shm_freeze_begin(ShmActor *control, ShmFreeze *freeze, uint64_t epochs) {
        return freeze_records(control, freeze, epochs, NULL);
}

int shm_freeze_begin_some(ShmActor *control, ShmFreeze *freeze, const uint64_t *records) {
        return freeze_records(control, freeze, UINT64_MAX, records);
}

/* Whether the freeze of this record is not over. Repair clears the bit of a dead record. */
static bool is_open(const ShmArena *arena, uint32_t record) {
        ShmRecordState state = shm_record_owner(arena, record).state;

        return state == SHM_RECORD_LEFT || ((state == SHM_RECORD_USED || state == SHM_RECORD_UNUSED) &&
                                            (shm_attention_load(arena, record) & SHM_ATTENTION_FREEZE));
}

bool shm_freeze_is_over(const ShmArena *arena) {
        for (uint32_t i = 1; i < shm_arena_n_records_ever(arena); i++)
                if (is_open(arena, i))
                        return false;
        return true;
}

bool shm_freeze_resume(ShmActor *control, ShmFreeze *freeze) {
        const ShmArena *arena = control->arena;

        for (uint32_t i = 1; i < shm_arena_n_records_ever(arena); i++)
                if (is_open(arena, i) && (i >= freeze->n || freeze->epochs[i] == 0)) {
                        (void) shm_freeze_begin(control, freeze, 0);
                        return true;
                }
        return false;
}

/* Whether the thread may be in the operation in which the freeze found it. The seq of a thread that died stays odd. */
static bool is_pending(const ShmArena *arena, const ShmFreeze *freeze, uint32_t record,
                       ShmRecordOwner owner) {
        const ShmRecord *r = shm_arena_record(arena, record);

        if (owner.state != SHM_RECORD_USED)
                return false;
        /* ORDER: rlx; written before the thread's first operation. */
        if (freeze->seen_usec[record] != 0 && !(shm_load_rlx(&r->flags) & SHM_RECORD_FENCES))
                return true;
        return freeze->seq[record] & 1 &&
               /* ORDER: acq, pairs with shm_actor_leave(); another value: that operation is over and seen. */
               shm_load_acq(&r->seq) == freeze->seq[record];
}

/* Reads seq once the stores of before the freeze are seen. */
static void look_at_seq(const ShmArena *arena, ShmFreeze *freeze, uint32_t record, uint64_t now_usec) {
        uint64_t *seen = &freeze->seen_usec[record];

        if (*seen == 0 || *seen == SEEN_NEVER)
                return;
        if (now_usec < *seen) {
                freeze->n_early++;
                freeze->look_usec = *seen < freeze->look_usec ? *seen : freeze->look_usec;
                return;
        }
        read_seq(arena, freeze, record);
        *seen = 0;
}

static void freeze_clear_bit(ShmArena *arena, uint32_t record) {
        shm_attention_store(arena, record, shm_attention_load(arena, record) & ~SHM_ATTENTION_FREEZE);
}

/*
 * The head that is read here decides: if the owner dies or leaves after that, it changes nothing more in its record. 0:
 * nothing is to be done to the record now.
 */
static uint64_t epochs_to_empty(const ShmArena *arena, ShmFreeze *freeze, uint32_t record) {
        ShmRecordOwner owner = shm_record_owner(arena, record);

        if (is_left(owner))
                return UINT64_MAX;
        /* Repair empties a dead record and clears its bit; it may have done so already. */
        if (owner.state == SHM_RECORD_DEAD || owner.state >= SHM_RECORD_ROLLED_BACK ||
            !(shm_attention_load(arena, record) & SHM_ATTENTION_FREEZE))
                set_epochs(freeze, record, 0);
        return is_pending(arena, freeze, record, owner) ? 0 : freeze->epochs[record];
}

/*
 * The record is the maintainer's and all its caches are empty: their pages go. Zeros are caches that were never used.
 * The first cache begins in the page of the record itself, and that part of it stays.
 */
static void forget_caches(ShmArena *arena, uint32_t record) {
        ShmRecord *r = shm_arena_record(arena, record);
        size_t first = (sizeof(*r) + SHM_SLAB_SIZE - 1) / SHM_SLAB_SIZE * SHM_SLAB_SIZE;

        for (uint32_t i = 0; i < SHM_CACHES_MAX / 64; i++)
                if (shm_load_rlx(&r->used[i]) != 0) /* ORDER: rlx; the maintainer's alone, as below. */
                        shm_store_rel(&r->used[i], 0); /* ORDER: rel; their slots went back before. */
        if (arena->record_stride > first)
                shm_pages_punch(arena, (uint8_t *) r + first, arena->record_stride - first);
}

static void end_record(ShmArena *arena, ShmFreeze *freeze, uint32_t record) {
        freeze->n_emptied++;
        if (freeze->walk_epochs == UINT64_MAX)
                forget_caches(arena, record);
        freeze_clear_bit(arena, record);
        if (is_left(shm_record_owner(arena, record))) {
                /* The owner may have left in between, while only some caches were to be emptied. */
                if (freeze->epochs[record] != UINT64_MAX) {
                        set_epochs(freeze, record, UINT64_MAX);
                        return;
                }
                (void) shm_record_set_unused(arena, record);
        }
        set_epochs(freeze, record, 0);
}

/* Empties up to *n caches of the record at the position. False: it has more. */
static bool empty_record(ShmActor *control, ShmFreeze *freeze, uint64_t now_usec, uint32_t *n) {
        uint32_t record = freeze->position;
        uint64_t epochs;

        if (freeze->epochs[record] != 0)
                look_at_seq(control->arena, freeze, record, now_usec);
        epochs = epochs_to_empty(control->arena, freeze, record);
        if (epochs == 0) {
                freeze->begun = false;
                return true;
        }
        if (!freeze->begun || epochs != freeze->walk_epochs)
                freeze->walk = (ShmCacheWalk){};
        set_epochs(freeze, record, epochs);
        freeze->walk_epochs = epochs;
        freeze->begun = true;
        for (; *n > 0; --*n, freeze->n_emptied++)
                if (!shm_cache_drain_next(control, record, epochs, &freeze->walk)) {
                        freeze->begun = false;
                        end_record(control->arena, freeze, record);
                        --*n;
                        return true;
                }
        return false;
}

/* Tries the membarrier again. */
static void fence_again(const ShmActor *control, ShmFreeze *freeze) {
        uint64_t seen_usec;
        int r;

        seen_usec = freeze_barrier(control, &r);
        if (r == 0)
                note_barrier(control->arena, freeze, seen_usec);
}

uint32_t shm_freeze_step(ShmActor *control, ShmFreeze *freeze, uint32_t n, uint64_t now_usec) {
        uint32_t n_looks = freeze->n;

        if (freeze->unfenced && freeze->n_left > 0)
                fence_again(control, freeze);
        freeze->look_usec = UINT64_MAX;
        freeze->n_early = 0;
        for (; n > 0 && n_looks > 0; n_looks--) {
                if (freeze->position == 0 || freeze->position >= freeze->n) {
                        freeze->position = 1;
                        freeze->begun = false;
                }
                if (freeze->position < freeze->n && !empty_record(control, freeze, now_usec, &n))
                        break;
                freeze->position++;
                freeze->n_looks++;
        }
        return freeze->n_left;
}

static bool record_is_waited_for(const ShmArena *arena, const ShmFreeze *freeze, uint32_t record) {
        return is_pending(arena, freeze, record, shm_record_owner(arena, record));
}

uint32_t shm_freeze_pending(const ShmActor *control, const ShmFreeze *freeze) {
        uint32_t n = 0;

        for (uint32_t i = 1; i < freeze->n; i++)
                n += freeze->epochs[i] != 0 && record_is_waited_for(control->arena, freeze, i);
        return n;
}

uint32_t shm_freeze_left(const ShmActor *control, const ShmFreeze *freeze, uint32_t epoch,
                         uint32_t *ret_pending) {
        uint32_t n = 0, n_pending = 0;

        for (uint32_t i = 1; i < freeze->n; i++)
                if (freeze->epochs[i] >> epoch & 1) {
                        n++;
                        n_pending += record_is_waited_for(control->arena, freeze, i);
                }
        *ret_pending = n_pending;
        return n;
}

bool shm_freeze_fence(const ShmActor *control, uint64_t *ret_usec) {
        const ShmArena *arena = control->arena;
        int r;

        *ret_usec = freeze_barrier(control, &r);
        if (r == 0)
                return true;
        *ret_usec = 0;
        for (uint32_t i = 1; i < shm_arena_n_records_ever(arena); i++)
                if (shm_record_owner(arena, i).state == SHM_RECORD_USED &&
                    /* ORDER: rlx; written before the thread's first operation. */
                    !(shm_load_rlx(&shm_arena_record(arena, i)->flags) & SHM_RECORD_FENCES))
                        return false;
        return true;
}

void shm_freeze_fence_all(const ShmActor *control) {
        uint64_t usec;

        if (!shm_freeze_fence(control, &usec) || usec != 0)
                shm_await_stores();
}
