/*
 * A storm on the owner of control work in a private pool: it is killed, stopped, or replaced by exec, while it does
 * that work. Workers put entries of a short life, far more than the pool takes, so that each put lives on memory of
 * entries that expired. None may be refused, no matter what happens to the owner. Only events that met the owner count.
 *
 * `test-owners [n]`, with n of them. TSLAB_TEST_FULL=1: 100,000.
 */
#include <tslab.h>
#include <tslab_map.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "libclient/pool/pool.h"
#include "proto/deadline.h"
#include "shm/arena/client.h"
#include "shm/maintain/check.h"
#include "shm/owner/owner.h"
#include "shm/stats/stats.h"
#include "tests/util/seed.h"
#include "tests/util/test.h"

#define N_WORKERS 3
#define N_THREADS_MAX 2 /* another thread than the owner may execute a program */
#define N_EVENTS 300
#define N_EVENTS_FULL 100000
#define ARENA_BYTES (UINT64_C(2) << 20)
#define N_KEYS 16384
#define TTL_MS 1
#define VALUE_MAX_TESTED 200
#define LARGE_MAX_TESTED 20000 /* each 1024th put */
#define CONTROL_EVERY 512 /* puts, and then a control call */
#define N_LEASED 40 /* objects in an epoch that is revoked */
#define BESIDE 100 /* puts of others while the owner stands still */
#define REAP_EVERY 16 /* attempts: it waits for threads in the middle of a call, which wait for a processor */
#define CALM_EVERY 25 /* stops, and then each of the others puts more than the pool takes */
#define CALM_PUTS 20000
#define GIVE_UP_USEC (120 * UINT64_C(1000000))
#define WATCHDOG_SECONDS 3600

typedef enum Fate { DIES, STOPS, EXECUTES, _FATE_N } Fate;

typedef struct Worker {
        volatile uint64_t n_puts[N_THREADS_MAX];
        volatile int refused; /* the error of a put */
        pid_t pid;
        pid_t other; /* a process that executes another program by now; 0: none */
        int executed; /* ends with the program */
        uint64_t random;
} Worker;

typedef struct Storm {
        struct tslab *pool;
        struct tslab_map *map;
        Worker *workers; /* shared */
        uint64_t random;
        unsigned n_met[_FATE_N], n_tried;
} Storm;

static Storm storm;
static unsigned n_asked; /* events; 0: as usual */

/* ---- Workers */

/* Control work of all kinds. Others may be at it. */
static void control_once(uint64_t *random) {
        tslab_handle handles[N_LEASED];
        uint32_t epoch;

        switch (seed_below(random, 4)) {
        case 0:
                (void) tslab_epoch_advance(storm.pool, NULL);
                break;
        case 1:
                (void) tslab_reap(storm.pool);
                break;
        default:
                if (tslab_epoch_lease(storm.pool, "lease", &epoch) < 0)
                        break;
                (void) tslab_alloc_batch(storm.pool, 100, epoch, handles, N_LEASED);
                (void) tslab_epoch_close(storm.pool, epoch, TSLAB_CLOSE_REVOKE);
        }
}

static int put_once(uint64_t *random) {
        const struct tslab_map_put_options options = { .size = sizeof(options),
                                                       .epoch = TSLAB_EPOCH_CURRENT,
                                                       .ttl_ms = TTL_MS };
        static const uint8_t value[LARGE_MAX_TESTED];
        uint32_t key = seed_below(random, N_KEYS);
        uint32_t size = seed_below(random, 1024) == 0 ? LARGE_MAX_TESTED : VALUE_MAX_TESTED;

        return tslab_map_put_with(storm.map, &key, sizeof(key), value, seed_below(random, size), &options);
}

static void put_for_ever(Worker *worker, unsigned thread) {
        uint64_t random = worker->random + thread;
        int r;

        for (;;) {
                r = put_once(&random);
                if (r < 0)
                        worker->refused = r;
                worker->n_puts[thread]++;
                if (seed_below(&random, CONTROL_EVERY) == 0)
                        control_once(&random);
        }
}

static void *second_thread(void *userdata) {
        put_for_ever(userdata, 1);
        return NULL;
}

static void on_execute(int signal) {
        (void) signal;
        (void) execl("/bin/sleep", "sleep", "100000", NULL);
        _exit(1);
}

static void work(unsigned i, pid_t parent) {
        const struct sigaction action = { .sa_handler = on_execute };
        Worker *worker = &storm.workers[i];
        pthread_t thread;

        (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
                _exit(1); /* the test failed before this process could ask to end with it */
        alarm(WATCHDOG_SECONDS);
        (void) !nice(10); /* the test shall not wait for a processor */
        if (sigaction(SIGUSR1, &action, NULL) < 0 ||
            (i % 2 == 1 && pthread_create(&thread, NULL, second_thread, worker) != 0))
                _exit(1);
        put_for_ever(worker, 0);
}

static void start(unsigned i) {
        Worker *worker = &storm.workers[i];
        int ends[2];
        pid_t parent = getpid(), pid;

        assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
        worker->random = seed_next(&storm.random);
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0)
                work(i, parent);
        worker->pid = pid;
        close(ends[1]);
        worker->executed = ends[0];
}

/* ---- The owner */

static void expect_none_refused(void) {
        for (unsigned i = 0; i < N_WORKERS; i++)
                if (storm.workers[i].refused != 0) {
                        print_error(
                                "after %u kills, %u stops, %u execs: a put of worker %u was refused: %s\n",
                                storm.n_met[DIES], storm.n_met[STOPS], storm.n_met[EXECUTES], i,
                                strerror(-storm.workers[i].refused));
                        fail();
                }
}

/* Which worker does control work. *ret_word: then. */
static unsigned find_owner(uint64_t *ret_word) {
        uint64_t deadline = proto_deadline(GIVE_UP_USEC);
        ShmClientInfo info;

        for (;;) {
                uint64_t word = shm_owner_load(&storm.pool->arena);

                if (shm_owner_state(word) == SHM_OWNER_HELD &&
                    shm_client_get(&storm.pool->arena, shm_owner_client(word), &info) == 0)
                        for (unsigned i = 0; i < N_WORKERS; i++)
                                if (storm.workers[i].pid == info.pid) {
                                        *ret_word = word;
                                        return i;
                                }
                if (proto_deadline_left(deadline) == 0)
                        print_error("no worker does control work, and its owner is %d\n",
                                    tslab_control_owner(storm.pool));
                assert_true(proto_deadline_left(deadline) > 0);
                sched_yield();
        }
}

/* Whether the process was still in that control work when it ended, or stopped. Counts. */
static bool met(uint64_t word, Fate fate) {
        bool in_it = shm_owner_load(&storm.pool->arena) == word;

        storm.n_tried++;
        storm.n_met[fate] += in_it;
        return in_it;
}

static void end_process(pid_t pid) {
        int status;

        assert_int_equal(kill(pid, SIGKILL), 0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
                print_error("a worker ended by itself, with status %#x\n", (unsigned) status);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void kill_worker(Worker *worker) {
        end_process(worker->pid);
        close(worker->executed);
}

static void reap(void) {
        int r;

        while ((r = tslab_reap(storm.pool)) == -EBUSY)
                sched_yield();
        assert_true(r >= 0);
}

/* The process goes on, as another program. */
static void replace(Worker *worker) {
        char c;

        if (worker->other != 0)
                end_process(worker->other);
        assert_int_equal(kill(worker->pid, SIGUSR1), 0);
        assert_int_equal(read(worker->executed, &c, 1), 0);
        close(worker->executed);
        worker->other = worker->pid;
}

static uint64_t puts_of(unsigned i) {
        return storm.workers[i].n_puts[0] + storm.workers[i].n_puts[1];
}

static uint64_t puts_of_others(unsigned owner) {
        uint64_t n = 0;

        for (unsigned i = 0; i < N_WORKERS; i++)
                n += i == owner ? 0 : puts_of(i);
        return n;
}

static void wait_a_moment(uint64_t deadline) {
        const struct timespec moment = { .tv_nsec = 100000 };

        if (proto_deadline_left(deadline) == 0)
                print_error("puts hang beside an owner that stands still\n");
        assert_true(proto_deadline_left(deadline) > 0);
        nanosleep(&moment, NULL);
}

/* The owner stands still, and nobody waits for it. */
static void go_on_beside(unsigned owner, bool calm) {
        uint64_t deadline = proto_deadline(GIVE_UP_USEC), begin[N_WORKERS], others = puts_of_others(owner);

        while (puts_of_others(owner) - others < BESIDE)
                wait_a_moment(deadline);
        for (unsigned i = 0; i < N_WORKERS; i++)
                begin[i] = puts_of(i);
        for (unsigned i = 0; calm && i < N_WORKERS; i++)
                while (i != owner && puts_of(i) - begin[i] < CALM_PUTS)
                        wait_a_moment(deadline);
}

static void stop(unsigned owner, uint64_t word) {
        Worker *worker = &storm.workers[owner];

        assert_int_equal(kill(worker->pid, SIGSTOP), 0);
        assert_int_equal(waitpid(worker->pid, NULL, WUNTRACED), worker->pid);
        if (met(word, STOPS))
                go_on_beside(owner, storm.n_met[STOPS] % CALM_EVERY == 0);
        if (seed_below(&storm.random, 2) == 0) {
                assert_int_equal(kill(worker->pid, SIGCONT), 0);
                return;
        }
        kill_worker(worker);
        start(owner);
}

static void meet_owner(void) {
        uint64_t word;
        unsigned owner = find_owner(&word);
        Worker *worker = &storm.workers[owner];

        switch (seed_below(&storm.random, _FATE_N)) {
        case DIES:
                kill_worker(worker);
                (void) met(word, DIES);
                start(owner);
                break;
        case STOPS:
                stop(owner, word);
                break;
        case EXECUTES:
                replace(worker);
                (void) met(word, EXECUTES);
                start(owner);
                break;
        }
        if (storm.n_tried % REAP_EVERY == 0)
                reap();
        expect_none_refused();
}

static unsigned n_met(void) {
        return storm.n_met[DIES] + storm.n_met[STOPS] + storm.n_met[EXECUTES];
}

static void blow(unsigned n_events) {
        uint64_t n_puts = 0;

        for (unsigned i = 0; i < N_WORKERS; i++)
                start(i);
        while (n_met() < n_events)
                meet_owner();
        for (unsigned i = 0; i < N_WORKERS; i++) {
                kill_worker(&storm.workers[i]);
                if (storm.workers[i].other != 0)
                        end_process(storm.workers[i].other);
                n_puts += puts_of(i);
        }
        expect_none_refused();
        printf("%u kills, %u stops and %u execs in control work, of %u; %llu puts\n", storm.n_met[DIES],
               storm.n_met[STOPS], storm.n_met[EXECUTES], storm.n_tried, (unsigned long long) n_puts);
}

/* ---- The pool */

static uint64_t n_live(void) {
        ShmStats stats;

        shm_stats(&storm.pool->arena, &stats);
        return stats.live_objects;
}

static void expect_whole(void) {
        ShmCheck check;

        assert_int_equal(shm_check(&storm.pool->arena, &check), 0);
        for (size_t i = 0; i < check.n_texts; i++)
                print_error("%s\n", check.texts[i]);
        assert_int_equal(check.problems + check.in_flight_slots + check.lost_slots + check.doubled_slots, 0);
}

static void open_map(void) {
        assert_int_equal(tslab_map_open(&storm.map, storm.pool, "owners", NULL), 0);
}

static void remove_map(void) {
        tslab_map_close(storm.map);
        assert_int_equal(tslab_map_remove(storm.pool, "owners"), 0);
        reap();
        assert_int_equal(tslab_drain(storm.pool), 0);
}

static void test_no_put_is_refused(void **state) {
        struct tslab_options options = { .size = sizeof(options),
                                         .arena_bytes = ARENA_BYTES,
                                         .n_threads = 64 };
        uint64_t n_before;

        (void) state;
        alarm(WATCHDOG_SECONDS);
        storm.random = seed_get();
        storm.workers = mmap(NULL, N_WORKERS * sizeof(Worker), PROT_READ | PROT_WRITE,
                             MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        assert_true(storm.workers != MAP_FAILED);
        assert_int_equal(tslab_create(&storm.pool, &options), 0);
        open_map();
        remove_map();
        n_before = n_live();
        open_map();
        blow(n_asked ?: seed_full() ? N_EVENTS_FULL : N_EVENTS);
        reap();
        remove_map();
        expect_whole();
        assert_int_equal(n_live(), n_before);
        tslab_close(storm.pool);
        munmap(storm.workers, N_WORKERS * sizeof(Worker));
}

int main(int argc, char **argv) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_no_put_is_refused),
        };

        n_asked = argc > 1 ? (unsigned) strtoul(argv[1], NULL, 0) : 0;
        return cmocka_run_group_tests(tests, NULL, NULL);
}
