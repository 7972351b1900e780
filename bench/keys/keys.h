#pragma once
/* A store of values of 32 bytes by keys of 8. Each function ends the program if it fails. */
#include <stdint.h>

#define KEYS_VALUE_SIZE 32
#define KEYS_MANY 16 /* in a call */

typedef struct KeyStore {
        const char *name;
        uint64_t n_max; /* more keys than this take too long, or too much memory */
        void (*open)(uint64_t n_max); /* an empty store with room for so many keys */
        void (*close)(void);
        void (*put)(uint64_t key, const void *value); /* a new value, or one in place of another */
        void (*settle)(void); /* ends puts that are not done yet; NULL: there are none */
        void (*filled)(void); /* all keys are there; NULL: it does not matter */
        void (*get)(uint64_t key, void *value);
        void (*get_many)(const uint64_t keys[KEYS_MANY],
                         uint8_t values[KEYS_MANY][KEYS_VALUE_SIZE]); /* or NULL */
        double (*index_bytes)(void); /* that the index has for all entries; NULL: not known */
} KeyStore;

extern const KeyStore keys_table, keys_map, keys_map_huge, keys_lmdb;
