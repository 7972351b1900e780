/*
 * An epoch is leased under a label while a thread uses the id, with deaths. A thread that finds the lease open also
 * finds its label and its owner, and when the client ends, the lease ends.
 */
#include <errno.h>
#include <string.h>

#include "shm/epoch/epoch-close.h"
#include "shm/epoch/epoch-open.h"
#include "tests/model/world.h"

#define CLIENT 7
#define LEASED 1

static void pre(void) {
        world_init(2, 2, 0);
}

static void check_label(void) {
        ShmEpochInfo info;

        if (shm_epoch_get(&world_arena, LEASED, &info) != 0)
                model_fail("no epoch");
        if (info.state == SHM_EPOCH_OPEN && (info.flags & SHM_EPOCH_RESERVED) &&
            (strcmp(info.label, "lease") != 0 || info.owner != CLIENT + 1))
                model_fail("the lease is open, its label is '%s', its owner %u", info.label, info.owner);
}

static void t0_get(void) {
        check_label();
}

static void t0_alloc(void) {
        world_alloc(0, WORLD_SIZE_2, LEASED);
        world.results[0] = world.objects[world_allocated(0, 0)].error;
}

static void t1_lease(void) {
        uint32_t number;

        world.results[1] = shm_epoch_lease(&world_arena, LEASED, "lease", CLIENT, &number);
}

static void post(unsigned dead) {
        ShmEpochWord w;

        check_label();
        if (!(dead & 1) && world.results[0] != 0 && world.results[0] != -ESHUTDOWN)
                model_fail("alloc: %d", world.results[0]);
        if (!(dead & 2) && world.results[1] != 0)
                model_fail("lease: %d", world.results[1]);
        (void) shm_epoch_end_leases(&world_arena, CLIENT);
        w = shm_epoch_load(&world_arena, LEASED);
        if (w.state == SHM_EPOCH_OPEN && (w.flags & SHM_EPOCH_RESERVED))
                model_fail("the lease of a client that ended goes on");
}

/* clang-format off */
static const ModelCase model_cases[] = {
        { .name = "get", .pre = pre, .actors = { t0_get, t1_lease }, .post = post, .deaths = 2, .weak = true },
        { .name = "alloc", .pre = pre, .actors = { t0_alloc, t1_lease }, .post = post, .deaths = 1, .weak = true },
};
/* clang-format on */
