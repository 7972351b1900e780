#pragma once
/*
 * For cases with control as actor 2: its work in pieces, for actors; and for post() the next control, which takes over
 * with the whole engine. Nothing may stay then: no slot in a cache, no record of the dead, no freeze, no revocation.
 */
#include <string.h>

#include "shm/arena/clock.h"
#include "shm/cache/cache.h"
#include "shm/maintain/maintain.h"
#include "shm/epoch/epoch-open.h"
#include "tests/model/world.h"

/* Control's own: as much of the freeze as there are records. */
static ShmFreeze freeze;
static struct {
        ShmReach reach;
        ShmRepair repair;
        ShmClose close;
        ShmRepairCounts counts;
} work;

/* A control that knows nothing yet. */
static inline void control_forget(void) {
        memset(&freeze, 0, sizeof(freeze));
        memset(&work, 0, sizeof(work));
}

/* For pre(). */
static inline void control_init(void) {
        control_forget();
        world_set_control(2);
        model_own(2, &freeze, offsetof(ShmFreeze, seq) + 4 * sizeof(freeze.seq[0]));
        model_own(2, freeze.epochs, 4 * sizeof(freeze.epochs[0]));
        model_own(2, &work, sizeof(work));
}

static inline void control_freeze(uint64_t epochs) {
        (void) shm_freeze_begin(world_actor(2), &freeze, epochs);
        world_look(&freeze);
}

/* Records that were left, and freezes that are not over. */
static inline void control_resume(void) {
        if (shm_freeze_resume(world_actor(2), &freeze))
                world_look(&freeze);
}

static inline void control_repair(void) {
        uint32_t budget;

        work.repair = (ShmRepair){};
        do
                budget = 4 * SHM_CACHE_MAX;
        while (!shm_repair_step(world_actor(2), &work.repair, &work.reach, &budget));
}

/* A daemon repairs record 0 first. */
static inline void control_take_over(void) {
        shm_repair_control(world_actor(2), &work.reach, &work.counts);
        shm_epochs_recover(&world_arena);
        control_resume();
}

/* An epoch that was closed, or that is to be revoked: its caches, and one round. */
static inline void control_close(uint32_t id) {
        work.close = (ShmClose){ .id = id };
        control_freeze(UINT64_C(1) << id);
        shm_close_start(&work.close, shm_monotonic_usec());
        while (work.close.n_rounds == 0)
                if (shm_close_is_ready(&work.close, true, shm_monotonic_usec()))
                        shm_close_step(&work.close, world_actor(2), &freeze, &work.reach,
                                       shm_monotonic_usec());
                else
                        world_pass_time(); /* after tags, before guards */
}

/* In the end */

/* An object of a revoked epoch may be gone though nobody freed it. */
static inline void control_excuse_revoked(void) {
        for (unsigned i = 0; i < WORLD_N_OBJECTS; i++) {
                WorldObject *o = &world.objects[i];

                if (o->handle == 0 || o->n_won > 0 || shm_object_live(&world_arena, o->handle))
                        continue;
                o->n_begun += o->n_begun == 0;
                o->n_won = 1;
        }
}

/* The next control has revoked once more. If the epoch is closed, nothing of it is left. */
static inline void control_expect_revoked(uint32_t id) {
        ShmEpochInfo info;

        if (shm_epoch_get(&world_arena, id, &info) != 0 || info.state == SHM_EPOCH_OPEN)
                return;
        for (uint32_t slab = 0; slab < shm_arena_n_slabs_ever(&world_arena); slab++) {
                SlabWord w = shm_slab_word(&world_arena, slab);
                SlabState state = slab_word_state(w);

                if (state != SLAB_FREE && state != SLAB_UNCOMMITTED && slab_word_epoch(w) == id)
                        model_fail("slab %u of a revoked epoch is %s", slab, slab_state_to_string(state));
        }
}

static inline void recover_run(ShmMaintain *m, uint64_t *now_usec) {
        for (unsigned n = 0; n < 10000; n++) {
                uint64_t next = shm_maintain_step(m, *now_usec);

                if (next == SHM_MAINTAIN_IDLE)
                        return;
                *now_usec = next > *now_usec ? next : *now_usec;
        }
        model_fail("the next control has work for ever");
}

/* Threads of which no case's actor is left are dead. */
static inline void recover_records(ShmActor *control, unsigned dead) {
        static ShmMaintain m;
        ShmRepairCounts counts;
        uint64_t now_usec = shm_monotonic_usec();

        memset(&m, 0, sizeof(m));
        shm_actor_init_daemon(control, &world_arena);
        shm_maintain_init(&m, control);
        (void) shm_maintain_take_over(&m, now_usec, &counts);
        for (unsigned i = 0; i < 2; i++)
                if (dead >> i & 1)
                        (void) shm_record_mark_dead(&world_arena, world_actor(i)->id);
        shm_maintain_look(&m, true, now_usec);
        recover_run(&m, &now_usec);
        (void) shm_maintain_empty_caches(&m, now_usec);
        recover_run(&m, &now_usec);
        shm_maintain_look(&m, true, now_usec);
        recover_run(&m, &now_usec);
}

static inline void recover_check(unsigned dead) {
        ShmRevoking revoking;

        for (uint32_t i = 1; i <= MODEL_ACTORS_MAX; i++) {
                for (ShmCacheWalk walk = {}; shm_cache_walk_next(&walk, &world_arena, i);)
                        if (shm_cache_walk_count(&walk) != 0)
                                model_fail("record %u: something is left in its cache", i);
                if (shm_arena_record(&world_arena, i)->attention & SHM_ATTENTION_FREEZE)
                        model_fail("record %u stays frozen", i);
        }
        for (unsigned i = 0; i < 2; i++)
                if ((dead >> i & 1) &&
                    shm_record_owner(&world_arena, world_actor(i)->id).state != SHM_RECORD_UNUSED)
                        model_fail("the record of actor %u, who is dead, is not free", i);
        if (shm_repair_kept(&world_arena))
                model_fail("control keeps slots for ever");
        for (uint32_t id = 0; id < WORLD_N_EPOCHS; id++)
                if (shm_epoch_revoking(&world_arena, id, &revoking))
                        model_fail("epoch %u stays to be revoked", id);
        world_check(dead | 1U << MODEL_ACTORS_MAX); /* control may be dead in any case */
}

/* At any time. */
static inline void check_unused(void) {
        for (uint32_t i = 1; i <= MODEL_ACTORS_MAX; i++)
                for (ShmCacheWalk walk = {}; shm_cache_walk_next(&walk, &world_arena, i);)
                        if (shm_record_owner(&world_arena, i).state == SHM_RECORD_UNUSED &&
                            shm_cache_walk_count(&walk) != 0)
                                model_fail("record %u is free, and something is in its cache", i);
}

static inline void recover(unsigned dead) {
        ShmActor control;

        check_unused();
        recover_records(&control, dead);
        recover_check(dead);
}
