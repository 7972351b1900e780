/* Near caches, as their programs and the daemon that covers them call them. */
#include "tests/util/process.h"
#include "tests/util/test.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <tslab_near.h>
#include <unistd.h>

#define COVER_MS 60000

typedef struct Fixture {
        struct tslab *pool;
        struct tslab_near *near, *other; /* that which gives the cover, and a program's */
        char buffer[64];
        struct tslab_near_claim claim;
} Fixture;

static int setup(void **state) {
        static Fixture f;
        const struct tslab_options options = { .size = sizeof(options), .arena_bytes = 4 << 20 };

        f = (Fixture){};
        assert_int_equal(tslab_create(&f.pool, &options), 0);
        assert_int_equal(tslab_near_open(&f.near, f.pool, "near", NULL), 0);
        assert_int_equal(tslab_near_open(&f.other, f.pool, "near", NULL), 0);
        *state = &f;
        return 0;
}

static int teardown(void **state) {
        Fixture *f = *state;

        assert_null(tslab_near_close(f->other));
        assert_null(tslab_near_close(f->near));
        assert_null(tslab_close(f->pool));
        return 0;
}

static ssize_t get(Fixture *f, const char *key) {
        return tslab_near_get(f->other, key, strlen(key), f->buffer, sizeof(f->buffer), 0, &f->claim);
}

static int fill_by(Fixture *f, const char *server, const char *key, const char *value) {
        return tslab_near_fill(f->other, key, strlen(key), &f->claim, server, value,
                               value ? strlen(value) : 0, 0);
}

static int fill(Fixture *f, const char *key, const char *value) {
        return fill_by(f, NULL, key, value);
}

static int cover_for(Fixture *f, int64_t ms) {
        struct timespec now;

        (void) clock_gettime(CLOCK_BOOTTIME, &now);
        return tslab_near_cover(f->near, (uint64_t) (now.tv_sec * 1000000 + now.tv_nsec / 1000 + ms * 1000));
}

static void cover(Fixture *f) {
        assert_int_equal(tslab_near_begin(f->near, NULL), 0);
        assert_int_equal(cover_for(f, COVER_MS), 0);
}

static int begin(Fixture *f, const char *const *prefixes, size_t n_prefixes, const char *const *servers,
                 size_t n_servers) {
        const struct tslab_near_scope scope = { .size = sizeof(scope),
                                                .prefixes = prefixes,
                                                .n_prefixes = n_prefixes,
                                                .servers = servers,
                                                .n_servers = n_servers };

        return tslab_near_begin(f->near, &scope);
}

/* A copy that programs read. */
static void put_copy(Fixture *f, const char *key, const char *value) {
        assert_int_equal(get(f, key), -ENOENT);
        assert_int_not_equal(f->claim.copy, 0);
        assert_int_equal(fill(f, key, value), 0);
        assert_int_equal(get(f, key), value ? (ssize_t) strlen(value) : -ENODATA);
}

static uint32_t leased_epoch(Fixture *f) {
        struct tslab_epoch_info info = { .size = sizeof(info) };

        for (uint32_t id = 0; tslab_epoch_info(f->pool, id, &info) == 0; id++)
                if (info.state == TSLAB_EPOCH_OPEN && strncmp(info.label, "near", 4) == 0)
                        return info.epoch;
        fail_msg("no epoch is leased");
        return 0;
}

static void test_nothing_is_kept_without_a_cover(void **state) {
        Fixture *f = *state;

        assert_int_equal(get(f, "a"), -ENOENT);
        assert_int_equal(f->claim.copy, 0);
        assert_int_equal(fill(f, "a", "one"), 0);
        assert_int_equal(get(f, "a"), -ENOENT);
        assert_int_equal(cover_for(f, COVER_MS), -ESTALE);
}

static void test_copies(void **state) {
        Fixture *f = *state;

        cover(f);
        put_copy(f, "a", "one");
        assert_memory_equal(f->buffer, "one", 3);
        put_copy(f, "empty", "");
        put_copy(f, "absent", NULL);
        assert_int_equal(tslab_near_drop(f->near, "a", 1), 0);
        assert_int_equal(tslab_near_drop(f->near, "a", 1), 0);
        put_copy(f, "a", "two");
        assert_int_equal(tslab_near_get(f->other, "a", 1, f->buffer, 2, 0, &f->claim), -EMSGSIZE);
}

/* The bytes that stand for an absent key are no value. */
static void test_a_value_like_the_sign_of_absence(void **state) {
        static const char sign[] = "\x9d\x03tslab: absent\xf1";
        Fixture *f = *state;

        cover(f);
        for (int i = 0; i < 2; i++) {
                assert_int_equal(get(f, "a"), -ENOENT);
                assert_int_equal(tslab_near_fill(f->other, "a", 1, &f->claim, NULL, sign, sizeof(sign), 0),
                                 -EAGAIN);
        }
}

static void test_a_root_that_names_no_cover(void **state) {
        Fixture *f = *state;
        tslab_handle handle, root;
        void *object;

        cover(f);
        assert_int_equal(tslab_root_get(f->pool, "near.near", &root), 0);
        assert_int_equal(tslab_alloc(f->pool, 64, TSLAB_EPOCH_CURRENT, &handle, &object), 0);
        memset(object, 0x11, 64);
        assert_int_equal(tslab_root_set(f->pool, "near.near", root, handle), 0);
        assert_int_equal(get(f, "a"), -ENOENT);
        assert_int_equal(f->claim.copy, 0);
}

static void test_an_answer_behind_a_change_is_refused(void **state) {
        Fixture *f = *state;

        cover(f);
        assert_int_equal(get(f, "a"), -ENOENT);
        assert_int_equal(tslab_near_drop(f->near, "a", 1), 0);
        assert_int_equal(fill(f, "a", "old"), -EAGAIN);
        put_copy(f, "a", "new");
}

static void test_one_program_asks(void **state) {
        Fixture *f = *state;
        struct tslab_near_claim first, none = {};

        cover(f);
        assert_int_equal(get(f, "a"), -ENOENT);
        first = f->claim;
        assert_int_equal(get(f, "a"), -ENOENT);
        assert_int_equal(f->claim.copy, 0);
        assert_int_equal(tslab_near_give_up(f->other, "a", 1, &first), 0);
        assert_int_equal(tslab_near_give_up(f->other, "a", 1, &first), 0);
        assert_int_equal(tslab_near_give_up(f->other, "a", 1, &none), 0);
        put_copy(f, "a", "one");
}

/* A program that waits for another one's answer finds it, and does not ask. */
static void test_one_answer_for_all(void **state) {
        Fixture *f = *state;
        int status, asked[2];
        pid_t pid;
        char byte;

        cover(f);
        assert_int_equal(pipe(asked), 0);
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0)
                _exit(get(f, "a") != -ENOENT || write(asked[1], "a", 1) != 1 || usleep(50000) ||
                      fill(f, "a", "one"));
        assert_int_equal(read(asked[0], &byte, 1), 1);
        close(asked[0]);
        close(asked[1]);
        assert_int_equal(tslab_near_get(f->other, "a", 1, f->buffer, sizeof(f->buffer), COVER_MS, &f->claim),
                         3);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
}

/* No epoch is revoked by it. */
static void test_end_without_a_beginning(void **state) {
        Fixture *f = *state;
        tslab_handle handle;
        void *object;

        assert_int_equal(tslab_alloc(f->pool, 64, TSLAB_EPOCH_CURRENT, &handle, &object), 0);
        assert_int_equal(tslab_near_end(f->near), 0);
        assert_int_equal(tslab_free(f->pool, handle), 0);
}

/* No epoch is lost by it. */
static void test_begin_in_a_full_pool(void **state) {
        Fixture *f = *state;
        tslab_handle handle;
        void *object;

        for (size_t size = 4096; size >= 16; size /= 2)
                while (tslab_alloc(f->pool, size, TSLAB_EPOCH_CURRENT, &handle, &object) == 0)
                        ;
        for (int i = 0; i < 100; i++)
                assert_int_equal(tslab_near_begin(f->near, NULL), -ENOMEM);
}

static unsigned n_reserved(struct tslab *pool) {
        struct tslab_epoch_info info = { .size = sizeof(info) };
        unsigned n = 0;

        for (uint32_t id = 0; tslab_epoch_info(pool, id, &info) == 0; id++)
                n += info.state == TSLAB_EPOCH_OPEN && info.reserved;
        return n;
}

/* Another process is often at control work when the lease is to be given back: it is later. */
static void test_begin_in_a_full_pool_beside_control_work(void **state) {
        unsigned before, n = 0, n_busy = 0;
        Fixture *f = *state;
        pid_t pid;
        int r;

        test_begin_in_a_full_pool(state);
        before = n_reserved(f->pool);
        pid = fork();
        if (pid == 0) {
                for (int i = 0; i < 300000; i++)
                        (void) tslab_epoch_label(f->pool, TSLAB_EPOCH_CURRENT, "busy");
                _exit(0);
        }
        for (; waitpid(pid, NULL, WNOHANG) == 0; n++) {
                r = tslab_near_begin(f->near, NULL);
                n_busy += r == -EBUSY;
                assert_true(r == -ENOMEM || r == -EBUSY);
                assert_true(n_reserved(f->pool) <= before + 1);
        }
        print_message("%u of %u were busy\n", n_busy, n);
        assert_int_equal(tslab_near_begin(f->near, NULL), -ENOMEM);
        assert_int_equal(n_reserved(f->pool), before);
}

/* Its id has another epoch by then, and the end is none of that. */
static void test_end_after_the_epoch_was_revoked(void **state) {
        Fixture *f = *state;
        uint32_t epoch, other;

        cover(f);
        epoch = leased_epoch(f);
        assert_int_equal(tslab_epoch_close(f->pool, epoch, TSLAB_CLOSE_REVOKE), 0);
        for (int i = 0; i < 64; i++)
                if (tslab_epoch_lease(f->pool, "other", &other) == 0 && (other & 0xff) == (epoch & 0xff))
                        break;
        assert_int_equal(other & 0xff, epoch & 0xff);
        assert_int_equal(tslab_near_end(f->near), 0);
        assert_int_equal(tslab_alloc(f->pool, 64, other, &f->claim.copy, NULL), 0);
        cover(f);
        put_copy(f, "a", "one");
}

static void test_end_revokes_copies_and_claims(void **state) {
        Fixture *f = *state;
        struct tslab_near_claim claim;

        cover(f);
        put_copy(f, "a", "one");
        assert_int_equal(get(f, "b"), -ENOENT);
        claim = f->claim;
        assert_int_equal(tslab_near_end(f->near), 0);
        assert_int_equal(tslab_near_end(f->near), 0);
        assert_int_equal(get(f, "a"), -ENOENT);
        assert_int_equal(f->claim.copy, 0);
        cover(f);
        f->claim = claim;
        assert_int_equal(fill(f, "b", "old"), -EAGAIN);
        put_copy(f, "a", "two");
        put_copy(f, "b", "two");
}

static void test_a_cover_that_is_over(void **state) {
        Fixture *f = *state;

        cover(f);
        put_copy(f, "a", "one");
        assert_int_equal(tslab_near_cover(f->near, 0), 0);
        assert_int_equal(get(f, "a"), -ENOENT);
        assert_int_equal(cover_for(f, COVER_MS), 0);
        assert_int_equal(get(f, "a"), 3);
        assert_int_equal(cover_for(f, 1), 0);
        usleep(20000);
        assert_int_equal(get(f, "a"), -ENOENT);
}

/* The clocks of covers may be behind by two ticks of a slow kernel. A cover that may end within that has ended. */
static void test_a_cover_that_is_nearly_over(void **state) {
        Fixture *f = *state;

        cover(f);
        put_copy(f, "a", "one");
        assert_int_equal(cover_for(f, 20), 0);
        assert_int_equal(get(f, "a"), -ENOENT);
        assert_int_equal(f->claim.copy, 0);
}

static void test_a_cover_that_comes_late(void **state) {
        Fixture *f = *state;

        cover(f);
        put_copy(f, "a", "one");
        assert_int_equal(cover_for(f, -1), 0);
        assert_int_equal(get(f, "a"), -ENOENT);
        assert_int_equal(f->claim.copy, 0);
        assert_int_equal(tslab_near_cover(f->near, 1), 0);
        assert_int_equal(get(f, "a"), -ENOENT);
}

/* As where the last epoch is being revoked still: its claim fills nothing that the next cover is of. */
static void test_a_claim_of_an_earlier_epoch_fills_no_later_one(void **state) {
        Fixture *f = *state;
        struct tslab_near *next;
        struct tslab_near_claim claim;
        tslab_handle first;

        cover(f);
        assert_int_equal(get(f, "a"), -ENOENT);
        claim = f->claim;
        assert_int_equal(tslab_root_get(f->pool, "near.near", &first), 0);
        assert_int_equal(tslab_near_open(&next, f->pool, "near", NULL), 0);
        assert_int_equal(tslab_root_set(f->pool, "near.near", first, 0), 0);
        assert_null(tslab_near_close(f->other));
        f->other = next;
        assert_int_equal(tslab_near_open(&next, f->pool, "near", NULL), 0);
        assert_int_equal(tslab_near_begin(next, NULL), 0);
        assert_int_equal(tslab_near_cover(next, UINT64_MAX / 2000000), 0);
        f->claim = claim;
        (void) fill(f, "a", "old");
        assert_int_equal(get(f, "a"), -ENOENT);
        assert_null(tslab_near_close(next));
}

static void test_small_buffers(void **state) {
        Fixture *f = *state;

        cover(f);
        put_copy(f, "absent", NULL);
        put_copy(f, "a", "a value of more than twenty bytes");
        assert_int_equal(tslab_near_get(f->other, "absent", 6, f->buffer, 2, 0, &f->claim), -ENODATA);
        assert_int_equal(tslab_near_get(f->other, "a", 1, f->buffer, 2, 0, &f->claim), -EMSGSIZE);
        assert_int_equal(tslab_near_cover(f->near, 0), 0);
        assert_int_equal(tslab_near_get(f->other, "a", 1, f->buffer, 2, 0, &f->claim), -ENOENT);
        assert_int_equal(tslab_near_end(f->near), 0);
        cover(f);
        assert_int_equal(tslab_near_get(f->other, "a", 1, f->buffer, 2, 0, &f->claim), -ENOENT);
}

/* A large copy of an epoch that is not covered, in the map still, is none. */
static void test_a_large_copy_of_another_epoch(void **state) {
        Fixture *f = *state;
        struct tslab_map *map;
        char value[100] = {};

        assert_int_equal(tslab_map_open(&map, f->pool, "near", NULL), 0);
        cover(f);
        assert_int_equal(tslab_map_put(map, "a", 1, value, sizeof(value), TSLAB_EPOCH_CURRENT), 0);
        assert_int_equal(get(f, "a"), -ENOENT);
        assert_int_equal(tslab_map_put(map, "a", 1, value, 1, TSLAB_EPOCH_CURRENT), 0);
        assert_int_equal(get(f, "a"), -ENOENT);
        assert_null(tslab_map_close(map));
}

static void test_an_operator_closes_the_epoch(void **state) {
        Fixture *f = *state;

        for (uint32_t flags = 0; flags <= TSLAB_CLOSE_REVOKE; flags += TSLAB_CLOSE_REVOKE) {
                cover(f);
                put_copy(f, "a", "one");
                assert_int_equal(get(f, "b"), -ENOENT);
                assert_int_equal(tslab_epoch_close(f->pool, leased_epoch(f), flags), 0);
                assert_int_equal(fill(f, "b", "one"), -EAGAIN);
                assert_int_equal(cover_for(f, COVER_MS), -ESTALE);
                assert_int_equal(tslab_near_end(f->near), 0);
                assert_int_equal(get(f, "a"), -ENOENT);
        }
}

static void test_prefixes(void **state) {
        Fixture *f = *state;
        char large[TSLAB_NEAR_PREFIXES_SIZE + 1];
        const char *prefixes[] = { "p:", "qq" }, *too_large[] = { "p:", large };

        memset(large, 'x', sizeof(large));
        large[sizeof(large) - 1] = 0;
        assert_int_equal(begin(f, too_large, 2, NULL, 0), -E2BIG);
        assert_int_equal(begin(f, prefixes, 2, NULL, 0), 0);
        assert_int_equal(cover_for(f, COVER_MS), 0);
        put_copy(f, "p:", "one");
        put_copy(f, "p:a", "one");
        put_copy(f, "qqqq", "one");
        for (const char *const *key = (const char *const[]){ "p", "q", "", "xp:", "qp:", NULL }; *key;
             key++) {
                assert_int_equal(get(f, *key), -ENOENT);
                assert_int_equal(f->claim.copy, 0);
        }
}

/* Only servers that are heard fill copies. */
static void test_servers(void **state) {
        const char *servers[] = { "first", "second" }, *prefixes[] = { "a", "b" };
        const char *many[TSLAB_NEAR_SERVERS_MAX + 1];
        struct tslab_near_scope scope = { .size = 1 };
        Fixture *f = *state;

        for (size_t i = 0; i <= TSLAB_NEAR_SERVERS_MAX; i++)
                many[i] = "x";
        assert_int_equal(tslab_near_begin(f->near, &scope), -EINVAL);
        assert_int_equal(begin(f, NULL, 0, many, TSLAB_NEAR_SERVERS_MAX + 1), -E2BIG);
        assert_int_equal(begin(f, prefixes, 2, servers, 2), 0);
        assert_int_equal(cover_for(f, COVER_MS), 0);
        for (size_t i = 0; i < 4; i++) {
                assert_int_equal(get(f, "a"), -ENOENT);
                assert_int_not_equal(f->claim.copy, 0);
                assert_int_equal(fill_by(f, (const char *[]){ NULL, "", "third", "firs" }[i], "a", "old"),
                                 -EREMCHG);
        }
        assert_int_equal(get(f, "a"), -ENOENT);
        assert_int_equal(fill_by(f, "second", "a", "one"), 0);
        assert_int_equal(get(f, "a"), 3);
        assert_int_equal(get(f, "b"), -ENOENT);
        assert_int_equal(fill_by(f, "first", "b", NULL), 0);
        assert_int_equal(get(f, "b"), -ENODATA);
        assert_int_equal(get(f, "c"), -ENOENT);
        assert_int_equal(f->claim.copy, 0);
}

static void expect_last(Fixture *f, const char *key, const char *value) {
        size_t size;
        void *found;
        int r;

        r = tslab_near_last(f->other, key, strlen(key), &found, &size);
        assert_int_equal(r, value ? 0 : -ENOENT);
        if (r)
                return;
        assert_int_equal(size, strlen(value));
        assert_string_equal(found, value);
        free(found);
}

/* The copy goes, and the last value stays. */
static void evict(Fixture *f, const char *key) {
        struct tslab_map *map;

        assert_int_equal(tslab_map_open(&map, f->pool, "near", NULL), 0);
        (void) tslab_map_delete(map, key, strlen(key));
        assert_null(tslab_map_close(map));
}

static void test_last_values(void **state) {
        Fixture *f = *state;

        cover(f);
        put_copy(f, "before", "one");
        expect_last(f, "before", NULL);
        assert_int_equal(tslab_near_keep_last(f->other), 0);
        assert_int_equal(tslab_near_keep_last(f->other), 0);
        put_copy(f, "a", "one");
        put_copy(f, "empty", "");
        put_copy(f, "absent", NULL);
        for (int i = 0; i < 2; i++) { /* covered, and not */
                expect_last(f, "a", "one");
                expect_last(f, "empty", "");
                expect_last(f, "absent", NULL);
                expect_last(f, "before", NULL);
                assert_int_equal(tslab_near_end(f->near), 0);
        }
}

/* The giver has not opened the map of last values, and opened the near cache before that was made. */
static void test_a_change_drops_the_last_value(void **state) {
        Fixture *f = *state;

        cover(f);
        assert_int_equal(tslab_near_keep_last(f->other), 0);
        put_copy(f, "a", "one");
        put_copy(f, "b", "one");
        assert_int_equal(tslab_near_drop(f->near, "a", 1), 0);
        expect_last(f, "a", NULL);
        assert_int_equal(tslab_near_end(f->near), 0);
        assert_int_equal(tslab_near_drop(f->near, "b", 1), 0); /* heard, although nothing is covered */
        expect_last(f, "b", NULL);
}

/* The change came between the question and the answer, which was another server's, or came when nothing was covered. */
static void test_an_old_answer_is_no_last_value(void **state) {
        const char *servers[] = { "new" };
        Fixture *f = *state;

        assert_int_equal(begin(f, NULL, 0, servers, 1), 0);
        assert_int_equal(cover_for(f, COVER_MS), 0);
        assert_int_equal(tslab_near_keep_last(f->other), 0);
        for (int i = 0; i < 2; i++) { /* without a last value, and with one */
                evict(f, "a");
                assert_int_equal(get(f, "a"), -ENOENT);
                assert_int_equal(tslab_near_drop(f->near, "a", 1), 0);
                assert_int_equal(fill_by(f, "new", "a", "old"), -EAGAIN);
                expect_last(f, "a", NULL);
                assert_int_equal(get(f, "a"), -ENOENT);
                assert_int_equal(fill_by(f, "old", "a", "old"), -EREMCHG);
                expect_last(f, "a", NULL);
                assert_int_equal(get(f, "a"), -ENOENT);
                assert_int_equal(fill_by(f, "new", "a", "one"), 0);
                expect_last(f, "a", "one");
        }
        assert_int_equal(get(f, "b"), -ENOENT);
        assert_int_equal(tslab_near_end(f->near), 0);
        assert_int_equal(fill_by(f, "old", "b", "old"), -EAGAIN);
        expect_last(f, "b", NULL);
}

/* Answers without a claim. */
static void test_another_answer_ends_the_last_value(void **state) {
        Fixture *f = *state;

        cover(f);
        assert_int_equal(tslab_near_keep_last(f->other), 0);
        put_copy(f, "a", "one");
        put_copy(f, "b", "one");
        assert_int_equal(tslab_near_end(f->near), 0);
        assert_int_equal(get(f, "a"), -ENOENT);
        assert_int_equal(fill(f, "a", "one"), 0);
        expect_last(f, "a", "one");
        assert_int_equal(fill(f, "a", "two"), 0);
        expect_last(f, "a", NULL);
        assert_int_equal(get(f, "b"), -ENOENT);
        assert_int_equal(fill(f, "b", NULL), 0);
        expect_last(f, "b", NULL);
}

/* The engine gave no answer, so the value that was there stays, and others may ask. */
static void test_a_question_without_an_answer_leaves_the_last_value(void **state) {
        Fixture *f = *state;

        cover(f);
        assert_int_equal(tslab_near_keep_last(f->other), 0);
        put_copy(f, "a", "one");
        assert_int_equal(tslab_near_cover(f->near, 0), 0);
        assert_int_equal(cover_for(f, COVER_MS), 0);
        for (const char *const *key = (const char *const[]){ "a", "new", NULL }; *key; key++) {
                evict(f, *key);
                assert_int_equal(get(f, *key), -ENOENT);
                assert_int_not_equal(f->claim.copy, 0);
                assert_int_equal(tslab_near_give_up(f->other, *key, strlen(*key), &f->claim), 0);
                expect_last(f, *key, (*key)[0] == 'a' ? "one" : NULL);
        }
        put_copy(f, "new", "two");
        expect_last(f, "new", "two");
}

/* Once changes are heard again, or all keys have changed, values from before count no more. */
static void test_last_values_end_with_the_next_cover(void **state) {
        Fixture *f = *state;

        assert_int_equal(tslab_near_keep_last(f->other), 0);
        cover(f);
        put_copy(f, "a", "one");
        assert_int_equal(tslab_near_end(f->near), 0);
        expect_last(f, "a", "one");
        cover(f);
        expect_last(f, "a", NULL);
        put_copy(f, "a", "two");
        expect_last(f, "a", "two");
        assert_int_equal(tslab_near_flush(f->near), 0);
        expect_last(f, "a", NULL);
        assert_int_equal(tslab_near_flush(f->near), 0);
        cover(f);
        put_copy(f, "a", "three");
        assert_int_equal(tslab_near_end(f->near), 0);
        expect_last(f, "a", "three");
        assert_int_equal(tslab_near_flush(f->near), 0);
        expect_last(f, "a", NULL);
        cover(f);
        assert_int_equal(tslab_near_flush(f->other), -EBUSY);
}

static void test_names_of_last_values(void **state) {
        struct tslab_near *near;
        Fixture *f = *state;
        char name[43];

        for (size_t size = 37; size <= 42; size++) {
                memset(name, 'n', size);
                name[size] = 0;
                assert_int_equal(tslab_near_open(&near, f->pool, name, NULL), 0);
                assert_int_equal(tslab_near_keep_last(near), size > 38 ? -EINVAL : 0);
                assert_int_equal(tslab_near_drop(near, "a", 1), 0);
                assert_null(tslab_near_close(near));
        }
}

static void test_a_lifetime_counts_from_the_claim(void **state) {
        Fixture *f = *state;
        struct tslab_map_info info = { .size = sizeof(info) };
        struct tslab_map *map;

        cover(f);
        assert_int_equal(get(f, "a"), -ENOENT);
        usleep(80000);
        assert_int_equal(tslab_near_fill(f->other, "a", 1, &f->claim, NULL, "old", 3, 50), -EAGAIN);
        assert_int_equal(get(f, "a"), -ENOENT);
        usleep(80000);
        assert_int_equal(tslab_near_fill(f->other, "a", 1, &f->claim, NULL, "new", 3, COVER_MS), 0);
        assert_int_equal(tslab_map_open(&map, f->pool, "near", NULL), 0);
        assert_int_equal(tslab_map_get_with(map, "a", 1, f->buffer, sizeof(f->buffer), &info), 3);
        assert_in_range(info.ttl_left_ms, 1, COVER_MS - 60);
        assert_null(tslab_map_close(map));
}

/* Also where a program opened it first, which knows of no options. */
static void test_copies_make_room(void **state) {
        static char value[100000];
        Fixture *f = *state;

        cover(f);
        for (char key = 'A'; key <= 'Z'; key++)
                for (int i = 0; i < 3; i++) {
                        char name[2] = { key, (char) ('0' + i) };

                        assert_int_equal(
                                tslab_near_get(f->other, name, 2, f->buffer, sizeof(f->buffer), 0, &f->claim),
                                -ENOENT);
                        assert_int_equal(
                                tslab_near_fill(f->other, name, 2, &f->claim, NULL, value, sizeof(value), 0),
                                0);
                }
}

/* The child of a process that gives a cover does so; the cover stays. */
static void expect_covered_after(Fixture *f, TestChild child) {
        cover(f);
        put_copy(f, "a", "one");
        assert_int_equal(test_child_run(TEST_FORK, child, f), 0);
        assert_int_equal(get(f, "a"), 3);
        assert_int_equal(cover_for(f, COVER_MS), 0);
        assert_int_equal(get(f, "a"), 3);
}

static int close_as_child(void *userdata) {
        const Fixture *f = userdata;

        return tslab_near_close(f->near) != NULL;
}

static void test_a_child_leaves_the_cover(void **state) {
        expect_covered_after(*state, close_as_child);
}

static int move_as_child(void *userdata) {
        Fixture *f = userdata;

        return cover_for(f, 0) != -ESTALE || tslab_near_end(f->near) != 0 ||
               tslab_near_begin(f->near, NULL) != -EBUSY;
}

/* Its parent gives the cover, so a child neither ends nor moves it. */
static void test_a_child_gives_no_cover(void **state) {
        expect_covered_after(*state, move_as_child);
}

/* The cover that its parent gave is not in its way. */
static void test_a_child_covers_after_its_parent(void **state) {
        Fixture *f = *state;
        int begun[2], status;
        char byte;
        pid_t pid;

        cover(f);
        assert_int_equal(pipe(begun), 0);
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0)
                _exit(read(begun[0], &byte, 1) != 1 || tslab_near_begin(f->near, NULL) != 0 ||
                      cover_for(f, COVER_MS) != 0 || tslab_near_end(f->near) != 0);
        assert_int_equal(tslab_near_end(f->near), 0);
        assert_int_equal(write(begun[1], "x", 1), 1);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
        close(begun[0]);
        close(begun[1]);
}

static void test_keys(void **state) {
        static char large[70000];
        Fixture *f = *state;

        cover(f);
        put_copy(f, "", "one");
        assert_int_equal(tslab_near_get(f->other, "a\0b", 3, f->buffer, 64, 0, &f->claim), -ENOENT);
        assert_int_equal(tslab_near_fill(f->other, "a\0b", 3, &f->claim, NULL, "two", 3, 0), 0);
        assert_int_equal(get(f, "a"), -ENOENT);
        for (size_t size = 3900; size <= sizeof(large); size += size < 4200 ? 1 : 6580) {
                ssize_t n = tslab_near_get(f->other, large, size, f->buffer, 64, 0, &f->claim);

                assert_int_equal(n, -ENOENT);
                if (f->claim.copy != 0)
                        assert_int_equal(tslab_near_fill(f->other, large, size, &f->claim, NULL, "v", 1, 0),
                                         0);
                assert_int_equal(tslab_near_drop(f->near, large, size), 0);
                f->claim.copy = UINT64_MAX;
                assert_true(tslab_near_fill(f->other, large, size, &f->claim, NULL, "v", 1, 0) < 0);
        }
}

static void test_one_gives_the_cover(void **state) {
        Fixture *f = *state;

        cover(f);
        assert_int_equal(tslab_near_begin(f->near, NULL), -EALREADY);
        assert_int_equal(tslab_near_begin(f->other, NULL), -EBUSY);
        f->near = tslab_near_close(f->near);
        assert_int_equal(tslab_near_begin(f->other, NULL), 0);
}

static void test_names(void **state) {
        Fixture *f = *state;
        struct tslab_near *near;
        char name[44];

        memset(name, 'n', sizeof(name));
        name[43] = 0;
        assert_int_equal(tslab_near_open(&near, f->pool, name, NULL), -EINVAL);
        name[42] = 0;
        assert_int_equal(tslab_near_open(&near, f->pool, name, NULL), 0);
        assert_int_equal(tslab_near_begin(near, NULL), 0);
        assert_null(tslab_near_close(near));
        assert_int_equal(tslab_near_open(&near, f->pool, "\x01\xff", NULL), -EINVAL);
        for (unsigned i = 0; i < 20; i++) /* the label has 12 of these, and no half */
                memcpy(&name[1 + 2 * i], "\xc3\xa9", 2);
        name[41] = 0;
        assert_int_equal(tslab_near_open(&near, f->pool, name, NULL), 0);
        assert_int_equal(tslab_near_begin(near, NULL), 0);
        assert_null(tslab_near_close(near));
        assert_null(tslab_near_close(NULL));
}

static atomic_bool reader_ends;

static void *read_on(void *userdata) {
        Fixture *f = userdata;
        char buffer[8];
        struct tslab_near_claim claim;

        while (!reader_ends) {
                ssize_t n = tslab_near_get(f->other, "k", 1, buffer, sizeof(buffer), 0, &claim);

                if (n == -ENOENT)
                        (void) tslab_near_fill(f->other, "k", 1, &claim, NULL, "v", 1, 0);
        }
        return NULL;
}

/* A pool may be closed while threads use its near cache: fills are then refused as all changes are. */
static void test_fill_after_close(void **state) {
        Fixture *f = *state;
        pthread_t reader;

        cover(f);
        assert_int_equal(get(f, "a"), -ENOENT);
        reader_ends = false;
        assert_int_equal(pthread_create(&reader, NULL, read_on, f), 0);
        f->pool = tslab_close(f->pool);
        assert_int_equal(fill(f, "a", "1"), -EBADF);
        assert_int_equal(fill(f, "a", NULL), -EBADF);
        assert_int_equal(get(f, "a"), -ENOENT);
        reader_ends = true;
        assert_int_equal(pthread_join(reader, NULL), 0);
}

/* The slot of a cover that was is the next one's, while a reader may still look at it. */
static void test_covers_beside_reader(void **state) {
        Fixture *f = *state;
        pthread_t reader;
        int r;

        reader_ends = false;
        assert_int_equal(pthread_create(&reader, NULL, read_on, f), 0);
        for (int i = 0; i < 300; i++) {
                /* -EBUSY: the reader gives memory back, as a call of a private pool does now and then */
                while ((r = tslab_near_begin(f->near, NULL)) == -EBUSY)
                        (void) usleep(100);
                assert_int_equal(r, 0);
                assert_int_equal(cover_for(f, COVER_MS), 0);
                (void) usleep(200);
                while ((r = tslab_near_end(f->near)) == -EBUSY)
                        (void) usleep(100);
                assert_int_equal(r, 0);
        }
        reader_ends = true;
        assert_int_equal(pthread_join(reader, NULL), 0);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_nothing_is_kept_without_a_cover, setup, teardown),
                cmocka_unit_test_setup_teardown(test_copies, setup, teardown),
                cmocka_unit_test_setup_teardown(test_covers_beside_reader, setup, teardown),
                cmocka_unit_test_setup_teardown(test_an_answer_behind_a_change_is_refused, setup, teardown),
                cmocka_unit_test_setup_teardown(test_one_program_asks, setup, teardown),
                cmocka_unit_test_setup_teardown(test_one_answer_for_all, setup, teardown),
                cmocka_unit_test_setup_teardown(test_end_without_a_beginning, setup, teardown),
                cmocka_unit_test_setup_teardown(test_begin_in_a_full_pool, setup, teardown),
                cmocka_unit_test_setup_teardown(test_begin_in_a_full_pool_beside_control_work, setup,
                                                teardown),
                cmocka_unit_test_setup_teardown(test_end_after_the_epoch_was_revoked, setup, teardown),
                cmocka_unit_test_setup_teardown(test_end_revokes_copies_and_claims, setup, teardown),
                cmocka_unit_test_setup_teardown(test_a_cover_that_is_over, setup, teardown),
                cmocka_unit_test_setup_teardown(test_a_cover_that_is_nearly_over, setup, teardown),
                cmocka_unit_test_setup_teardown(test_a_cover_that_comes_late, setup, teardown),
                cmocka_unit_test_setup_teardown(test_a_claim_of_an_earlier_epoch_fills_no_later_one, setup,
                                                teardown),
                cmocka_unit_test_setup_teardown(test_small_buffers, setup, teardown),
                cmocka_unit_test_setup_teardown(test_a_large_copy_of_another_epoch, setup, teardown),
                cmocka_unit_test_setup_teardown(test_an_operator_closes_the_epoch, setup, teardown),
                cmocka_unit_test_setup_teardown(test_prefixes, setup, teardown),
                cmocka_unit_test_setup_teardown(test_servers, setup, teardown),
                cmocka_unit_test_setup_teardown(test_last_values, setup, teardown),
                cmocka_unit_test_setup_teardown(test_a_change_drops_the_last_value, setup, teardown),
                cmocka_unit_test_setup_teardown(test_an_old_answer_is_no_last_value, setup, teardown),
                cmocka_unit_test_setup_teardown(test_another_answer_ends_the_last_value, setup, teardown),
                cmocka_unit_test_setup_teardown(test_a_question_without_an_answer_leaves_the_last_value,
                                                setup, teardown),
                cmocka_unit_test_setup_teardown(test_last_values_end_with_the_next_cover, setup, teardown),
                cmocka_unit_test_setup_teardown(test_names_of_last_values, setup, teardown),
                cmocka_unit_test_setup_teardown(test_a_lifetime_counts_from_the_claim, setup, teardown),
                cmocka_unit_test_setup_teardown(test_copies_make_room, setup, teardown),
                cmocka_unit_test_setup_teardown(test_a_child_leaves_the_cover, setup, teardown),
                cmocka_unit_test_setup_teardown(test_a_child_gives_no_cover, setup, teardown),
                cmocka_unit_test_setup_teardown(test_a_child_covers_after_its_parent, setup, teardown),
                cmocka_unit_test_setup_teardown(test_keys, setup, teardown),
                cmocka_unit_test_setup_teardown(test_a_value_like_the_sign_of_absence, setup, teardown),
                cmocka_unit_test_setup_teardown(test_a_root_that_names_no_cover, setup, teardown),
                cmocka_unit_test_setup_teardown(test_one_gives_the_cover, setup, teardown),
                cmocka_unit_test_setup_teardown(test_names, setup, teardown),
                cmocka_unit_test_setup_teardown(test_fill_after_close, setup, teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
