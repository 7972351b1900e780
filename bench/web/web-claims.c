/*
 * One computation at a time, in tslab's maps; no other store here has it.
 *
 *      cycle       a key is claimed, its claim fulfilled, the key deleted; beside a put and a delete
 *      wait        8 processes miss a key at once, and one computes for a millisecond: how many did compute, and the
 *                  time from the moment before the value is put until the others have it
 *      next claim  the process that claimed is killed while 7 others wait: the time until one of them has the claim
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <tslab.h>
#include <tslab_map.h>

#include "bench/web/web.h"

#define CLAIMS_SIZE 256
#define CLAIMS_KEYS 1000
#define HERD 8
#define HERD_KEYS 500
#define COMPUTE_NS 1000000
#define KILLS 200
#define KILLS_QUICK 5
#define WAIT_MS 5000

static struct tslab *pool;
static struct tslab_map *map;

typedef struct Claims {
        Web *web;
        Barrier barrier;
        uint32_t n_keys;
        uint64_t n_computed;
        uint64_t fulfilled[HERD_KEYS]; /* ticks */
        Histogram *waits[HERD];
        uint32_t n_waiting; /* for the process that will be killed */
        uint64_t next_claim; /* ticks */
} Claims;

static int64_t claims_check(const char *what, int64_t r) {
        if (r < 0)
                bench_fail("%s: %s", what, strerror((int) -r));
        return r;
}

static int key_claim(const StoreItem *item, tslab_handle *ret) {
        return tslab_map_claim(map, item->key, STORE_KEY_SIZE - 1, TSLAB_EPOCH_CURRENT, ret);
}

static void claim_fulfil(const StoreItem *item, tslab_handle version) {
        claims_check("replace", tslab_map_replace(map, item->key, STORE_KEY_SIZE - 1, version, item->value,
                                                  item->size, TSLAB_EPOCH_CURRENT));
}

static void key_delete(const StoreItem *item) {
        claims_check("delete", tslab_map_delete(map, item->key, STORE_KEY_SIZE - 1));
}

static void claim_cycle(StoreItem *item) {
        tslab_handle version;

        claims_check("claim", key_claim(item, &version));
        claim_fulfil(item, version);
        key_delete(item);
}

static void put_cycle(StoreItem *item) {
        claims_check("put", tslab_map_put(map, item->key, STORE_KEY_SIZE - 1, item->value, item->size,
                                          TSLAB_EPOCH_CURRENT));
        key_delete(item);
}

/* A daemon's pool may have keys of an earlier run. */
static void keys_clear(StoreItem *item) {
        (void) tslab_map_delete(map, item->key, STORE_KEY_SIZE - 1);
}

/* Returns whether it waited for another's value. */
static bool get_or_compute(Claims *shared, StoreItem *item, uint64_t *fulfilled) {
        bool has_waited = false;
        tslab_handle version;
        int r;

        while (tslab_map_get(map, item->key, STORE_KEY_SIZE - 1, item->value, item->size, NULL) < 0) {
                r = key_claim(item, &version);
                if (r == 0) {
                        nanosleep(&(struct timespec){ .tv_nsec = COMPUTE_NS }, NULL);
                        (void) shm_add_acqrel(&shared->n_computed, 1);
                        shm_store_rel(fulfilled, clock_now());
                        claim_fulfil(item, version);
                        return false;
                }
                if (r != -EBUSY && r != -EEXIST)
                        claims_check("claim", r);
                has_waited |= r == -EBUSY;
                if (r == -EBUSY)
                        (void) tslab_map_wait(map, item->key, STORE_KEY_SIZE - 1, version, WAIT_MS);
        }
        return has_waited;
}

static void herd_member(void *arg, uint32_t member) {
        Claims *shared = arg;
        uint64_t fulfilled;

        for (uint32_t i = 0; i < shared->n_keys; i++) {
                StoreItem item = web_item(shared->web, i, CLAIMS_SIZE);

                item.value = shared->web->value + (size_t) member * CLAIMS_SIZE; /* each its own */
                barrier_wait(&shared->barrier);
                if (!get_or_compute(shared, &item, &shared->fulfilled[i]))
                        continue;
                fulfilled = shm_load_acq(&shared->fulfilled[i]);
                if (fulfilled > 0)
                        histogram_add(shared->waits[member], clock_now() - fulfilled);
        }
}

static void herd_measure(Web *web, Claims *shared) {
        shared->barrier = (Barrier){ .n = HERD, .n_cpus = group_n_cpus() };
        for (uint32_t i = 0; i < HERD; i++)
                shared->waits[i] = histogram_new();
        (void) group_run(HERD, true, herd_member, shared);
        for (uint32_t i = 1; i < HERD; i++)
                histogram_merge(shared->waits[0], shared->waits[i]);
        web_metric(web, (double) shared->n_computed / shared->n_keys, "computations_per_key");
        bench_latencies(&web->bench, "wait", shared->waits[0]);
}

static _Noreturn void claim_and_be_killed(const StoreItem *item, Claims *shared) {
        tslab_handle version;

        claims_check("claim", key_claim(item, &version));
        shm_store_rel(&shared->n_waiting, 1);
        for (;;)
                (void) pause();
}

/* The first one that has the claim tells when, and fulfils it: the others end, too. */
static _Noreturn void wait_and_claim(const StoreItem *item, Claims *shared) {
        tslab_handle version;
        int r;

        while (shm_load_acq(&shared->n_waiting) == 0)
                spin_yield();
        r = key_claim(item, &version);
        (void) shm_add_acqrel(&shared->n_waiting, 1);
        while (r == -EBUSY) {
                (void) tslab_map_wait(map, item->key, STORE_KEY_SIZE - 1, version, WAIT_MS);
                r = key_claim(item, &version);
        }
        if (r == 0) {
                shm_store_rel(&shared->next_claim, clock_now());
                claim_fulfil(item, version);
        }
        _exit(r < 0 && r != -EEXIST);
}

static pid_t kill_begin(const StoreItem *item, Claims *shared, uint32_t member) {
        pid_t pid = fork();

        if (pid < 0)
                bench_fail("fork: %s", strerror(errno));
        if (pid > 0)
                return pid;
        group_pin(member);
        if (member == 0)
                claim_and_be_killed(item, shared);
        wait_and_claim(item, shared);
}

static uint64_t kill_once(Web *web, Claims *shared, uint32_t key) {
        StoreItem item = web_item(web, key, CLAIMS_SIZE);
        pid_t pids[HERD];
        uint64_t killed;
        int status;

        shm_store_rel(&shared->n_waiting, 0);
        for (uint32_t i = 0; i < HERD; i++)
                pids[i] = kill_begin(&item, shared, i);
        while (shm_load_acq(&shared->n_waiting) < HERD)
                spin_yield();
        nanosleep(&(struct timespec){ .tv_nsec = 2 * COMPUTE_NS }, NULL); /* until they sleep */
        killed = clock_now();
        (void) kill(pids[0], SIGKILL);
        for (uint32_t i = 0; i < HERD; i++)
                if (waitpid(pids[i], &status, 0) < 0 || (i > 0 && status != 0))
                        bench_fail("a waiter failed");
        return shared->next_claim - killed;
}

static void kills_measure(Web *web, Claims *shared) {
        Histogram *h = histogram_new();

        for (uint32_t i = 0; i < (web->n_wanted ? KILLS_QUICK : KILLS); i++) {
                histogram_add(h, kill_once(web, shared, i));
                if (!web->options.socket)
                        (void) tslab_reap(pool);
        }
        bench_latencies(&web->bench, "next_claim", h);
}

void web_claims(Web *web) {
        const StoreOperation cycles[] = { { "claim_cycle", false, claim_cycle },
                                          { "put_cycle", false, put_cycle } };
        Claims *shared = bench_reserve(sizeof(*shared));

        if (web->store != &store_tslab)
                return;
        *shared = (Claims){ .web = web, .n_keys = web->n_wanted ? KILLS_QUICK : HERD_KEYS };
        claims_check("open", web->options.socket ? tslab_open(&pool, web->options.socket, NULL)
                                                 : tslab_create(&pool, NULL));
        claims_check("map", tslab_map_open(&map, pool, "claims", NULL));
        web_make_keys(web, "claimed", CLAIMS_KEYS);
        web_each(web, keys_clear, CLAIMS_KEYS, CLAIMS_SIZE);
        for (size_t i = 0; i < 2; i++)
                web_metric(web, web_measure(web, &cycles[i], CLAIMS_KEYS, CLAIMS_SIZE, web->n), "%s_ns",
                           cycles[i].name);
        herd_measure(web, shared);
        web_make_keys(web, "killing", KILLS);
        web_each(web, keys_clear, KILLS, CLAIMS_SIZE);
        kills_measure(web, shared);
}
