/*
 * The daemon dies at every instruction: the real tslabd goes through a request, or through its work after a death or a
 * wake, one instruction at a time. After each instruction that changed the arena, the test copies the arena, as the
 * next daemon would find it. A next daemon takes each copy over, and it must be clean. This must hold even if that
 * daemon dies in taking over, after any store of its own, and one more daemon goes on.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/deadline.h"
#include "shm/arena/client.h"
#include "shm/maintain/check.h"
#include "shm/maintain/freeze.h"
#include "shm/slab/slab.h"
#include "tests/crash/daemon-work.h"
#include "tests/crash/stepper.h"
#include "tests/crash/successor.h"
#include "tests/crash/crash-world.h"
#include "tests/util/test.h"

#define CROWD_MAX 2048
#define DEATHS_MAX 50U /* deaths of the next daemon, on one arena. With TSLAB_TEST_FULL=1; else one */

typedef struct Crowd {
        uint64_t handles[CROWD_MAX];
        uint32_t n;
} Crowd;

typedef struct Run {
        DaemonPool pool;
        ShmArena before, copy;
        Stepper stepper;
        Successor successor;
        bool full;
        unsigned n_arenas, n_deaths;
        unsigned dies_at; /* the next daemon's death, counted in changes; 0: it did not die */
} Run;

/* ---- the arena that the last daemon must leave */

static void print_where(const Run *run) {
        print_error("%s, instruction %u, then the next one's change %u: ", run->pool.work->name,
                    run->stepper.n_instructions, run->dies_at);
}

static void check_clean(const Run *run, const ShmArena *arena) {
        ShmCheck c;

        assert_int_equal(shm_check(arena, &c), 0);
        if (c.problems == 0 && c.in_flight_slots == 0)
                return;
        for (size_t i = 0; i < c.n_texts; i++) {
                print_where(run);
                print_error("%s\n", c.texts[i]);
        }
        print_where(run);
        print_error("%d lost, %d doubled, %d in flight, %d hints\n", (int) c.lost_slots,
                    (int) c.doubled_slots, (int) c.in_flight_slots, (int) c.wrong_hints);
        fail();
}

static void require(const Run *run, bool condition, const char *text) {
        if (condition)
                return;
        print_where(run);
        print_error("%s\n", text);
        fail();
}

/* Nothing is left to be done, and nobody is kept from its caches. */
static void check_ended(const Run *run, const ShmArena *arena) {
        ShmClientInfo info;

        require(run, shm_freeze_is_over(arena), "a thread stays frozen");
        require(run, !shm_repair_wanted(arena), "a record is left to be repaired");
        require(run, shm_arena_record(arena, 0)->intent_what == 0, "an intent of the daemon stands");
        if (run->pool.work->ends)
                require(run, shm_client_get(arena, run->pool.victim_client, &info) == -ENOENT,
                        "the client did not end");
}

static bool is_open(ShmEpochInfo info) {
        return info.state == SHM_EPOCH_OPEN;
}

/* All objects are there, or all that were to be revoked are gone: that is when their epoch was closed. */
static void check_objects(const Run *run, const ShmArena *arena) {
        uint64_t n = world_count_live(arena);
        bool gone = n + run->pool.n_revocable == run->pool.n_live;
        ShmEpochInfo info;

        if (n != run->pool.n_live && !gone) {
                print_where(run);
                print_error("%d objects of %d\n", (int) n, (int) run->pool.n_live);
                fail();
        }
        assert_int_equal(shm_epoch_get(arena, 0, &info), 0);
        require(run, !run->pool.work->closes || run->pool.n_revocable == 0 || gone != is_open(info),
                "an epoch was closed and not revoked, or the other way round");
}

static void check_epochs(const Run *run, const ShmArena *arena) {
        const DaemonWork *work = run->pool.work;
        uint32_t n_opened = 0;
        ShmEpochInfo info;

        for (uint32_t id = 0; id < arena->n_epochs; id++) {
                const ShmEpochInfo *before = &run->pool.epochs[id];

                assert_int_equal(shm_epoch_get(arena, id, &info), 0);
                require(run, !info.revoking, "an epoch is yet to be revoked");
                require(run, !(info.flags & SHM_EPOCH_RETIRING), "an advance was left in the middle");
                require(run, info.era - before->era <= 1, "an era was left out");
                n_opened += info.era - before->era;
                if (!(id == 0 && work->closes) && !work->ends && !work->opens)
                        require(run, is_open(info) == is_open(*before),
                                "an epoch that nobody named was closed");
        }
        require(run, n_opened <= work->opens, "an epoch was opened");
}

/* ---- the pool's users after that */

#define REBASE(_pointer)                                                                                     \
        ((_pointer) = (_pointer) ? (void *) ((uint8_t *) (_pointer) -from->base + to->base) : NULL)

/* The thread itself, with all that it remembers, as it would be in the copy. */
static ShmActor actor_in_copy(const ShmActor *actor, const ShmArena *from, ShmArena *to) {
        ShmActor a = *actor;

        a.arena = to;
        REBASE(a.record);
        REBASE(a.caches);
        REBASE(a.tags);
        REBASE(a.slabs);
        REBASE(a.lines);
        for (uint32_t i = 0; i < SHM_GRANULES_MAX; i++)
                REBASE(a.sizes[i].cache);
        return a;
}

/* A thread that lived through all this allocates in no epoch that was closed. */
static void go_on(const Run *run, ShmArena *arena) {
        static const uint32_t epochs[] = { 0, SHM_EPOCH_CURRENT };
        static ShmActor actor;
        ShmEpochInfo info;
        uint64_t handle;
        SlabWord w;

        actor = actor_in_copy(&run->pool.self.actor, &run->pool.self.arena, arena);
        for (size_t i = 0; i < 2; i++) {
                if (shm_object_alloc(&actor, 64, epochs[i], NULL, &handle, NULL) != 0)
                        continue;
                w = shm_slab_word(arena, slot_id_slab(shm_handle_slot(handle)));
                assert_int_equal(shm_epoch_get(arena, slab_word_epoch(w), &info), 0);
                require(run, info.state == SHM_EPOCH_OPEN && slab_word_era(w) == info.era,
                        "a thread allocated in an epoch that is closed");
                assert_int_equal(shm_object_free(&actor, handle), 0);
        }
}

static void use(const Run *run, ShmArena *arena) {
        uint64_t handles[SHM_CLASSES_MAX], n_live = world_count_live(arena);
        static ShmActor actor;

        assert_int_equal(shm_actor_init(&actor, arena, run->pool.self.client, 4), 0);
        actor.mode = SHM_CACHE_ON;
        for (uint32_t i = 0; i < arena->n_classes; i++)
                assert_int_equal(shm_object_alloc(&actor, arena->classes[i].size, run->pool.use_epoch, NULL,
                                                  &handles[i], NULL),
                                 0);
        assert_int_equal(world_count_live(arena), n_live + arena->n_classes);
        for (uint32_t i = 0; i < arena->n_classes; i++)
                assert_int_equal(shm_object_free(&actor, handles[i]), 0);
        go_on(run, arena);
        check_clean(run, arena);
}

/* A client takes the slots that a dead daemon gave back, before the next one comes. */
static void crowd(const Run *run, ShmArena *arena, Crowd *crowd) {
        static ShmActor actor;

        assert_int_equal(shm_actor_init(&actor, arena, run->pool.self.client, 5), 0);
        actor.mode = SHM_CACHE_OFF;
        crowd->n = 0;
        while (crowd->n < CROWD_MAX &&
               shm_object_alloc(&actor, 256, run->pool.use_epoch, NULL, &crowd->handles[crowd->n], NULL) == 0)
                crowd->n++;
}

static void check_crowd(const Run *run, const ShmArena *arena, const Crowd *crowd) {
        for (uint32_t i = 0; i < crowd->n; i++)
                require(run, shm_object_live(arena, crowd->handles[i]), "another's object was freed");
}

/* ---- deaths of the next one, on the copy */

static void restore(Run *run) {
        memcpy(run->copy.base, run->before.base, (size_t) (run->copy.slabs - run->copy.base));
}

static void check_all(Run *run) {
        check_ended(run, &run->copy);
        check_clean(run, &run->copy);
        check_epochs(run, &run->copy);
}

/* A lost request stays lost until somebody asks again; nothing else is wrong before that. */
static void check_lost_only(const Run *run, const ShmArena *arena) {
        ShmCheck c;

        assert_int_equal(shm_check(arena, &c), 0);
        require(run, c.problems == c.lost_slots, "more than lost slots");
}

/* One that does not die, or two where there is something to repair. Returns in how many changes. */
static unsigned take_over(Run *run) {
        unsigned n = 0;

        if (run->pool.work->repairs) {
                run->successor.repairs = false;
                n = successor_run(&run->successor, &run->copy, 0);
                check_lost_only(run, &run->copy);
                run->successor.repairs = true;
        }
        n += successor_run(&run->successor, &run->copy, 0);
        check_all(run);
        return n;
}

/* Returns in how many changes it is taken over. take_over() does so twice for work that repairs: one run is counted. */
static unsigned check_death(Run *run) {
        unsigned n;

        run->dies_at = 0;
        restore(run);
        n = take_over(run);
        check_objects(run, &run->copy);
        use(run, &run->copy);
        if (!run->pool.work->repairs)
                return n;
        restore(run);
        return successor_run(&run->successor, &run->copy, 0);
}

static void check_crowded_death(Run *run) {
        static Crowd others;

        restore(run);
        crowd(run, &run->copy, &others);
        (void) take_over(run);
        check_crowd(run, &run->copy, &others);
}

/* The next daemon dies, too, and clients take the slots that it gave back, or do not. */
static void check_second_death(Run *run, unsigned dies_at, bool crowded) {
        static Crowd others;

        run->dies_at = dies_at;
        restore(run);
        run->n_deaths += successor_run(&run->successor, &run->copy, dies_at) == dies_at;
        others.n = 0;
        if (crowded)
                crowd(run, &run->copy, &others);
        (void) take_over(run);
        check_crowd(run, &run->copy, &others);
        if (crowded)
                return;
        check_objects(run, &run->copy);
        use(run, &run->copy);
}

static void check_arena(Run *run) {
        unsigned n = check_death(run), n_deaths = run->full ? DEATHS_MAX : 1, stride;

        check_crowded_death(run);
        n_deaths = n_deaths < n ? n_deaths : n;
        stride = n_deaths > 0 ? n / n_deaths : 0;
        /* Each arena begins elsewhere, so that all of their changes have their turn. */
        for (unsigned i = 0; i < n_deaths; i++)
                check_second_death(run, 1 + (i * stride + run->n_arenas * 7919U) % n,
                                   (run->n_arenas + i) % 2);
}

/* ---- deaths of the daemon */

/* Slabs themselves are nobody's concern here, and may be holes. */
static void look(Run *run) {
        const ShmArena *arena = &run->pool.self.arena;
        size_t size = (size_t) (arena->slabs - arena->base);

        if (!stepper_is_in_program(&run->stepper) || memcmp(run->before.base, arena->base, size) == 0)
                return;
        memcpy(run->before.base, arena->base, size);
        run->n_arenas++;
        check_arena(run);
}

static void step_through(Run *run) {
        world_copy_init(&run->before, &run->pool.self.arena);
        world_copy_init(&run->copy, &run->pool.self.arena);
        check_arena(run);
        while (!run->pool.work->is_over(&run->pool)) {
                stepper_step(&run->stepper);
                look(run);
        }
        while (!stepper_is_idle(&run->stepper)) {
                stepper_step(&run->stepper);
                look(run);
        }
        world_copy_deinit(&run->before);
        world_copy_deinit(&run->copy);
}

/* ---- all of it */

static void test_work(const DaemonWork *work, unsigned *n_all) {
        const char *full = getenv("TSLAB_TEST_FULL");
        static Run run;

        run = (Run){ .full = full && *full && *full != '0' };
        daemon_pool_open(&run.pool, work);
        run.successor = (Successor){ .ended = work->ends ? run.pool.victim_client : SUCCESSOR_NONE,
                                     .repairs = work->repairs };
        usleep(50000); /* less is left to do at the same time */
        stepper_attach(&run.stepper, run.pool.daemon.pid, run.full);
        if (work->inside) {
                run.successor.inside = run.pool.other.actor.id;
                run.successor.seq = run.pool.other.actor.record->seq + 1;
        }
        work->begin(&run.pool);
        step_through(&run);
        stepper_detach(&run.stepper);
        daemon_pool_quiet(&run.pool);
        check_clean(&run, &run.pool.self.arena);
        daemon_pool_close(&run.pool);
        printf("%-38s %7u instructions, %5u arenas, %6u second deaths; of its own the dead left %llu slots, "
               "%llu slabs\n",
               work->name, run.stepper.n_instructions, run.n_arenas, run.n_deaths,
               (unsigned long long) run.successor.counts.slots,
               (unsigned long long) run.successor.counts.slabs);
        assert_true(run.stepper.n_instructions > 1000 && run.n_arenas > 0 && run.n_deaths > run.n_arenas / 2);
        *n_all += run.stepper.n_instructions;
}

/* In two parts: revoking is as much as all the rest. NULL: both. */
static const char *arg_part;

static bool is_wanted(const DaemonWork *work) {
        const char *only = getenv("TSLAB_TEST_OPERATION");

        if (only)
                return strcmp(only, work->name) == 0;
        return !arg_part || (strcmp(arg_part, "epochs") == 0) == (strstr(work->name, "revoke") != NULL);
}

static void test_every_instruction(void **state) {
        unsigned n = 0, n_works = 0;

        for (size_t i = 0; i < n_daemon_works; i++)
                if (is_wanted(&daemon_works[i])) {
                        test_work(&daemon_works[i], &n);
                        n_works++;
                }
        assert_true(n_works > 0);
        printf("%u works of the daemon, %u instructions\n", n_works, n);
}

int main(int argc, char **argv) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_every_instruction),
        };

        if (argc == 2)
                arg_part = argv[1];
        return cmocka_run_group_tests(tests, NULL, NULL);
}
