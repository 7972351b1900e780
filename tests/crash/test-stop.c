/*
 * Stopped at every instruction: a traced child is stopped in the middle of an operation, after each instruction that
 * changed the arena and at some between. Meanwhile others do 10,000 operations of each kind and close epochs, and wait
 * for nothing; then the child goes on and finishes.
 *
 * Every run tries a few of these moments of each operation; with TSLAB_TEST_FULL=1 all of them.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shm/maintain/check.h"
#include "shm/maintain/drain.h"
#include "shm/maintain/freeze.h"
#include "shm/slab/pages.h"
#include "shm/arena/root.h"
#include "shm/epoch/epoch-close.h"
#include "tests/crash/crash-trace.h"
#include "tests/crash/world-pool.h"
#include "tests/util/test.h"

#define N_EACH 10000
#define N_BATCH 50
#define OTHERS_SECONDS 60 /* a call that does not wait takes less than a hundredth of it */
#define MOMENTS_MAX 1024
#define MOMENTS_SHORT 3
#define N_BETWEEN 16 /* instructions wherever they come */

typedef struct Run {
        const Operation *operation;
        Trace trace;
        World *world;
        unsigned moments[MOMENTS_MAX], n_moments, n_changes, n_instructions, n_stops, n_refused;
        bool closes_own; /* the epoch that the child is at work in, too */
} Run;

static const char *waiting_for;

static void on_alarm(int signal) {
        static const char text[] = "\nsomebody waits for a thread that is stopped: ";

        (void) signal;
        (void) !write(2, text, sizeof(text) - 1);
        (void) !write(2, waiting_for, strlen(waiting_for));
        abort();
}

static void expect_clean(const Run *run, unsigned moment, bool at_rest) {
        ShmCheck c;

        assert_int_equal(shm_check(&run->world->arena, &c), 0);
        if (c.lost_slots + c.doubled_slots == 0 && (!at_rest || c.problems + c.in_flight_slots == 0))
                return;
        for (size_t i = 0; i < c.n_texts; i++)
                print_error("%s, instruction %u: %s\n", run->operation->name, moment, c.texts[i]);
        fail();
}

/* The other processes' operations; each kind N_EACH times. */

static void alloc_free(ShmActor *actor, size_t size, uint32_t epoch) {
        uint64_t handles[N_BATCH];

        for (unsigned i = 0; i < N_EACH; i += N_BATCH) {
                for (unsigned k = 0; k < N_BATCH; k++)
                        assert_int_equal(shm_object_alloc(actor, size, epoch, NULL, &handles[k], NULL), 0);
                for (unsigned k = 0; k < N_BATCH; k++)
                        assert_int_equal(shm_object_free(actor, handles[k]), 0);
        }
}

static void pend_publish(ShmActor *actor, uint32_t epoch) {
        static const ShmPending pending = {};
        uint64_t handle;

        for (unsigned i = 0; i < N_EACH; i++) {
                assert_int_equal(shm_object_alloc(actor, 96, epoch, &pending, &handle, NULL), 0);
                assert_int_equal(shm_object_publish(actor, handle), 0);
                assert_int_equal(shm_object_free(actor, handle), 0);
        }
}

static void set_roots(ShmActor *actor, ShmArena *arena, uint32_t epoch) {
        uint64_t handle;

        assert_int_equal(shm_object_alloc(actor, 64, epoch, NULL, &handle, NULL), 0);
        for (unsigned i = 0; i < N_EACH; i++)
                assert_int_equal(shm_root_set(arena, "other", i % 2 ? handle : 0, i % 2 ? 0 : handle), 0);
        assert_int_equal(shm_object_free(actor, handle), 0);
}

/* Uses the child's own map, where it has one, by keys in the same nodes. */
static void use_map(ShmActor *actor, const ShmTrie *trie, uint32_t epoch) {
        char buffer[64] = "of others";
        ShmMapPut put = { .value = buffer, .value_size = 40, .epoch = epoch };

        for (unsigned i = 0; i < N_EACH; i++) {
                uint64_t hash = 2 | (uint64_t) (1 + i % 3) << 21;
                ShmMapKey key = { .bytes = &hash, .size = sizeof(hash), .hash = hash };

                assert_int_equal(shm_map_put(actor, trie, &key, &put, NULL), 0);
                assert_int_equal(shm_map_get(trie, &key, buffer, sizeof(buffer), NULL), 40);
                assert_int_equal(shm_map_delete(actor, trie, &key, 0), 0);
        }
}

/* Its caches are emptied as far as nobody is inside an operation of it. */
static uint32_t close_epoch(Run *run, ShmFreeze *freeze, uint32_t epoch) {
        ShmActor *control = &run->world->control;
        ShmDrain drain = { .epoch = epoch };
        uint32_t n_left;

        assert_int_equal(shm_epoch_close(&run->world->arena, epoch, true), 0);
        assert_int_equal(shm_freeze_begin(control, freeze, UINT64_C(1) << epoch), 0);
        n_left = shm_freeze_step(control, freeze, UINT32_MAX, UINT64_MAX);
        while (!shm_drain_step(control, &drain, 64))
                ;
        return n_left;
}

/* One that the child's map is not in. */
static uint32_t other_epoch(const World *w) {
        return w->trie.arena && (w->trie.epoch & 0xff) == 1 ? 2 : 1;
}

/* The child's own, if it is open. */
static uint32_t shared_epoch(const World *w) {
        uint32_t id, era;

        return shm_epoch_admit(&w->arena, 0, &id, &era) == 0 ? 0 : other_epoch(w);
}

/* All that must go on, and end. */
static void do_all(Run *run, ShmFreeze *freeze) {
        World *w = run->world;
        uint32_t other = other_epoch(w), shared = shared_epoch(w);
        ShmActor *a = &w->survivor;

        waiting_for = run->operation->name;
        alarm(OTHERS_SECONDS);
        for (int mode = SHM_CACHE_ON; mode <= SHM_CACHE_OFF; mode++) {
                a->mode = (ShmCacheMode) mode;
                alloc_free(a, 64, shared);
                alloc_free(a, 256, other);
        }
        a->mode = SHM_CACHE_ON;
        pend_publish(a, shared);
        set_roots(a, &w->arena, other);
        if (w->trie.arena)
                use_map(a, &w->trie, shared);
        assert_in_range(close_epoch(run, freeze, other), 0, 1);
        if (run->closes_own)
                assert_in_range(close_epoch(run, freeze, 0), 0, 1);
        (void) shm_pages_trim(&w->control, 0, UINT32_MAX);
        alarm(0);
}

/* The child has gone on, and the freeze, which it may have stood in the way of, ends. */
static void end_closing(Run *run, ShmFreeze *freeze) {
        ShmActor *control = &run->world->control;

        assert_int_equal(shm_freeze_step(control, freeze, UINT32_MAX, UINT64_MAX), 0);
        for (uint32_t epoch = 0; epoch < 3; epoch++) {
                ShmDrain drain = { .epoch = epoch };
                ShmEpochInfo info;

                assert_int_equal(shm_epoch_get(&run->world->arena, epoch, &info), 0);
                while (info.state != SHM_EPOCH_OPEN && !shm_drain_step(control, &drain, 64))
                        ;
        }
}

static void stop_at(Run *run, unsigned moment) {
        static ShmFreeze freeze;
        ShmRepairCounts counts;

        memset(&freeze, 0, sizeof(freeze));
        world_init(run->world, run->operation);
        trace_start(&run->trace, run->world, run->operation);
        for (unsigned i = 0; i < moment && trace_step(&run->trace); i++)
                ;
        do_all(run, &freeze);
        expect_clean(run, moment, false);
        alarm(OTHERS_SECONDS);
        trace_finish(&run->trace);
        alarm(0);
        if (run->trace.shared->result != 0 && !run->closes_own) {
                print_error("%s, stopped at instruction %u: %d\n", run->operation->name, moment,
                            run->trace.shared->result);
                fail();
        }
        run->n_refused += run->trace.shared->result != 0;
        end_closing(run, &freeze);
        expect_clean(run, moment, true);
        trace_kill(&run->trace);
        world_repair(&run->world->arena, &counts);
        expect_clean(run, moment, true);
        world_deinit(run->world);
        run->n_stops++;
}

/* Goes through it once, to find the instructions that change the arena. */
static void find_moments(Run *run) {
        ShmArena before = {};
        unsigned n = 0;

        world_init(run->world, run->operation);
        world_copy_init(&before, &run->world->arena);
        trace_start(&run->trace, run->world, run->operation);
        while (trace_step(&run->trace)) {
                bool changed = memcmp(before.base, run->world->arena.base, before.size) != 0;

                n++;
                run->n_changes += changed;
                if (!changed)
                        continue;
                assert_true(run->n_moments < MOMENTS_MAX - N_BETWEEN);
                run->moments[run->n_moments++] = n;
                memcpy(before.base, run->world->arena.base, before.size);
        }
        for (unsigned i = 0; i < N_BETWEEN; i++)
                run->moments[run->n_moments++] = n * i / N_BETWEEN;
        run->n_instructions = n;
        trace_kill(&run->trace);
        world_copy_deinit(&before);
        world_deinit(run->world);
}

static unsigned test_operation(const Operation *operation, TraceShared *shared, bool full) {
        static World world;
        Run run = { .operation = operation, .world = &world, .trace.shared = shared };
        unsigned stride;

        find_moments(&run);
        stride = full ? 1 : run.n_moments / MOMENTS_SHORT + 1;
        for (unsigned i = stride / 2; i < run.n_moments; i += stride) {
                run.closes_own = (i / stride) % 2;
                stop_at(&run, run.moments[i]);
        }
        printf("%-30s %6u instructions, %4u of them change the arena, stopped at %4u, refused %u\n",
               operation->name, run.n_instructions, run.n_changes, run.n_stops, run.n_refused);
        fflush(stdout);
        assert_true(run.n_stops > 0);
        return run.n_stops;
}

static void test_stopped(void **state) {
        const char *full = getenv("TSLAB_TEST_FULL"), *only = getenv("TSLAB_TEST_OPERATION");
        TraceShared *shared = trace_shared_new();
        unsigned n = 0;

        (void) signal(SIGALRM, on_alarm);
        for (unsigned i = 0; i < n_operations + n_pool_operations; i++) {
                const Operation *o = i < n_operations ? &operations[i] : &pool_operations[i - n_operations];

                if (!only || !strcmp(only, o->name))
                        n += test_operation(o, shared, full && *full && *full != '0');
        }
        printf("%u stops\n", n);
        munmap(shared, sizeof(*shared));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_stopped),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
