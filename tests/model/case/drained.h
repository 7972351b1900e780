/*
 * Private pools: an object that is freed is the last one of a closed epoch, while another process does control work, by
 * libtslab's own code, compiled for the explorer. The thread that freed it leaves the slab to the owner, which looks
 * for it once control work is free again. Whichever of them comes last, the slab's page goes.
 */
#include "proto/deadline.h"
#include "shm/arena/clock.h"

#include "shm/owner/owner.h"

struct tslab;

static uint64_t case_now_usec(void), case_deadline(uint64_t usec);
static bool case_owner_is_gone(const ShmArena *arena, uint64_t word, uint32_t client, uint32_t tid);
#define proto_now_usec case_now_usec
#define proto_deadline case_deadline
#define shm_owner_is_gone case_owner_is_gone
#define pool_begin case_pool_begin
#define pool_end case_pool_end
#define pool_attach case_pool_attach
#include "libclient/host/control.c"
#undef proto_now_usec
#undef proto_deadline
#undef shm_owner_is_gone
#undef pool_begin
#undef pool_end
#undef pool_attach

#include "shm/maintain/drain.h"
#include "tests/model/world.h"

#define N_PROCESSES 2

typedef struct Process {
        PoolLocal local;
        ControlWork work;
} Process;

static struct tslab pools[N_PROCESSES];
static Process processes[N_PROCESSES];

/* Nobody waits. */
static uint64_t case_now_usec(void) {
        return 1;
}

static uint64_t case_deadline(uint64_t usec) {
        return 1 + usec;
}

static bool case_owner_is_gone(const ShmArena *arena, uint64_t word, uint32_t client, uint32_t tid) {
        (void) arena;
        (void) word;
        (void) client;
        (void) tid;
        return false;
}

/* Neither process closes the pool, and both are attached. */
int case_pool_begin(struct tslab *pool) {
        (void) pool;
        return 0;
}

void case_pool_end(struct tslab *pool) {
        (void) pool;
}

int case_pool_attach(struct tslab *pool) {
        (void) pool;
        return 0;
}

static const Host host = { .drained = control_drained, .slab_freed = control_slab_freed };

static void make_process(unsigned i) {
        pools[i] = (struct tslab){ .serial = 1,
                                   .number = 1,
                                   .arena = world_arena,
                                   .host = &host,
                                   .retain = UINT32_MAX,
                                   .local = &processes[i].local,
                                   .local_size = offsetof(Process, work) + sizeof(ControlWork) };
        processes[i].local = (PoolLocal){ .client = i, .idle.due_usec = UINT64_MAX };
        model_own(i, &processes[i].work.control, WORLD_ACTOR_SIZE);
        model_own(i, &processes[i].local.busy_owner, 2 * sizeof(uint64_t));
        model_own(i, &processes[i].local.sweeps_before, sizeof(uint64_t) + sizeof(bool));
        model_own(i, &processes[i].local.decay, sizeof(processes[i].local.decay));
}

/* Object 0 is alone in its slab, whose epoch was closed. */
static void pre(void) {
        ShmDrain drain = { .epoch = 1, .final = true };
        ShmActor control;

        world_init(2, 2, 0);
        world_object(WORLD_SIZE_2, 1);
        if (shm_epoch_close(&world_arena, 1, true) != 0)
                model_fail("cannot close");
        shm_actor_init_daemon(&control, &world_arena);
        while (!shm_drain_step(&control, &drain, 64))
                ;
        for (unsigned i = 0; i < N_PROCESSES; i++)
                make_process(i);
}

static void t0_free(void) {
        world_free(0, 0);
        if (world_actor(0)->emptied != 0)
                control_slab_freed(&pools[0], world_actor(0)->emptied - 1);
}

/* It has drained a slab that somebody else looked after. */
static void t1_drained(void) {
        control_drained(&pools[1]);
}

static void t1_call(void) {
        give_back_in_call(&pools[1], false, 1);
}

static void t1_control(void) {
        ShmActor *control;

        if (control_begin(&pools[1], false, &control) == 0)
                control_end(&pools[1]);
}

static void post(unsigned dead) {
        SlabState state = slab_word_state(shm_slab_word(&world_arena, world_slab_of(0)));

        (void) dead;
        if (state != SLAB_UNCOMMITTED)
                model_fail("a slab of a closed epoch stays %s", slab_state_to_string(state));
        if (shm_owner_state(shm_owner_load(&world_arena)) != SHM_OWNER_FREE)
                model_fail("control work stays taken");
}

/* clang-format off */
static const ModelCase model_cases[] = {
        { .name = "call", .pre = pre, .actors = { t0_free, t1_call }, .post = post, .weak = true },
        { .name = "control", .pre = pre, .actors = { t0_free, t1_control }, .post = post, .weak = true },
        { .name = "drained", .pre = pre, .actors = { t0_free, t1_drained }, .post = post, .weak = true },
};
/* clang-format on */
