/*
 * Maps used by threads of several processes: values that carry their checksum, keys of equal hashes, epochs that
 * advance and expire, and counters, of which no update may be lost. At the end only the index may be left. `test-map
 * [seed]`
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "shm/arena/clock.h"
#include "shm/cache/cache.h"
#include "shm/maintain/check.h"
#include "shm/maintain/drain.h"
#include "shm/maintain/freeze.h"
#include "shm/map/entry/map.h"
#include "shm/epoch/attention.h"
#include "shm/epoch/epoch-close.h"
#include "shm/epoch/epoch-open.h"
#include "tests/util/maintain.h"
#include "tests/util/reserve.h"
#include "tests/util/trie.h"

/* ThreadSanitizer does not see how objects pass from hand to hand in another process. */
#ifdef SHM_TSAN
#define N_PROCESSES 1
#define N_THREADS 4
#else
#define N_PROCESSES 3
#define N_THREADS 2
#endif
#define N_KEYS 300
#define N_COUNTERS 4
#define VALUE_MAX 700

#define CHECK(x) ((x) ? (void) 0 : fail(__LINE__, #x))

typedef struct Shared {
        ShmArena arena;
        uint64_t root;
        uint32_t reserved; /* epoch of the counters */
        uint64_t seed, deadline_ns;
        uint64_t n_increments[N_COUNTERS], n_ops, n_retries;
} Shared;

typedef struct Worker {
        Shared *shared;
        ShmTrie trie;
        ShmActor actor;
        uint32_t id;
        uint64_t random;
} Worker;

static void fail(int line, const char *what) {
        fprintf(stderr, "line %d: not so: %s\n", line, what);
        _exit(1);
}

static uint64_t now_ns(void) {
        struct timespec ts;

        clock_gettime(CLOCK_MONOTONIC, &ts);
        return (uint64_t) ts.tv_sec * 1000000000 + (uint64_t) ts.tv_nsec;
}

static uint64_t mix(uint64_t x) {
        x += UINT64_C(0x9e3779b97f4a7c15);
        x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
        return x ^ x >> 31;
}

static uint64_t next(Worker *w) {
        return mix(w->random++);
}

/* One key in three shares its hash with others, one in three all but a few bits. */
static ShmMapKey key_of(const uint64_t *id) {
        uint64_t hash = mix(*id);

        if (*id % 3 == 1)
                hash = mix(*id % 12) | 1;
        else if (*id % 3 == 2)
                hash = *id;
        return (ShmMapKey){ id, sizeof(*id), hash };
}

static size_t value_make(Worker *w, uint64_t id, uint64_t *value) {
        size_t n = 2 + next(w) % (VALUE_MAX / 8 - 2);
        uint64_t sum = id;

        for (size_t i = 0; i < n - 1; i++)
                sum = mix(sum ^ (value[i] = next(w)));
        value[n - 1] = sum;
        return n * 8;
}

static void value_check(uint64_t id, const uint64_t *value, size_t size) {
        uint64_t sum = id;

        CHECK(size >= 16 && size % 8 == 0);
        for (size_t i = 0; i < size / 8 - 1; i++)
                sum = mix(sum ^ value[i]);
        CHECK(value[size / 8 - 1] == sum);
}

static void step_put(Worker *w, uint64_t id) {
        uint64_t value[VALUE_MAX / 8];
        ShmMapKey key = key_of(&id);
        ShmMapPut put = { .mode = (ShmMapMode) (next(w) % 3), .value = value, .epoch = SHM_EPOCH_CURRENT };
        int r;

        put.value_size = (uint32_t) value_make(w, id, value);
        r = shm_map_put(&w->actor, &w->trie, &key, &put, NULL);
        /* The expired epoch may be current again for a moment between two advances. */
        CHECK(r == 0 || r == -EEXIST || r == -ENOENT || r == -ESHUTDOWN);
}

static void step_get(Worker *w, uint64_t id) {
        uint64_t value[VALUE_MAX / 8];
        ShmMapKey key = key_of(&id);
        ssize_t n = shm_map_get(&w->trie, &key, value, sizeof(value), NULL);

        CHECK(n >= 0 || n == -ENOENT);
        if (n >= 0)
                value_check(id, value, (size_t) n);
}

static void step_delete(Worker *w, uint64_t id) {
        ShmMapKey key = key_of(&id);
        int r = shm_map_delete(&w->actor, &w->trie, &key, 0);

        CHECK(r == 0 || r == -ENOENT);
}

static void step_count_up(Worker *w, uint64_t counter) {
        uint64_t id = UINT64_MAX - counter, value = 0, n_retries = 0;
        ShmMapKey key = key_of(&id);
        ShmMapPut put = { .mode = SHM_MAP_REPLACE, .value = &value, .value_size = 8 };
        ShmMapView view;
        ssize_t n;
        int r;

        put.epoch = w->shared->reserved;
        for (;; n_retries++) {
                n = shm_map_get(&w->trie, &key, &value, sizeof(value), &view);
                CHECK(n == 8 || n == -ENOENT);
                value = n == 8 ? value + 1 : 1;
                put.expected = n == 8 ? view.handle : 0;
                r = shm_map_put(&w->actor, &w->trie, &key, &put, NULL);
                if (r == 0)
                        break;
                CHECK(r == -EAGAIN);
        }
        shm_add_rlx(&w->shared->n_increments[counter], 1);
        shm_add_rlx(&w->shared->n_retries, n_retries);
}

/* Every counter is there throughout: met once. */
static void step_scan(Worker *w) {
        unsigned seen[N_COUNTERS] = {};
        uint64_t buffer[SHM_CLASS_SIZE_MAX / 8];
        ShmTrieScan scan = {};
        ShmMapView view;
        int r;

        while ((r = shm_map_next(&w->trie, &scan, buffer, sizeof(buffer), &view)) == 1) {
                CHECK(view.head.key_size == 8);
                if (buffer[0] > UINT64_MAX - N_COUNTERS)
                        seen[UINT64_MAX - buffer[0]]++;
                else
                        value_check(buffer[0], buffer + 1, view.head.value_size);
        }
        CHECK(r == 0);
        for (unsigned i = 0; i < N_COUNTERS; i++)
                CHECK(seen[i] == 1);
}

static void step_expire(Worker *w) {
        ShmTrieScan scan = {};

        while (!scan.done)
                CHECK(shm_map_expire(&w->actor, &w->trie, (uint32_t) (next(w) % 3), &scan, 64) >= 0);
}

/* One worker of all does the control work: advances, as control is to. */
static void step_control(Worker *w) {
        ShmArena *arena = &w->shared->arena;
        ShmDrain drain = {};
        ShmFreeze freeze = {};
        ShmActor control;
        uint32_t epoch;

        shm_actor_init_daemon(&control, arena);
        CHECK(shm_epoch_next(arena, &drain.epoch) == 0);
        CHECK(shm_epoch_close(arena, drain.epoch, true) == 0);
        CHECK(shm_freeze_begin(&control, &freeze, UINT64_C(1) << drain.epoch) == 0);
        while (shm_freeze_step(&control, &freeze, UINT32_MAX, shm_monotonic_usec()) > 0)
                sched_yield();
        while (!shm_drain_step(&control, &drain, 4096))
                ;
        CHECK(shm_epoch_advance(arena, &epoch) == 0);
        shm_attention_publish(arena);
}

static void step(Worker *w) {
        uint64_t choice = next(w) % 1000, id = next(w) % N_KEYS;

        if (choice < 350)
                step_put(w, id);
        else if (choice < 650)
                step_get(w, id);
        else if (choice < 800)
                step_delete(w, id);
        else if (choice < 990)
                step_count_up(w, id % N_COUNTERS);
        else if (choice < 998)
                step_scan(w);
        else
                step_expire(w);
        if (w->id == 0 && choice == 999)
                step_control(w);
}

static void *run(void *userdata) {
        Worker *w = userdata;
        uint64_t n = 0;

        CHECK(shm_trie_open(&w->trie, &w->shared->arena, w->shared->root) == 0);
        CHECK(shm_membarrier_register() == 0);
        CHECK(shm_actor_init(&w->actor, &w->shared->arena, 0, w->id + 1) == 0);
        w->actor.mode = (ShmCacheMode[]){ SHM_CACHE_ADAPTIVE, SHM_CACHE_ON, SHM_CACHE_OFF }[w->id % 3];
        for (; n % 64 != 0 || now_ns() < w->shared->deadline_ns; n++)
                step(w);
        for (uint32_t i = 0; i < SHM_NOTES_MAX; i++)
                CHECK(w->actor.record->notes[i].handle == 0);
        shm_cache_leave(&w->actor);
        shm_add_rlx(&w->shared->n_ops, n);
        return NULL;
}

static void run_process(Shared *shared, uint32_t process) {
        Worker workers[N_THREADS];
        pthread_t threads[N_THREADS];

        for (uint32_t i = 0; i < N_THREADS; i++) {
                uint32_t id = process * N_THREADS + i;

                workers[i] = (Worker){ .shared = shared, .id = id, .random = mix(shared->seed + id) };
                CHECK(pthread_create(&threads[i], NULL, run, &workers[i]) == 0);
        }
        for (uint32_t i = 0; i < N_THREADS; i++)
                CHECK(pthread_join(threads[i], NULL) == 0);
}

static uint64_t n_live(const ShmArena *arena) {
        uint64_t n = 0;

        for (uint32_t slab = 0; slab < shm_arena_n_slabs_ever(arena); slab++)
                for (uint32_t slot = 0; slot < SHM_SLOTS_MAX; slot++)
                        n += arena->tags[slab].tag[slot] & 1;
        return n;
}

static void check_clean(ShmArena *arena) {
        ShmCheck check;

        CHECK(shm_check(arena, &check) == 0);
        for (size_t i = 0; i < check.n_texts; i++)
                fprintf(stderr, "%s\n", check.texts[i]);
        CHECK(check.problems == 0);
}

/* A thread that left as its freeze came to an end: the next control work frees its record. */
static void finish_left(ShmArena *arena) {
        ShmActor control;

        shm_actor_init_daemon(&control, arena);
        maintain_finish_left(&control);
        CHECK(shm_freeze_is_over(arena));
}

static void check_end(Shared *shared) {
        Worker w = { .shared = shared };
        TrieCount count;
        uint64_t value;

        CHECK(shm_trie_open(&w.trie, &shared->arena, shared->root) == 0);
        CHECK(shm_actor_init(&w.actor, &shared->arena, 0, 99) == 0);
        for (uint64_t i = 0; i < N_COUNTERS; i++) {
                uint64_t id = UINT64_MAX - i;
                ShmMapKey key = key_of(&id);

                CHECK(shm_map_get(&w.trie, &key, &value, sizeof(value), NULL) == 8);
                CHECK(value == shared->n_increments[i]);
                CHECK(shm_map_delete(&w.actor, &w.trie, &key, 0) == 0);
        }
        count = trie_count(&w.trie);
        CHECK(count.n_stale == 0 && count.n_frozen == 0);
        CHECK(n_live(&shared->arena) == 1 + count.n_nodes + (uint64_t) shm_map_count(&w.trie));
        for (uint64_t id = 0; id < N_KEYS; id++)
                step_delete(&w, id);
        shm_cache_leave(&w.actor); /* its process is in no client table: check would find it */
        CHECK(shm_map_count(&w.trie) == 0);
        count = trie_count(&w.trie);
        CHECK(count.n_sparse == 0);
        CHECK(n_live(&shared->arena) == 1 + count.n_nodes);
        finish_left(&shared->arena);
        check_clean(&shared->arena);
        printf("%lu operations, %lu retries of counters, %lu inner nodes\n", (unsigned long) shared->n_ops,
               (unsigned long) shared->n_retries, (unsigned long) count.n_nodes);
}

static void reserve(ShmArena *arena, const char *label, uint32_t *ret_epoch) {
        uint32_t id;

        CHECK(shm_epoch_spare(arena, &id) == 0);
        CHECK(shm_epoch_reserve(arena, id, label, ret_epoch) == 0);
}

static void setup(Shared *shared) {
        ShmGeometry g = { .slabs_size = UINT64_C(64) << 20,
                          .n_records = 16,
                          .n_epochs = 5,
                          .n_classes = SHM_N_CLASSES_DEFAULT,
                          .class_size = SHM_CLASSES_DEFAULT };
        Worker w = { .shared = shared };
        uint32_t epoch;

        CHECK(shm_arena_create(&shared->arena, &g, NULL) == 0);
        CHECK(shm_actor_init(&w.actor, &shared->arena, 0, 99) == 0);
        reserve(&shared->arena, "maps", &epoch);
        reserve(&shared->arena, "counters", &shared->reserved);
        CHECK(shm_trie_create(&w.actor, epoch, &shared->root) == 0);
        CHECK(shm_object_publish(&w.actor, shared->root) == 0);
        CHECK(shm_trie_open(&w.trie, &shared->arena, shared->root) == 0);
        for (uint64_t i = 0; i < N_COUNTERS; i++)
                step_count_up(&w, i);
        shm_cache_leave(&w.actor);
}

int main(int argc, char **argv) {
        const int protection = PROT_READ | PROT_WRITE, flags = MAP_SHARED | MAP_ANONYMOUS;
        Shared *shared = mmap(NULL, sizeof(*shared), protection, flags, -1, 0);
        uint64_t seconds = getenv("TSLAB_TEST_FULL") ? 30 : 2;
        int status;

        CHECK(shared != MAP_FAILED);
        setup(shared);
        shared->seed = argc > 1 ? strtoull(argv[1], NULL, 0) : now_ns();
        shared->deadline_ns = now_ns() + seconds * 1000000000;
        printf("seed %lu\n", (unsigned long) shared->seed);
        fflush(stdout);

        for (uint32_t i = 1; i < N_PROCESSES; i++) {
                pid_t pid = fork();

                CHECK(pid >= 0);
                if (pid == 0) {
                        run_process(shared, i);
                        _exit(0);
                }
        }
        run_process(shared, 0);
        while (wait(&status) > 0)
                CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        check_end(shared);
        return 0;
}
