/*
 * Lifetime buckets: objects that live as long as the program are in an epoch that is reserved for them,
 * objects of a request in one that is closed when the requests of its time are over. Memory goes back as a
 * whole, and no long-lived object keeps a slab of short-lived ones.
 */
#include <stdio.h>
#include <string.h>

#include <tslab.h>

#define PERIODS 10
#define REQUESTS 5000

struct config {
        char name[60];
};

static int allocate_filled(struct tslab *pool, size_t size, uint32_t epoch, tslab_handle *ret) {
        void *object;
        int r = tslab_alloc(pool, size, epoch, ret, &object);

        if (r == 0)
                memset(object, 1, size);
        return r;
}

/* A request does not free its objects: they go with its period. */
static int serve_request(struct tslab *pool) {
        tslab_handle handle;
        int r = 0;

        for (int i = 0; r == 0 && i < REQUESTS; i++)
                r = allocate_filled(pool, 200 + (size_t) i % 500, TSLAB_EPOCH_CURRENT, &handle);
        return r;
}

static int run_periods(struct tslab *pool) {
        struct tslab_epoch_info info = { .size = sizeof(info) };
        uint32_t forever, over;
        struct config *config;
        tslab_handle handle;
        int r;

        r = tslab_epoch_reserve(pool, "configuration", &forever);
        if (r == 0)
                r = tslab_alloc(pool, sizeof(*config), forever, &handle, (void **) &config);
        if (r < 0)
                return r;
        snprintf(config->name, sizeof(config->name), "lives through all periods");

        for (int period = 0; period < PERIODS; period++) {
                tslab_epoch_current(pool, &over);
                r = serve_request(pool);
                if (r == 0)
                        r = tslab_epoch_advance(pool, NULL); /* new requests go to the next one */
                if (r == 0)
                        r = tslab_epoch_close(pool, over,
                                              TSLAB_CLOSE_REVOKE); /* and nobody uses this one any more */
                if (r == 0)
                        r = tslab_epoch_info(pool, over, &info);
                if (r < 0)
                        return r;
                printf("period %d gave %llu KiB back\n", period,
                       (unsigned long long) info.reclaimed_bytes >> 10);
        }
        r = tslab_get(pool, handle, (void **) &config, NULL);
        if (r == 0)
                printf("the configuration: %s\n", config->name);
        return r;
}

int main(void) {
        struct tslab *pool;
        int r;

        r = tslab_create(&pool, NULL);
        if (r == 0) {
                r = run_periods(pool);
                tslab_close(pool);
        }
        if (r < 0)
                fprintf(stderr, "failed: %s\n", strerror(-r));
        return r < 0;
}
