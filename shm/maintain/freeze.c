/*
 * Freezing
 *
 * Purpose: the handshake by which control may write the caches of another thread.
 *
 * Invariants
 *   1. `attention` is written by control alone; it rises, but for the freeze bit.
 *   2. A thread reads attention after its seq went odd. Control writes attention, issues a
 *      membarrier, then reads seq: either the thread saw the freeze, or control sees its seq odd.
 *   3. So a record is control's when its seq is even, or another than the odd one first read: every
 *      operation since began frozen. It stays so until control clears the bit.
 *   4. A record that came into use while the bits were being set is found by n_records_ever, read
 *      again after the membarrier.
 *
 * Who may do what: control sets, empties, clears; owners look.
 *
 * Crash: of control: bits stay set, their owners work uncached, and the next control's first freeze
 *   takes them up for all epochs. Of an owner: its record is DEAD, and repair's.
 */
#include "shm/maintain/freeze.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shm/cache-drain.h"
#include "shm/cache.h"

#define VERSION_ONE UINT64_C(2) /* above the freeze bit */

static int membarrier(int command) {
        return syscall(SYS_membarrier, command, 0, 0) < 0 ? -errno : 0;
}

int shm_membarrier(void) {
        return membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED);
}

int shm_membarrier_register(void) {
        return membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED);
}

static uint64_t next_version(ShmArena *arena) {
        uint64_t *version = &arena->header->attention.value;
        /* ORDER: rlx; control's alone. */
        uint64_t v = (shm_load_rlx(version) & ~SHM_ATTENTION_FREEZE) + VERSION_ONE;

        shm_store_rlx(version, v); /* ORDER: rlx; control's alone. */
        return v;
}

static uint64_t load_attention(const ShmArena *arena, uint32_t record) {
        return shm_load_rlx(&shm_arena_record(arena, record)->attention); /* ORDER: rlx; control's alone. */
}

static void store_attention(ShmArena *arena, uint32_t record, uint64_t attention) {
        /* ORDER: rel, pairs with shm_cache_alloc_hit(); epochs changed, caches emptied before. */
        shm_store_rel(&shm_arena_record(arena, record)->attention, attention);
}

void shm_freeze_publish(ShmArena *arena) {
        uint64_t version = next_version(arena);

        for (uint32_t i = 1; i < shm_arena_n_records_ever(arena); i++)
                store_attention(arena, i, version | (load_attention(arena, i) & SHM_ATTENTION_FREEZE));
}

static void freeze_record(ShmArena *arena, ShmFreeze *freeze, uint32_t record, uint64_t version,
                          uint64_t epochs) {
        bool frozen = load_attention(arena, record) & SHM_ATTENTION_FREEZE;

        if (record >= freeze->n)
                freeze->epochs[record] = 0;
        if (frozen && freeze->epochs[record] == 0)
                freeze->epochs[record] = UINT64_MAX; /* by a control that did not finish */
        freeze->epochs[record] |= epochs;
        store_attention(arena, record, version | SHM_ATTENTION_FREEZE);
}

int shm_freeze_begin(ShmActor *control, ShmFreeze *freeze, uint64_t epochs) {
        ShmArena *arena = control->arena;
        uint64_t version = next_version(arena);
        uint32_t i = 1;
        int r;

        do {
                for (; i < shm_arena_n_records_ever(arena); i++)
                        freeze_record(arena, freeze, i, version, epochs);
                r = shm_membarrier();
        } while (r == 0 && i < shm_arena_n_records_ever(arena));

        freeze->n = i;
        freeze->position = 1;
        for (i = 1; i < freeze->n; i++)
                /* ORDER: acq, pairs with shm_actor_leave(); even: that operation is over and seen. */
                freeze->seq[i] = shm_load_acq(&shm_arena_record(arena, i)->seq);
        return r;
}

/* Whether the thread is in the operation in which the freeze found it. Of one that died there, seq stays odd. */
static bool inside(const ShmArena *arena, const ShmFreeze *freeze, uint32_t record) {
        return freeze->seq[record] & 1 && shm_record_owner(arena, record).state == SHM_RECORD_USED &&
               /* ORDER: acq, pairs with shm_actor_leave(); another value: that operation is over and seen. */
               shm_load_acq(&shm_arena_record(arena, record)->seq) == freeze->seq[record];
}

static bool owner_lives(const ShmArena *arena, uint32_t record) {
        ShmRecordState state = shm_record_owner(arena, record).state;

        return state == SHM_RECORD_USED || state == SHM_RECORD_UNUSED || state == SHM_RECORD_LEFT;
}

static void thaw(ShmArena *arena, uint32_t record) {
        store_attention(arena, record, load_attention(arena, record) & ~SHM_ATTENTION_FREEZE);
}

static bool is_left(const ShmArena *arena, uint32_t record) {
        return shm_record_owner(arena, record).state == SHM_RECORD_LEFT;
}

/* Nobody's but ours, frozen or not: its owner did nothing more once it had left it. */
static void finish_left(ShmActor *control, uint32_t record) {
        shm_cache_drain_record(control, record, UINT64_MAX);
        thaw(control->arena, record);
        shm_record_set_unused(control->arena, record);
}

uint32_t shm_freeze_finish_left(ShmActor *control) {
        uint32_t n = 0;

        for (uint32_t i = 1; i < shm_arena_n_records_ever(control->arena); i++)
                if (is_left(control->arena, i)) {
                        finish_left(control, i);
                        n++;
                }
        return n;
}

static void finish(ShmActor *control, ShmFreeze *freeze, uint32_t record) {
        if (is_left(control->arena, record)) {
                finish_left(control, record);
        } else {
                shm_cache_drain_record(control, record, freeze->epochs[record]);
                thaw(control->arena, record);
        }
        freeze->epochs[record] = 0;
}

uint32_t shm_freeze_step(ShmActor *control, ShmFreeze *freeze, uint32_t n) {
        uint32_t left = 0;

        if (freeze->position >= freeze->n)
                freeze->position = 1;
        for (; freeze->position < freeze->n && n > 0; freeze->position++) {
                uint32_t i = freeze->position;
                bool left_behind = is_left(control->arena, i);

                /* Of the dead, repair empties the record and clears the bit; it may have done so already. */
                if (!owner_lives(control->arena, i) ||
                    (!left_behind && !(load_attention(control->arena, i) & SHM_ATTENTION_FREEZE)))
                        freeze->epochs[i] = 0;
                if ((freeze->epochs[i] == 0 && !left_behind) || inside(control->arena, freeze, i))
                        continue;
                finish(control, freeze, i);
                n--;
        }
        for (uint32_t i = 1; i < freeze->n; i++)
                left += freeze->epochs[i] != 0;
        return left;
}

uint32_t shm_freeze_pending(const ShmActor *control, const ShmFreeze *freeze) {
        uint32_t n = 0;

        for (uint32_t i = 1; i < freeze->n; i++)
                n += freeze->epochs[i] != 0 && inside(control->arena, freeze, i);
        return n;
}

uint32_t shm_freeze_left(const ShmFreeze *freeze, uint32_t epoch) {
        uint32_t n = 0;

        for (uint32_t i = 1; i < freeze->n; i++)
                n += freeze->epochs[i] >> epoch & 1;
        return n;
}
