#pragma once
/* A workload on a store, and the loop that measures one operation. */
#include "bench/web/store.h"

#define WEB_KEYS 10000
#define WEB_ROUNDS 5

typedef struct Web {
        Bench bench;
        const Store *store;
        StoreOptions options; /* that the program opened the store with */
        uint64_t n; /* operations of a round */
        uint64_t n_wanted; /* by the command line; 0: the workload's own number */
        char **arguments; /* the workload's own, NULL after the last one */
        char (*keys)[STORE_KEY_SIZE];
        char *value;
} Web;

/* Makes the keys from 0 to n - 1. The prefix has 7 characters. */
void web_make_keys(Web *web, const char *prefix, uint32_t n);

/*
 * Nanoseconds of the operation on random ones of the first n_keys keys, without the loop around it: the median of
 * rounds of n operations. The value holds the key's number, and a get must return it.
 */
double web_measure(Web *web, const StoreOperation *operation, uint32_t n_keys, uint32_t size, uint64_t n);
StoreItem web_item(Web *web, uint32_t number, uint32_t size);
/* The operation on each of the first n_keys keys. */
void web_each(Web *web, StoreFunction function, uint32_t n_keys, uint32_t size);
void web_metric(Web *web, double value, const char *format, ...) __attribute__((format(printf, 3, 4)));

void web_sessions(Web *web);
void web_values(Web *web);
void web_cycle(Web *web);
void web_tags(Web *web);
void web_counters(Web *web);
void web_limits(Web *web);
void web_expiry(Web *web);
void web_index(Web *web);
void web_room(Web *web);
void web_misses(Web *web);
void web_evict_limit(Web *web);
void web_evict_full(Web *web);
void web_claims(Web *web);
void web_beside(Web *web);
void web_resident(Web *web);
