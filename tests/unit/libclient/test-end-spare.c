/* Threads that end in the middle of a call with the record that threads share, looked at from inside. */
#include "libclient/pool/attach.h"
#include "libclient/pool/pool.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <tslab_map.h>
#include <unistd.h>

#include "tests/util/test.h"

#define PAGE 4096U
#define N_THREADS 8

static struct {
        struct tslab *pool;
        struct tslab_map *map;
        void *unreadable;
        uint32_t id; /* the record that threads share, as the thread ends */
        uint32_t spare; /* the same, as that record is marked DEAD */
        uint64_t token;
} ends;

static void protect_head(int protection) {
        uintptr_t head = (uintptr_t) &ends.pool->arena.heads[ends.id];

        (void) mprotect((void *) (head / PAGE * PAGE), PAGE, protection);
}

/* First the value cannot be read. Then the head of the record cannot be written. */
static void on_fault(int signal) {
        (void) signal;
        if (ends.id == 0) {
                ends.id = ends.pool->local->spare;
                protect_head(PROT_READ);
                pthread_exit(NULL);
        }
        ends.spare = ends.pool->local->spare;
        ends.token = ends.pool->local->threads[ends.id].token;
        protect_head(PROT_READ | PROT_WRITE);
}

static void *put_unreadable(void *userdata) {
        (void) tslab_map_put(ends.map, "key", 3, ends.unreadable, PAGE, TSLAB_EPOCH_CURRENT);
        return userdata;
}

static void run_put_unreadable(void) {
        const struct sigaction action = { .sa_handler = on_fault, .sa_flags = SA_NODEFER };
        struct sigaction before;
        pthread_t thread;
        void *result;

        assert_int_equal(sigaction(SIGSEGV, &action, &before), 0);
        assert_int_equal(pthread_create(&thread, NULL, put_unreadable, &ends), 0);
        assert_int_equal(pthread_join(thread, &result), 0);
        assert_int_equal(sigaction(SIGSEGV, &before, NULL), 0);
        assert_null(result);
}

/* A DEAD record may be repaired and be another thread's at once: nothing here may then take it for the shared one. */
static void test_end_spare_order(void **state) {
        struct tslab_options options = { .size = sizeof(options),
                                         .arena_bytes = 1 << 20,
                                         .n_threads = N_THREADS };
        ThreadState *states[N_THREADS];
        uint32_t n = 0;

        (void) state;
        assert_int_equal(tslab_create(&ends.pool, &options), 0);
        assert_int_equal(tslab_map_open(&ends.map, ends.pool, "map", NULL), 0);
        ends.unreadable = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_ptr_not_equal(ends.unreadable, MAP_FAILED);
        while (n < N_THREADS && pool_take_record(ends.pool, (uint32_t) gettid(), &states[n]) == 0)
                n++;
        run_put_unreadable();
        assert_int_not_equal(ends.id, 0);
        assert_int_equal(ends.spare, 0);
        assert_int_equal(ends.token, 0);
        while (n > 0)
                assert_true(shm_record_set_unused(&ends.pool->arena, states[--n]->actor.id));
        tslab_map_close(ends.map);
        tslab_close(ends.pool);
        (void) munmap(ends.unreadable, PAGE);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_end_spare_order),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
