#pragma once
/* A store of values by key. Each operation ends the program if it fails. */
#include <stdlib.h>

#include "bench/harness/harness.h"

#define STORE_KEY_SIZE 17 /* with the final 0 */
#define STORE_VALUE_MAX (UINT32_C(1) << 20)
#define STORE_SIZE_SESSION 256

typedef struct StoreItem {
        uint32_t number; /* the key's, from 0 */
        const char *key;
        char *value; /* `size` bytes of it; room for STORE_VALUE_MAX */
        uint32_t size;
} StoreItem;

typedef void (*StoreFunction)(StoreItem *item);

/* All 0: a store with room for every workload, that evicts nothing. A server has its limit in its command line. */
typedef struct StoreOptions {
        const char *socket; /* the server listens there, or the daemon; NULL: no such thing */
        uint64_t pool_bytes; /* 0: room for every workload */
        uint64_t limit_bytes; /* the values take no more; 0: no limit */
        bool evicts;
        bool may_refuse; /* a put that finds no memory stores nothing, and does not end the program */
} StoreOptions;

typedef struct StoreOperation {
        const char *name; /* NULL ends the list */
        bool gets; /* reads into the item's value */
        StoreFunction function;
} StoreOperation;

typedef struct Store {
        const char *name;
        uint64_t n_operations; /* in each round, unless the command line gives another number */
        bool is_inherited; /* a forked child goes on with its parent's; otherwise it calls open() again */
        void (*open)(const StoreOptions *options); /* the store that is used from then on */
        void (*close)(void); /* before another open(); NULL: not needed */
        StoreFunction put, get, remove;
        bool (*find)(StoreItem *item); /* a get that may miss */
        uint64_t (*cost)(
                StoreItem *item); /* bytes that count against a limit; the key is absent before and after */
        uint64_t (*entries)(void); /* that it has now */
        uint64_t (*index_bytes)(void); /* the index of all entries takes so many */
        StoreFunction add; /* 1 to the key's counter; NULL: there is no such thing in all of these */
        StoreFunction find_counter, add_at; /* the counter that was found before */
        StoreFunction limit; /* takes a token of the key's bucket */
        void (*put_ttl)(StoreItem *item, uint64_t ttl_ms);
        void (*put_tagged)(StoreItem *item, uint32_t n_tags); /* up to 4; NULL: there are no tags */
        void (*invalidate)(void); /* the first of these tags */
        uint64_t (*bytes)(void); /* that the values take now; with put_ttl */
        StoreOperation sessions[8]; /* besides put and get */
} Store;

extern const Store store_memory, store_tslab, store_redis, store_memcached;
