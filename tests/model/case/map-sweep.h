/*
 * Private pools: a sweep of maps in slices of one entry, by libtslab's own code, compiled for the explorer. Its place
 * is in the arena, and the lock is free between slices: writers change the map, another process goes on, and a
 * revocation asks for one more sweep. Any of them may die, also in a slice: the next process takes control over then.
 * A sweep that has ended leaves no entry that was revoked before it was asked for, and changes of writers stay.
 */
#include "proto/deadline.h"
#include "shm/arena/clock.h"

#include "shm/owner/owner.h"

static uint64_t case_now_usec(void), case_deadline(uint64_t usec);
static bool case_owner_is_gone(const ShmArena *arena, uint64_t word, uint32_t client, uint32_t tid);
#define proto_now_usec case_now_usec
#define proto_deadline case_deadline
#define shm_now_usec case_now_usec
#define shm_owner_is_gone case_owner_is_gone
#include "libclient/host/control.c"
#undef proto_now_usec
#undef proto_deadline
#undef shm_now_usec
#undef shm_owner_is_gone
#undef MAP_FIXED /* mmap()'s */

#include "shm/arena/root.h"
#include "shm/map/state/tally.h"
#include "tests/model/calls.h"
#include "tests/model/map-world.h"

#define N_PROCESSES 3 /* that do control work: actors 1 and 2; the last one comes when they have ended */
#define SLICES_MAX 40

/* The sweep meets c first, then b, then a. */
#define HASH_A (UINT64_C(2) << 61)
#define HASH_B (UINT64_C(1) << 61)
#define HASH_C MAP_HASH

#define now_usec world.notes[0]
#define c_handle world.notes[1]

static struct tslab pools[N_PROCESSES];

typedef struct Process {
        PoolLocal local;
        ControlWork work;
} Process;

static Process processes[N_PROCESSES];

/* Each look at the clock takes as long as a slice. */
static uint64_t case_now_usec(void) {
        return now_usec += SWEEP_SLICE_USEC;
}

static unsigned case_dead; /* actors; only the last process knows of them */

static bool case_owner_is_gone(const ShmArena *arena, uint64_t word, uint32_t client, uint32_t tid) {
        return case_dead >> (shm_owner_client(word) + 1) & 1;
}

static uint64_t case_deadline(uint64_t usec) {
        return case_now_usec() + usec;
}

static ShmMapSweeps *place(void) {
        return &world_arena.header->sweeps;
}

static void make_process(unsigned i) {
        pools[i] = (struct tslab){ .serial = 1,
                                   .number = 1,
                                   .arena = world_arena,
                                   .local = &processes[i].local,
                                   .local_size = offsetof(Process, work) + sizeof(ControlWork) };
        processes[i].local = (PoolLocal){ .client = i };
}

static void init(uint32_t epoch_c) {
        map_shape = MAP_SHRINKS;
        map_init(4, 0, HASH_A, HASH_B, HASH_C);
        map_shape = MAP_FIXED;
        map_must(shm_root_set(&world_arena, "map", 0, map_root));
        for (unsigned i = 0; i <= MODEL_ACTORS_MAX; i++)
                shm_map_attach(&map_tries[i]);
        now_usec = 10 * SWEEP_STALE_USEC;
        map_entry(0, 'a', 1);
        map_entry(1, 'b', 0);
        if (epoch_c)
                map_entry(2, 'c', epoch_c);
}

static uint64_t handle_of(unsigned k) {
        ShmMapKey key = map_key(k);
        ShmTrieCursor c;
        ShmMapView view;

        map_must(shm_map_find(&map_tries[MODEL_ACTORS_MAX], &key, &c, &view));
        return view.handle;
}

/* a is as a revocation leaves it. */
static void ready(void) {
        map_must(shm_object_free(&world_actors[1], handle_of(0)));
        for (unsigned i = 0; i < N_PROCESSES; i++)
                make_process(i);
        for (unsigned i = 0; i < 2; i++) {
                PoolLocal *local = &processes[i].local;

                model_own(1 + i, &processes[i].work.control, WORLD_ACTOR_SIZE);
                model_own(1 + i, &local->busy_owner, 2 * sizeof(local->busy_owner));
                model_own(1 + i, &local->sweeps_before,
                          sizeof(local->sweeps_before) + sizeof(local->recount));
        }
        map_ready(4);
        for (size_t at = 0; at <= sizeof(ShmMapSweeps); at += 64)
                model_watch((uint8_t *) ((uintptr_t) place() & ~UINT64_C(63)) + at);
}

static void pre_stale(void) {
        init(0);
        ready();
}

static void pre_miscounted(void) {
        init(0);
        world_actor(0)->record->map = map_tries[0].map;
        ready();
}

/* Somebody died in a change before. */
static void pre_died(void) {
        init(0);
        shm_map_miscounted(&world_arena, &(ShmRecord){ .map = map_tries[0].map });
        ready();
}

static void pre_later(void) {
        init(1);
        c_handle = handle_of(2);
        ready();
}

/* One slice at a time, until all is swept that was asked for. It is left to another process that has the lock. */
static void sweep(unsigned actor, uint64_t asks, unsigned n_max) {
        struct tslab *pool = &pools[actor - 1];
        ShmActor *control;
        bool done = false;
        uint32_t miscounts;
        uint64_t asked;

        for (unsigned n = 0; n < n_max && !done; n++) {
                if (control_begin(pool, true, &control) < 0)
                        return;
                place()->asked += n == 0 ? asks : 0;
                if (n == 0) {
                        asked = place()->asked;
                        miscounts = shm_map_miscounts(&world_arena);
                }
                (void) control_sweep(control);
                done = shm_map_sweeps_ended(place(), asked, miscounts);
                control_unlock(pool, false);
        }
        if (!done && n_max == SLICES_MAX)
                model_fail("a sweep does not end");
        world.results[actor] = done ? 0 : 1;
}

static void t1_sweep(void) {
        sweep(1, 1, SLICES_MAX);
}

static void look(unsigned actor, uint64_t ms) {
        struct tslab *pool = &pools[actor - 1];
        ShmActor *control;

        if (control_begin(pool, true, &control) < 0)
                return;
        shm_map_count_again(&world_arena, ms);
        control_unlock(pool, false);
}

static void t1_count(void) {
        sweep(1, 0, SLICES_MAX);
        model_pass_time();
        look(1, 1000);
        model_pass_time();
        look(1, 9000);
        sweep(1, 0, SLICES_MAX);
}

static void t2_go_on(void) {
        sweep(2, 0, SLICES_MAX);
}

/* c is revoked where the sweep that is under way may have passed it. */
static void t2_revoke_c(void) {
        (void) shm_object_free(world_actor(2), c_handle);
        sweep(2, 1, SLICES_MAX);
}

/* Repair finds a thread that died in a change of the map. */
static void t2_miscounted(void) {
        struct tslab *pool = &pools[1];
        ShmActor *control;

        if (control_begin(pool, true, &control) < 0)
                return;
        shm_map_miscounted(&world_arena, world_actor(0)->record);
        control_unlock(pool, false);
}

/* After its first slice c comes, and then the sweep stands still for two seconds. */
static void t2_stand_still(void) {
        sweep(2, 1, 1);
        map_put(2, 2, 'c', SHM_MAP_INSERT, 0);
        now_usec += 2 * SWEEP_STALE_USEC;
        sweep(2, 0, SLICES_MAX);
}

static void t0_insert_c(void) {
        map_put(0, 2, 'c', SHM_MAP_INSERT, 0);
}

static void t0_put_a(void) {
        map_put(0, 0, 'x', SHM_MAP_PUT, 0);
}

static void t0_update_b(void) {
        map_put(0, 1, 'y', SHM_MAP_UPDATE, 0);
}

static void t0_delete_b(void) {
        map_delete(0, 1);
}

static void t0_get_b(void) {
        world.results[0] = map_get_by(&map_tries[0], 1) == 'b' ? 0 : -1;
}

static unsigned n_stale(void) {
        const ShmTrie *trie = &map_tries[MODEL_ACTORS_MAX];
        ShmTrieScan scan = {};
        ShmTrieCursor c;
        unsigned n = 0;
        uint64_t hash;

        while (shm_trie_scan(trie, &scan, &c, &hash) == 1)
                n += !shm_object_live(&world_arena, c.value);
        return n;
}

static void check_totals(void) {
        uint64_t found = 0;
        ShmMapTotals totals;

        for (unsigned k = 0; k < 3; k++)
                found += map_get(k) != 0;
        shm_map_totals(&world_arena, map_tries[0].map - 1, &totals);
        if (totals.entries != found || totals.bytes != found * ENTRY_COST(WORLD_SIZE_4))
                model_fail("%lu entries and %lu bytes are counted, %lu are there",
                           (unsigned long) totals.entries, (unsigned long) totals.bytes,
                           (unsigned long) found);
}

static void sweep_last(ShmActor *control) {
        for (unsigned n = 0; shm_map_sweeps_due(&world_arena, place()); n++) {
                if (n == SLICES_MAX)
                        model_fail("the last sweep does not end");
                (void) control_sweep(control);
        }
}

/* The last process ends what the others left, and sweeps all maps `asks` times. */
static void take_over(unsigned dead, unsigned asks) {
        struct tslab *pool = &pools[N_PROCESSES - 1];
        ShmActor *control;

        if (shm_owner_state(world_arena.header->control_owner.value) != SHM_OWNER_FREE && !(dead & 6))
                model_fail("the lock is not free");
        for (unsigned i = 0; i < MODEL_ACTORS_MAX; i++)
                if (dead >> i & 1)
                        (void) shm_record_mark_dead(&world_arena, world_actor(i)->id);
        case_dead = dead;
        map_must(control_begin(pool, true, &control));
        case_dead = 0;
        control_run_all(control);
        place()->asked += asks;
        sweep_last(control);
        control_unlock(pool, false);
}

/* A process that has seen the end of its sweep finds no entry that was revoked before it asked: a, or also c. */
static void check(unsigned dead) {
        bool all = c_handle && world.results[2] == 0;

        if ((all || world.results[1] == 0) && n_stale() > (c_handle && !all))
                model_fail("%u stale entries are left by a sweep that ended", n_stale());
        if (shm_map_is_miscounted(&world_arena, map_tries[0].map - 1) &&
            !shm_map_sweeps_due(&world_arena, place()))
                model_fail("a map that is to be counted is left");
        take_over(dead, 1); /* somebody may have died before asking */
        if (n_stale() > 0)
                model_fail("%u stale entries are left", n_stale());
        map_check(3, 0);
}

/* `was` and `is`: the value that actor 0 changes, under key k. */
static void check_change(unsigned dead, unsigned k, char was, char is) {
        char value;

        check(dead);
        value = map_get(k);
        if (value != is && !((dead & 1) && value == was))
                model_fail("key %u: %d, result %d", k, value, world.results[0]);
        if (!(dead & 1) && world.results[0] != 0)
                model_fail("result %d", world.results[0]);
        if (k != 1 && map_get(1) != 'b')
                model_fail("b is %d", map_get(1));
}

static void post_insert_c(unsigned dead) {
        check_change(dead, 2, 0, 'c');
}

static void post_put_a(unsigned dead) {
        check_change(dead, 0, 0, 'x');
}

static void post_update_b(unsigned dead) {
        check_change(dead, 1, 'b', 'y');
}

static void post_delete_b(unsigned dead) {
        check_change(dead, 1, 'b', 0);
}

static void post_get_b(unsigned dead) {
        check_change(dead, 1, 'b', 'b');
}

/* Two processes sweep, and nobody else changes the map. */
static void post_sweeps(unsigned dead) {
        check(dead);
        check_totals();
        if (map_get(0) != 0 || map_get(1) != 'b')
                model_fail("a is %d, b is %d", map_get(0), map_get(1));
        if (c_handle && map_get(2) != 0 && !(dead & 4))
                model_fail("c is %d", map_get(2));
}

/* Nobody changes the map any more: two looks later the counts are right, and no count is asked for by the third. */
static void post_counted(unsigned dead) {
        uint32_t miscounts;

        take_over(dead, 0);
        for (unsigned n = 0; n < 3; n++) {
                now_usec += UINT64_C(10000000);
                miscounts = shm_map_miscounts(&world_arena);
                shm_map_count_again(&world_arena, now_usec / 1000);
                sweep_last(&processes[N_PROCESSES - 1].work.control);
        }
        if (shm_map_miscounts(&world_arena) != miscounts)
                model_fail("a map that was counted exactly is counted again");
        check_totals();
}

/* A map that was begun anew is counted as it is. */
static void post_stood_still(unsigned dead) {
        if (dead == 0)
                check_totals();
        check(dead);
        if (dead == 0 && map_get(2) != 'c')
                model_fail("c is %d", map_get(2));
}

#define WRITER(_name, _t0, _post)                                                                            \
        {                                                                                                    \
                .name = _name, .pre = pre_stale, .actors = { _t0, t1_sweep }, .post = _post, .deaths = 1,    \
                .preemptions = 2, .full_preemptions = 3                                                      \
        }
#define PROCESSES(_name, _pre, _t0, _t2, _post, _more...)                                                    \
        {                                                                                                    \
                .name = _name, .pre = _pre, .actors = { _t0, t1_sweep, _t2 }, .post = _post,                 \
                .preemptions = 2, .full_preemptions = 3, _more                                               \
        }

/* clang-format off */
static const ModelCase model_cases[] = {
        WRITER("insert", t0_insert_c, post_insert_c),
        WRITER("put-stale", t0_put_a, post_put_a),
        WRITER("update", t0_update_b, post_update_b),
        WRITER("delete", t0_delete_b, post_delete_b),
        WRITER("get", t0_get_b, post_get_b),
        PROCESSES("go-on", pre_stale, t_nothing, t2_go_on, post_sweeps, .deaths = 1),
        PROCESSES("revoke", pre_later, t_nothing, t2_revoke_c, post_sweeps, .deaths = 1),
        PROCESSES("go-on-insert", pre_stale, t0_insert_c, t2_go_on, post_insert_c),
        PROCESSES("go-on-delete", pre_stale, t0_delete_b, t2_go_on, post_delete_b),
        PROCESSES("miscounted", pre_miscounted, t_nothing, t2_miscounted, post_sweeps),
        { .name = "count-insert", .pre = pre_died, .actors = { t0_insert_c, t1_count }, .post = post_counted,
          .deaths = 2, .preemptions = 2, .full_preemptions = 3 },
        { .name = "count-late", .pre = pre_died, .actors = { t0_insert_c, t1_count }, .post = post_counted,
          .preemptions = 1, .full_preemptions = 1, .weak_full = true },
        { .name = "count-delete", .pre = pre_died, .actors = { t0_delete_b, t1_count }, .post = post_counted,
          .deaths = 2, .preemptions = 2, .full_preemptions = 3 },
        { .name = "stood-still", .pre = pre_stale, .actors = { t_nothing, t_nothing, t2_stand_still },
          .post = post_stood_still, .deaths = 1, .weak = true },
};
/* clang-format on */
