/*
 * Client entries: a process enters its entry while the next daemon gives it up, and gives it to another process. A
 * process that has entered is the one that the entry names.
 */
#include "shm/arena/client.h"
#include "tests/model/world.h"

#define PROGRAM 11
#define OTHER_PROGRAM 12
#define PID 5
#define OTHER_PID 6

static uint32_t entry;

static void add_client(pid_t pid, uint32_t program) {
        ShmClientInfo info = { .state = SHM_CLIENT_COMES, .pid = pid, .start_time = 1, .program = program };

        if (shm_client_add(&world_arena, &info) != 0)
                model_fail("no entry is free");
        entry = info.index;
}

/* The daemon that added it has died before it answered. */
static void pre(void) {
        world_init(1, 1, 0);
        add_client(PID, PROGRAM);
}

static void t0_enter(void) {
        world.results[0] = shm_client_enter(&world_arena, entry, PROGRAM);
}

static void t0_enter_leave(void) {
        t0_enter();
        if (world.results[0])
                shm_client_leave(&world_arena, entry);
}

/* The next daemon: nobody has told it of the process. */
static bool give_up(void) {
        world.results[1] = shm_client_give_up(&world_arena, entry);
        if (world.results[1])
                shm_client_remove(&world_arena, entry);
        return world.results[1];
}

static void t1_give_up(void) {
        (void) give_up();
}

static void t1_give_away(void) {
        if (give_up())
                add_client(OTHER_PID, OTHER_PROGRAM);
}

static ShmClientInfo of_entry(void) {
        ShmClientInfo info;

        if (shm_client_get(&world_arena, entry, &info) != 0)
                info = (ShmClientInfo){ .state = SHM_CLIENT_FREE };
        return info;
}

static void post(unsigned dead) {
        ShmClientInfo info = of_entry();

        if (!(dead & 1) && world.results[0] && (info.state != SHM_CLIENT_USED || info.pid != PID))
                model_fail("a process has entered, the entry of %d is in state %u", (int) info.pid,
                           info.state);
        if (dead == 0 && !world.results[0] == !world.results[1])
                model_fail("entered %d, given up %d", world.results[0], world.results[1]);
        if (info.pid == OTHER_PID && info.state != SHM_CLIENT_COMES)
                model_fail("the entry of a process that has not entered is in state %u", info.state);
}

static void post_left(unsigned dead) {
        ShmClientInfo info = of_entry();

        if (dead == 0 && info.state != (world.results[0] ? SHM_CLIENT_LEFT : SHM_CLIENT_FREE))
                model_fail("entered %d, the entry is in state %u", world.results[0], info.state);
}

/* clang-format off */
static const ModelCase model_cases[] = {
        { .name = "enter-give-up", .pre = pre, .actors = { t0_enter, t1_give_up }, .post = post, .deaths = 2 },
        { .name = "enter-give-away", .pre = pre, .actors = { t0_enter, t1_give_away }, .post = post, .deaths = 2 },
        { .name = "enter-leave-give-up", .pre = pre, .actors = { t0_enter_leave, t1_give_up }, .post = post_left,
          .deaths = 2 },
};
/* clang-format on */
