/*
 * Histories of maps: processes call on few keys, are killed inside calls, epochs are revoked beneath them; then a
 * checker says whether some order of the calls explains all answers (tests/stress/history.h). `test-history [FAULT]`
 *
 * A fault is planted in what processes do, and the checker has to see it:
 *     torn-get         reads a value and its version apart
 *     blind-replace    ignores the version
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <tslab_map.h>

#include "tests/stress/history.h"

#define N_WORKERS 4
#define N_KEYS 6
#define N_OTHERS 12000 /* keys that stay: below the levels of the index that do, too */
#define CALLS_MAX 200000 /* a worker's, in a round */
#define ROUND_NS UINT64_C(1000000000)
#define REVOKED_MAX 100000
#define NO_RESULT INT32_MIN
#define LIFE_NS 2000000 /* a process's, at most */
#define KILLS_A_REVOCATION 4

#define CHECK(x) ((x) ? (void) 0 : fail(__LINE__, #x))

typedef struct Log {
        uint32_t n;
        Call calls[CALLS_MAX];
} Log;

typedef struct Shared {
        _Atomic uint64_t clock;
        uint64_t deadline_ns;
        Log logs[N_WORKERS];
} Shared;

static Shared *shared;
static struct tslab *pool;
static struct tslab_map *map;
static const char *fault;
static Revocation revoked[REVOKED_MAX];
static size_t n_revoked;

static void fail(int line, const char *what) {
        fprintf(stderr, "line %d: not so: %s\n", line, what);
        _exit(2);
}

static uint64_t now_ns(void) {
        struct timespec ts;

        clock_gettime(CLOCK_MONOTONIC, &ts);
        return (uint64_t) ts.tv_sec * 1000000000 + (uint64_t) ts.tv_nsec;
}

static uint64_t next(uint64_t *random) {
        *random = *random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        return *random >> 33;
}

static bool is_fault(const char *name) {
        return fault && strcmp(fault, name) == 0;
}

/* A value that a process got last, and its version. */
typedef struct Seen {
        uint64_t value;
        tslab_handle version;
} Seen;

static int32_t call_get(Call *c, Seen *seen) {
        tslab_handle version = 0;
        uint64_t value = 0;
        ssize_t n;

        n = tslab_map_get_version(map, &c->key, sizeof(c->key), &value, sizeof(value), &version);
        if (n == sizeof(value) && is_fault("torn-get")) {
                (void) sched_yield(); /* others change it meanwhile, on one processor, too */
                (void) tslab_map_get(map, &c->key, sizeof(c->key), &value, sizeof(value), NULL);
        }
        CHECK(n == sizeof(value) || n == -ENOENT);
        if (n < 0)
                value = 0;
        c->value = value;
        *seen = (Seen){ value, version };
        return n < 0 ? (int32_t) n : 0;
}

static int32_t call_do(Call *c, Seen *seen) {
        const void *key = &c->key, *value = &c->value;
        const size_t size = sizeof(c->value);

        switch (c->kind) {
        case CALL_GET:
                return call_get(c, seen);
        case CALL_PUT:
                return tslab_map_put(map, key, sizeof(c->key), value, size, c->epoch);
        case CALL_INSERT:
                return tslab_map_insert(map, key, sizeof(c->key), value, size, c->epoch);
        case CALL_UPDATE:
                return tslab_map_update(map, key, sizeof(c->key), value, size, c->epoch);
        case CALL_REPLACE:
                if (is_fault("blind-replace"))
                        return tslab_map_put(map, key, sizeof(c->key), value, size, c->epoch);
                return tslab_map_replace(map, key, sizeof(c->key), seen->version, value, size, c->epoch);
        case CALL_DELETE:
                return tslab_map_delete(map, key, sizeof(c->key));
        default:
                return tslab_map_delete_version(map, key, sizeof(c->key), seen->version);
        }
}

/* The log says that the call began before it did, and ended after it had: the clock is a full barrier. */
static void worker_call(Log *log, uint32_t worker, uint64_t *random, Seen seen[N_KEYS]) {
        static const uint8_t kinds[] = { CALL_GET,    CALL_GET,           CALL_GET,     CALL_PUT,
                                         CALL_INSERT, CALL_UPDATE,        CALL_REPLACE, CALL_REPLACE,
                                         CALL_DELETE, CALL_DELETE_VERSION };
        Call *c = &log->calls[log->n];
        uint32_t epoch;

        CHECK(tslab_epoch_current(pool, &epoch) == 0);
        *c = (Call){ .kind = kinds[next(random) % sizeof(kinds)],
                     .worker = (uint8_t) worker,
                     .key = (uint32_t) (next(random) % N_KEYS),
                     .epoch = epoch,
                     .result = NO_RESULT };
        c->value = history_value(worker, epoch, log->n + 1);
        c->expected = seen[c->key].value;
        if (c->kind == CALL_DELETE_VERSION && seen[c->key].version == 0)
                c->kind = CALL_DELETE;
        c->begin = atomic_fetch_add(&shared->clock, 1);
        log->n++;
        c->result = call_do(c, &seen[c->key]);
        c->end = atomic_fetch_add(&shared->clock, 1);
}

/* The process is killed at some moment that it knows nothing of. */
static void arm(uint64_t *random) {
        struct itimerspec at = { .it_value.tv_nsec = (long) (1000 + next(random) % LIFE_NS) };
        struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL };
        timer_t timer;

        /* A fault needs calls more than kills: on a busy machine, few come to pass before a time of the wall clock. */
        CHECK(timer_create(fault ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &event, &timer) == 0);
        CHECK(timer_settime(timer, 0, &at, NULL) == 0);
}

static void worker_run(uint32_t worker) {
        uint64_t random = worker * UINT64_C(77777) + now_ns();
        Log *log = &shared->logs[worker];
        Seen seen[N_KEYS] = {};

        arm(&random);
        while (log->n < CALLS_MAX && now_ns() < shared->deadline_ns)
                worker_call(log, worker, &random, seen);
        _exit(0);
}

static pid_t worker_start(uint32_t worker) {
        pid_t pid = fork();

        CHECK(pid >= 0);
        if (pid == 0)
                worker_run(worker);
        return pid;
}

/* It was killed, or not even inside a call. */
static void worker_end(Log *log) {
        Call *last = log->n > 0 ? &log->calls[log->n - 1] : NULL;

        if (!last || last->end != 0)
                return;
        last->died = 1;
        last->end = atomic_fetch_add(&shared->clock, 1);
}

static void epoch_revoke(void) {
        uint32_t old, new;

        if (n_revoked == REVOKED_MAX || tslab_epoch_current(pool, &old) != 0 ||
            tslab_epoch_advance(pool, &new) != 0)
                return;
        revoked[n_revoked++] = (Revocation){ old & 0xfffff, atomic_fetch_add(&shared->clock, 1) };
        (void) tslab_epoch_close(pool, old, TSLAB_CLOSE_REVOKE);
}

/* The next that ended. False: none is left. */
static bool wait_worker(const pid_t pids[N_WORKERS], uint32_t *ret_worker, bool *ret_killed) {
        int status;
        pid_t pid = waitpid(-1, &status, 0);

        if (pid < 0)
                return false;
        CHECK(WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL : WEXITSTATUS(status) == 0);
        for (*ret_worker = 0; pids[*ret_worker] != pid; ++*ret_worker)
                CHECK(*ret_worker < N_WORKERS - 1);
        *ret_killed = WIFSIGNALED(status);
        return true;
}

/* How many were killed. */
static unsigned run(void) {
        pid_t pids[N_WORKERS];
        unsigned n_kills = 0;
        bool killed;
        uint32_t w;

        for (w = 0; w < N_WORKERS; w++)
                pids[w] = worker_start(w);
        while (wait_worker(pids, &w, &killed)) {
                worker_end(&shared->logs[w]);
                (void) tslab_reap(pool);
                n_kills += killed;
                if (n_kills % KILLS_A_REVOCATION == 0)
                        epoch_revoke();
                if (killed && now_ns() < shared->deadline_ns)
                        pids[w] = worker_start(w);
        }
        return n_kills;
}

static int compare(const void *a, const void *b) {
        uint64_t x = ((const Call *) a)->begin, y = ((const Call *) b)->begin;

        return x < y ? -1 : x > y;
}

static size_t collect(uint32_t key, Call *calls) {
        size_t n = 0;

        for (uint32_t w = 0; w < N_WORKERS; w++)
                for (uint32_t i = 0; i < shared->logs[w].n; i++)
                        if (shared->logs[w].calls[i].key == key && shared->logs[w].calls[i].begin != 0)
                                calls[n++] = shared->logs[w].calls[i];
        qsort(calls, n, sizeof(*calls), compare);
        return n;
}

static void print_call(const Call *c) {
        printf("  worker %u %lu-%lu kind %u value %lx expected %lx: %d%s\n", c->worker,
               (unsigned long) c->begin, (unsigned long) c->end, c->kind, (unsigned long) c->value,
               (unsigned long) c->expected, c->result, c->died ? ", died" : "");
}

/* How many keys have a history that no order explains. */
static unsigned check(size_t *ret_n) {
        Call *calls = calloc((size_t) N_WORKERS * CALLS_MAX, sizeof(*calls));
        unsigned n_bad = 0;

        *ret_n = 0;
        for (uint32_t key = 0; key < N_KEYS; key++) {
                size_t n = collect(key, calls);
                const Call *bad = history_check(calls, n, revoked, n_revoked);

                *ret_n += n;
                n_bad += bad != NULL;
                for (const Call *c = bad; c && n_bad == 1 && c > calls && bad - c < 12; c--)
                        print_call(c);
        }
        free(calls);
        return n_bad;
}

static void setup(void) {
        struct tslab_options options = { .size = sizeof(options) };
        uint32_t reserved;

        memset(shared, 0, sizeof(*shared));
        shared->clock = 1;
        n_revoked = 0;
        CHECK(tslab_create(&pool, &options) == 0);
        CHECK(tslab_epoch_reserve(pool, "others", &reserved) == 0);
        CHECK(tslab_map_open(&map, pool, "history", NULL) == 0);
        for (uint64_t i = 0; i < N_OTHERS; i++)
                CHECK(tslab_map_put(map, &i, sizeof(i), "", 0, reserved) == 0);
}

/* True: some order explains all. */
static bool run_round(void) {
        unsigned n_kills, n_bad;
        size_t n;

        setup();
        shared->deadline_ns = now_ns() + ROUND_NS;
        n_kills = run();
        n_bad = check(&n);
        printf("%zu calls, %u kills, %zu revocations: %u of %u keys have a history that no order explains\n",
               n, n_kills, n_revoked, n_bad, N_KEYS);
        fflush(stdout);
        map = tslab_map_close(map);
        pool = tslab_close(pool);
        return n_bad == 0;
}

int main(int argc, char **argv) {
        unsigned n_rounds = getenv("TSLAB_TEST_FULL") ? 60 : 3;
        bool fine = true;

        fault = argc > 1 ? argv[1] : NULL;
        if (fault)
                n_rounds = 20; /* until it shows, which on a busy machine a round or three may not */
        shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        CHECK(shared != MAP_FAILED);
        for (unsigned i = 0; i < n_rounds && fine; i++)
                fine = run_round();
        return fault ? fine : !fine;
}
