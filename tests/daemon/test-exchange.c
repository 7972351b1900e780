/* Handles on their way between processes that know nothing of each other, and handles of no object. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tslab.h>

#include "tests/util/ctl.h"
#include "tests/util/role.h"
#include "tests/util/seed.h"
#include "tests/util/test.h"

#define OBJECT_MAX 816U
#define N_REUSES 1000000U
#define N_RANDOM 1000000U

typedef enum Op { ALLOC, FREE, GET, READ, REUSE, GARBAGE } Op;

typedef struct Request {
        Op op;
        uint32_t size;
        uint64_t handle, owner;
} Request;

typedef struct Answer {
        int64_t r;
        uint64_t handle;
} Answer;

/* ---- in a worker */

static Answer do_alloc(struct tslab *pool, const Request *q) {
        Answer a = {};
        void *object;

        a.r = tslab_alloc(pool, q->size, TSLAB_EPOCH_CURRENT, &a.handle, &object);
        if (a.r == 0)
                pattern_fill(object, q->size, q->owner, a.handle);
        return a;
}

/* The size of the object there; -EILSEQ: its bytes are not the ones that were put there. */
static int64_t do_get(struct tslab *pool, const Request *q) {
        void *object;
        size_t size;
        int r = tslab_get(pool, q->handle, &object, &size);

        if (r < 0)
                return r;
        return size >= q->size && pattern_check(object, q->size, q->owner) ? (int64_t) size : -EILSEQ;
}

static int64_t do_read(struct tslab *pool, const Request *q) {
        _Alignas(8) uint8_t buffer[OBJECT_MAX];
        ssize_t n = tslab_read(pool, q->handle, buffer, sizeof(buffer));

        if (n < 0)
                return n;
        return (size_t) n >= q->size && pattern_check(buffer, q->size, q->owner) ? n : -EILSEQ;
}

/* How the handle is refused in all ways: -ESTALE. */
static int64_t refused(struct tslab *pool, uint64_t handle) {
        uint8_t buffer[OBJECT_MAX];
        void *object;
        size_t size;

        if (tslab_get(pool, handle, &object, &size) != -ESTALE)
                return -EEXIST;
        if (tslab_read(pool, handle, buffer, sizeof(buffer)) != -ESTALE)
                return -EEXIST;
        return tslab_free(pool, handle) == -ESTALE ? -ESTALE : -EEXIST;
}

/* Allocates and frees until the slot of the handle has been somebody else's so often; -ESTALE throughout. */
static Answer do_reuse(struct tslab *pool, const Request *q) {
        Answer a = {};
        uint32_t n = 0;

        for (uint64_t tries = 0; n < N_REUSES; tries++) {
                if (tries > 4 * (uint64_t) N_REUSES)
                        return (Answer){ .r = -ETIME, .handle = n };
                a = do_alloc(pool, q);
                if (a.r < 0)
                        return a;
                if ((uint32_t) a.handle == (uint32_t) q->handle) {
                        n++;
                        if ((n < 1000 || n % 1000 == 0) && refused(pool, q->handle) != -ESTALE)
                                return (Answer){ .r = -EEXIST, .handle = n };
                        if (n == N_REUSES)
                                return a; /* live, in the same slot */
                }
                a.r = tslab_free(pool, a.handle);
                if (a.r < 0)
                        return a;
        }
        return a;
}

/* Half of them entirely random; half near a handle that is live, and so with the pool's key in them. */
static int64_t do_garbage(struct tslab *pool, const Request *q, uint64_t seed) {
        for (uint32_t i = 0; i < N_RANDOM; i++) {
                uint64_t random = seed_next(&seed), handle = random;

                if (i % 2)
                        handle = (q->handle & ~UINT64_C(0x3fffffff)) | (random & 0x3fffffff);
                if (i % 8 == 1)
                        handle = q->handle ^ UINT64_C(1) << (random % 64);
                if (handle != q->handle && refused(pool, handle) != -ESTALE) {
                        fprintf(stderr, "%016llx was not refused\n", (unsigned long long) handle);
                        return -EEXIST;
                }
        }
        return 0;
}

static Answer answer(struct tslab *pool, const Request *q) {
        switch (q->op) {
        case ALLOC:
                return do_alloc(pool, q);
        case FREE:
                return (Answer){ .r = tslab_free(pool, q->handle) };
        case GET:
                return (Answer){ .r = do_get(pool, q) };
        case READ:
                return (Answer){ .r = do_read(pool, q) };
        case REUSE:
                return do_reuse(pool, q);
        case GARBAGE:
                return (Answer){ .r = do_garbage(pool, q, q->owner) };
        }
        return (Answer){ .r = -ENOSYS };
}

static int worker(const char *socket) {
        struct tslab *pool;
        Request request;
        int r = tslab_open(&pool, socket, NULL);

        if (r < 0) {
                fprintf(stderr, "open: %s\n", strerror(-r));
                return 1;
        }
        while (role_read(&request, sizeof(request))) {
                Answer a = answer(pool, &request);

                role_write(&a, sizeof(a));
        }
        tslab_close(pool);
        return 0;
}

/* ---- in the test */

typedef struct Fixture {
        DaemonFixture daemon;
        Role a, b;
} Fixture;

static Fixture fixture;

static int setup(void **state) {
        daemon_start(&fixture.daemon, (const char *[]){ "--size=64M", "--log-level=warning", NULL });
        role_start(&fixture.a, "worker", fixture.daemon.socket);
        role_start(&fixture.b, "worker", fixture.daemon.socket);
        *state = &fixture;
        return 0;
}

static int teardown(void **state) {
        assert_int_equal(role_wait(&fixture.a), 0);
        assert_int_equal(role_wait(&fixture.b), 0);
        ctl_check(&fixture.daemon);
        assert_int_equal(ctl_stat(&fixture.daemon, "live_objects"), 0);
        daemon_stop(&fixture.daemon);
        return 0;
}

static int64_t ask(Role *worker, Request request, uint64_t *ret_handle) {
        Answer a;

        role_tell(worker, &request, sizeof(request));
        role_hear(worker, &a, sizeof(a));
        if (ret_handle)
                *ret_handle = a.handle;
        return a.r;
}

static void assert_stale(Role *worker, uint64_t handle) {
        assert_int_equal(ask(worker, (Request){ .op = GET, .handle = handle, .size = 16 }, NULL), -ESTALE);
        assert_int_equal(ask(worker, (Request){ .op = READ, .handle = handle, .size = 16 }, NULL), -ESTALE);
        assert_int_equal(ask(worker, (Request){ .op = FREE, .handle = handle }, NULL), -ESTALE);
}

static void exchange(Role *a, Role *b, uint32_t size, uint64_t owner) {
        Request q = { .size = size, .owner = owner };
        int64_t class_size;

        q.op = ALLOC;
        assert_int_equal(ask(a, q, &q.handle), 0);
        assert_int_not_equal(q.handle, 0);
        q.op = GET;
        class_size = ask(b, q, NULL);
        assert_true(class_size >= size);
        q.op = READ;
        assert_int_equal(ask(b, q, NULL), class_size);
        q.op = FREE;
        assert_int_equal(ask(b, q, NULL), 0);
        assert_int_equal(ask(a, q, NULL), -ESTALE);
        assert_stale(a, q.handle);
        assert_stale(b, q.handle);
}

static void test_exchange_both_ways(void **state) {
        Fixture *f = *state;

        for (uint32_t size = 16; size <= OBJECT_MAX; size += 47) {
                exchange(&f->a, &f->b, size, size);
                exchange(&f->b, &f->a, size, size + 1);
        }
}

static void test_exchange_many_live(void **state) {
        Fixture *f = *state;
        static uint64_t handles[2000];
        Request q = { .size = 200 };

        for (size_t i = 0; i < 2000; i++) {
                q.op = ALLOC;
                q.owner = i;
                assert_int_equal(ask(&f->a, q, &handles[i]), 0);
        }
        for (size_t i = 0; i < 2000; i++) {
                q.owner = i;
                q.handle = handles[i];
                q.op = GET;
                assert_true(ask(&f->b, q, NULL) >= 200);
                q.op = FREE;
                assert_int_equal(ask(&f->b, q, NULL), 0);
        }
        for (size_t i = 0; i < 2000; i++)
                assert_int_equal(ask(&f->a, (Request){ .op = FREE, .handle = handles[i] }, NULL), -ESTALE);
}

static void test_exchange_after_a_million_reuses(void **state) {
        Fixture *f = *state;
        Request q = { .op = ALLOC, .size = 96, .owner = 1 };
        uint64_t old, new;

        assert_int_equal(ask(&f->a, q, &old), 0);
        /* By itself: in another's hands the slot could stay in a cache there. */
        assert_int_equal(ask(&f->a, (Request){ .op = FREE, .handle = old }, NULL), 0);
        q = (Request){ .op = REUSE, .size = 96, .owner = 2, .handle = old };
        assert_int_equal(ask(&f->a, q, &new), 0);
        assert_int_equal((uint32_t) new, (uint32_t) old);
        assert_stale(&f->a, old);
        assert_stale(&f->b, old);
        q = (Request){ .op = GET, .size = 96, .owner = 2, .handle = new };
        assert_true(ask(&f->b, q, NULL) >= 96);
        assert_int_equal(ask(&f->b, (Request){ .op = FREE, .handle = new }, NULL), 0);
}

static void test_exchange_other_pool(void **state) {
        Fixture *f = *state;
        Request q = { .op = ALLOC, .size = 64, .owner = 3 };
        uint64_t ours[64], theirs[64];
        DaemonFixture other;
        Role c;

        daemon_start(&other, (const char *[]){ "--size=64M", "--log-level=warning", NULL });
        role_start(&c, "worker", other.socket);
        for (size_t i = 0; i < 64; i++) {
                assert_int_equal(ask(&f->a, q, &ours[i]), 0);
                assert_int_equal(ask(&c, q, &theirs[i]), 0);
        }
        for (size_t i = 0; i < 64; i++) {
                assert_stale(&c, ours[i]);
                assert_stale(&f->a, theirs[i]);
        }
        for (size_t i = 0; i < 64; i++) {
                assert_int_equal(ask(&f->b, (Request){ .op = FREE, .handle = ours[i] }, NULL), 0);
                assert_int_equal(ask(&c, (Request){ .op = FREE, .handle = theirs[i] }, NULL), 0);
        }
        assert_int_equal(role_wait(&c), 0);
        daemon_stop(&other);
}

static void test_exchange_random_numbers_commit_nothing(void **state) {
        Request q = { .op = ALLOC, .size = 64, .owner = 4 };
        CtlMemory before, after;
        DaemonFixture huge;
        Role c;

        daemon_start(&huge, (const char *[]){ "--size=64G", "--log-level=warning", NULL });
        role_start(&c, "worker", huge.socket);
        assert_int_equal(ask(&c, q, &q.handle), 0);
        assert_stale(&c, q.handle ^ 1);
        before = ctl_memory_settled(&huge);
        assert_in_range(before.committed, 1, 16 << 20);
        assert_in_range(before.blocks, before.committed, 64 << 20);

        q.op = GARBAGE;
        q.owner = seed_get();
        assert_int_equal(ask(&c, q, NULL), 0);
        after = ctl_memory(&huge);
        assert_int_equal(after.committed, before.committed);
        assert_int_equal(after.blocks, before.blocks);

        q.op = GET;
        q.owner = 4;
        assert_int_equal(ask(&c, q, NULL), 64);
        assert_int_equal(role_wait(&c), 0);
        ctl_check(&huge);
        daemon_stop(&huge);
}

int main(int argc, char **argv) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_exchange_both_ways),
                cmocka_unit_test(test_exchange_many_live),
                cmocka_unit_test(test_exchange_after_a_million_reuses),
                cmocka_unit_test(test_exchange_other_pool),
                cmocka_unit_test(test_exchange_random_numbers_commit_nothing),
        };

        if (argc == 3)
                return worker(argv[2]);
        return cmocka_run_group_tests(tests, setup, teardown);
}
