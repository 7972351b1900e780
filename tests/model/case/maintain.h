/*
 * The whole engine beside threads: it finishes every request without a second one, however long a thread
 * stayed inside a call, and even if threads died there.
 */
#include "shm/slab/pages.h"
#include "tests/model/calls.h"
#include "tests/model/control.h"
#include "shm/epoch/epoch-close.h"

#define N_BATCH 2

static ShmMaintain engine; /* control's own */

/* Actors 0 and 1 cache; they may make slabs again that were dropped, if n_allowed says so. */
static void begin(uint32_t n_allowed) {
        world_init(3, 3, n_allowed);
        world_set_caching(0, 0); /* a dropped slab seems to be of this class */
        world_set_caching(0, 1);
        world_set_caching(1, 0);
        world_set_caching(1, 1);
        world_objects(3, WORLD_SIZE_2, 0);
        world_tidy();
        world_set_control(2);
        memset(&engine, 0, sizeof(engine));
        shm_maintain_init(&engine, world_actor(2));
        model_own(2, &engine, sizeof(engine));
}

static void pre_cold(void) {
        begin(0);
}

/* Actor 0 holds both slots of slab 2 in its cache. */
static void pre(void) {
        begin(0);
        world_fill_cache(1, 2, WORLD_SIZE_2);
}

static void pre_trim(void) {
        begin(64);
        world_fill_cache(1, 2, WORLD_SIZE_2);
}

/* As long as there is something to do at once. */
static void work_on(void) {
        while (shm_maintain_step(&engine, 1) == 0)
                ;
}

static void t_empty(void) {
        (void) shm_maintain_empty_caches(&engine, 1);
        work_on();
}

/* All slabs that are free then are dropped. */
static void t_trim(void) {
        t_empty();
        (void) shm_pages_trim(world_actor(2), 0, UINT32_MAX);
        (void) shm_pages_drop_surplus(world_actor(2));
}

static void t_close(void) {
        (void) shm_epoch_close(&world_arena, 0, true);
        (void) shm_maintain_close(&engine, 0, 1);
        work_on();
}

static void t_revoke(void) {
        (void) shm_epoch_revoke(&world_arena, 0, false);
        (void) shm_maintain_close(&engine, 0, 1);
        work_on();
}

/* Control lives on, unless it died. Then it hears of the dead. */
static void go_on(unsigned dead) {
        static ShmMaintain next;
        static ShmActor control;
        ShmRepairCounts counts;
        uint64_t now_usec = shm_monotonic_usec();
        ShmMaintain *m = &engine;

        if (dead & 4) {
                m = &next;
                memset(m, 0, sizeof(*m));
                shm_actor_init_daemon(&control, &world_arena);
                shm_maintain_init(m, &control);
                (void) shm_maintain_take_over(m, now_usec, &counts);
        }
        for (unsigned i = 0; i < 2; i++)
                if (dead >> i & 1) {
                        (void) shm_record_mark_dead(&world_arena, world_actor(i)->id);
                        shm_maintain_repair(m);
                }
        recover_run(m, &now_usec);
}

static void check_thawed(void) {
        if (!shm_freeze_is_over(&world_arena))
                model_fail("a record stays frozen, and nobody looks at it");
        if (shm_repair_wanted(&world_arena))
                model_fail("a record of the dead stays, and nobody looks at it");
}

/* Control's caches are emptied; threads may have filled theirs since. */
static void post_empty(unsigned dead) {
        go_on(dead);
        check_thawed();
        world_check(dead | 1U << MODEL_ACTORS_MAX);
}

/* No cache has slots of the epoch, nor can get any; slabs of the epoch drain, or are gone. */
static void check_closed(void) {
        uint32_t n_left = 0;
        ShmEpochInfo info;

        (void) shm_epoch_get(&world_arena, 0, &info);
        if (info.state == SHM_EPOCH_OPEN)
                return; /* control died before */
        for (uint32_t i = 1; i <= MODEL_ACTORS_MAX; i++)
                for (ShmCacheWalk walk = {}; shm_cache_walk_next(&walk, &world_arena, i);)
                        if (shm_cache_walk_count(&walk) != 0)
                                model_fail("record %u caches of a closed epoch", i);
        for (uint32_t slab = 0; slab < shm_arena_n_slabs_ever(&world_arena); slab++) {
                SlabState state = slab_word_state(shm_slab_word(&world_arena, slab));

                if (state >= SLAB_PARTIAL && state <= SLAB_FULL)
                        model_fail("slab %u of a closed epoch is %s", slab, slab_state_to_string(state));
                n_left += state == SLAB_DRAINING;
        }
        if ((info.state == SHM_EPOCH_DRAINED) != (n_left == 0))
                model_fail("the epoch's state is %u, %u slabs are left of it", (unsigned) info.state, n_left);
}

static void post_close(unsigned dead) {
        go_on(dead);
        check_thawed();
        check_closed();
        world_check(dead | 1U << MODEL_ACTORS_MAX);
}

static void post_revoke(unsigned dead) {
        ShmRevoking revoking;

        go_on(dead);
        check_thawed();
        check_closed();
        if (shm_epoch_revoking(&world_arena, 0, &revoking))
                model_fail("the epoch stays to be revoked");
        control_excuse_revoked();
        world_check(dead | 1U << MODEL_ACTORS_MAX);
}

static void t_batch_alloc(void) {
        world_batch_alloc(0, N_BATCH, WORLD_SIZE_2, SHM_EPOCH_CURRENT);
}

static void t_batch_free(void) {
        world_batch_free(0, N_BATCH, 0);
}

#define MAINTAIN(_name, _t0, _t1, _t2, _post, _more...)                                                      \
        { .name = _name, .pre = pre, .actors = { _t0, _t1, _t2 }, .post = _post, .deaths = 1, _more }

#define TRIM(_name, _t0, _t1, _more...)                                                                      \
        {                                                                                                    \
                .name = _name, .pre = pre_trim, .actors = { _t0, _t1, t_trim }, .post = post_empty,          \
                .deaths = 1, _more                                                                           \
        }

/* clang-format off */
static const ModelCase model_cases[] = {
        MAINTAIN("empty-pop", t_alloc, t_nothing, t_empty, post_empty, .preemptions = 4,
                 .weak = true, .weak_preemptions = 1),
        MAINTAIN("empty-free", t_free, t_nothing, t_empty, post_empty, .preemptions = 4),
        MAINTAIN("empty-drain", t_drain, t_nothing, t_empty, post_empty, .preemptions = 4),
        MAINTAIN("empty-two", t_alloc, t_free_1, t_empty, post_empty, .preemptions = 1, .full_preemptions = 2),
        TRIM("trim-pop", t_alloc, t_nothing),
        TRIM("trim-free", t_free, t_nothing),
        TRIM("trim-pop-free", t_alloc_free, t_nothing, .preemptions = 2, .full_preemptions = 3),
        TRIM("trim-batch-alloc", t_batch_alloc, t_nothing, .preemptions = 3),
        TRIM("trim-batch-free", t_batch_free, t_nothing, .preemptions = 3),
        TRIM("trim-batch-refill", t_batch_alloc, t_alloc_1, .preemptions = 1, .full_preemptions = 2),
        TRIM("trim-refill", t_nothing, t_alloc_1),
        TRIM("trim-refill-free", t_free, t_alloc_1, .preemptions = 1, .full_preemptions = 2),
        MAINTAIN("close-pop", t_alloc, t_nothing, t_close, post_close, .preemptions = 3),
        { .name = "close-refill", .pre = pre_cold, .actors = { t_alloc, t_nothing, t_close }, .post = post_close,
          .deaths = 1, .preemptions = 3 },
        MAINTAIN("close-pop-free", t_alloc_free, t_nothing, t_close, post_close, .preemptions = 3,
                 .weak = true, .weak_preemptions = 1),
        MAINTAIN("close-free-two", t_free, t_free_1, t_close, post_close, .preemptions = 1, .full_preemptions = 2),
        MAINTAIN("revoke-pop", t_alloc, t_nothing, t_revoke, post_revoke, .preemptions = 3,
                 .weak = true, .weak_preemptions = 1),
        MAINTAIN("revoke-pop-free", t_alloc_free, t_nothing, t_revoke, post_revoke, .preemptions = 2,
                 .full_preemptions = 3, .weak = true, .weak_preemptions = 1),
        MAINTAIN("revoke-free-two", t_free, t_free_1, t_revoke, post_revoke, .preemptions = 1,
                 .full_preemptions = 2),
};
/* clang-format on */
