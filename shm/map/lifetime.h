#pragma once
/* Lifetimes of entries. An entry whose time is over is absent at once; shm/map/expiry.h gives its memory back. */
#include "shm/map/leaf.h"
#include "shm/map/trie.h"

#define SHM_MAP_TTL_DEFAULT UINT32_C(0) /* the map's, see ShmMapOptions */
#define SHM_MAP_TTL_NONE UINT32_MAX

static inline uint64_t shm_map_now_ms(const ShmTrie *trie) {
        return trie->now_ns(trie->arena) / SHM_NS_PER_MS;
}

/* The end of an entry that begins now; 0: none. */
uint64_t shm_map_end(const ShmTrie *trie, uint32_t ttl_ms);
uint64_t shm_map_end_from(const ShmTrie *trie, uint32_t ttl_ms, uint64_t begun_ms);

bool shm_map_is_past(const ShmTrie *trie, uint64_t ms);

/* Whether a leaf with an end is a claim, or an expired entry. */
bool shm_map_is_absent(const ShmTrie *trie, const ShmMapView *view);

/* Gets of entries without an end do not look at the clock. */
static inline bool shm_map_is_over(const ShmTrie *trie, const ShmMapView *view) {
        return __builtin_expect(view->expires != 0, 0) && shm_map_is_absent(trie, view);
}

/* When the memory of a leaf with an end may go. */
uint64_t shm_map_kept_until(const ShmTrie *trie, const ShmMapView *view);

/*
 * Makes the end that was seen another one; SHM_MAP_ENDED: for good. False: it is another one by now. If the leaf was
 * unlinked meanwhile, the change is as if it had come before that.
 */
#define SHM_MAP_ENDED UINT64_C(1)
bool shm_map_set_end(const ShmMapView *view, uint64_t expires);
/*
 * Settles that an entry is over: no touch that was held up brings it back. Its stale value can still be had, as long as
 * before, until something takes its place. A claim is none, and stays. False: it has another end by now.
 */
bool shm_map_settle_end(const ShmMapView *view);

/*
 * A leaf with an end is linked, or was given an earlier one: passes will look at it. If the caller dies before this, a
 * count of the map does it (shm/map/map-sweep.c).
 */
void shm_expiry_note(ShmArena *arena, uint64_t leaf, uint64_t expires);
/* Lowers a `first`. Returns whether nothing had an end before. */
bool shm_expiry_lower(uint64_t *first, uint64_t expires);
