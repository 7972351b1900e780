/*
 * Client entries: a process enters its entry while the next daemon gives the entry up, and gives it to another process.
 * A process that has entered is the one that the entry names. Also references to epochs: the last process that gives
 * one back is told so, and no reference counts for a later era.
 */
#include "shm/arena/client.h"
#include "shm/epoch/epoch-open.h"
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

/*
 * References: actors 0 and 1 are processes, or threads of one, and control is actor 2
 */
#define EPOCH 0U
#define OTHER_EPOCH 1U

#define wanted world.notes /* by actor: the number to which it takes a reference */

static uint32_t clients[2];
static uint64_t first; /* the number to which actor 0 has a reference from the start */

static uint32_t number_now(void) {
        return shm_epoch_number(EPOCH, shm_epoch_load(&world_arena, EPOCH).era);
}

static void pre_clients(void) {
        world_init(1, 1, 0);
        for (unsigned i = 0; i < 2; i++) {
                ShmClientInfo info = { .state = SHM_CLIENT_USED, .pid = PID + (pid_t) i };

                if (shm_client_add(&world_arena, &info) != 0)
                        model_fail("no entry is free");
                clients[i] = info.index;
        }
}

static void pre_held(void) {
        pre_clients();
        for (unsigned i = 0; i < 2; i++)
                shm_client_hold(&world_arena, clients[i], number_now());
        world_set_late(0);
        world_set_late(1);
}

static void ref(unsigned actor) {
        wanted[actor] = number_now();
        shm_client_hold(&world_arena, clients[actor], (uint32_t) wanted[actor]);
}

static uint32_t count(uint32_t number) {
        return shm_client_count_holders(&world_arena, number);
}

static void unref(unsigned actor, uint32_t number) {
        shm_client_release_hold(&world_arena, clients[actor], EPOCH);
        world.results[actor] = (int) count(number);
}

static void t0_unref(void) {
        unref(0, number_now());
}

static void t1_unref(void) {
        unref(1, number_now());
}

static void post_unref(unsigned dead) {
        uint32_t n = count(number_now());

        if (dead == 0 && (n != 0 || (world.results[0] != 0 && world.results[1] != 0)))
                model_fail("%u hold the epoch, they were told %d and %d", n, world.results[0],
                           world.results[1]);
}

/* Two processes come, and look how many there are. */
static void pre_come(void) {
        pre_clients();
        world_set_late(0);
        world_set_late(1);
}

static void come(unsigned actor) {
        ref(actor);
        world.results[actor] = (int) count((uint32_t) wanted[actor]);
}

static void t0_come(void) {
        come(0);
}

static void t1_come(void) {
        come(1);
}

static void post_come(unsigned dead) {
        if (dead == 0 && world.results[0] + world.results[1] < 3)
                model_fail("two hold the epoch, they were told %d and %d", world.results[0],
                           world.results[1]);
}

/* Two threads of one process. */
static void t0_ref(void) {
        ref(0);
}

static void t1_unref_other(void) {
        shm_client_release_hold(&world_arena, clients[0], OTHER_EPOCH);
        world.results[1] = 1;
}

static void pre_ref_other(void) {
        pre_clients();
        shm_client_hold(&world_arena, clients[0], OTHER_EPOCH | 1U << 8);
        world_set_late(0);
        world_set_late(1);
}

static void post_ref_other(unsigned dead) {
        if (!(dead & 1) && count(number_now()) != 1)
                model_fail("a reference is lost");
        if (!(dead & 2) && count(OTHER_EPOCH | 1U << 8) != 0)
                model_fail("a reference was given back, and counts");
}

/*
 * The id is current, and is opened anew for another purpose: no walk is due where no slab is used. A process that is
 * dead here may as well be stopped: nobody has removed its entry.
 */
static void pre_reopen(void) {
        pre_clients();
        world_set_control(2);
        world_set_late(0);
        world_set_late(1);
        world_set_late(2);
        first = 0;
}

/* The process has a reference to the era that is about to be over, and never gives it back. */
static void pre_reopen_held(void) {
        pre_reopen();
        ref(0);
        first = wanted[0];
}

static void t_nothing(void) {
}

/* The last, unless the other process comes meanwhile. */
static void t1_ref_unref(void) {
        ref(1);
        unref(1, (uint32_t) wanted[1]);
}

static void t2_reopen(void) {
        uint32_t number;

        world.results[2] = shm_epoch_reserve(&world_arena, EPOCH, NULL, &number);
}

static void post_reopen(unsigned dead) {
        uint32_t n = count(number_now()), most = wanted[0] == number_now();

        if (n > most || (!(dead & 1) && n != most))
                model_fail("%u hold the epoch, the reference is to %lu", n, (unsigned long) wanted[0]);
}

static void post_last(unsigned dead) {
        bool is_other = wanted[1] == wanted[0] || wanted[1] == first;

        if (dead & 2)
                return; /* it may count, too */
        if (world.results[1] > is_other)
                model_fail("%d were left, the reference is to %lu", world.results[1],
                           (unsigned long) wanted[0]);
        post_reopen(dead);
}

/* clang-format off */
static const ModelCase model_cases[] = {
        { .name = "enter-give-up", .pre = pre, .actors = { t0_enter, t1_give_up }, .post = post, .deaths = 2,
          .weak = true },
        { .name = "enter-give-away", .pre = pre, .actors = { t0_enter, t1_give_away }, .post = post, .deaths = 2,
          .weak = true },
        { .name = "enter-leave-give-up", .pre = pre, .actors = { t0_enter_leave, t1_give_up }, .post = post_left,
          .deaths = 2, .weak = true },
        { .name = "unref-unref", .pre = pre_held, .actors = { t0_unref, t1_unref }, .post = post_unref, .deaths = 1,
          .late = 2, .weak = true },
        { .name = "ref-ref", .pre = pre_come, .actors = { t0_come, t1_come }, .post = post_come, .deaths = 2,
          .late = 2, .weak = true },
        { .name = "ref-unref-other", .pre = pre_ref_other, .actors = { t0_ref, t1_unref_other },
          .post = post_ref_other, .deaths = 1, .late = 2, .weak = true },
        { .name = "ref-reopen", .pre = pre_reopen, .actors = { t0_ref, t_nothing, t2_reopen },
          .post = post_reopen, .deaths = 2, .late = 2, .weak = true },
        { .name = "ref-unref-reopen", .pre = pre_reopen, .actors = { t0_ref, t1_ref_unref, t2_reopen },
          .post = post_last, .deaths = 2, .late = 2, .weak = true },
        { .name = "ref-unref-reopen-held", .pre = pre_reopen_held, .actors = { t0_ref, t1_ref_unref, t2_reopen },
          .post = post_last, .deaths = 2, .late = 2, .weak = true },
};
/* clang-format on */
