/*
 * A client dies, or is stopped, at every moment of the real library's operations with a real tslabd: attaching,
 * opening, closing, threads that begin and end, slabs that run short. The moments, at which others could see a
 * difference, are those of tests/crash/moment.h. A child goes through the operation once, to find them. For each moment
 * the operation is done anew, and the child is killed there: once after the daemon has seen all that the child did, and
 * once before. All memory that it held must come back, and nothing of other processes may change. Or the child is
 * stopped there: others go on meanwhile, and wait for nothing, and then the child goes on, too.
 *
 * Every run tries some moments of each operation. With TSLAB_TEST_FULL=1 it tries all of them, and also goes an
 * instruction at a time, to see that there are no others. TSLAB_TEST_OPERATION=NAME: this operation alone.
 */
#include <tslab.h>

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "proto/deadline.h"
#include "shm/arena/client.h"
#include "shm/maintain/check.h"
#include "shm/slab/slab.h"
#include "shm/stats/stats.h"
#include "tests/crash/moment.h"
#include "tests/crash/world-client.h"
#include "tests/util/daemon-fixture.h"
#include "tests/util/role.h"
#include "tests/util/seed.h"
#include "tests/util/test.h"

#define N_RECORDS 13 /* with the daemon's */
#define N_SLABS 128U
#define N_OBJECTS 30 /* in each class; every third of them goes again */
#define MOMENTS_MAX 8192U
#define N_TAKEN_MAX (N_SLABS * SHM_SLAB_SIZE / CLIENT_SCARCE)
#define N_USES 20 /* by others, of each class, while one stands still */
#define CASE_SECONDS 120 /* a call that does not wait takes less than a hundredth of it */
#define KILLS_SHORT 6
#define STOPS_SHORT 2

typedef enum Fate {
        KILLED_SEEN, /* and the daemon has seen all that it did */
        KILLED_UNSEEN, /* the daemon sees its last steps only when it is gone */
        KILLED_ZOMBIE, /* the same, but its parent does not wait for it */
        STOPPED,
        STOPPED_CLOSED, /* the current epoch is closed meanwhile */
        N_FATES,
} Fate;

typedef struct Object {
        tslab_handle handle;
        uint32_t size;
} Object;

/* The state that must be restored when a child is gone. */
typedef struct State {
        uint64_t clients[N_RECORDS], heads[N_RECORDS];
        uint32_t tags[N_SLABS][SHM_SLOTS_MAX];
        uint64_t n_cached;
        unsigned n_own_fds, n_other_fds;
} State;

typedef struct Run {
        const ClientOperation *client;
        DaemonFixture daemon;
        RawClient self; /* looks, and takes the free slots */
        ProtoCall *control;
        Role other;
        World world; /* a forked child: its pool is the parent's */
        Trace trace;
        Object objects[CLIENT_N_CLASSES * N_OBJECTS];
        uint64_t taken[N_TAKEN_MAX];
        unsigned n_objects, n_taken, n_daemon_fds, n_children; /* this pool's */
        State before;
        Moment moments[MOMENTS_MAX];
        bool speaks[MOMENTS_MAX]; /* others have been told something there, or memory was made */
        unsigned n_moments, n_instructions;
        Walk walk;
        Moment moment;
        Fate fate;
        bool past; /* that moment was not met */
        unsigned n[N_FATES], n_past, n_orphans;
} Run;

static Run run;

/* ---- the other client, in a process of its own */

enum { OTHER_USE = 'u', OTHER_OPEN = 'o', OTHER_CLOSE = 'c', OTHER_CLOSE_CURRENT = 'C' };

static int open_again(void) {
        struct tslab *pool;
        int r;

        r = client_open(&pool);
        if (r)
                return r;
        r = client_use(pool);
        (void) tslab_close(pool);
        return r;
}

static int close_reserved(struct tslab *pool) {
        tslab_handle handle;
        uint32_t epoch;
        int r;

        r = tslab_epoch_reserve(pool, "other", &epoch);
        if (r == 0)
                r = tslab_alloc(pool, 64, epoch, &handle, NULL);
        if (r == 0)
                r = tslab_epoch_close(pool, epoch, 0);
        return r ?: tslab_free(pool, handle);
}

static int close_current(struct tslab *pool) {
        tslab_handle handle;
        uint32_t epoch;
        int r;

        r = tslab_epoch_current(pool, &epoch);
        if (r == 0)
                r = tslab_alloc(pool, 64, epoch, &handle, NULL);
        if (r == 0)
                r = tslab_epoch_advance(pool, NULL);
        if (r == 0)
                r = tslab_epoch_close(pool, epoch, 0);
        return r ?: tslab_free(pool, handle);
}

static int use_often(struct tslab *pool) {
        int r = 0;

        for (int i = 0; r == 0 && i < N_USES; i++)
                r = client_use(pool);
        return r;
}

static int be_other(void) {
        struct tslab *pool;
        char what;
        int r;

        r = client_open(&pool);
        role_write(&r, sizeof(r));
        while (r == 0 && role_read(&what, sizeof(what))) {
                r = what == OTHER_USE     ? use_often(pool)
                    : what == OTHER_OPEN  ? open_again()
                    : what == OTHER_CLOSE ? close_reserved(pool)
                                          : close_current(pool);
                role_write(&r, sizeof(r));
        }
        (void) tslab_close(pool);
        return r != 0;
}

/* ---- messages of failures */

static const char *const fates[] = {
        "killed, as the daemon had seen it", "killed before the daemon saw it",
        "killed and not waited for",         "stopped",
        "stopped, its epoch closed",
};

static void complain(const char *text) {
        print_error("%s, %s at %u.%u: %s\n", run.client->operation.name, fates[run.fate], run.moment.n_calls,
                    run.moment.n_writes, text);
}

#define EXPECT(_condition, _text)                                                                            \
        do {                                                                                                 \
                if (!(_condition)) {                                                                         \
                        complain(_text);                                                                     \
                        fail();                                                                              \
                }                                                                                            \
        } while (0)

static void on_alarm(int signal) {
        static const char text[] = "\nsomebody waits, beside: ";

        (void) signal;
        (void) !write(2, text, sizeof(text) - 1);
        (void) !write(2, run.client->operation.name, strlen(run.client->operation.name));
        (void) !write(2, "\n", 1);
        abort();
}

static void ask_other(char what) {
        int r;

        role_tell(&run.other, &what, sizeof(what));
        role_hear(&run.other, &r, sizeof(r));
        if (r != 0)
                print_error("the other one, asked for '%c': %s\n", what, strerror(r < 0 ? -r : r));
        EXPECT(r == 0, "another cannot go on");
}

/* ---- the pool's state */

static unsigned count_fds(pid_t pid) {
        struct dirent *entry;
        unsigned n = 0;
        char path[32];
        DIR *dir;

        snprintf(path, sizeof(path), "/proc/%d/fd", (int) pid);
        dir = opendir(path);
        assert_non_null(dir);
        while ((entry = readdir(dir)))
                n += entry->d_name[0] != '.';
        closedir(dir);
        return n;
}

/* The daemon has answered all earlier requests, the requests of new connections, too. */
static void let_daemon_see(void) {
        for (int i = 0; i < 4; i++)
                (void) proto_reply_free(daemon_stats(run.control));
}

static uint64_t count_free(void) {
        const ShmArena *arena = &run.self.arena;
        uint64_t n = 0;

        for (uint32_t slab = 0; slab < shm_arena_n_slabs_ever(arena); slab++)
                n += slab_word_state(shm_slab_word(arena, slab)) == SLAB_FREE;
        return n;
}

static uint64_t count_cached(void) {
        static ShmStats stats;

        memset(&stats, 0, sizeof(stats));
        shm_stats(&run.self.arena, &stats);
        return stats.cached_objects;
}

static void read_state(State *state) {
        const ShmArena *arena = &run.self.arena;

        memset(state, 0, sizeof(*state));
        for (unsigned i = 1; i < N_RECORDS; i++)
                state->heads[i] = arena->heads[i].word;
        for (unsigned i = 0; i < N_RECORDS; i++)
                state->clients[i] = arena->clients[i].word;
        memcpy(state->tags, arena->tags, shm_arena_n_slabs_ever(arena) * sizeof(arena->tags[0]));
        state->n_cached = count_cached();
        state->n_own_fds = count_fds(getpid());
        state->n_other_fds = count_fds(run.other.pid);
}

static bool has_leases(void) {
        ShmEpochInfo info;

        for (uint32_t i = 0; i < run.self.arena.n_epochs; i++)
                if (shm_epoch_get(&run.self.arena, i, &info) == 0 && info.owner != 0)
                        return true;
        return false;
}

/* Owned by none but the clients that were there before. */
static bool is_settled(void) {
        State now;

        (void) proto_reply_free(daemon_stats(run.control));
        read_state(&now);
        return memcmp(now.clients, run.before.clients, sizeof(now.clients)) == 0 &&
               memcmp(now.heads, run.before.heads, sizeof(now.heads)) == 0 &&
               count_fds(run.daemon.pid) == run.n_daemon_fds && !has_leases();
}

static void print_in_flight(void) {
        const ShmArena *arena = &run.self.arena;

        print_error("descriptors of the daemon: %u, before: %u\n", count_fds(run.daemon.pid),
                    run.n_daemon_fds);
        for (unsigned i = 0; i < N_RECORDS; i++) {
                if (arena->clients[i].word != run.before.clients[i])
                        print_error("client %u: %llx, before: %llx\n", i,
                                    (unsigned long long) arena->clients[i].word,
                                    (unsigned long long) run.before.clients[i]);
                if (i > 0 && arena->heads[i].word != run.before.heads[i])
                        print_error("record %u: %llx, before: %llx\n", i,
                                    (unsigned long long) arena->heads[i].word,
                                    (unsigned long long) run.before.heads[i]);
        }
        if (has_leases())
                print_error("an epoch is leased\n");
}

static unsigned count_new_records(void) {
        unsigned n = 0;

        for (unsigned i = 1; i < N_RECORDS; i++)
                n += run.before.heads[i] == 0 && run.self.arena.heads[i].word != 0;
        return n;
}

/* One that it left while it was frozen, the daemon gives back. */
static bool wait_records(void) {
        uint64_t deadline = proto_deadline(DAEMON_TIMEOUT_USEC);

        while (count_new_records() != run.client->n_records && proto_deadline_left(deadline) > 0)
                let_daemon_see();
        return count_new_records() == run.client->n_records;
}

static void wait_settled(void) {
        uint64_t deadline = proto_deadline(DAEMON_TIMEOUT_USEC);

        while (!is_settled()) {
                if (proto_deadline_left(deadline) > 0)
                        continue;
                print_in_flight();
                EXPECT(false, "the daemon does not come to an end with it");
        }
}

/* ---- the properties that must hold */

static void expect_clean(bool at_rest) {
        ShmCheck c;

        assert_int_equal(shm_check(&run.self.arena, &c), 0);
        if (c.lost_slots + c.doubled_slots == 0 && (!at_rest || c.problems + c.in_flight_slots == 0))
                return;
        for (size_t i = 0; i < c.n_texts; i++)
                print_error("%s\n", c.texts[i]);
        print_error("%d lost, %d doubled, %d in flight, %d hints\n", (int) c.lost_slots,
                    (int) c.doubled_slots, (int) c.in_flight_slots, (int) c.wrong_hints);
        EXPECT(false, "the arena is not clean");
}

static void expect_objects(void) {
        for (unsigned i = 0; i < run.n_objects; i++) {
                const Object *o = &run.objects[i];
                void *object;

                EXPECT(tslab_get(run.world.pool, o->handle, &object, NULL) == 0,
                       "an object of its parent is gone");
                EXPECT(pattern_check(object, o->size, i), "an object of its parent has changed");
        }
}

/* Objects that are new: they become nobody's, and are freed. */
static int free_new(void) {
        ShmArena *arena = &run.self.arena;
        int n = 0;

        for (uint32_t slab = 0; slab < shm_arena_n_slabs_ever(arena); slab++)
                for (uint32_t i = 0; i < SHM_SLOTS_MAX; i++) {
                        uint32_t now = arena->tags[slab].tag[i], old = run.before.tags[slab][i];

                        EXPECT(!(old & 1) || now == old, "an object is gone");
                        if ((old & 1) || !(now & 1))
                                continue;
                        assert_int_equal(shm_object_free(&run.self.actor,
                                                         shm_handle_make(arena->key, slot_id(slab, i), now)),
                                         0);
                        n++;
                }
        return n;
}

/* ---- a pool, its clients, and their objects */

static void make_objects(void) {
        static const uint32_t sizes[] = CLIENT_CLASSES;
        tslab_handle spare[CLIENT_N_CLASSES * N_OBJECTS];
        unsigned n_spare = 0;
        uint32_t epoch;
        void *object;

        assert_int_equal(tslab_epoch_reserve(run.world.pool, "parent", &epoch), 0);
        for (unsigned i = 0; i < CLIENT_N_CLASSES * N_OBJECTS; i++) {
                Object *o = &run.objects[run.n_objects];

                o->size = sizes[i / N_OBJECTS];
                assert_int_equal(tslab_alloc(run.world.pool, o->size, epoch, &o->handle, &object), 0);
                pattern_fill(object, o->size, run.n_objects, i);
                if (i % 3 == 0)
                        spare[n_spare++] = o->handle;
                else
                        run.n_objects++;
        }
        for (unsigned i = 0; i < n_spare; i++)
                assert_int_equal(tslab_free(run.world.pool, spare[i]), 0);
}

static unsigned count_daemon_fds(void) {
        unsigned n = UINT32_MAX;

        /* Now and then it has a file open for a moment. */
        for (int i = 0; i < 5; i++) {
                unsigned now;

                let_daemon_see();
                now = count_fds(run.daemon.pid);
                n = now < n ? now : n;
        }
        return n;
}

static void open_pool(void) {
        int r;

        daemon_start(&run.daemon, (const char *[]){ "--size=512K", "--threads=12", "--epochs=6",
                                                    "--classes=64,128,256", "--log-level=err", NULL });
        setenv("TSLAB_POOL", run.daemon.socket, 1);
        assert_int_equal(client_open(&run.world.pool), 0);
        raw_client_open(&run.self, &run.daemon, 0);
        run.control = daemon_connect(&run.daemon, 0);
        role_start(&run.other, "other");
        role_hear(&run.other, &r, sizeof(r));
        assert_int_equal(r, 0);
        assert_int_equal(run.self.arena.n_records, N_RECORDS);
        assert_int_equal(run.self.arena.n_slabs, N_SLABS);
        run.world = (World){ .arena = run.self.arena, .pool = run.world.pool };
        run.n_objects = 0;
        make_objects();
        ask_other(OTHER_USE);
        run.n_daemon_fds = count_daemon_fds();
}

static void close_pool(void) {
        for (unsigned i = 0; i < run.n_objects; i++)
                assert_int_equal(tslab_free(run.world.pool, run.objects[i].handle), 0);
        assert_null(tslab_close(run.world.pool));
        assert_int_equal(role_wait(&run.other), 0);
        WAIT_FOR(daemon_n_clients(run.control) == 1);
        expect_clean(true);
        run.control = proto_call_free(run.control);
        raw_client_close(&run.self);
        daemon_stop(&run.daemon);
        run.n_children = 0;
}

/* ---- slabs that are short */

static void take(void) {
        assert_true(run.n_taken < N_TAKEN_MAX);
        assert_int_equal(shm_object_alloc(&run.self.actor, CLIENT_SCARCE, SHM_EPOCH_CURRENT, NULL,
                                          &run.taken[run.n_taken], NULL),
                         0);
        run.n_taken++;
}

static void free_taken(void) {
        while (run.n_taken > 0)
                assert_int_equal(shm_object_free(&run.self.actor, run.taken[--run.n_taken]), 0);
}

/* Slabs that were made once, and have no memory now. */
static void make_uncommitted(void) {
        while (shm_arena_n_slabs_ever(&run.self.arena) < N_SLABS)
                take();
        free_taken();
        (void) daemon_trim(run.control);
}

/* The count of free slabs may be off for a second, by slabs that a dead thread had not added yet. */
static void make_reserve(void) {
        const ShmHeader *header = run.self.arena.header;

        if (run.client->reserve == CLIENT_RESERVE_ANY)
                return;
        if (run.client->reserve == CLIENT_RESERVE_NONE)
                make_uncommitted();
        shm_wake(&run.self.arena);
        WAIT_FOR(header->n_free.value == count_free() && count_free() > header->reserve_low.value);
}

static uint64_t low_mark(void) {
        return run.client->reserve == CLIENT_RESERVE_LOW ? run.self.arena.header->reserve_low.value : 0;
}

static bool has_reserve(void) {
        return run.client->reserve == CLIENT_RESERVE_ANY || count_free() > low_mark();
}

/* All slabs but the reserve, and of the last one all slots: partial slabs are used first. The daemon is held. */
static void take_slabs(void) {
        const ShmHeader *header = run.self.arena.header;
        uint64_t low = low_mark();

        if (run.client->reserve == CLIENT_RESERVE_ANY)
                return;
        EXPECT(count_free() > low, "too few slabs are free");
        while (count_free() > low)
                take();
        for (uint32_t i = 1; i < SHM_SLAB_SIZE / CLIENT_SCARCE; i++)
                take();
        EXPECT(count_free() == low, "other slabs were taken than is thought");
        EXPECT(low == 0 || header->n_free.value == low, "the count of free slabs is off");
}

/* ---- one child */

/* It stands in front of the operation, and the daemon too. */
static void begin_child(void) {
        alarm(CASE_SECONDS);
        if (run.client->reserve == CLIENT_RESERVE_NEVER && run.n_children > 0) {
                close_pool();
                open_pool();
        }
        run.n_children++;
        make_reserve();
        read_state(&run.before);
        trace_start(&run.trace, &run.world, &run.client->operation);
        let_daemon_see();
        daemon_hold(&run.daemon);
        while (!has_reserve()) { /* the daemon raised its mark, or gave slabs back, in between */
                daemon_release(&run.daemon);
                make_reserve();
                daemon_hold(&run.daemon);
        }
        take_slabs();
}

static void kill_child(void) {
        if (run.fate == KILLED_SEEN) {
                daemon_release(&run.daemon);
                let_daemon_see();
        }
        trace_kill_unreaped(&run.trace);
        if (run.fate != KILLED_ZOMBIE)
                trace_reap(&run.trace);
        if (run.fate != KILLED_SEEN)
                daemon_release(&run.daemon);
}

/* It is gone: all that it had is back. */
static void expect_as_before(bool cached, int least, int most) {
        State now;
        int n;

        wait_settled();
        expect_clean(false);
        if (run.fate == KILLED_ZOMBIE)
                trace_reap(&run.trace);
        free_taken();
        read_state(&now);
        EXPECT(now.n_own_fds == run.before.n_own_fds, "its parent has other descriptors than before");
        EXPECT(now.n_other_fds == run.before.n_other_fds, "another client has other descriptors than before");
        /* On a slow machine the caches of threads that were idle since have been emptied. */
        EXPECT(!cached || now.n_cached <= run.before.n_cached, "more is cached than was");
        expect_objects();
        n = free_new();
        EXPECT(n >= least && n <= most, "it has left too many objects, or too few");
        run.n_orphans += (unsigned) n;
        ask_other(OTHER_USE);
        expect_clean(true);
        alarm(0);
}

/* Where it is not met again, the child stands where the next call begins, or past the operation. */
static void go_to_moment(void) {
        const Moment *want = &run.moment, *at = &run.walk.moment;
        bool more = true;

        walk_begin(&run.walk, &run.trace, &run.self.arena, &run.daemon);
        while (more && at->n_calls <= want->n_calls &&
               (at->n_calls < want->n_calls || at->n_writes < want->n_writes))
                more = walk_next(&run.walk);
        run.past = at->n_calls != want->n_calls || at->n_writes != want->n_writes;
        run.n_past += run.past;
}

static void kill_at(void) {
        const Operation *o = &run.client->operation;

        begin_child();
        go_to_moment();
        kill_child();
        expect_as_before(true, o->least, o->most);
        run.n[run.fate]++;
}

/* The operations that must go on at the same time, and come to an end. */
static void do_all(void) {
        ask_other(OTHER_USE);
        ask_other(OTHER_OPEN);
        ask_other(OTHER_CLOSE);
        if (run.fate == STOPPED_CLOSED)
                ask_other(OTHER_CLOSE_CURRENT);
        ask_other(OTHER_USE);
        let_daemon_see();
        expect_clean(false);
}

static void stop_at(void) {
        const Operation *o = &run.client->operation;
        unsigned n_fds;
        int r;

        begin_child();
        n_fds = count_fds(run.trace.pid);
        go_to_moment();
        daemon_release(&run.daemon);
        do_all();
        walk_end(&run.walk);
        if (run.trace.shared->inside != 2)
                trace_finish(&run.trace);
        r = run.trace.shared->result;
        EXPECT(r == 0 || (run.fate == STOPPED_CLOSED && o->most > 0 && (r == -ESHUTDOWN || r == -ESTALE)),
               "it failed after that");
        EXPECT(count_fds(run.trace.pid) == n_fds + (unsigned) run.client->n_fds,
               "it has other descriptors than it should");
        EXPECT(wait_records(), "it has more records than it should, or fewer");
        if (run.client->n_records == 0)
                wait_settled();
        free_taken();
        EXPECT(trace_end(&run.trace) == 0, "it could not go on");
        expect_as_before(false, r == 0 ? o->most : 0, r == 0 ? o->most : 0);
        run.n[run.fate]++;
}

static void go_to(Moment moment, Fate fate) {
        run.moment = moment;
        run.fate = fate;
        if (fate < STOPPED)
                kill_at();
        else
                stop_at();
}

static bool speaks(const Walk *walk) {
        return walk->moment.n_calls > 0 && walk->moment.n_writes == 0 && !walk->in_call &&
               (walk->call == SYS_connect || walk->call == SYS_sendmsg || walk->call == SYS_write ||
                walk->call == SYS_fallocate);
}

/* Once to the end of it. */
static void find_moments(void) {
        const Operation *o = &run.client->operation;
        bool called = run.client->call == 0;

        run.fate = KILLED_SEEN;
        begin_child();
        walk_begin(&run.walk, &run.trace, &run.self.arena, &run.daemon);
        do {
                assert_true(run.n_moments < MOMENTS_MAX);
                run.speaks[run.n_moments] = speaks(&run.walk);
                run.moments[run.n_moments++] = run.walk.moment;
                called = called || (run.walk.in_call && run.walk.call == run.client->call);
        } while (walk_next(&run.walk));
        EXPECT(called, "it did not come to the system call that it is about");
        EXPECT(run.trace.shared->result == 0, "it failed");
        kill_child();
        expect_as_before(true, o->most, o->most);
}

/* That there are no others. */
static void step_through(void) {
        const Operation *o = &run.client->operation;
        unsigned n_missed;

        begin_child();
        walk_begin(&run.walk, &run.trace, &run.self.arena, &run.daemon);
        run.n_instructions = walk_step_through(&run.walk, &n_missed);
        EXPECT(n_missed == 0, "there are moments that are not found");
        kill_child();
        expect_as_before(true, o->most, o->most);
}

static void go_where_it_speaks(void) {
        for (unsigned i = 0; i < run.n_moments; i++)
                if (run.speaks[i]) {
                        go_to(run.moments[i], KILLED_SEEN);
                        go_to(run.moments[i], KILLED_UNSEEN);
                        go_to(run.moments[i], STOPPED);
                }
}

/* From one that is any, on. */
static void go_to_some(uint64_t *seed) {
        unsigned n = run.n_moments, at = seed_below(seed, n);

        for (unsigned i = 0; i < KILLS_SHORT + STOPS_SHORT; i++) {
                bool stops = i % (KILLS_SHORT / STOPS_SHORT + 1) == 0;

                go_to(run.moments[(at + i * n / (KILLS_SHORT + STOPS_SHORT)) % n],
                      stops ? STOPPED + (Fate) seed_below(seed, 2) : (Fate) (i % STOPPED));
        }
}

/* Goes also to moments that the first time did not have: which slabs are at hand is not always the same. */
static void go_to_all(Fate fate) {
        unsigned n_calls = run.moments[run.n_moments - 1].n_calls;

        for (Moment m = {}; m.n_calls <= n_calls; m = (Moment){ .n_calls = m.n_calls + 1 })
                do
                        go_to(m, fate);
                while (!run.past && m.n_calls % 2 == 0 && m.n_writes++ < MOMENTS_MAX);
}

static void test_operation(const ClientOperation *client, TraceShared *shared, uint64_t *seed) {
        const unsigned *n = run.n;

        memset(&run, 0, sizeof(run));
        run.client = client;
        run.trace.shared = shared;
        open_pool();
        find_moments();
        if (seed_full()) {
                step_through();
                for (Fate fate = 0; fate < N_FATES; fate++)
                        go_to_all(fate);
        } else {
                go_where_it_speaks();
                go_to_some(seed);
        }
        close_pool();
        printf("%-28s %4u moments; killed when seen %u, unseen %u, not waited for %u; stopped %u, with its "
               "epoch closed %u; past it %u; left %u objects\n",
               client->operation.name, run.n_moments, n[KILLED_SEEN], n[KILLED_UNSEEN], n[KILLED_ZOMBIE],
               n[STOPPED], n[STOPPED_CLOSED], run.n_past, run.n_orphans);
        if (run.n_instructions > 0)
                printf("%-28s %6u instructions, none of which is a moment besides\n", "", run.n_instructions);
        fflush(stdout);
        run.client = NULL;
}

/* The code that the run must have reached. */
static const char *const wanted[] = {
        "fork child's first alloc",
        "fork child that reconnects",
        "thread's first alloc",
        "thread's end",
        "open",
        "close",
        "close beside a thread",
        "alloc that wakes the daemon",
        "alloc that commits",
        "alloc that extends",
        "epoch lease",
};
#define N_WANTED (sizeof(wanted) / sizeof(wanted[0]))

static bool is_wanted(const char *name) {
        for (size_t i = 0; i < N_WANTED; i++)
                if (strcmp(wanted[i], name) == 0)
                        return true;
        return false;
}

/* Where it was, if it was not a check of its own that failed. */
static int teardown(void **state) {
        if (run.client)
                complain("that was the last one");
        return 0;
}

static void test_every_moment(void **state) {
        const char *only = getenv("TSLAB_TEST_OPERATION");
        TraceShared *shared = trace_shared_new();
        unsigned n = 0, n_wanted = 0;
        uint64_t seed = seed_get();

        unsetenv("TSLAB_CACHE");
        unsetenv("TSLAB_SAMPLE");
        (void) signal(SIGALRM, on_alarm);
        for (unsigned i = 0; i < n_client_operations; i++) {
                const char *name = client_operations[i].operation.name;

                if (only && strcmp(only, name) != 0)
                        continue;
                test_operation(&client_operations[i], shared, &seed);
                assert_true(run.n_moments > 2);
                n += run.n_moments;
                n_wanted += is_wanted(name);
        }
        printf("%u moments\n", n);
        assert_true(n > 0);
        if (!only)
                assert_int_equal(n_wanted, N_WANTED);
        munmap(shared, sizeof(*shared));
}

int main(int argc, char **argv) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_teardown(test_every_moment, teardown),
        };

        if (argc == 2 && strcmp(argv[1], "other") == 0)
                return be_other();
        return cmocka_run_group_tests(tests, NULL, NULL);
}
