#include "tests/stress/churn.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "shm/arch/atomic.h"
#include "tests/util/role.h"
#include "tests/util/seed.h"

#define N_HELD 256U
#define N_BATCH 24U
#define OBJECT_MIN 24U
#define OBJECT_MAX 816U
#define EPOCHS_BEHIND 3U /* closed so many advances later */

/* A thread's objects. */
typedef struct Held {
        tslab_handle handle;
        void *memory; /* from tslab_malloc(); then handle is 0 */
} Held;

typedef struct Part {
        Churn *churn;
        struct tslab *pool;
        uint64_t owner, state, n;
        Held held[N_HELD];
        uint64_t n_allocs, n_frees, n_handed, n_refused, n_full;
} Part;

/* In every object: its own length, for the thread that gets it, then the pattern. */
typedef struct Head {
        uint64_t size;
} Head;

uint64_t churn_now_msec(void) {
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return (uint64_t) now.tv_sec * 1000 + (uint64_t) now.tv_nsec / 1000000;
}

bool churn_stopped(const Churn *churn) {
        return shm_load_rlx(&churn->stop) != 0; /* ORDER: rlx; says nothing of other memory. */
}

static void stop(Churn *churn) {
        shm_store_rlx(&churn->stop, 1); /* ORDER: rlx; says nothing of other memory. */
}

static void fail(Churn *churn, const char *what, uint64_t handle, int64_t r) {
        /* ORDER: acqrel; the first one speaks. */
        if (shm_xchg_acqrel(&churn->failed, 1) == 0)
                fprintf(stderr, "churn: %s: handle %016llx, %lld; TSLAB_TEST_SEED=%llu\n", what,
                        (unsigned long long) handle, (long long) r, (unsigned long long) churn->seed);
        stop(churn);
}

static void write_object(Part *p, void *object, size_t size) {
        ((Head *) object)->size = size;
        pattern_fill((Head *) object + 1, size - sizeof(Head), p->owner, seed_next(&p->state));
}

/* By whomever it was written. */
static bool is_whole(const void *object, size_t room) {
        uint64_t size = ((const Head *) object)->size, owner;

        if (size < OBJECT_MIN || size > room)
                return false;
        memcpy(&owner, (const Head *) object + 1, sizeof(owner));
        return pattern_check((const Head *) object + 1, size - sizeof(Head), owner);
}

static void check_owned(Part *p, tslab_handle handle) {
        void *object;
        size_t size;
        int r = tslab_get(p->pool, handle, &object, &size);

        if (r < 0)
                fail(p->churn, "a live object is not found", handle, r);
        else if (!is_whole(object, size))
                fail(p->churn, "an object was written over", handle, 0);
}

static void free_owned(Part *p, tslab_handle handle) {
        int r;

        check_owned(p, handle);
        r = tslab_free(p->pool, handle);
        if (r < 0)
                fail(p->churn, "a live object could not be freed", handle, r);
        if (seed_below(&p->state, 16) == 0 && tslab_free(p->pool, handle) != -ESTALE)
                fail(p->churn, "freed twice", handle, 0);
        p->n_frees++;
}

static void release(Part *p, Held *h) {
        if (h->memory) {
                if (!is_whole(h->memory, OBJECT_MAX - 16))
                        fail(p->churn, "memory was written over", 0, 0);
                tslab_mfree(p->pool, h->memory);
                p->n_frees++;
        } else if (h->handle) {
                free_owned(p, h->handle);
        }
        *h = (Held){};
}

/* The current one, or one that may be closed, or over, by now. */
static uint32_t any_epoch(Part *p) {
        uint32_t current, id;

        if (seed_below(&p->state, 4) != 0 || tslab_epoch_current(p->pool, &current) < 0)
                return TSLAB_EPOCH_CURRENT;
        id = ((current & 0xff) + 8 - seed_below(&p->state, EPOCHS_BEHIND)) % 8;
        return seed_below(&p->state, 2) ? id : (current & ~UINT32_C(0xff)) | id;
}

static uint32_t any_size(Part *p) {
        return OBJECT_MIN + seed_below(&p->state, OBJECT_MAX - OBJECT_MIN - 16 + 1);
}

/* Whether it is one of the failures that are to be expected. */
static bool tolerate(Part *p, const char *what, int64_t r) {
        if (r == -ESHUTDOWN || r == -ESTALE)
                p->n_refused++;
        else if (r == -ENOMEM)
                p->n_full++;
        else
                fail(p->churn, what, 0, r);
        return false;
}

static bool allocate(Part *p, Held *h) {
        uint32_t size = any_size(p);
        void *object;
        int r;

        r = tslab_alloc(p->pool, size, any_epoch(p), &h->handle, &object);
        if (r < 0)
                return tolerate(p, "tslab_alloc", r);
        write_object(p, object, size);
        p->n_allocs++;
        return true;
}

static bool allocate_pending(Part *p, Held *h) {
        uint32_t size = any_size(p);
        void *object;
        int r;

        r = tslab_alloc_pending(p->pool, size, any_epoch(p), &h->handle, &object);
        if (r < 0)
                return tolerate(p, "tslab_alloc_pending", r);
        write_object(p, object, size);
        r = tslab_publish(p->pool, h->handle);
        if (r < 0)
                fail(p->churn, "tslab_publish", h->handle, r);
        p->n_allocs++;
        return true;
}

static bool allocate_memory(Part *p, Held *h) {
        uint32_t size = any_size(p);

        h->memory = tslab_malloc(p->pool, size, any_epoch(p));
        if (!h->memory)
                return tolerate(p, "tslab_malloc", -errno);
        write_object(p, h->memory, size);
        p->n_allocs++;
        return true;
}

static void batch(Part *p) {
        tslab_handle handles[N_BATCH];
        uint32_t size = any_size(p);
        ssize_t n, freed;
        void *object;

        n = tslab_alloc_batch(p->pool, size, any_epoch(p), handles, N_BATCH);
        if (n < 0) {
                tolerate(p, "tslab_alloc_batch", n);
                return;
        }
        for (ssize_t i = 0; i < n; i++) {
                if (tslab_get(p->pool, handles[i], &object, NULL) < 0)
                        fail(p->churn, "of a batch", handles[i], 0);
                else
                        write_object(p, object, size);
        }
        for (ssize_t i = 0; i < n; i++)
                check_owned(p, handles[i]);
        freed = tslab_free_batch(p->pool, handles, (size_t) n);
        if (freed != n)
                fail(p->churn, "tslab_free_batch", handles[0], freed);
        if (tslab_free_batch(p->pool, handles, (size_t) n) != 0)
                fail(p->churn, "a batch was freed twice", handles[0], 0);
        p->n_allocs += (uint64_t) n;
        p->n_frees += (uint64_t) n;
}

/* Swaps our object for the handle in a random slot. */
static void hand_over(Part *p, Held *h) {
        uint64_t *slot = &p->churn->slots[seed_below(&p->state, CHURN_SLOTS)];

        /* ORDER: acqrel, pairs with hand_over(); the object is written before others see its handle. */
        h->handle = shm_xchg_acqrel(slot, h->handle);
        p->n_handed += h->handle != 0;
        if (h->handle)
                check_owned(p, h->handle);
}

/* An object of another thread, which may free it meanwhile: whole, or stale. */
static void peek(Part *p) {
        _Alignas(8) uint8_t buffer[OBJECT_MAX];
        /* ORDER: acq, pairs with hand_over(); the object was written before. */
        tslab_handle handle = shm_load_acq(&p->churn->slots[seed_below(&p->state, CHURN_SLOTS)]);
        ssize_t n;

        if (handle == 0)
                return;
        n = tslab_read(p->pool, handle, buffer, sizeof(buffer));
        if (n < 0 && n != -ESTALE)
                fail(p->churn, "tslab_read", handle, n);
        else if (n > 0 && !is_whole(buffer, (size_t) n))
                fail(p->churn, "read what was not written", handle, n);
}

static void round_of(Part *p) {
        Held *h = &p->held[seed_below(&p->state, N_HELD)];
        uint32_t what = seed_below(&p->state, 64);

        if (what == 0)
                batch(p);
        else if (what < 8)
                peek(p);
        else if (what < 24 && !h->memory)
                hand_over(p, h);
        else if (h->handle || h->memory)
                release(p, h);
        else if (what < 30)
                allocate_memory(p, h);
        else if (what < 34)
                allocate_pending(p, h);
        else
                allocate(p, h);
}

static void add(uint64_t *sum, uint64_t n) {
        shm_add_rlx(sum, n); /* ORDER: rlx; a sum. */
}

void churn_run(Churn *churn, struct tslab *pool, uint64_t owner, uint64_t n_rounds) {
        Part *p = calloc(1, sizeof(*p));

        if (!p)
                abort();
        *p = (Part){ .churn = churn, .pool = pool, .owner = owner, .state = churn->seed ^ owner << 32 };
        for (uint64_t i = 0; i < n_rounds && !churn_stopped(churn); i++)
                round_of(p);
        for (size_t i = 0; i < N_HELD; i++)
                release(p, &p->held[i]);
        add(&churn->n_allocs, p->n_allocs);
        add(&churn->n_frees, p->n_frees);
        add(&churn->n_handed, p->n_handed);
        add(&churn->n_refused, p->n_refused);
        add(&churn->n_full, p->n_full);
        free(p);
}

void churn_epochs(Churn *churn, struct tslab *pool, uint64_t deadline_msec) {
        uint32_t past[EPOCHS_BEHIND] = {}, epoch;
        int r;

        for (uint32_t i = 0; churn_now_msec() < deadline_msec && !churn_stopped(churn); i++) {
                r = tslab_epoch_advance(pool, &epoch);
                if (r < 0)
                        fail(churn, "tslab_epoch_advance", 0, r);
                if (i >= EPOCHS_BEHIND) {
                        r = tslab_epoch_close(pool, past[i % EPOCHS_BEHIND], 0);
                        if (r < 0 && r != -ESTALE)
                                fail(churn, "tslab_epoch_close", past[i % EPOCHS_BEHIND], r);
                }
                past[i % EPOCHS_BEHIND] = epoch;
                usleep(3000); /* the pace of lifetimes */
        }
        stop(churn);
}

void churn_clear(Churn *churn, struct tslab *pool) {
        Part p = { .churn = churn, .pool = pool, .state = churn->seed };

        for (size_t i = 0; i < CHURN_SLOTS; i++)
                if (churn->slots[i])
                        free_owned(&p, churn->slots[i]);
        memset(churn->slots, 0, sizeof(churn->slots));
        add(&churn->n_frees, p.n_frees);
}

void churn_print(const Churn *churn) {
        fprintf(stderr,
                "churn: %llu allocations, %llu frees, %llu handed over, %llu refused, %llu without memory\n",
                (unsigned long long) churn->n_allocs, (unsigned long long) churn->n_frees,
                (unsigned long long) churn->n_handed, (unsigned long long) churn->n_refused,
                (unsigned long long) churn->n_full);
}
