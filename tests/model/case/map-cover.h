/*
 * Near caches: fills and reads while the engine tells of changes, while a cover ends and the next one begins, and while
 * a cover is moved late. The clock stands still at NOW. The engine's value of key a is a word that changes from 'o' to
 * 'n'. Once that is told, 'o' is not covered; the next cover has no copy that was asked for before it, and the process
 * of the last cover does not move it.
 */
#include "shm/arena/client.h"
#include "shm/maintain/repair.h"
#include "shm/map/entry/claim.h"
#include "shm/map/entry/map.h"
#include "shm/near/cover.h"
#include "shm/map/state/lifetime.h"
#include "tests/model/map-world.h"

#define NOW 50U
#define SOON 100U
#define LATER 200U
#define LIMIT 500U

#define first_cover world.notes[0] /* in epoch 1 */
#define next_cover world.notes[1] /* in epoch 0, or in the first one's slot */
#define answer world.objects[WORLD_N_PRE].n_won /* actor 0 read it; 0: nothing that is covered */

static uint64_t clock_ns(const ShmArena *arena) {
        (void) arena;
        return NOW * SHM_NS_PER_MS;
}

static uint64_t *engine(void) {
        return &world_arena.header->expiry.unused[0];
}

static ShmCoverTime both(uint64_t ms) {
        return (ShmCoverTime){ ms, ms };
}

static int move_cover(ShmActor *actor, uint64_t handle, uint64_t seen_ms, uint64_t until_ms) {
        ShmCoverTime seen = both(seen_ms), until = both(until_ms);

        return shm_cover_set(actor, handle, &seen, &until);
}

/* As tslab_near_get() does, of a program that has found this cover. */
static char read_covered(const ShmTrie *trie, uint64_t handle) {
        const ShmCoverTime now = both(NOW);
        ShmMapKey key = map_key(0);
        ShmMapView view;
        ShmCover cover;
        char value[8];

        if (shm_cover_load(&world_arena, handle, &cover) != 0 || !shm_cover_holds(&cover, &now))
                return 0;
        if (shm_map_get(trie, &key, value, sizeof(value), &view) != 1 || view.head.epoch != cover.epoch)
                return 0;
        return value[0];
}

/* A miss: the claim, the question, the fill. */
static void t0_fill(void) {
        const ShmMapClaim claim = { .epoch = shm_epoch_number(1, 1), .limit_ms = LIMIT };
        ShmMapKey key = map_key(0);
        ShmClaimed claimed = {};
        ShmMapPut put;
        char value;

        world.results[0] = shm_map_claim(world_actor(0), &map_tries[0], &key, &claim, &claimed);
        if (world.results[0] != 0)
                return;
        value = (char) shm_load_acq(engine());
        world.results[0] =
                shm_map_fulfil(&map_tries[0], &key, claimed.version, LIMIT, SHM_MAP_TTL_NONE, &put);
        if (world.results[0] != 0)
                return;
        put.value = &value;
        put.value_size = 1;
        world.results[0] = shm_map_put(world_actor(0), &map_tries[0], &key, &put, NULL);
}

static void t0_read(void) {
        answer = (uint8_t) read_covered(&map_tries[0], first_cover);
}

static void t0_move_late(void) {
        world.results[0] = move_cover(world_actor(0), first_cover, SOON, LATER);
}

/* The engine tells of its change. It is a map's word, which read-modify-writes change. */
static void t1_change(void) {
        shm_xchg_acqrel(engine(), 'n');
        map_delete(1, 0);
}

/* The same, by deleting all that is of the copies' epoch: claims, too. */
static void t1_change_expire(void) {
        ShmTrieScan scan = {};

        shm_xchg_acqrel(engine(), 'n');
        while (!scan.done)
                if (shm_map_expire(world_actor(1), &map_tries[1], 1, &scan, 64) < 0)
                        model_fail("expire");
}

/* The change was made while nothing was covered, and is told of, and covered, in the end. */
static void t1_catch_up(void) {
        map_delete(1, 0);
        map_must(move_cover(world_actor(1), first_cover, 0, SOON));
}

/* Changes are missed; the revocation of the copies has begun, and takes its time. */
static void t1_begin_anew(void) {
        map_must(move_cover(world_actor(1), first_cover, SOON, 0));
        map_must(shm_epoch_revoke(&world_arena, shm_epoch_number(1, 1), false));
        shm_store_rel(engine(), 'n');
        map_must(move_cover(world_actor(1), next_cover, 0, SOON));
}

/* The first cover is revoked, and the next one gets its slot, with the same time. */
static void t1_replace_cover(void) {
        void *object;

        map_must(shm_object_free(world_actor(1), first_cover));
        if (shm_object_alloc(world_actor(1), WORLD_SIZE_4, 1, NULL, &next_cover, &object) != 0)
                return;
        shm_cover_init(object, next_cover, shm_epoch_number(1, 1), 0, 0);
        map_must(move_cover(world_actor(1), next_cover, 0, SOON));
}

/* An operator revokes the epoch, and somebody else uses the slab; the words of the time stay as they were. */
static void t1_revoke_cover(void) {
        uint64_t handle;

        map_revoke(world_actor(1));
        if (shm_object_alloc(world_actor(1), WORLD_SIZE_1, 0, NULL, &handle, NULL) == 0) {
                map_wipe(handle);
                map_victim = handle;
        }
}

static uint64_t make_cover(uint32_t epoch, uint64_t until_ms) {
        uint64_t handle = world.objects[world_object(WORLD_SIZE_4, epoch)].handle;
        void *object;

        map_must(shm_object_get(&world_arena, handle, &object, NULL));
        shm_cover_init(object, handle, shm_epoch_number(epoch, 1), 0, 0);
        map_must(move_cover(&world_actors[0], handle, 0, until_ms));
        return handle;
}

static void init(uint32_t n_slabs) {
        ShmClientInfo info = { .pid = 7 };

        map_init(n_slabs, 0, MAP_HASH, MAP_HASH_FAR, 0);
        for (unsigned i = 0; i <= MODEL_ACTORS_MAX; i++)
                map_tries[i].now_ns = clock_ns;
        do
                map_must(shm_client_add(&world_arena, &info));
        while (info.index < 1);
        shm_store_rel(engine(), 'o');
}

static void pre_covered(void) {
        init(2);
        first_cover = make_cover(1, SOON);
        next_cover = make_cover(0, 0);
        map_ready(2);
}

static void pre_old_copy(void) {
        init(2);
        map_entry(0, 'o', 1);
        first_cover = make_cover(1, 0);
        map_ready(2);
}

static void pre_late(void) {
        init(2);
        first_cover = make_cover(1, SOON);
        next_cover = 0;
        map_ready(2);
}

static void pre_revoke_cover(void) {
        init(2);
        first_cover = make_cover(1, SOON);
        map_victim = 0;
        world_set_control(1);
        model_own(1, &map_control, sizeof(map_control));
        map_ready(2);
}

static void post_revoke_cover(unsigned dead) {
        ShmRepairCounts counts;

        map_check_wiped(map_victim);
        if (dead & 2)
                shm_repair_control(&world_actors[0], &map_control.reach, &counts);
        map_repair(dead);
        map_revoke(&world_actors[0]);
        (void) map_check_slots();
}

static void post_fill_change(unsigned dead) {
        char copy;

        map_repair(dead);
        copy = read_covered(&map_tries[MODEL_ACTORS_MAX], first_cover);
        if (!(dead & 2) && copy == 'o')
                model_fail("the old value is covered behind the change");
        if (!(dead & 1) && (world.results[0] == 0) != (map_get(0) != 0) && copy != 0)
                model_fail("fill %d, copy %d", world.results[0], copy);
        (void) map_check_slots();
}

static void post_read_caught_up(unsigned dead) {
        (void) dead;
        if (answer == 'o')
                model_fail("the old value was read from before the cover");
}

static void post_begin_anew(unsigned dead) {
        char copy = read_covered(&map_tries[MODEL_ACTORS_MAX], next_cover);

        (void) dead;
        if (copy != 0)
                model_fail("the next cover is of value %d, which was asked for before it", copy);
}

static void post_late(unsigned dead) {
        ShmCover cover;

        if ((dead & 2) || shm_cover_load(&world_arena, next_cover, &cover) != 0)
                return;
        if (cover.until.monotonic_ms != SOON || cover.until.real_ms != SOON)
                model_fail("the next cover was moved by the last one's process");
}

/* clang-format off */
static const ModelCase model_cases[] = {
        { .name = "fill-change", .pre = pre_covered, .actors = { t0_fill, t1_change },
          .post = post_fill_change, .deaths = 1, .preemptions = 4, .full_preemptions = 6, .weak = true },
        { .name = "fill-change-expire", .pre = pre_covered, .actors = { t0_fill, t1_change_expire },
          .post = post_fill_change, .deaths = 1, .preemptions = 3, .full_preemptions = 4, .weak = true },
        { .name = "read-caught-up", .pre = pre_old_copy, .actors = { t0_read, t1_catch_up },
          .post = post_read_caught_up, .deaths = 2, .preemptions = 6, .full_preemptions = 8, .weak = true },
        { .name = "fill-begin-anew", .pre = pre_covered, .actors = { t0_fill, t1_begin_anew },
          .post = post_begin_anew, .deaths = 2, .preemptions = 6, .full_preemptions = 8, .weak = true },
        { .name = "cover-late", .pre = pre_late, .actors = { t0_move_late, t1_replace_cover },
          .post = post_late, .deaths = 2, .preemptions = 6, .full_preemptions = 8, .weak = true },
        { .name = "cover-revoke", .pre = pre_revoke_cover, .actors = { t0_move_late, t1_revoke_cover },
          .post = post_revoke_cover, .deaths = 1, .preemptions = 3, .full_preemptions = 4, .weak = true },
};
/* clang-format on */
