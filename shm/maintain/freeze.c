/*
 * Freezing
 *
 * Purpose: the handshake by which the maintainer may write the caches of another thread.
 *
 * Kernel facts (5.10 to 6.18): MEMBARRIER_CMD_GLOBAL_EXPEDITED interrupts the processors that are marked as running a
 *   process that registered. When a thread ends, its processor loses the mark, and does not get it back as long as only
 *   threads of the same process follow there. The command leaves such a processor out. So shm_membarrier() also waits
 *   until the stores of other processors have gone out by themselves. MEMBARRIER_CMD_PRIVATE_EXPEDITED goes by the
 *   threads that run, not by marks, but reaches the caller's own process only.
 *
 * Invariants
 *   1. `attention` is written by the maintainer alone; apart from the freeze bit it only rises.
 *   2. A thread reads attention after its seq went odd. The maintainer writes attention, issues a membarrier, then
 *      reads seq. So either the thread saw the freeze, or the maintainer sees its seq odd. If membarrier fails, this
 *      holds only for threads that fence for themselves (SHM_RECORD_FENCES).
 *   3. So a record is the maintainer's when its seq is even, or differs from the odd value that was read first: every
 *      operation that began since then found the freeze. It stays the maintainer's until the maintainer clears the bit.
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

#include "shm/cache/cache-drain.h"
#include "shm/epoch/attention.h"
#include "shm/slab/pages.h"

static int membarrier_call(int command) {
        return syscall(SYS_membarrier, command, 0, 0) < 0 ? -errno : 0;
}

int shm_membarrier(void) {
        int r = membarrier_call(MEMBARRIER_CMD_GLOBAL_EXPEDITED);

        if (r == 0)
                shm_await_stores();
        return r;
}

int shm_membarrier_own(void) {
        return membarrier_call(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
}

/* Without the first, shm_membarrier_own() fails, and its caller has another way. */
int shm_membarrier_register(void) {
        (void) membarrier_call(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
        return membarrier_call(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED);
}

static void set_epochs(ShmFreeze *freeze, uint32_t record, uint64_t epochs) {
        freeze->n_left += freeze->epochs[record] == 0 && epochs != 0;
        freeze->n_left -= freeze->epochs[record] != 0 && epochs == 0;
        freeze->epochs[record] = epochs;
}

static bool is_left(ShmRecordOwner owner) {
        return owner.state == SHM_RECORD_LEFT;
}

/* A record that was left, or that a maintainer froze and did not finish, is to be emptied of all epochs. */
static void freeze_record(ShmArena *arena, ShmFreeze *freeze, uint32_t record, uint64_t version,
                          uint64_t epochs) {
        bool frozen = shm_attention_load(arena, record) & SHM_ATTENTION_FREEZE;

        if (record >= freeze->n)
                freeze->epochs[record] = 0;
        if (is_left(shm_record_owner(arena, record)) || (frozen && freeze->epochs[record] == 0))
                epochs = UINT64_MAX;
        set_epochs(freeze, record, freeze->epochs[record] | epochs);
        shm_attention_store(arena, record,
                            version | (freeze->epochs[record] != 0 ? SHM_ATTENTION_FREEZE : 0));
}

static void read_seqs(const ShmArena *arena, ShmFreeze *freeze) {
        for (uint32_t i = 1; i < freeze->n; i++)
                /* ORDER: acq, pairs with shm_actor_leave(); even: that operation is over and seen. */
                freeze->seq[i] = shm_load_acq(&shm_arena_record(arena, i)->seq);
}

/* If membarrier fails, the fence serves the threads that fence for themselves. */
static int freeze_barrier(ShmFreeze *freeze) {
        int r = shm_membarrier();

        freeze->unfenced = r < 0;
        if (r < 0)
                shm_fence_sc(); /* ORDER: sc, pairs with cache_is_ours(); attention is written before seq is read. */
        return r;
}

/* Freezes all records or, with `only`, the records whose bit is set there. The others are left as they are. */
static int freeze_records(ShmActor *control, ShmFreeze *freeze, uint64_t epochs, const uint64_t *only) {
        ShmArena *arena = control->arena;
        uint64_t version = shm_attention_next_version(arena);
        uint32_t i = 1;
        int r;

        do {
                for (; i < shm_arena_n_records_ever(arena); i++)
                        if (!only || only[i / 64] >> i % 64 & 1)
                                freeze_record(arena, freeze, i, version, epochs);
                        else if (i >= freeze->n)
                                freeze->epochs[i] = 0;
                r = freeze_barrier(freeze);
        } while (i < shm_arena_n_records_ever(arena));

        freeze->n = i;
        read_seqs(arena, freeze);
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
                        break;
                }
        return freeze->n_left > 0;
}

/* Whether the thread may be in the operation in which the freeze found it. The seq of a thread that died stays odd. */
static bool is_pending(const ShmArena *arena, const ShmFreeze *freeze, uint32_t record,
                       ShmRecordOwner owner) {
        const ShmRecord *r = shm_arena_record(arena, record);

        if (owner.state != SHM_RECORD_USED)
                return false;
        /* ORDER: rlx; written before the thread's first operation. */
        if (freeze->unfenced && !(shm_load_rlx(&r->flags) & SHM_RECORD_FENCES))
                return true;
        return freeze->seq[record] & 1 &&
               /* ORDER: acq, pairs with shm_actor_leave(); another value: that operation is over and seen. */
               shm_load_acq(&r->seq) == freeze->seq[record];
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
static bool empty_record(ShmActor *control, ShmFreeze *freeze, uint32_t *n) {
        uint32_t record = freeze->position;
        uint64_t epochs = epochs_to_empty(control->arena, freeze, record);

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

/* Tries the membarrier again. Once it works, seq shows again which threads stand still. */
static void fence_again(const ShmArena *arena, ShmFreeze *freeze) {
        if (freeze_barrier(freeze) == 0)
                read_seqs(arena, freeze);
}

uint32_t shm_freeze_step(ShmActor *control, ShmFreeze *freeze, uint32_t n) {
        uint32_t n_looks = freeze->n;

        if (freeze->unfenced && freeze->n_left > 0)
                fence_again(control->arena, freeze);
        for (; n > 0 && n_looks > 0; n_looks--) {
                if (freeze->position == 0 || freeze->position >= freeze->n) {
                        freeze->position = 1;
                        freeze->begun = false;
                }
                if (freeze->position < freeze->n && !empty_record(control, freeze, &n))
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

bool shm_freeze_fence(const ShmArena *arena) {
        if (shm_membarrier() == 0)
                return true;
        shm_fence_sc(); /* ORDER: sc, pairs with shm_actor_guard(); for threads that fence for themselves. */
        for (uint32_t i = 1; i < shm_arena_n_records_ever(arena); i++)
                if (shm_record_owner(arena, i).state == SHM_RECORD_USED &&
                    /* ORDER: rlx; written before the thread's first operation. */
                    !(shm_load_rlx(&shm_arena_record(arena, i)->flags) & SHM_RECORD_FENCES))
                        return false;
        return true;
}
