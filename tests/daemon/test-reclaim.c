/* Memory goes back when its epoch closes, and memory freed later follows by itself. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <tslab.h>

#include "proto/deadline.h"
#include "tests/util/ctl.h"
#include "tests/util/role.h"
#include "tests/util/test.h"

#define SLAB UINT64_C(4096)
#define SIZE 500U /* 8 to a slab */
#define N_OBJECTS 16000U /* in an epoch: 2000 slabs */
#define N_SLABS (N_OBJECTS / 8)
#define N_AT_ONCE 16U
#define METADATA_SLACK (UINT64_C(256) << 10) /* for a call here and there; the slabs are 8 MiB */

/* An epoch with its objects. */
typedef struct Lifetime {
        uint32_t epoch;
        tslab_handle handles[N_OBJECTS];
} Lifetime;

typedef struct Fixture {
        DaemonFixture daemon;
        struct tslab *pool;
        Lifetime first, second;
} Fixture;

/* A second process, to free from: nothing of the first's is inherited. */
static int freer(const char *socket) {
        struct tslab *pool;
        tslab_handle handle;

        if (tslab_open(&pool, socket, NULL) < 0)
                return 1;
        while (role_read(&handle, sizeof(handle))) {
                int r = tslab_free(pool, handle);

                role_write(&r, sizeof(r));
        }
        tslab_close(pool);
        return 0;
}

static int setup(void **state) {
        Fixture *f = calloc(1, sizeof(*f));

        assert_non_null(f);
        /* Retained memory must not matter: the most there can be. */
        daemon_start(&f->daemon,
                     (const char *[]){ "--size=256M", "--retain=256M", "--log-level=warning", NULL });
        assert_int_equal(tslab_open(&f->pool, f->daemon.socket, NULL), 0);
        *state = f;
        return 0;
}

static int teardown(void **state) {
        Fixture *f = *state;

        ctl_check(&f->daemon);
        f->pool = tslab_close(f->pool);
        daemon_stop(&f->daemon);
        free(f);
        return 0;
}

static void begin(Fixture *f, Lifetime *lifetime) {
        void *object;

        assert_int_equal(tslab_epoch_advance(f->pool, &lifetime->epoch), 0);
        for (uint32_t i = 0; i < N_OBJECTS; i++) {
                assert_int_equal(tslab_alloc(f->pool, SIZE, lifetime->epoch, &lifetime->handles[i], &object),
                                 0);
                pattern_fill(object, SIZE, lifetime->epoch, i);
        }
}

/* All but every nth; 0: all. */
static void end(Fixture *f, Lifetime *lifetime, uint32_t nth) {
        for (uint32_t i = 0; i < N_OBJECTS; i++) {
                if (nth && i % nth == 0)
                        continue;
                assert_int_equal(tslab_free(f->pool, lifetime->handles[i]), 0);
                lifetime->handles[i] = 0;
        }
}

static void assert_intact(Fixture *f, const Lifetime *lifetime) {
        void *object;

        for (uint32_t i = 0; i < N_OBJECTS; i++) {
                if (lifetime->handles[i] == 0)
                        continue;
                assert_int_equal(tslab_get(f->pool, lifetime->handles[i], &object, NULL), 0);
                assert_true(pattern_check(object, SIZE, lifetime->epoch));
        }
}

/* Slabs that the table of epochs gives it. */
static uint64_t n_slabs(const Fixture *f, const Lifetime *lifetime) {
        char id[8];

        snprintf(id, sizeof(id), "%u", lifetime->epoch & 0xff);
        return ctl_stat(&f->daemon, "epochs", id, "slabs");
}

/* By the command; returns the bytes that it says it gave back. */
static uint64_t close_by_command(const Fixture *f, const Lifetime *lifetime) {
        json_object *reply;
        char epoch[24];
        uint64_t size;

        snprintf(epoch, sizeof(epoch), "%u:%u", lifetime->epoch & 0xff, lifetime->epoch >> 8);
        assert_int_equal(ctl_run(&f->daemon, &reply, "epoch", "close", epoch, "--yes"), 0);
        size = ctl_number(reply, "reclaimed_bytes");
        json_object_put(reply);
        return size;
}

/* With slabs their tags go, a 16th of their size, as far as no slab beside them has pages. */
static void assert_fell(uint64_t before, uint64_t after, uint64_t size, uint64_t slack) {
        uint64_t tags = size / 16;

        if (before < after + size - slack || before > after + size + tags + slack)
                print_error("%llu - %llu is not %llu\n", (unsigned long long) before,
                            (unsigned long long) after, (unsigned long long) size);
        assert_in_range(before - after, size - slack, size + tags + slack);
}

/*
 * The second epoch's free slabs keep the reserve full: nothing is committed while the first's go, and
 * the numbers are exact.
 */
static void test_close_of_freed_epoch(void **state) {
        Fixture *f = *state;
        CtlMemory before, after;

        begin(f, &f->first);
        begin(f, &f->second);
        assert_int_equal(n_slabs(f, &f->first), N_SLABS);
        end(f, &f->first, 0);
        end(f, &f->second, 0);
        before = ctl_memory_settled(&f->daemon);
        assert_in_range(before.retained, 2 * N_SLABS * SLAB, before.committed);

        assert_int_equal(close_by_command(f, &f->first), N_SLABS * SLAB);
        after.blocks = role_memfd_size(f->daemon.pid); /* before anything else happens */
        after.committed = ctl_stat(&f->daemon, "committed_bytes");
        assert_int_equal(before.committed - after.committed, N_SLABS * SLAB);
        assert_fell(before.blocks, after.blocks, N_SLABS * SLAB, METADATA_SLACK);
}

/* The same, with objects in other epochs in between, which stay as they are. */
static void test_close_leaves_others_alone(void **state) {
        Fixture *f = *state;

        begin(f, &f->first);
        begin(f, &f->second);
        end(f, &f->first, 0);
        /* The committed size says little now: the reserve is filled up again. */
        assert_int_equal(close_by_command(f, &f->first), N_SLABS * SLAB);
        assert_int_equal(n_slabs(f, &f->second), N_SLABS);
        assert_intact(f, &f->second);
        end(f, &f->second, 0);
        close_by_command(f, &f->second);
}

/* Every eighth object stays: all slabs do. They go as they empty, by another process, with no close. */
static void test_frees_after_close(void **state) {
        Fixture *f = *state;
        CtlMemory before, after;
        Role other;
        int r;

        begin(f, &f->first);
        begin(f, &f->second);
        end(f, &f->second, 0); /* the reserve */
        end(f, &f->first, 8);
        before = ctl_memory_settled(&f->daemon);
        assert_int_equal(close_by_command(f, &f->first), 0);
        assert_int_equal(ctl_memory(&f->daemon).committed, before.committed);
        assert_int_equal(tslab_alloc(f->pool, SIZE, f->first.epoch, &(tslab_handle){ 0 }, NULL), -ESHUTDOWN);
        assert_intact(f, &f->first);

        role_start(&other, "freer", f->daemon.socket);
        for (uint32_t i = 0; i < N_OBJECTS / 2; i += 8) {
                role_tell(&other, &f->first.handles[i], sizeof(tslab_handle));
                role_hear(&other, &r, sizeof(r));
                assert_int_equal(r, 0);
                f->first.handles[i] = 0;
        }
        WAIT_FOR(ctl_stat(&f->daemon, "committed_bytes") == before.committed - N_SLABS / 2 * SLAB);
        assert_intact(f, &f->first);

        for (uint32_t i = N_OBJECTS / 2; i < N_OBJECTS; i += 8)
                assert_int_equal(tslab_free(f->pool, f->first.handles[i]), 0);
        WAIT_FOR(ctl_stat(&f->daemon, "committed_bytes") == before.committed - N_SLABS * SLAB);
        after = ctl_memory(&f->daemon);
        assert_fell(before.blocks, after.blocks, N_SLABS * SLAB, METADATA_SLACK);
        assert_int_equal(role_wait(&other), 0);
        close_by_command(f, &f->second);
}

static uint64_t committed_bytes(ProtoCall *call) {
        _cleanup_(proto_reply_freep) ProtoReply *reply = daemon_stats(call);

        return reply->stats->committed_bytes;
}

/*
 * A thread that empties a slab wakes the daemon. The daemon looks by itself once a second, too: that would
 * take as many seconds as there are slabs.
 */
static void test_frees_after_close_at_once(void **state) {
        Fixture *f = *state;
        ProtoCall *call = daemon_connect(&f->daemon, 0);
        uint64_t committed, deadline;

        begin(f, &f->first);
        begin(f, &f->second);
        end(f, &f->second, 0); /* the reserve */
        assert_int_equal(close_by_command(f, &f->first), 0);
        committed = ctl_memory_settled(&f->daemon).committed;
        deadline = proto_deadline(N_AT_ONCE * PROTO_USEC_PER_SEC / 2);
        for (uint32_t slab = 0; slab < N_AT_ONCE; slab++) {
                for (uint32_t i = slab * 8; i < slab * 8 + 8; i++) {
                        assert_int_equal(tslab_free(f->pool, f->first.handles[i]), 0);
                        f->first.handles[i] = 0;
                }
                committed -= SLAB;
                WAIT_FOR(committed_bytes(call) == committed);
        }
        assert_true(proto_deadline_left(deadline) > 0);
        (void) proto_call_free(call);
        for (uint32_t i = 0; i < N_OBJECTS; i++)
                if (f->first.handles[i])
                        assert_int_equal(tslab_free(f->pool, f->first.handles[i]), 0);
        close_by_command(f, &f->second);
}

/* madvise(MADV_REMOVE) is EINVAL for pages that the caller has locked, as clients may have. */
static void test_close_with_a_locked_client(void **state) {
        Fixture *f = *state;
        CtlMemory before, after;

        begin(f, &f->first);
        begin(f, &f->second);
        if (mlockall(MCL_CURRENT | MCL_ONFAULT) < 0)
                skip();
        end(f, &f->first, 0);
        end(f, &f->second, 0);
        before = ctl_memory_settled(&f->daemon);
        close_by_command(f, &f->first);
        after = ctl_memory(&f->daemon);
        assert_int_equal(before.committed - after.committed, N_SLABS * SLAB);
        assert_fell(before.blocks, after.blocks, N_SLABS * SLAB, METADATA_SLACK);
        (void) munlockall();
        close_by_command(f, &f->second);
}

int main(int argc, char **argv) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_close_of_freed_epoch),
                cmocka_unit_test(test_close_leaves_others_alone),
                cmocka_unit_test(test_frees_after_close),
                cmocka_unit_test(test_frees_after_close_at_once),
                cmocka_unit_test(test_close_with_a_locked_client),
        };

        if (argc == 3)
                return freer(argv[2]);
        /* Exact numbers: a thread with caches takes slots, and so slabs, for allocations to come. */
        (void) setenv("TSLAB_CACHE", "off", 1);
        return cmocka_run_group_tests(tests, setup, teardown);
}
