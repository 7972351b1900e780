/*
 * Named roots: several threads make an object for a name at the same time, as when maps are created, and may die. Each
 * name has one entry, and names a live object or none; no object is left without a name. An entry whose name is unset
 * may be another name's.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "shm/arena/root.h"
#include "tests/model/map-world.h"

#define N_NAMES 2

static char names[N_NAMES][SHM_ROOT_NAME_SIZE];

static void pre(void) {
        world_init(2, 2, 0);
        (void) snprintf(names[0], sizeof(names[0]), "a");
        (void) snprintf(names[1], sizeof(names[1]), "b");
        world_tidy();
}

/* The first has an object. */
static void pre_named(void) {
        pre();
        map_must(
                shm_root_set(&world_arena, names[0], 0, world.objects[world_object(WORLD_SIZE_4, 0)].handle));
        world_tidy();
}

/*
 * As libclient/map-open.c does it.
 */
static int name_object(ShmActor *a, const char *name, uint64_t expected, uint64_t handle) {
        int r = shm_root_set(&world_arena, name, expected, handle);

        if (r)
                (void) shm_object_free(a, handle);
        (void) shm_actor_unnote(a, handle);
        return r;
}

static int make(ShmActor *a, const char *name, uint64_t expected) {
        const ShmPending pending = { .root = SHM_NOTE_NAMED_ROOT };
        uint64_t handle;
        int r;

        r = shm_object_alloc(a, WORLD_SIZE_4, 0, &pending, &handle, NULL);
        return r ?: name_object(a, name, expected, handle);
}

static void t0_make(void) {
        world.results[0] = make(world_actor(0), names[0], 0);
}

static void t1_make(void) {
        world.results[1] = make(world_actor(1), names[0], 0);
}

static void t1_make_other(void) {
        world.results[1] = make(world_actor(1), names[1], 0);
}

/* The thread that replaces an object frees it. */
static void replace(unsigned actor) {
        uint64_t before;

        world.results[actor] = -ENOENT;
        if (shm_root_get(&world_arena, names[0], &before) != 0)
                return;
        world.results[actor] = make(world_actor(actor), names[0], before);
        if (world.results[actor] == 0)
                (void) shm_object_free(world_actor(actor), before);
}

static void t0_replace(void) {
        replace(0);
}

static void t1_replace(void) {
        replace(1);
}

/* The first name is unset, and its object freed. Its entry is the next name's, or the name's own. */
static void t0_unset(void) {
        uint64_t before = 0;

        world.results[0] = shm_root_get(&world_arena, names[0], &before);
        if (world.results[0] == 0)
                world.results[0] = shm_root_set(&world_arena, names[0], before, 0);
        if (world.results[0] == 0)
                (void) shm_object_free(world_actor(0), before);
}

/* A name that another had the entry of is not mistaken for it. */
static void t1_get_other(void) {
        uint64_t handle;

        if (shm_root_get(&world_arena, names[1], &handle) == 0)
                model_fail("b has the handle of a");
}

/* How many names have an object. One that was replaced is freed by a thread that may have died: it is left. */
static unsigned check(unsigned dead, unsigned n_entries, unsigned n_replaced) {
        unsigned n = 0, n_taken = 0;
        uint64_t handle, live;

        map_repair(dead);
        live = map_check_slots();
        for (unsigned i = 0; i < N_NAMES; i++)
                if (shm_root_get(&world_arena, names[i], &handle) == 0) {
                        n++;
                        if (!shm_object_live(&world_arena, handle))
                                model_fail("%s names an object that was freed", names[i]);
                }
        for (unsigned i = 0; i < SHM_ROOTS_MAX; i++)
                n_taken += world_arena.header->roots[i].hash != 0;
        if (n_taken > n_entries)
                model_fail("%u entries are taken", n_taken);
        if (live < n || live > n + (dead ? n_replaced : 0))
                model_fail("%lu objects live, %u are named", (unsigned long) live, n);
        return n;
}

static void post_one(unsigned dead) {
        unsigned n = check(dead, 2, 0);

        bool neither = world.results[0] == -EAGAIN && world.results[1] == -EAGAIN; /* they kept in step */

        if (dead == 0 && n != !neither)
                model_fail("makes %d %d, %u are named", world.results[0], world.results[1], n);
        if (n != (unsigned) (world.results[0] == 0) + (world.results[1] == 0) && dead == 0)
                model_fail("makes %d %d, %u are named", world.results[0], world.results[1], n);
        if (dead == 0 && !neither && (world.results[0] == 0) == (world.results[1] == 0))
                model_fail("makes %d %d", world.results[0], world.results[1]);
}

static void post_two(unsigned dead) {
        unsigned n = check(dead, 2, 0);

        if ((!(dead & 1) && world.results[0] != 0) || (!(dead & 2) && world.results[1] != 0) ||
            (dead == 0 && n != 2))
                model_fail("makes %d %d, %u are named", world.results[0], world.results[1], n);
}

static void post_replaced(unsigned dead) {
        unsigned n = check(dead, 1, 2);

        if (n != 1 || (dead == 0 && world.results[0] != 0 && world.results[1] != 0))
                model_fail("replaces %d %d, %u are named", world.results[0], world.results[1], n);
}

static void post_unset(unsigned dead) {
        unsigned n = check(dead, 2, 1);

        if (dead == 0 && (n != 1 || world.results[0] != 0 || world.results[1] != 0))
                model_fail("unset %d, make %d, %u are named", world.results[0], world.results[1], n);
}

static void post_get(unsigned dead) {
        unsigned n = check(dead, 1, 1);

        if (dead == 0 && n != 0)
                model_fail("unset %d, %u are named", world.results[0], n);
}

/*
 * Two give one name to two objects, in different entries: the first of these is another name's, and is free by the time
 * that the second thread looks. Handles are plain values here.
 */
#define HANDLE_OTHER 5U

static void pre_entries(void) {
        pre();
        map_must(shm_root_set(&world_arena, names[1], 0, HANDLE_OTHER));
}

static int propose_and_confirm(unsigned actor) {
        ShmRootProposal proposal;
        int r = shm_root_propose(&world_arena, names[0], HANDLE_OTHER + 2 + actor, &proposal);

        return r ?: shm_root_confirm(&world_arena, &proposal);
}

static void t0_name(void) {
        world.results[0] = propose_and_confirm(0);
}

static void t1_unset_name(void) {
        map_must(shm_root_set(&world_arena, names[1], HANDLE_OTHER, 0));
        world.results[1] = propose_and_confirm(1);
}

static void post_entries(unsigned dead) {
        uint64_t handle;

        if (dead == 0 && world.results[0] == 0 && world.results[1] == 0)
                model_fail("both have named their object");
        for (unsigned i = 0; i < MODEL_ACTORS_MAX - 1; i++)
                if (!(dead >> i & 1) && world.results[i] == 0 &&
                    (shm_root_get(&world_arena, names[0], &handle) != 0 || handle != HANDLE_OTHER + 2 + i))
                        model_fail("actor %u has named its object, which the name does not find", i);
}

/* A word of an object that is filled before its name is set: whoever finds the object finds the word. */
#define object_word world_arena.header->expiry.unused[0]

static void t0_fill_name(void) {
        shm_store_rlx(&object_word, 1);
        world.results[0] = propose_and_confirm(0);
}

static void t1_get_filled(void) {
        uint64_t handle;

        if (shm_root_get(&world_arena, names[0], &handle) == 0 && shm_load_rlx(&object_word) == 0)
                model_fail("the object is found, and not what is in it");
}

static void post_nothing(unsigned dead) {
        (void) dead;
}

/* clang-format off */
static const ModelCase model_cases[] = {
        { .name = "make-make", .pre = pre, .actors = { t0_make, t1_make }, .post = post_one, .deaths = 2 },
        { .name = "make-make-other", .pre = pre, .actors = { t0_make, t1_make_other }, .post = post_two, .deaths = 2,
          .weak = true },
        { .name = "unset-make-other", .pre = pre_named, .actors = { t0_unset, t1_make_other }, .post = post_unset,
          .deaths = 2, .weak = true },
        { .name = "unset-get-other", .pre = pre_named, .actors = { t0_unset, t1_get_other }, .post = post_get,
          .deaths = 1 },
        { .name = "replace-replace", .pre = pre_named, .actors = { t0_replace, t1_replace }, .post = post_replaced,
          .deaths = 2, .weak = true },
        { .name = "name-name-entries", .pre = pre_entries, .actors = { t0_name, t1_unset_name }, .post = post_entries,
          .deaths = 1, .weak = true },
        { .name = "fill-get", .pre = pre, .actors = { t0_fill_name, t1_get_filled }, .post = post_nothing,
          .weak = true },
};
/* clang-format on */
