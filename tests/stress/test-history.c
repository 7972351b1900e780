/*
 * Histories of maps: processes make calls on few keys and are killed inside calls, while epochs are revoked. Then a
 * checker finds out whether some order of the calls explains all answers (tests/stress/history.h). There are several
 * kinds of rounds: with revocations, in a map that evicts, with claims, with lifetimes, and with all but revocations.
 *
 * `test-history [FAULT]` plants a fault in the processes, which the checker has to see:
 *     torn-get         reads a value and its version apart
 *     blind-replace    ignores the version
 *     kept-get         returns the value that it got last, though the key was evicted since
 *     shared-claim     takes another process's claim for its own
 *     blind-fulfil     ignores the version of its claim
 *     long-life        puts with a longer lifetime than it says
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
#include "tests/util/seed.h"

#define N_WORKERS 4
#define N_KEYS 6
#define N_OTHERS 12000 /* keys that stay: below the levels of the index that do, too */
#define CALLS_MAX 200000 /* a worker's, in a round */
#define ROUND_NS UINT64_C(1000000000)
#define REVOKED_MAX 100000
#define NO_RESULT INT32_MIN
#define LIFE_NS 2000000 /* a process's, at most */
#define KILLS_A_REVOCATION 4
#define TTL_MS_MAX 30
#define CUT_NS 2000000 /* lifetimes are compared in milliseconds */
#define LONGER_MS 100 /* the planted fault */
#define LIMIT_BYTES 468 /* four entries */
#define WAIT_MS 20000 /* no claim stands so long: its process is killed, or gives it up */

#define CHECK(x) ((x) ? (void) 0 : fail(__LINE__, #x))

/* Rounds. */
typedef enum Kind {
        KIND_REVOKES = 1,
        KIND_EVICTS = 2,
        KIND_CLAIMS = 4,
        KIND_ENDS = 8, /* entries have lifetimes */
} Kind;

static const Kind round_kinds[] = { KIND_REVOKES, KIND_EVICTS, KIND_CLAIMS, KIND_ENDS,
                                    KIND_EVICTS | KIND_CLAIMS | KIND_ENDS };

typedef struct Log {
        uint32_t n;
        uint32_t n_processes;
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
static Kind kind;
static uint64_t round_seed;
static Revocation revoked[REVOKED_MAX];
static size_t n_revoked;

static void fail(int line, const char *what) {
        fprintf(stderr, "line %d: not so: %s\n", line, what);
        _exit(2);
}

/* The clock of lifetimes. Where a tick of the kernel comes late, other clocks run ahead of it by more than a tick. */
static uint64_t now_ns(void) {
        struct timespec ts;

        clock_gettime(CLOCK_MONOTONIC_COARSE, &ts);
        return (uint64_t) ts.tv_sec * 1000000000 + (uint64_t) ts.tv_nsec;
}

static bool is_fault(const char *name) {
        return fault && strcmp(fault, name) == 0;
}

/* A value that a process got last, and its version; and the claim that it has. */
typedef struct Seen {
        uint64_t value;
        tslab_handle version;
        tslab_handle claim;
} Seen;

static int32_t call_get(Call *c, Seen *seen) {
        tslab_handle version = 0;
        uint64_t value = 0;
        ssize_t n;

        n = tslab_map_get(map, &c->key, sizeof(c->key), &value, sizeof(value), &version);
        if (n == sizeof(value) && is_fault("torn-get")) {
                (void) sched_yield(); /* others change it meanwhile, on one processor, too */
                (void) tslab_map_get(map, &c->key, sizeof(c->key), &value, sizeof(value), NULL);
        }
        CHECK(n == sizeof(value) || n == -ENOENT);
        if (n < 0 && is_fault("kept-get") && seen->value != 0) {
                c->value = seen->value;
                return 0;
        }
        if (n < 0)
                value = 0;
        c->value = value;
        seen->value = value;
        seen->version = version;
        return n < 0 ? (int32_t) n : 0;
}

static int32_t call_put(const Call *c, uint32_t mode, tslab_handle version) {
        struct tslab_map_put_options options = {
                .size = sizeof(options),
                .epoch = c->epoch,
                .ttl_ms = c->ttl_ms + (is_fault("long-life") ? LONGER_MS : 0),
                .mode = mode,
                .version = version,
        };
        int r = tslab_map_put_with(map, &c->key, sizeof(c->key), &c->value, sizeof(c->value), &options);

        CHECK(r != -ENOMEM && r != -ENOSPC);
        return r;
}

static int32_t call_claim(Call *c, Seen *seen) {
        int r = tslab_map_claim(map, &c->key, sizeof(c->key), c->epoch, &c->claim);

        /* Claims count to the limit of a map, and are not evicted. */
        CHECK(r == 0 || r == -EBUSY || r == -EEXIST || (r == -ENOSPC && kind & KIND_EVICTS));
        if (r == -EBUSY && is_fault("shared-claim"))
                r = 0;
        if (r == 0)
                seen->claim = c->claim;
        return r;
}

/* Once only: afterwards the claim is no more. */
static tslab_handle take_claim(Seen *seen) {
        tslab_handle claim = seen->claim;

        seen->claim = 0;
        return claim;
}

static int32_t call_do(Call *c, Seen *seen) {
        switch (c->kind) {
        case CALL_GET:
                return call_get(c, seen);
        case CALL_PUT:
                return call_put(c, TSLAB_MAP_PUT, 0);
        case CALL_INSERT:
                return call_put(c, TSLAB_MAP_INSERT, 0);
        case CALL_UPDATE:
                return call_put(c, TSLAB_MAP_UPDATE, 0);
        case CALL_REPLACE:
                return is_fault("blind-replace") ? call_put(c, TSLAB_MAP_PUT, 0)
                                                 : call_put(c, TSLAB_MAP_REPLACE, seen->version);
        case CALL_FULFIL:
                return is_fault("blind-fulfil") ? call_put(c, TSLAB_MAP_PUT, 0)
                                                : call_put(c, TSLAB_MAP_REPLACE, take_claim(seen));
        case CALL_DELETE:
                return tslab_map_delete(map, &c->key, sizeof(c->key));
        case CALL_DELETE_VERSION:
                return tslab_map_delete_version(map, &c->key, sizeof(c->key), seen->version);
        case CALL_GIVE_UP:
                return tslab_map_delete_version(map, &c->key, sizeof(c->key), take_claim(seen));
        default:
                return call_claim(c, seen);
        }
}

/* Claims are fulfilled or given up soon, as what follows them. */
static uint8_t choose_kind(uint64_t *random, const Seen *seen) {
        static const uint8_t kinds[] = { CALL_GET,    CALL_GET,           CALL_GET,     CALL_PUT,
                                         CALL_INSERT, CALL_UPDATE,        CALL_REPLACE, CALL_REPLACE,
                                         CALL_DELETE, CALL_DELETE_VERSION };
        uint8_t chosen = kinds[seed_next(random) % sizeof(kinds)];

        if (seen->claim != 0)
                return seed_next(random) % 4 == 0 ? CALL_GIVE_UP : CALL_FULFIL;
        if ((kind & KIND_CLAIMS) && seed_next(random) % 4 != 0)
                return chosen == CALL_PUT || chosen == CALL_INSERT ? CALL_GET : CALL_CLAIM;
        return chosen == CALL_DELETE_VERSION && seen->version == 0 ? CALL_DELETE : chosen;
}

/* The log says that the call began before it did, and ended after it had: the clock is a full barrier. */
static void worker_call(Log *log, uint32_t worker, uint64_t *random, Seen seen[N_KEYS]) {
        uint32_t key = (uint32_t) (seed_next(random) % N_KEYS), epoch;
        Call *c = &log->calls[log->n];

        CHECK(tslab_epoch_current(pool, &epoch) == 0);
        *c = (Call){ .kind = choose_kind(random, &seen[key]),
                     .worker = (uint8_t) worker,
                     .process = log->n_processes,
                     .key = key,
                     .epoch = epoch,
                     .ttl_ms = kind & KIND_ENDS ? (uint32_t) (seed_next(random) % TTL_MS_MAX) : 0,
                     .value = history_value(worker, epoch, log->n + 1),
                     .expected = seen[key].value,
                     .claim = seen[key].claim,
                     .result = NO_RESULT };
        c->begin_ns = now_ns();
        c->begin = atomic_fetch_add(&shared->clock, 1);
        log->n++;
        c->result = call_do(c, &seen[key]);
        c->end_ns = now_ns();
        c->end = atomic_fetch_add(&shared->clock, 1);
        /* The first worker is not killed: it sees that waiting ends. */
        if (worker == 0 && c->kind == CALL_CLAIM && c->result == -EBUSY && !fault)
                CHECK(tslab_map_wait(map, &key, sizeof(key), c->claim, WAIT_MS) == 0);
}

/* The process is killed at some moment that it knows nothing of. */
static void arm(uint64_t *random) {
        struct itimerspec at = { .it_value.tv_nsec = (long) (1000 + seed_next(random) % LIFE_NS) };
        struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL };
        timer_t timer;

        /* A fault needs calls more than kills: on a busy machine, few come to pass before a time of the wall clock. */
        CHECK(timer_create(fault ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &event, &timer) == 0);
        CHECK(timer_settime(timer, 0, &at, NULL) == 0);
}

static void worker_run(uint32_t worker) {
        Log *log = &shared->logs[worker];
        uint64_t random = round_seed ^ ((uint64_t) log->n_processes << 8 | worker);
        Seen seen[N_KEYS] = {};

        if (worker != 0 || !(kind & KIND_CLAIMS))
                arm(&random);
        while (log->n < CALLS_MAX && now_ns() < shared->deadline_ns)
                worker_call(log, worker, &random, seen);
        for (uint32_t key = 0; key < N_KEYS; key++)
                if (seen[key].claim != 0)
                        (void) tslab_map_delete_version(map, &key, sizeof(key), seen[key].claim);
        _exit(0);
}

static pid_t worker_start(uint32_t worker) {
        pid_t pid;

        shared->logs[worker].n_processes++;
        pid = fork();

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
        last->end_ns = now_ns();
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
                if ((kind & KIND_REVOKES) && n_kills % KILLS_A_REVOCATION == 0)
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

/* Since when the claims of each process may be free: it was killed in its last call, or after it. */
static void log_end_claims(Log *log) {
        uint64_t free = UINT64_MAX;

        for (uint32_t i = log->n; i-- > 0;) {
                Call *c = &log->calls[i];

                if (i + 1 == log->n || c[1].process != c->process)
                        free = c->died ? c->begin : c->end;
                c->free = free;
        }
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
        printf("  worker %u %lu-%lu kind %u value %lx expected %lx claim %lx ttl %lu at %lu-%lu us: %d%s\n",
               c->worker, c->begin, c->end, c->kind, c->value, c->expected, c->claim, c->ttl_ms,
               c->begin_ns / 1000, c->end_ns / 1000, c->result, c->died ? ", died" : "");
}

/* How many keys have a history that no order explains. */
static unsigned check(size_t *ret_n) {
        const World world = { revoked, n_revoked, kind & KIND_EVICTS, CUT_NS };
        Call *calls = calloc((size_t) N_WORKERS * CALLS_MAX, sizeof(*calls));
        unsigned n_bad = 0;

        *ret_n = 0;
        for (uint32_t w = 0; w < N_WORKERS; w++)
                log_end_claims(&shared->logs[w]);
        for (uint32_t key = 0; key < N_KEYS; key++) {
                size_t n = collect(key, calls);
                const Call *bad = history_check(calls, n, &world);

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
        struct tslab_map_options map_options = {
                .size = sizeof(map_options),
                .limit_bytes = kind & KIND_EVICTS ? LIMIT_BYTES : 0,
                .evict = kind & KIND_EVICTS ? TSLAB_MAP_EVICT_SIEVE : TSLAB_MAP_EVICT_NEVER,
        };
        uint32_t reserved;

        memset(shared, 0, sizeof(*shared));
        shared->clock = 1;
        n_revoked = 0;
        CHECK(tslab_create(&pool, &options) == 0);
        CHECK(tslab_epoch_reserve(pool, "others", &reserved) == 0);
        CHECK(tslab_map_open(&map, pool, "history", &map_options) == 0);
        for (uint64_t i = 0; i < N_OTHERS && !(kind & KIND_EVICTS); i++)
                CHECK(tslab_map_put(map, &i, sizeof(i), "", 0, reserved) == 0);
}

/* True: some order explains all. */
static bool run_round(Kind of_round, uint64_t *seed) {
        unsigned n_kills, n_bad;
        size_t n;

        kind = of_round;
        round_seed = seed_next(seed);
        setup();
        shared->deadline_ns = now_ns() + ROUND_NS;
        n_kills = run();
        n_bad = check(&n);
        printf("kind %u: %zu calls, %u kills, %zu revocations: %u of %u keys have a history that no order explains\n",
               kind, n, n_kills, n_revoked, n_bad, N_KEYS);
        fflush(stdout);
        map = tslab_map_close(map);
        pool = tslab_close(pool);
        return n_bad == 0;
}

/* In rounds of which kind the fault shows; 0: in all. */
static Kind kind_of_fault(void) {
        return is_fault("kept-get")                                   ? KIND_EVICTS
               : is_fault("shared-claim") || is_fault("blind-fulfil") ? KIND_CLAIMS
               : is_fault("long-life")                                ? KIND_ENDS
               : fault                                                ? KIND_REVOKES
                                                                      : 0;
}

int main(int argc, char **argv) {
        const unsigned n_kinds = sizeof(round_kinds) / sizeof(round_kinds[0]);
        unsigned n_rounds = getenv("TSLAB_TEST_FULL") ? 30 * n_kinds : n_kinds;
        uint64_t seed = seed_get();
        bool fine = true;

        fault = argc > 1 ? argv[1] : NULL;
        if (fault)
                n_rounds = 20; /* until it shows, which on a busy machine a round or three may not */
        shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        CHECK(shared != MAP_FAILED);
        for (unsigned i = 0; i < n_rounds && fine; i++)
                fine = run_round(kind_of_fault() ?: round_kinds[i % n_kinds], &seed);
        return fault ? fine : !fine;
}
