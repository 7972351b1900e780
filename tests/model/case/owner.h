/*
 * The owner of control work in a private pool: threads that come by find that it is free, or left in the middle, or
 * that its owner has died. Never do two of them control work at once, and an unfinished step is known as such to the
 * next one. Its steps are counted where it keeps the sweeps that were asked for, and that have ended.
 */
#include "shm/owner/owner.h"
#include "tests/model/world.h"

#define CLIENT_DEAD 7U /* until its entry is another process's */
#define TID_DEAD 70U
#define DONE 1
#define BUSY 2

static uint64_t *begun(void) {
        return &world_arena.header->sweeps.asked;
}

static uint64_t *ended(void) {
        return &world_arena.header->sweeps.ended;
}

/* The entry of the dead process is another one's. */
static uint64_t *reborn(void) {
        return &world_arena.header->n_miscounts;
}

static void begin_step(bool left) {
        uint64_t n = shm_load_rlx(begun());

        if (shm_load_rlx(ended()) != n && !left)
                model_fail("a step is under way that nobody left");
        shm_store_rlx(ended(), n);
        shm_store_rlx(begun(), n + 1);
}

static void end_step(void) {
        shm_store_rlx(ended(), shm_load_rlx(begun()));
}

static bool is_gone(uint64_t word) {
        return shm_owner_client(word) == CLIENT_DEAD && shm_load_rlx(reborn()) == 0;
}

static bool take(uint32_t client, uint32_t tid, bool *ret_left) {
        for (;;) {
                uint64_t word = shm_owner_load(&world_arena);
                ShmOwnerState state = shm_owner_state(word);

                if (state == SHM_OWNER_HELD && !is_gone(word))
                        return false;
                *ret_left = state != SHM_OWNER_FREE;
                if (shm_owner_take(&world_arena, word, client, tid))
                        return true;
        }
}

static void control_work(unsigned actor, uint32_t client, uint32_t tid) {
        bool left;

        world.results[actor] = BUSY;
        if (!take(client, tid, &left))
                return;
        begin_step(left);
        end_step();
        shm_owner_release(&world_arena, false);
        world.results[actor] = DONE;
}

static void t0_work(void) {
        control_work(0, 1, 10);
}

static void t1_work(void) {
        control_work(1, 2, 20);
}

/* A process that got the entry of the dead one, and has a thread of the same number. */
static void t2_work_reborn(void) {
        if (shm_owner_state(shm_owner_load(&world_arena)) == SHM_OWNER_HELD)
                return;
        shm_store_rlx(reborn(), 1);
        control_work(2, CLIENT_DEAD, TID_DEAD);
}

/* It cannot go on in the middle of a step. */
static void t1_leave(void) {
        bool left;

        if (!take(2, 20, &left))
                return;
        begin_step(left);
        shm_owner_release(&world_arena, true);
}

static void v_work(void) {
        bool left;

        (void) take(CLIENT_DEAD, TID_DEAD, &left);
        begin_step(left);
        end_step();
        shm_owner_release(&world_arena, false);
}

static void pre_free(void) {
        world_init(1, 1, 0);
}

static void pre_dead(void) {
        world_init(1, 1, 0);
        model_cut(v_work);
}

static void post(unsigned dead) {
        uint64_t word = shm_owner_load(&world_arena);
        ShmOwnerState state = shm_owner_state(word);

        if (state == SHM_OWNER_FREE && *begun() != *ended())
                model_fail("a step that was left is forgotten");
        if (state == SHM_OWNER_HELD && dead == 0)
                model_fail("control work stays taken by %u", shm_owner_client(word));
        if (dead == 0 && world.results[0] == BUSY && world.results[1] == BUSY && world.results[2] != DONE)
                model_fail("nobody does control work");
}

/* clang-format off */
static const ModelCase model_cases[] = {
        { .name = "two", .pre = pre_free, .actors = { t0_work, t1_work }, .post = post, .deaths = 1, .weak = true },
        { .name = "left", .pre = pre_free, .actors = { t0_work, t1_leave }, .post = post, .deaths = 1, .weak = true },
        { .name = "dead", .pre = pre_dead, .actors = { t0_work, t1_work }, .post = post, .deaths = 1,
          .variants = true, .weak = true },
        { .name = "reborn", .pre = pre_dead, .actors = { t0_work, t1_work, t2_work_reborn }, .post = post, .deaths = 1,
          .variants = true, .preemptions = 3, .weak = true },
};
/* clang-format on */
