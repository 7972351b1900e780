/* Requests that wait for an epoch that was closed, in a real loop. Deadlines lie an hour ahead, or are over. */
#include "daemon/peer/client-reaper.h"
#include "daemon/work/maintainer.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/log.h"
#include "daemon/work/reserve.h"
#include "daemon/task.h"
#include "proto/deadline.h"
#include "shm/cache/cache-hit.h"
#include "shm/epoch/epoch-close.h"
#include "shm/epoch/epoch-open.h"
#include "shm/epoch/epoch.h"
#include "tests/util/arena.h"
#include "tests/util/test.h"

#define ID 1
#define HOUR_USEC (3600 * PROTO_USEC_PER_SEC)

static Pool pool;
static Clients clients;
static Reserve *reserve;
static Maintainer *maintainer;
static ClientReaper *reaper;
static Options options;
static CloseWait asked;
static unsigned n_done, n_progress;

static void on_repaired(void *userdata) {
        client_reaper_repaired(reaper);
}

static int setup(void **state) {
        TestArena *t;

        if (test_arena_setup(state))
                return -1;
        t = *state;
        memset(&pool, 0, sizeof(pool));
        memset(&options, 0, sizeof(options));
        strcpy(options.pool, "test");
        pool.options = &options;
        pool.slice_max = UINT32_MAX;
        pool.arena = t->arena;
        shm_actor_init_daemon(&pool.actor, &pool.arena);
        pool.actor.process = t->control.process; /* so no freeze waits for stores */
        assert_true(sd_event_new(&pool.event) >= 0);
        assert_int_equal(task_queue_new(&pool.tasks, pool.event, TASK_TURN_USEC), 0);
        assert_int_equal(reserve_new(&reserve, &pool), 0);
        assert_int_equal(maintainer_new(&maintainer, &pool, reserve), 0);
        clients = (Clients){ .pool = &pool, .maintainer = maintainer };
        assert_int_equal(client_reaper_new(&reaper, &clients), 0);
        maintainer_set_on_repaired(maintainer, on_repaired, NULL);
        n_done = n_progress = 0;
        return 0;
}

static int teardown(void **state) {
        maintainer = maintainer_free(maintainer);
        reaper = client_reaper_free(reaper);
        reserve = reserve_free(reserve);
        pool.tasks = task_queue_free(pool.tasks);
        pool.event = sd_event_unref(pool.event);
        return test_arena_teardown(state);
}

static void on_done(CloseWait *w) {
        assert_ptr_equal(w, &asked);
        n_done++;
}

static void on_progress(CloseWait *w) {
        assert_ptr_equal(w, &asked);
        n_progress++;
}

/* Until the loop would asked. */
static void run_until_idle(void) {
        while (sd_event_run(pool.event, 0) > 0)
                ;
}

/* As long as it takes. */
static void run_until_done(unsigned n) {
        while (n_done < n)
                assert_true(sd_event_run(pool.event, UINT64_MAX) >= 0);
        run_until_idle();
        assert_int_equal(n_done, n);
}

/* Collects all that is logged from here on, until log_end(). */
static int log_fd, log_before;

static void log_begin(void) {
        log_set_level(LOG_DEBUG);
        log_fd = memfd_create("log", MFD_CLOEXEC);
        log_before = dup(2);
        assert_true(log_fd >= 0 && log_before >= 0 && dup2(log_fd, 2) == 2);
}

/* How often the text was logged. */
static unsigned log_count(const char *text) {
        static char buffer[65536];
        ssize_t size = pread(log_fd, buffer, sizeof(buffer) - 1, 0);
        unsigned n = 0;

        buffer[size > 0 ? size : 0] = 0;
        for (const char *at = buffer; (at = strstr(at, text)); at++)
                n++;
        return n;
}

static void log_end(void) {
        (void) dup2(log_before, 2);
        close(log_before);
}

static void run_until_logged(const char *text) {
        while (log_count(text) == 0)
                (void) sd_event_run(pool.event, UINT64_MAX);
}

static void start(CloseWait w) {
        asked = w;
        asked.epoch = ID;
        asked.on_done = on_done;
        assert_int_equal(shm_epoch_close(&pool.arena, ID, true), 0);
        maintainer_close(maintainer, ID, &asked);
}

static void test_done(void **state) {
        TestArena *t = *state;
        uint64_t handle = test_alloc(t, 64, ID);

        (void) test_alloc(t, 768, ID);
        assert_int_equal(shm_object_free(&t->actor, handle), 0);
        start((CloseWait){ .deadline_usec = UINT64_MAX });
        run_until_done(1);
        assert_int_equal(asked.reclaimed_size, SHM_SLAB_SIZE);
        assert_int_equal(asked.n_left, 1);
        assert_int_equal(asked.n_pending, 0);
        /* The next request does not count memory that went back before it. */
        start((CloseWait){ .deadline_usec = UINT64_MAX });
        run_until_done(2);
        assert_int_equal(asked.reclaimed_size, 0);
        assert_int_equal(asked.live->live_objects, 0);
        maintainer_close(maintainer, ID, NULL);
        run_until_idle();
        assert_int_equal(n_done, 2);
}

/* A thread inside a call, for as long as the caller gives it. */
static void test_pending(void **state) {
        TestArena *t = *state;

        shm_actor_enter(&t->actor);
        start((CloseWait){ .deadline_usec = proto_now_usec() + HOUR_USEC });
        run_until_idle();
        assert_int_equal(n_done, 0);
        assert_int_equal(asked.n_pending, 1);
        shm_actor_leave(&t->actor);
        run_until_done(1);
        assert_int_equal(asked.n_pending, 0);
        shm_actor_enter(&t->actor);
        start((CloseWait){});
        run_until_done(2);
        assert_int_equal(asked.n_pending, 1);
        shm_actor_leave(&t->actor);
}

/* Until no object remains, or for so long. */
static void test_drained(void **state) {
        TestArena *t = *state;
        uint64_t handle = test_alloc(t, 64, ID), later = proto_now_usec() + HOUR_USEC;

        start((CloseWait){ .deadline_usec = later, .wait_drained = true, .drained_deadline_usec = later });
        run_until_idle();
        assert_int_equal(n_done, 0);
        assert_int_equal(asked.n_left, 1);
        assert_int_equal(shm_object_free(&t->actor, handle), 0);
        maintainer_notify(maintainer);
        run_until_done(1);
        assert_int_equal(asked.n_left, 0);
        assert_int_equal(asked.reclaimed_size, SHM_SLAB_SIZE);
}

static void test_drained_late(void **state) {
        (void) test_alloc(*state, 64, ID);
        start((CloseWait){ .deadline_usec = proto_now_usec() + HOUR_USEC, .wait_drained = true });
        run_until_done(1);
        assert_int_equal(asked.n_left, 1);
        assert_int_equal(asked.n_pending, 0);
        start((CloseWait){ .wait_drained = true, .drained_deadline_usec = proto_now_usec() + 1000 });
        run_until_done(2);
        assert_int_equal(asked.n_left, 1);
}

/* The thread's time is over, that of the objects is not: a thread that is inside may add some. */
static void test_drained_pending(void **state) {
        TestArena *t = *state;

        shm_actor_enter(&t->actor);
        start((CloseWait){ .wait_drained = true, .drained_deadline_usec = proto_now_usec() + HOUR_USEC });
        run_until_idle();
        assert_int_equal(asked.n_left, 0);
        assert_int_equal(n_done, 0);
        shm_actor_leave(&t->actor);
        run_until_done(1);
}

static void test_count(void **state) {
        TestArena *t = *state;

        for (int i = 0; i < 20; i++)
                (void) test_alloc(t, 768, ID);
        pool.slice_max = 1;
        start((CloseWait){ .deadline_usec = UINT64_MAX, .count = true });
        run_until_done(1);
        assert_int_equal(asked.live->live_objects, 20);
        assert_int_equal(asked.n_left, 4);
        /* Begun anew, it counts anew. */
        maintainer_close(maintainer, ID, &asked);
        run_until_done(2);
        assert_int_equal(asked.live->live_objects, 20);
}

/* Ten times a second, while it lasts; and the owner hears of the end even so. */
static void test_progress(void **state) {
        TestArena *t = *state;
        uint64_t begin = proto_now_usec();

        shm_actor_enter(&t->actor);
        start((CloseWait){ .deadline_usec = begin + HOUR_USEC, .on_progress = on_progress });
        while (n_progress < 3)
                assert_true(sd_event_run(pool.event, UINT64_MAX) >= 0);
        assert_true(proto_now_usec() - begin >= 3 * PROTO_USEC_PER_SEC / 10);
        assert_int_equal(n_done, 0);
        maintainer = maintainer_free(maintainer);
        assert_int_equal(n_done, 1);
        assert_int_equal(asked.n_pending, 1);
        shm_actor_leave(&t->actor);
}

static void test_empty_caches(void **state) {
        TestArena *t = *state;
        uint64_t handle, number;

        t->actor.mode = SHM_CACHE_ON;
        assert_int_equal(shm_object_alloc(&t->actor, 64, 0, NULL, &handle, NULL), 0);
        assert_int_equal(shm_object_free(&t->actor, handle), 0);
        number = maintainer_empty_caches(maintainer);
        assert_false(maintainer_has_emptied(maintainer, number));
        run_until_idle();
        assert_true(maintainer_has_emptied(maintainer, number));
        assert_false(maintainer_has_emptied(maintainer, number + 1));
        assert_int_equal(shm_arena_cache(&t->arena, t->actor.id, 0, 0)->count, 0);
}

static void test_repair(void **state) {
        TestArena *t = *state;
        ShmRecordState woken, repaired[2];
        ShmActor dead;

        log_begin();
        for (int i = 0; i < 2; i++) {
                (void) shm_actor_init(&dead, &t->arena, 0, 9);
                (void) shm_record_mark_dead(&t->arena, dead.id);
                maintainer_notify(maintainer); /* does not look at records */
                run_until_idle();
                woken = shm_record_owner(&t->arena, dead.id).state;
                if (i == 0)
                        maintainer_repair(maintainer);
                else
                        maintainer_rescan(maintainer);
                run_until_idle();
                repaired[i] = shm_record_owner(&t->arena, dead.id).state;
        }
        maintainer_repair(maintainer);
        run_until_idle();
        log_end();
        assert_int_equal(woken, SHM_RECORD_DEAD);
        assert_int_equal(repaired[0], SHM_RECORD_UNUSED);
        assert_int_equal(repaired[1], SHM_RECORD_UNUSED);
        assert_int_equal(log_count("1 records of dead threads repaired"), 2);
        assert_int_equal(log_count("records of dead threads"), 2);
        close(log_fd);
}

/* Each revocation is told with its own objects, that an epoch is empty once. */
static void test_told(void **state) {
        TestArena *t = *state;
        uint32_t number = 0;

        for (int i = 0; i < 3; i++)
                (void) test_alloc(t, 64, ID);
        log_begin();
        (void) shm_epoch_revoke(&t->arena, ID, false);
        for (int i = 0; i < 2; i++) {
                maintainer_close(maintainer, ID, NULL);
                run_until_idle();
        }
        for (int i = 0; i < 5 && number != shm_epoch_number(ID, 2); i++)
                (void) shm_epoch_advance(&t->arena, &number);
        (void) test_alloc(t, 64, number);
        (void) shm_epoch_revoke(&t->arena, ID, false);
        maintainer_close(maintainer, ID, NULL);
        run_until_idle();
        log_end();
        assert_int_equal(log_count("epoch 1:1: 3 objects revoked"), 1);
        assert_int_equal(log_count("epoch 1:2: 1 objects revoked"), 1);
        assert_int_equal(log_count("objects revoked"), 2);
        assert_int_equal(log_count("revoked again"), 0);
        assert_int_equal(log_count("epoch 1:1 drained"), 1);
        assert_int_equal(log_count("epoch 1:2 drained"), 1);
        close(log_fd);
}

/* A slot in a thread's hand: the objects are told once, however many rounds it takes. */
static void test_told_again(void **state) {
        TestArena *t = *state;
        uint64_t handle = test_alloc(t, 64, ID);

        (void) test_alloc(t, 64, ID);
        assert_int_equal(shm_actor_note(&t->actor, handle, 0, 0), 0);
        assert_int_equal(shm_epoch_revoke(&t->arena, ID, false), 0);
        log_begin();
        maintainer_close(maintainer, ID, NULL);
        run_until_logged("revoked again: 1 slots are in threads' hands");
        (void) shm_actor_unnote(&t->actor, handle);
        run_until_logged("epoch 1:1 drained");
        log_end();
        assert_int_equal(log_count("epoch 1:1: 2 objects revoked"), 1);
        assert_int_equal(log_count("objects revoked"), 1);
        close(log_fd);
}

/* The epochs that are to drain are counted, and are worked at with no request. */
static void test_take_over(void **state) {
        TestArena *t = *state;
        uint64_t handle = test_alloc(t, 64, ID), other;
        ShmEpochInfo info;
        uint32_t n;

        t->actor.mode = SHM_CACHE_ON;
        assert_int_equal(shm_object_alloc(&t->actor, 64, 0, NULL, &other, NULL), 0);
        assert_int_equal(shm_object_free(&t->actor, other), 0);
        assert_int_equal(shm_epoch_revoke(&t->arena, ID, false), 0);
        t->actor.record->attention |= SHM_ATTENTION_FREEZE;
        shm_actor_intend(&pool.actor, shm_intent_other(SHM_INTENT_FLUSH, t->actor.id, 2));
        log_begin();
        n = maintainer_take_over(maintainer);
        log_end();
        assert_int_equal(n, 1);
        assert_int_equal(log_count("the last daemon of pool test ended inside an operation: 2 slots"), 1);
        close(log_fd);
        assert_int_equal(pool.actor.record->seq % 2, 0);
        run_until_idle();
        assert_false(shm_object_live(&t->arena, handle));
        assert_int_equal(shm_epoch_get(&t->arena, ID, &info), 0);
        assert_int_equal(info.state, SHM_EPOCH_DRAINED);
        assert_int_equal(info.flags, SHM_EPOCH_DRAIN);
        log_begin();
        (void) maintainer_take_over(maintainer);
        log_end();
        assert_int_equal(log_count("inside an operation"), 0);
        close(log_fd);
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, setup, teardown)

int main(void) {
        const struct CMUnitTest tests[] = {
                TEST(done),         TEST(pending),         TEST(drained),
                TEST(drained_late), TEST(drained_pending), TEST(count),
                TEST(progress),     TEST(empty_caches),    TEST(repair),
                TEST(told),         TEST(told_again),      TEST(take_over),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
