#pragma once
/* A store of sessions: its operations, each of which ends the program if it fails. */
#include <stdlib.h>

#include "bench/harness/harness.h"

#define WEB_KEY_SIZE 17 /* with the final 0 */
#define WEB_VALUE_SIZE 256

typedef struct WebOperation {
        const char *name; /* NULL ends the list */
        bool gets; /* reads into `value`; otherwise writes it */
        void (*function)(uint32_t number, const char *key, char *value);
} WebOperation;

typedef struct WebStore {
        const char *name;
        uint64_t n_operations; /* in each round, unless the command line gives another number */
        void (*open)(const char *socket, uint32_t n_keys);
        WebOperation operations[8];
} WebStore;

extern const WebStore web_tslab, web_redis, web_memcached;
