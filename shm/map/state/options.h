#pragma once
/*
 * Options of a map. They are changed live, all at once. The root has two sets of them, and the lowest bit of
 * `options_version` names the set that counts. A change fills the other set, then raises the version. If its thread
 * dies before that, nothing was changed.
 *
 * Who may do what: the maintainer, and the thread that makes a map, store. Everybody loads.
 */
#include "shm/map/trie/trie-walk.h"

#define SHM_MAP_EVICT_SHIFT 30
#define SHM_MAP_VALUE_MASK ((1U << SHM_MAP_EVICT_SHIFT) - 1) /* more than any value has */

typedef struct ShmMapOptions {
        uint64_t limit_bytes; /* 0: none */
        uint64_t ttl_ms; /* the lifetime of entries that are put without one; 0: no end */
        uint32_t stale_ms; /* how long entries are kept after their end; 0: not at all */
        uint32_t value_max; /* largest value; 0: the library's default */
        uint32_t evict; /* ShmMapEvict */
} ShmMapOptions;

#define SHM_MAP_TTL_SECONDS (UINT32_C(1) << 31)

/* Also of a damaged map it is a lifetime. */
static inline uint64_t shm_map_ttl_unpack(uint32_t ttl) {
        uint64_t ms = ttl & SHM_MAP_TTL_SECONDS ? (ttl & ~SHM_MAP_TTL_SECONDS) * UINT64_C(1000) : ttl;

        return ms < SHM_MAP_TTL_MAX_MS ? ms : SHM_MAP_TTL_MAX_MS;
}

/* Lifetimes above 24 days are rounded up to seconds. */
static inline uint32_t shm_map_ttl_pack(uint64_t ttl_ms) {
        return ttl_ms < SHM_MAP_TTL_SECONDS ? (uint32_t) ttl_ms
                                            : SHM_MAP_TTL_SECONDS | (uint32_t) ((ttl_ms + 999) / 1000);
}

/* A reader that was held up may see parts of a later change. Callers to which that matters use shm_map_options(). */
static inline ShmMapOptions shm_map_options_look(const ShmTrieRoot *root, uint32_t version) {
        const ShmMapOptionSets *sets = &root->options;
        uint32_t i = version & 1, value = shm_load_acq(&sets->value[i]); /* ORDER: acq; before the version. */

        return (ShmMapOptions){
                .limit_bytes = shm_load_acq(&sets->limit_bytes[i]), /* ORDER: acq; before the version. */
                .ttl_ms = shm_map_ttl_unpack(shm_load_acq(&sets->ttl[i])), /* ORDER: acq; as above. */
                .stale_ms = shm_load_acq(&sets->stale_ms[i]), /* ORDER: acq; before the version. */
                .value_max = value & SHM_MAP_VALUE_MASK,
                .evict = value >> SHM_MAP_EVICT_SHIFT,
        };
}

/* False: they were changed meanwhile, and are to be read again. */
static inline bool shm_map_options_read(const ShmTrieRoot *root, ShmMapOptions *ret) {
        /* ORDER: acq, pairs with shm_map_options_store(); before its set. */
        uint32_t version = shm_load_acq(&root->options_version);

        *ret = shm_map_options_look(root, version);
        /* ORDER: acq, pairs with shm_map_options_store(); after the set, and before the next one. */
        return shm_load_acq(&root->options_version) == version;
}

/* All as they were at one moment. */
static inline ShmMapOptions shm_map_options(const ShmTrie *trie) {
        ShmMapOptions ret;

        /* Changes are milliseconds apart, except in a damaged arena. */
        for (uint32_t tries = 0; tries < 100; tries++)
                if (__builtin_expect(shm_map_options_read(trie_root(trie), &ret), 1))
                        break;
        return ret;
}

/* A hint. */
static inline uint32_t shm_map_options_evict(const ShmTrie *trie) {
        const ShmTrieRoot *root = trie_root(trie);
        uint32_t version = shm_hint_load(&root->options_version);

        return shm_hint_load(&root->options.value[version & 1]) >> SHM_MAP_EVICT_SHIFT;
}

/* A hint. */
static inline uint64_t shm_map_options_limit(const ShmTrie *trie) {
        const ShmTrieRoot *root = trie_root(trie);
        uint32_t version = shm_hint_load(&root->options_version);

        return shm_hint_load(&root->options.limit_bytes[version & 1]);
}

/* No two threads do this at the same time. */
static inline void shm_map_options_store(ShmTrieRoot *root, const ShmMapOptions *options) {
        uint32_t next = shm_load_rlx(&root->options_version) + 1, i = next & 1; /* ORDER: rlx; ours alone. */
        uint32_t max = options->value_max < SHM_MAP_VALUE_MASK ? options->value_max : SHM_MAP_VALUE_MASK;
        ShmMapOptionSets *sets = &root->options;

        /* ORDER: rel, pairs with shm_map_options_look(); after the version that made the other set count. */
        shm_store_rel(&sets->limit_bytes[i], options->limit_bytes);
        shm_store_rel(&sets->ttl[i], shm_map_ttl_pack(options->ttl_ms)); /* ORDER: rel; as above. */
        shm_store_rel(&sets->stale_ms[i], options->stale_ms); /* ORDER: rel; as above. */
        /* ORDER: rel; as above. */
        shm_store_rel(&sets->value[i], max | options->evict << SHM_MAP_EVICT_SHIFT);
        /* ORDER: rel, pairs with shm_map_options(); after its set. */
        shm_store_rel(&root->options_version, next);
}
