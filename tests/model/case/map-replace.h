/*
 * Puts by version during touches, puts and passes, with deaths. The time of the entry that they are to replace is over:
 * for REPLACE the key is then absent, while EXACT, which claims use, replaces the entry.
 */
#include "tests/model/cell-world.h"

static void pre_end(void) {
        init_entry();
        world.notes[0] = view_of(0).handle;
        map_ready(1);
}

/* It is over before. */
static void pre_over(void) {
        pre_end();
        set_clock(END);
}

static void t0_touch(void) {
        touch(0, 0, 2 * END);
}

static void t0_replace(void) {
        map_put(0, 0, 'x', SHM_MAP_REPLACE, 0);
}

static void t0_exact(void) {
        map_put(0, 0, 'x', SHM_MAP_EXACT, 0);
}

static void t1_replace_after(void) {
        set_clock(END);
        map_put(1, 0, 'y', SHM_MAP_REPLACE, 0);
}

static void t1_exact_after(void) {
        set_clock(END);
        map_put(1, 0, 'y', SHM_MAP_EXACT, 0);
}

static void t1_put(void) {
        map_put(1, 0, 'y', SHM_MAP_PUT, 0);
}

/* A touch that was done came before the put, of an entry whose time was not over then; or after it. */
static void post_touch_replace(unsigned dead) {
        int x = world.results[0], y = world.results[1];
        char a;

        map_repair(dead);
        a = map_get(0);
        if (dead == 0 && !(y == 0 && a == 'y') && !(y == -EAGAIN && x == -ENOENT && a == 0))
                model_fail("touch %d, replace %d, value %d", x, y, a);
}

static void post_touch_exact(unsigned dead) {
        int x = world.results[0];
        char a;

        map_repair(dead);
        a = map_get(0);
        if (!(dead & 1) && x != 0 && x != -ENOENT)
                model_fail("touch: %d", x);
        if (!(dead & 2) && (world.results[1] != 0 || a != 'y'))
                model_fail("put %d, value %d", world.results[1], a);
}

/* The pass takes the old entry alone. */
static void post_pass(unsigned dead) {
        int x = world.results[0];
        char a;

        map_repair(dead);
        a = map_get(0);
        if (!(dead & 1) && !(x == 0 && a == 'x') && !(x == -EAGAIN && a == 0))
                model_fail("put %d, value %d", x, a);
        if (a != 0 && a != 'x')
                model_fail("value %d", a);
}

static void post_put(unsigned dead) {
        int x = world.results[0];
        char a;

        map_repair(dead);
        a = map_get(0);
        if (!(dead & 1) && x != 0 && x != -EAGAIN)
                model_fail("exact put: %d", x);
        if (!(dead & 2) && (world.results[1] != 0 || a != 'y'))
                model_fail("put %d, value %d", world.results[1], a);
        map_check(1, view_of(0).is_over);
}

/* clang-format off */
static const ModelCase model_cases[] = {
        { .name = "replace-touch", .pre = pre_end, .actors = { t0_touch, t1_replace_after },
          .post = post_touch_replace, .deaths = 1, .preemptions = 3, .full_preemptions = 4, .weak = true },
        { .name = "exact-touch", .pre = pre_end, .actors = { t0_touch, t1_exact_after },
          .post = post_touch_exact, .deaths = 1, .preemptions = 3, .full_preemptions = 4, .weak = true },
        { .name = "replace-pass", .pre = pre_end, .actors = { t0_replace, t1_pass_after },
          .post = post_pass, .deaths = 1, .preemptions = 3, .full_preemptions = 4 },
        { .name = "exact-pass", .pre = pre_over, .actors = { t0_exact, t1_pass_after },
          .post = post_pass, .deaths = 1, .preemptions = 3, .full_preemptions = 4 },
        { .name = "exact-put", .pre = pre_over, .actors = { t0_exact, t1_put },
          .post = post_put, .deaths = 2, .preemptions = 3, .full_preemptions = 4 },
};
/* clang-format on */
