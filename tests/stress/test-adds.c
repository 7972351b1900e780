/*
 * Sums are exact over kills: processes add to counters and are killed by timers, at random moments. In memory that
 * outlives it, each process keeps an account of the adds that it began and of those that were confirmed. An add under
 * way at the kill counts once or not at all.
 */
#include <errno.h>
#include <signal.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <tslab_map.h>

#include "shm/arch/atomic.h"
#include "tests/util/parent.h"
#include "tests/util/process.h"
#include "tests/util/seed.h"
#include "tests/util/test.h"

#define N_ADDERS 4
#define N_KILLS 2000
#define N_KILLS_FULL 1000000
#define ARENA_BYTES (UINT64_C(1) << 20)
#define N_THREADS 16
/* From an adder's first add to its kill, at most. Mostly short, for many kills; some meet each other for long. */
#define LIFE_NS 60000
#define LIFE_LONG_NS 2000000

typedef struct Account {
        uint64_t n_begun, n_done;
} Account;

typedef struct Adder {
        _Alignas(4096) Account sum; /* adds to the counter of all */
        Account own; /* adds to the counter to which this process alone adds */
        struct tslab_map *map;
        char key;
        pid_t pid;
        uint32_t life_ns;
        int64_t value; /* its own counter's, when its last process was dead */
} Adder;

static int add_once(Adder *adder, Account *account, const char *key, int64_t *ret_value) {
        /* ORDER: rel, pairs with account_add(); the account is ahead of the counter. */
        shm_store_rel(&account->n_begun, account->n_begun + 1);
        CHECK(tslab_map_add(adder->map, key, 1, 1, 0, 0, ret_value) == 0);
        /* ORDER: rel, pairs with account_add(); the counter is ahead of the account. */
        shm_store_rel(&account->n_done, account->n_done + 1);
        return 0;
}

/* Counters of which others delete and make anew the slots, by key and by version. */
static int add_where_slots_change(Adder *adder, uint64_t i) {
        tslab_handle version;
        int64_t value;
        int r;

        CHECK(tslab_map_add(adder->map, "-", 1, 1, 0, 0, NULL) == 0);
        if (tslab_map_get(adder->map, "-", 1, &value, sizeof(value), &version) >= 0) {
                r = tslab_map_add_at(adder->map, version, 1, &value);
                CHECK(r == 0 || r == -ESTALE);
        }
        if (i % 3 == 0) {
                r = tslab_map_delete(adder->map, "-", 1);
                CHECK(r == 0 || r == -ENOENT);
        }
        return 0;
}

/* The process is killed then, wherever it is. */
static int arm(uint32_t ns) {
        struct itimerspec at = { .it_value.tv_nsec = (long) ns };
        struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL };
        timer_t timer;

        CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
        CHECK(timer_settime(timer, 0, &at, NULL) == 0);
        return 0;
}

static int adding_child(void *userdata) {
        Adder *adder = userdata;
        int64_t value;
        int r = 0;

        end_with_parent();
        for (uint64_t i = 0; r == 0; i++) {
                r = add_once(adder, &adder->sum, "s", &value);
                if (r == 0 && i == 0)
                        r = arm(adder->life_ns);
                if (r == 0)
                        r = add_once(adder, &adder->own, &adder->key, &value);
                /* Nobody else adds to it. */
                if (r == 0 && value != adder->value + (int64_t) adder->own.n_done)
                        r = __LINE__;
                if (r == 0)
                        r = add_where_slots_change(adder, i);
        }
        return r;
}

static void adder_start(Adder *adder, uint64_t *random) {
        adder->sum = adder->own = (Account){};
        adder->life_ns = 1 + seed_below(random, seed_below(random, 8) == 0 ? LIFE_LONG_NS : LIFE_NS);
        adder->pid = test_child_start(TEST_FORK, adding_child, adder);
}

/* The next adder that was killed: in the middle of anything, but not before its first add. */
static Adder *next_killed(Adder *adders) {
        int status;
        pid_t pid = waitpid(-1, &status, 0);
        Adder *adder = adders;

        assert_true(pid > 0 && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        while (adder->pid != pid)
                assert_true(++adder < adders + N_ADDERS);
        return adder;
}

static void account_add(Account *total, const Account *account) {
        assert_in_range(account->n_begun - account->n_done, 0, 1);
        total->n_begun += account->n_begun;
        total->n_done += account->n_done;
}

static int64_t counter_value(struct tslab_map *map, char key) {
        int64_t value = -1;

        assert_int_equal(tslab_map_add(map, &key, 1, 0, 0, 0, &value), 0);
        return value;
}

/* The process is dead: what it did to its own counter is settled. */
static void adder_settle(Adder *adder, Account *total) {
        int64_t value = counter_value(adder->map, adder->key);

        account_add(total, &adder->sum);
        assert_in_range(value - adder->value, adder->own.n_done, adder->own.n_begun);
        adder->value = value;
}

static void reap(struct tslab *pool) {
        int r;

        while ((r = tslab_reap(pool)) == -EBUSY)
                sched_yield();
        assert_true(r >= 0);
}

/* The full run takes several minutes. */
static void tell_progress(uint64_t n, uint64_t n_kills, const Account *total) {
        if (n % (N_KILLS_FULL / 100) == 0 && n_kills == N_KILLS_FULL)
                (void) fprintf(stderr, "%lu of %lu kills, %lu adds to one counter\n", n, n_kills,
                               total->n_done);
}

static void test_sums_are_exact_over_kills(void **state) {
        struct tslab_options options = { .size = sizeof(options),
                                         .arena_bytes = ARENA_BYTES,
                                         .n_threads = N_THREADS };
        uint64_t random = seed_get(), n_kills = seed_full() ? N_KILLS_FULL : N_KILLS;
        struct tslab_map *map;
        struct tslab *pool;
        Account total = {};
        Adder *adders;
        int64_t value;

        adders = mmap(NULL, N_ADDERS * sizeof(*adders), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                      -1, 0);
        assert_true(adders != MAP_FAILED);
        assert_int_equal(tslab_create(&pool, &options), 0);
        assert_int_equal(tslab_map_open(&map, pool, "m", NULL), 0);
        for (uint32_t i = 0; i < N_ADDERS; i++) {
                adders[i] = (Adder){ .map = map, .key = (char) ('0' + i) };
                adder_start(&adders[i], &random);
        }
        for (uint64_t n = 0; n < n_kills; n++) {
                Adder *adder = next_killed(adders);

                reap(pool);
                adder_settle(adder, &total);
                tell_progress(n + 1, n_kills, &total);
                if (n + N_ADDERS < n_kills)
                        adder_start(adder, &random);
        }
        value = counter_value(map, 's');
        printf("%lu kills, %lu adds to one counter; of %lu under way %ld counted\n", n_kills, total.n_done,
               total.n_begun - total.n_done, value - (int64_t) total.n_done);
        assert_in_range(value, total.n_done, total.n_begun);
        assert_true(total.n_begun - total.n_done <= n_kills && total.n_done >= n_kills);
        tslab_map_close(map);
        tslab_close(pool);
        munmap(adders, N_ADDERS * sizeof(*adders));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_sums_are_exact_over_kills),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
