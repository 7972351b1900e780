/*
 * Death at every instruction: a traced child goes through one operation, one instruction at a time. After each
 * instruction that changed the arena, the test copies the arena, as a child that died there would leave it. Each copy
 * is repaired and must be clean. Some children are also killed in earnest: with TSLAB_TEST_FULL=1 as many as STEPS_MAX
 * allows, up to one at every instruction.
 */
#include <tslab.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "shm/maintain/check.h"
#include "tests/crash/crash-trace.h"
#include "tests/crash/world-pool.h"
#include "tests/util/test.h"

#define KILLS 2
#define CROWD_MAX 600
#define STEPS_MAX 400000 /* for all kills of one operation, in the full run */

typedef struct Run {
        World *world;
        const Operation *operation;
        Trace trace;
        uint64_t n_live;
        unsigned n_instructions, n_copies, n_kills;
        uint64_t n_slots, n_objects, n_slabs;
} Run;

static void print_problems(const Run *run, const ShmCheck *c) {
        for (size_t i = 0; i < c->n_texts; i++)
                print_error("%s, instruction %u: %s\n", run->operation->name, run->n_instructions,
                            c->texts[i]);
        print_error("%s, instruction %u: %d lost, %d doubled, %d in flight, %d hints\n", run->operation->name,
                    run->n_instructions, (int) c->lost_slots, (int) c->doubled_slots,
                    (int) c->in_flight_slots, (int) c->wrong_hints);
}

static void check_clean(const Run *run, const ShmArena *arena) {
        ShmCheck c;

        assert_int_equal(shm_check(arena, &c), 0);
        if (c.problems == 0 && c.in_flight_slots == 0)
                return;
        print_problems(run, &c);
        fail();
}

/* In every class, by the surviving process and by one that takes the dead one's record. */
static void use(const Run *run, ShmArena *arena) {
        uint64_t handles[SHM_CLASSES_MAX], n_live = world_count_live(arena);
        static ShmActor actor;
        void *object;

        assert_int_equal(shm_actor_init(&actor, arena, WORLD_SURVIVOR, 4), 0);
        actor.mode = SHM_CACHE_ON;
        for (uint32_t i = 0; i < arena->n_classes; i++)
                assert_int_equal(
                        shm_object_alloc(&actor, arena->classes[i].size, 1, NULL, &handles[i], &object), 0);
        assert_int_equal(world_count_live(arena), n_live + arena->n_classes);
        for (uint32_t i = 0; i < arena->n_classes; i++)
                assert_int_equal(shm_object_free(&actor, handles[i]), 0);
        assert_int_equal(world_count_live(arena), n_live);
        check_clean(run, arena);
}

static void check_death(Run *run, ShmArena *arena) {
        bool intends = shm_arena_record(arena, run->world->victim.id)->intent_what != 0;
        ShmRepairCounts counts, again;
        int64_t n_new;

        world_repair(arena, &counts);
        check_clean(run, arena);
        n_new = (int64_t) (world_count_live(arena) - run->n_live);
        if (counts.in_flight != 0 || n_new < run->operation->least || n_new > run->operation->most ||
            (run->operation->is_alloc && intends && n_new != 0)) {
                print_error("%s, instruction %u: %d in flight, %d new objects\n", run->operation->name,
                            run->n_instructions, (int) counts.in_flight, (int) n_new);
                fail();
        }
        if (run->operation->after)
                run->operation->after(arena);
        run->n_slots += counts.slots;
        run->n_objects += counts.objects;
        run->n_slabs += counts.slabs;
        world_repair(arena, &again);
        assert_int_equal(again.records + again.slots + again.objects + again.slabs, 0);
        use(run, arena);
}

/*
 * Before the repair another process takes all free slots: the slots that the dead process gave back have
 * another owner by then, and must keep it.
 */
static void check_crowded_death(Run *run, ShmArena *arena) {
        static uint64_t handles[CROWD_MAX];
        static ShmActor actor;
        ShmRepairCounts counts;
        uint32_t n = 0;

        assert_int_equal(shm_actor_init(&actor, arena, WORLD_SURVIVOR, 5), 0);
        actor.mode = SHM_CACHE_OFF;
        while (n < CROWD_MAX && shm_object_alloc(&actor, 64, 0, NULL, &handles[n], NULL) == 0)
                n++;
        world_repair(arena, &counts);
        check_clean(run, arena);
        for (uint32_t i = 0; i < n; i++)
                if (!shm_object_live(arena, handles[i])) {
                        print_error("%s, instruction %u: another's object was freed\n", run->operation->name,
                                    run->n_instructions);
                        fail();
                }
        assert_int_equal(counts.in_flight, 0);
}

static void step_through(Run *run) {
        ShmArena before = {}, copy = {};

        world_copy_init(&before, &run->world->arena);
        world_copy_init(&copy, &run->world->arena);
        check_death(run, &copy);
        trace_start(&run->trace, run->world, run->operation);
        while (trace_step(&run->trace)) {
                run->n_instructions++;
                if (memcmp(before.base, run->world->arena.base, before.size) == 0)
                        continue;
                memcpy(before.base, run->world->arena.base, before.size);
                memcpy(copy.base, run->world->arena.base, copy.size);
                run->n_copies++;
                check_death(run, &copy);
                memcpy(copy.base, before.base, copy.size);
                check_crowded_death(run, &copy);
        }
        assert_int_equal(run->trace.shared->result, 0);
        trace_kill(&run->trace);
        world_copy_deinit(&before);
        world_copy_deinit(&copy);
}

static void kill_at(Run *run, unsigned instruction) {
        world_init(run->world, run->operation);
        trace_start(&run->trace, run->world, run->operation);
        for (run->n_instructions = 0; run->n_instructions < instruction && trace_step(&run->trace);
             run->n_instructions++)
                ;
        trace_kill(&run->trace);
        run->n_kills++;
        check_death(run, &run->world->arena);
        if (run->world->pool) {
                assert_in_range(tslab_reap(run->world->pool), 0, 1); /* it may have died before it joined */
                check_clean(run, &run->world->arena);
        }
        world_deinit(run->world);
}

static unsigned test_operation(const Operation *operation, TraceShared *shared, bool full) {
        static World world;
        Run run = { .world = &world, .operation = operation, .trace.shared = shared };
        unsigned n, stride;

        world_init(&world, operation);
        run.n_live = world_count_live(&world.arena);
        step_through(&run);
        world_deinit(&world);
        n = run.n_instructions;
        stride = full ? (unsigned) ((uint64_t) n * n / 2 / STEPS_MAX) + 1 : n / KILLS + 1;
        for (unsigned i = stride / 2; i < n; i += stride)
                kill_at(&run, i);
        printf("%-30s %6u instructions, %4u states, %4u kills; gave back %llu slots, %llu objects, %llu slabs\n",
               operation->name, n, run.n_copies, run.n_kills, (unsigned long long) run.n_slots,
               (unsigned long long) run.n_objects, (unsigned long long) run.n_slabs);
        assert_true(n > 0);
        return n;
}

/* The code that must have been stepped through. */
static const char *const wanted[] = {
        "map get",
        "map insert",
        "map insert with nodes",
        "map replace",
        "map delete",
        "map take",
        "map expire",
        "map claim",
        "map claim over a dead one",
        "map claim over a stale value",
        "map fulfil",
        "map give up",
        "alloc hit",
        "free hit",
        "refill from the slab held",
        "refill from a partial slab",
        "refill from a free slab",
        "refill after a commit",
        "refill after an extension",
        "flush",
        "free that empties a slab",
        "free into a closing epoch",
        "uncached alloc",
        "uncached free",
        "alloc that steps aside",
        "free that steps aside",
        "frozen alloc",
        "frozen free",
        "batch alloc",
        "batch free",
        "pending and publish",
        "uncached pending and publish",
        "thread start",
        "thread exit",
        "root set",
        "fork child's first alloc",
        "fork child's first free",
};
#define N_WANTED (sizeof(wanted) / sizeof(wanted[0]))

typedef struct Sum {
        unsigned n_operations, n_instructions;
        bool done[N_WANTED];
} Sum;

static void test_table(const Operation *table, unsigned n, TraceShared *shared, Sum *sum) {
        const char *full = getenv("TSLAB_TEST_FULL"), *only = getenv("TSLAB_TEST_OPERATION");

        for (unsigned i = 0; i < n; i++) {
                if (only && strcmp(only, table[i].name) != 0)
                        continue;
                sum->n_instructions += test_operation(&table[i], shared, full && *full && *full != '0');
                sum->n_operations++;
                for (size_t k = 0; k < N_WANTED; k++)
                        sum->done[k] = sum->done[k] || strcmp(wanted[k], table[i].name) == 0;
        }
}

static void test_every_instruction(void **state) {
        TraceShared *shared = trace_shared_new();
        Sum sum = {};

        test_table(operations, n_operations, shared, &sum);
        test_table(pool_operations, n_pool_operations, shared, &sum);
        printf("%u operations, %u instructions\n", sum.n_operations, sum.n_instructions);
        for (size_t i = 0; i < N_WANTED && !getenv("TSLAB_TEST_OPERATION"); i++)
                if (!sum.done[i]) {
                        print_error("not stepped through: %s\n", wanted[i]);
                        fail();
                }
        munmap(shared, sizeof(*shared));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_every_instruction),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
