/* The caches of threads that were idle for some seconds are emptied; other threads notice nothing. */
#include "shm/arena/idle.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "shm/cache/cache.h"
#include "shm/cache/cache-hit.h"
#include "shm/epoch/attention.h"
#include "shm/maintain/maintain.h"
#include "shm/stats/stats.h"
#include "tests/util/arena.h"
#include "tests/util/test.h"

#define N_THREADS 64

static ShmMaintain m;
static ShmIdle idle;
static uint64_t now;

static void begin(TestArena *t) {
        memset(&m, 0, sizeof(m));
        memset(&idle, 0, sizeof(idle));
        shm_maintain_init(&m, &t->control);
        m.idle = &idle;
        now = 1000000;
}

static int setup(void **state) {
        TestArena *t;

        if (test_arena_setup(state))
                return -1;
        t = *state;
        t->actor.mode = SHM_CACHE_ON;
        begin(t);
        return 0;
}

/* The next look, and all work that follows from it. */
static void look(void) {
        now += SHM_IDLE_USEC;
        shm_maintain_look(&m, true, now);
        while (shm_maintain_step(&m, now) == 0)
                ;
}

static void pair(ShmActor *actor, size_t size, uint32_t epoch) {
        uint64_t handle;

        assert_int_equal(shm_object_alloc(actor, size, epoch, NULL, &handle, NULL), 0);
        assert_int_equal(shm_object_free(actor, handle), 0);
}

static uint32_t n_cached(TestArena *t) {
        return test_cache(t, t->actor.id, 0, 0)->count;
}

static void test_idle_is_emptied(void **state) {
        TestArena *t = *state;

        pair(&t->actor, 64, 0);
        look();
        assert_true(n_cached(t) > 0);
        look();
        assert_int_equal(n_cached(t), 0);
        assert_int_equal(test_cache(t, t->actor.id, 0, 0)->held, 0);
        assert_int_equal(t->arena.header->n_free.value, shm_arena_n_slabs_ever(&t->arena));
        assert_int_equal(shm_attention_load(&t->arena, t->actor.id) & SHM_ATTENTION_FREEZE, 0);
        pair(&t->actor, 64, 0); /* as before */
        assert_true(n_cached(t) > 0);
}

/* A look that comes early does nothing: what is idle is a matter of time, not of looks. */
static void test_idle_not_due(void **state) {
        TestArena *t = *state;

        pair(&t->actor, 64, 0);
        look();
        for (uint32_t i = 0; i < 10; i++) {
                shm_maintain_look(&m, true, now + i);
                (void) shm_maintain_step(&m, now + i);
        }
        assert_true(n_cached(t) > 0);
}

static void test_busy_is_left_alone(void **state) {
        TestArena *t = *state;
        uint64_t attention = shm_attention_load(&t->arena, t->actor.id), hits;
        ShmActor other;

        assert_int_equal(shm_actor_init(&other, &t->arena, 0, 2), 0);
        other.mode = SHM_CACHE_ON;
        pair(&other, 64, 0);
        pair(&t->actor, 64, 0);
        hits = t->actor.record->counters[SHM_COUNT_ALLOC_HITS];
        for (uint32_t i = 0; i < 5; i++) {
                look();
                pair(&t->actor, 64, 0);
        }
        assert_int_equal(shm_arena_cache(&t->arena, other.id, 0, 0)->count, 0);
        assert_int_equal(shm_attention_load(&t->arena, t->actor.id), attention);
        assert_int_equal(t->actor.record->counters[SHM_COUNT_ALLOC_HITS], hits + 5);
        assert_int_equal(t->actor.record->counters[SHM_COUNT_REFILLS], 1);
}

/* A thread that is stopped inside an operation keeps its caches: it could not say that it stands still. */
static void test_inside_is_left_alone(void **state) {
        TestArena *t = *state;

        pair(&t->actor, 64, 0);
        shm_actor_enter(&t->actor);
        for (uint32_t i = 0; i < 5; i++)
                look();
        assert_true(n_cached(t) > 0);
        assert_int_equal(shm_attention_load(&t->arena, t->actor.id) & SHM_ATTENTION_FREEZE, 0);
        shm_actor_leave(&t->actor);
}

/* A thread that sleeps on is not frozen again and again. */
static void test_idle_once(void **state) {
        TestArena *t = *state;
        uint64_t attention;

        pair(&t->actor, 64, 0);
        look();
        look();
        attention = shm_attention_load(&t->arena, t->actor.id);
        for (uint32_t i = 0; i < 5; i++)
                look();
        assert_int_equal(shm_attention_load(&t->arena, t->actor.id), attention);
}

static uint64_t n_used_slabs(const ShmArena *arena, uint64_t *ret_cached) {
        static ShmStats stats;
        uint64_t n = 0;

        shm_stats(arena, &stats);
        for (uint32_t id = 0; id < arena->n_epochs; id++)
                n += stats.epochs[id].slabs + stats.older[id].slabs;
        *ret_cached = stats.cached_objects;
        return n;
}

/* Threads that once did a pair in each epoch and class, and sleep since. */
static void test_many_idle(void **state) {
        static ShmActor actors[N_THREADS];
        ShmGeometry geometry = test_geometry();
        TestArena t;
        uint64_t n_slabs, n_slots;

        geometry.slabs_size = UINT64_C(256) << 20;
        geometry.n_records = N_THREADS + 2;
        geometry.n_epochs = 16;
        test_arena_init(&t, &geometry);
        begin(&t);
        for (uint32_t i = 0; i < N_THREADS; i++) {
                assert_int_equal(shm_actor_init(&actors[i], &t.arena, 0, 2 + i), 0);
                actors[i].mode = SHM_CACHE_ON;
                for (uint32_t epoch = 0; epoch < 16; epoch++)
                        for (uint32_t class = 0; class < t.arena.n_classes; class += 1)
                                pair(&actors[i], t.arena.classes[class].size, epoch);
        }
        look();
        n_slabs = n_used_slabs(&t.arena, &n_slots);
        printf("# caches of %d idle threads hold %lu slots in %lu slabs,", N_THREADS, n_slots, n_slabs);
        assert_true(n_slots > 10000);
        look();
        n_slabs = n_used_slabs(&t.arena, &n_slots);
        printf(" after %u seconds %lu slots in %lu slabs\n", (unsigned) (2 * SHM_IDLE_USEC / 1000000),
               n_slots, n_slabs);
        assert_int_equal(n_slots, 0);
        assert_int_equal(n_slabs, 0);
        test_arena_deinit(&t);
}

/* Pages that a record has, with its caches. */
static uint32_t n_resident(const ShmArena *arena, const ShmRecord *record) {
        unsigned char pages[256];
        uint32_t n = 0;

        assert_true(arena->record_stride / SHM_SLAB_SIZE <= sizeof(pages));
        assert_int_equal(mincore((void *) record, arena->record_stride, pages), 0);
        for (uint32_t i = 0; i < arena->record_stride / SHM_SLAB_SIZE; i++)
                n += pages[i] & 1;
        return n;
}

/* A thread that sleeps, or has ended, keeps one page; the caches come back as they are used. */
static void test_pages_of_caches(void **state) {
        ShmGeometry geometry = test_geometry();
        ShmRecord *slept, *ended;
        ShmActor other;
        TestArena t;

        (void) state;
        geometry.slabs_size = UINT64_C(256) << 20;
        geometry.n_epochs = 16;
        test_arena_init(&t, &geometry);
        begin(&t);
        assert_int_equal(shm_actor_init(&other, &t.arena, 0, 2), 0);
        t.actor.mode = other.mode = SHM_CACHE_ON;
        slept = t.actor.record;
        ended = other.record;
        pair(&t.actor, 64, 0);
        printf("# a record has %u pages after a pair,", n_resident(&t.arena, slept));
        for (uint32_t epoch = 0; epoch < 16; epoch++)
                for (uint32_t class = 0; class < t.arena.n_classes; class += 1) {
                        pair(&t.actor, t.arena.classes[class].size, epoch);
                        pair(&other, t.arena.classes[class].size, epoch);
                }
        printf(" %u after one in each of 16 epochs and %u classes,", n_resident(&t.arena, slept),
               t.arena.n_classes);
        shm_cache_leave(&other);
        look();
        assert_true(n_resident(&t.arena, slept) > 50 && n_resident(&t.arena, ended) > 50);
        look();
        printf(" %u when it is idle\n", n_resident(&t.arena, slept));
        assert_int_equal(n_resident(&t.arena, slept), 1);
        assert_int_equal(n_resident(&t.arena, ended), 1);

        pair(&t.actor, 64, 15);
        assert_int_equal(test_cache(&t, t.actor.id, 15, 0)->count, SHM_CACHE_CAPACITY_START / 2);
        assert_true(n_resident(&t.arena, slept) <= 3);
        test_arena_deinit(&t);
}

/* The largest of 9 classes, of the last epoch: its cache stands behind 16 x 9 places, as groups of 8 classes do. */
static void test_idle_last_cache(void **state) {
        ShmGeometry geometry = test_geometry();
        TestArena t;

        (void) state;
        geometry.n_epochs = 16;
        geometry.n_classes = 9;
        geometry.class_size[8] = 4096;
        test_arena_init(&t, &geometry);
        begin(&t);
        t.actor.mode = SHM_CACHE_ON;
        pair(&t.actor, 4096, 15);
        look();
        look();
        assert_int_equal(t.arena.header->n_free.value, shm_arena_n_slabs_ever(&t.arena));
        test_arena_deinit(&t);
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, setup, test_arena_teardown)

int main(void) {
        const struct CMUnitTest tests[] = {
                TEST(idle_is_emptied),
                TEST(idle_not_due),
                TEST(busy_is_left_alone),
                TEST(inside_is_left_alone),
                TEST(idle_once),
                cmocka_unit_test(test_many_idle),
                cmocka_unit_test(test_pages_of_caches),
                cmocka_unit_test(test_idle_last_cache),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
