/*
 * Records and intents
 *
 * Purpose: keeps the slots and objects that a thread holds, and the step that it is about to take, so that the
 *   maintainer finds them after its death.
 *
 * Invariants
 *   1. A record belongs to the thread that set its head USED, until that thread, or repair, changes the head.
 *   2. n_records_ever is raised above a record before that record is taken.
 *   3. A record that is UNUSED has no intent, no note, no guard and empty caches, and names no map.
 *   4. seq and the counters are never reset: seq only rises, counters are sums over all owners.
 *
 * Who may do what: the owner writes the record; the daemon writes `attention`, and the head of a
 *   record whose owner is dead.
 *
 * Crash: once the head is USED, repair finds all through it. Before that, the thread had taken nothing.
 */
#include "shm/arena/record.h"

#include <errno.h>
#include <string.h>

#include "shm/arch/probe.h"
#include "shm/arch/process.h"

#define HEAD_STATE_SHIFT 56
#define HEAD_CLIENT_SHIFT 32

static uint64_t head_make(ShmRecordState state, uint32_t client, uint32_t tid) {
        return (uint64_t) state << HEAD_STATE_SHIFT | (uint64_t) (client & 0xffffff) << HEAD_CLIENT_SHIFT |
               tid;
}

static ShmRecordOwner head_decode(uint64_t word) {
        return (ShmRecordOwner){
                .state = (ShmRecordState) (word >> HEAD_STATE_SHIFT),
                .client = (word >> HEAD_CLIENT_SHIFT) & 0xffffff,
                .tid = (uint32_t) word,
        };
}

static const ShmEdge edges[] = {
        { SHM_RECORD_UNUSED, SHM_RECORD_EV_TAKE, SHM_RECORD_USED },
        { SHM_RECORD_USED, SHM_RECORD_EV_INHERIT, SHM_RECORD_USED },
        { SHM_RECORD_USED, SHM_RECORD_EV_FREE, SHM_RECORD_UNUSED },
        { SHM_RECORD_USED, SHM_RECORD_EV_LEAVE, SHM_RECORD_LEFT },
        { SHM_RECORD_LEFT, SHM_RECORD_EV_FREE, SHM_RECORD_UNUSED },
        { SHM_RECORD_USED, SHM_RECORD_EV_DIE, SHM_RECORD_DEAD },
        { SHM_RECORD_LEFT, SHM_RECORD_EV_DIE, SHM_RECORD_DEAD },
        { SHM_RECORD_DEAD, SHM_RECORD_EV_ROLL_BACK, SHM_RECORD_ROLLED_BACK },
        { SHM_RECORD_ROLLED_BACK, SHM_RECORD_EV_FREE, SHM_RECORD_UNUSED },
};

const ShmEdges shm_record_edges = SHM_EDGES(edges);

/* Takes one edge from the head `old`, as it was read. False: there is no such edge, or the head changed. */
static bool record_change_head(ShmArena *arena, uint32_t record, uint64_t old, ShmRecordEvent event,
                               uint32_t client, uint32_t tid) {
        int to = shm_edge_to(shm_record_edges, head_decode(old).state, event);
        uint64_t new = to == SHM_RECORD_UNUSED ? 0 : head_make((ShmRecordState) to, client, tid);

        /* ORDER: acqrel, pairs with shm_record_owner(); all earlier stores into the record are before. */
        if (to < 0 || !shm_cas_acqrel(&arena->heads[record].word, &old, new))
                return false;
        if (event == SHM_RECORD_EV_DIE)
                shm_probe(death, record, client, tid);
        return true;
}

static uint64_t load_head(const ShmArena *arena, uint32_t record) {
        return shm_load_rlx(&arena->heads[record].word); /* ORDER: rlx; the compare-and-set decides. */
}

/* Takes one edge from the present head; the owner in it stays. */
static bool record_change_state(ShmArena *arena, uint32_t record, ShmRecordEvent event) {
        uint64_t old = load_head(arena, record);
        ShmRecordOwner owner = head_decode(old);

        return record_change_head(arena, record, old, event, owner.client, owner.tid);
}

uint64_t shm_record_since(const ShmArena *arena, uint32_t record) {
        /* ORDER: acq, pairs with begin_ownership(); the caller then compares the head. */
        return shm_load_acq(&arena->heads[record].since);
}

ShmRecordOwner shm_record_owner(const ShmArena *arena, uint32_t record) {
        /* ORDER: acq, pairs with shm_record_take(); the owner's stores before it gave the record up are seen. */
        return head_decode(shm_load_acq(&arena->heads[record].word));
}

/* Member by member: a compound literal would be made on the stack first, and a signal handler's may have no 10 KiB. */
static void actor_init_view(ShmActor *actor, ShmArena *arena, uint32_t record) {
        memset(actor, 0, offsetof(ShmActor, places));
        /* A key of zeros is that of a slab that was dropped: no place is one of it, while there are no caches. */
        memset(actor->places, 0xff, sizeof(actor->places));
        actor->record = shm_arena_record(arena, record);
        actor->attention = UINT64_MAX;
        actor->caches = (uint8_t *) shm_arena_cache(arena, record, 0, 0);
        actor->size_max = arena->size_max;
        actor->tags = arena->tags->tag;
        actor->slabs = arena->slabs;
        actor->lines = arena->lines;
        actor->handle_bits = shm_handle_make(arena->key, (SlotId){ 0 }, 0);
        actor->arena = arena;
        actor->id = record;
        actor->epoch_stride = shm_cache_group(arena->n_classes) * (uint32_t) sizeof(ShmCache);
        actor->mode = SHM_CACHE_OFF;
        actor->seen = UINT64_MAX;
        actor->freed_key = UINT64_MAX;
}

void shm_actor_init_daemon(ShmActor *actor, ShmArena *arena) {
        actor_init_view(actor, arena, 0);
}

static void raise_records_ever(ShmArena *arena, uint64_t n) {
        uint64_t *ever = &arena->header->n_records_ever.value;
        /* ORDER: rlx; the compare-and-set decides. */
        uint64_t old = shm_load_rlx(ever);

        /* ORDER: acqrel, pairs with shm_arena_n_records_ever(); raised before the record is taken. */
        while (old < n && !shm_cas_acqrel(ever, &old, n))
                ;
}

static void make_seq_even(ShmRecord *r) {
        /* ORDER: rlx; the record is ours. */
        uint64_t seq = shm_load_rlx(&r->seq);

        if (seq & 1)
                shm_store_rlx(&r->seq, seq + 1); /* ORDER: rlx; the thread that left it odd has ended. */
}

static void begin_ownership(ShmArena *arena, uint32_t record) {
        ShmRecord *r = shm_arena_record(arena, record);

        /* ORDER: rel, pairs with shm_record_since(); until then a thread with this number counts as the owner. */
        shm_store_rel(&arena->heads[record].since, shm_process_ticks());
        shm_hint_store(&arena->heads[record].waits_for, 0);
        make_seq_even(r); /* its last owner may have died inside an operation */
        for (uint32_t i = 0; i < SHM_COUNTERS_MAX; i++)
                shm_hint_store(&r->base_counters[i], shm_hint_load(&r->counters[i]));
}

int shm_record_take(ShmArena *arena, uint32_t client, uint32_t tid, uint32_t *ret_record) {
        for (uint32_t i = 1; i < arena->n_records; i++) {
                uint64_t old = load_head(arena, i);

                if (head_decode(old).state != SHM_RECORD_UNUSED)
                        continue;
                raise_records_ever(arena, i + 1);
                if (!record_change_head(arena, i, old, SHM_RECORD_EV_TAKE, client, tid))
                        continue;
                /* ORDER: sc, pairs with shm_attention_publish(); n_records_ever is raised before epochs are read. */
                shm_fence_after_rmw();
                begin_ownership(arena, i);
                *ret_record = i;
                return 0;
        }
        return -ENOSPC;
}

int shm_actor_init(ShmActor *actor, ShmArena *arena, uint32_t client, uint32_t tid) {
        uint32_t record;
        int r = shm_record_take(arena, client, tid, &record);

        if (r == 0)
                actor_init_view(actor, arena, record);
        return r;
}

void shm_actor_take_over(ShmActor *actor, ShmArena *arena, uint32_t record) {
        actor_init_view(actor, arena, record);
        make_seq_even(actor->record);
}

void shm_actor_deinit(ShmActor *actor) {
        if (!actor->record)
                return;
        (void) shm_record_set_unused(actor->arena, actor->id);
        *actor = (ShmActor){};
}

bool shm_record_mark_dead(ShmArena *arena, uint32_t record) {
        return record_change_state(arena, record, SHM_RECORD_EV_DIE);
}

bool shm_record_mark_gone(ShmArena *arena, uint32_t record, ShmRecordOwner owner) {
        return record_change_head(arena, record, head_make(owner.state, owner.client, owner.tid),
                                  SHM_RECORD_EV_DIE, owner.client, owner.tid);
}

bool shm_record_inherit(ShmArena *arena, uint32_t record, uint32_t client, uint32_t tid) {
        uint64_t old = load_head(arena, record);

        return head_decode(old).client == client &&
               record_change_head(arena, record, old, SHM_RECORD_EV_INHERIT, client, tid);
}

void shm_record_set_rolled_back(ShmArena *arena, uint32_t record) {
        (void) record_change_state(arena, record, SHM_RECORD_EV_ROLL_BACK);
}

void shm_record_set_left(ShmArena *arena, uint32_t record) {
        (void) record_change_state(arena, record, SHM_RECORD_EV_LEAVE);
}

bool shm_record_set_unused(ShmArena *arena, uint32_t record) {
        if (shm_record_owner(arena, record).state == SHM_RECORD_UNUSED)
                return false;
        /* ORDER: rlx; the head orders it. Cleared since the next owner may be one that does not fence. */
        shm_store_rlx(&shm_arena_record(arena, record)->flags, 0);
        shm_store_rlx(&arena->heads[record].since, 0); /* ORDER: rlx; the same. */
        return record_change_state(arena, record, SHM_RECORD_EV_FREE);
}

ShmIntent shm_record_intent(const ShmArena *arena, uint32_t record) {
        const ShmRecord *r = shm_arena_record(arena, record);
        /* ORDER: acq, pairs with shm_actor_intend_mask(); the mask read below belongs to `what`, or is newer. */
        uint64_t what = shm_load_acq(&r->intent_what);

        /* ORDER: acq, pairs with shm_actor_intend(); after `what`. */
        return shm_intent_decode(what, shm_load_acq(&r->intent_mask));
}
