#pragma once
/* Lifetimes of entries. An entry whose time is over is absent at once; shm/map/entry/expiry.h gives its memory back. */
#include "shm/map/leaf/leaf.h"
#include "shm/map/trie/trie.h"

#define SHM_MAP_TTL_DEFAULT UINT64_C(0) /* the map's, see ShmMapOptions */
#define SHM_MAP_TTL_NONE UINT64_MAX

/* Whether a caller may give it. */
static inline bool shm_map_ttl_is_sound(uint64_t ttl_ms) {
        return ttl_ms <= SHM_MAP_TTL_MAX_MS || ttl_ms == SHM_MAP_TTL_NONE;
}

static inline uint64_t shm_map_now_ms(const ShmTrie *trie) {
        return trie->now_ns(trie->arena) / SHM_NS_PER_MS;
}

/* The end of an entry that begins now; 0: none. */
uint64_t shm_map_end(const ShmTrie *trie, uint64_t ttl_ms);
/* The end of an entry that began at `begun_ms`; 0: none. */
uint64_t shm_map_end_from(const ShmTrie *trie, uint64_t ttl_ms, uint64_t begun_ms);

bool shm_map_is_past(const ShmTrie *trie, uint64_t ms);

/* An end that never comes: of entries with tags, which have one in any case, so that passes find them. */
#define SHM_MAP_FOREVER (UINT64_C(1) << 62)

/* Whether all tags of a leaf are there. Once one is not, that stays so. */
static inline bool shm_map_has_all_tags(const ShmArena *arena, const ShmMapView *view) {
        for (uint32_t i = 0; i < shm_leaf_n_tags(view->head.flags); i++)
                if (!shm_object_live(arena, view->tags[i]))
                        return false;
        return true;
}

/* Whether a leaf with an end is a claim or a tag, or an entry that expired or lost a tag. */
bool shm_map_is_absent(const ShmTrie *trie, const ShmMapView *view);

/* For an entry without an end the clock is not read. */
static inline bool shm_map_is_over(const ShmTrie *trie, const ShmMapView *view) {
        return __builtin_expect(view->expires != 0, 0) && shm_map_is_absent(trie, view);
}

/*
 * When the memory of a leaf with an end may go, as the map's options are now. `stale_ms`: from them, or 0 if stale
 * values are to go at their end.
 */
uint64_t shm_map_kept_for(const ShmTrie *trie, const ShmMapView *view, uint32_t stale_ms);
uint64_t shm_map_kept_until(const ShmTrie *trie, const ShmMapView *view);
/* When the stale value that a claim has is over; 0: it has none. */
uint64_t shm_claim_stale_until(const ShmClaim *claim, uint32_t stale_ms);

/* False: the leaf is no more. */
bool shm_map_load_claim(const ShmTrie *trie, const ShmMapView *view, ShmClaim *ret);
/* Whether its process is there, and its time is not over. The leaf stays longer if the claim has a stale value. */
bool shm_map_claim_stands(const ShmTrie *trie, const ShmClaim *claim);

/*
 * Replaces the end that was seen; SHM_MAP_ENDED ends the entry for good. False: the leaf has another end by now, or is
 * no more. If the leaf was unlinked meanwhile, the change is as if it had come before that. It uses the actor's guard.
 */
#define SHM_MAP_ENDED UINT64_C(1)
bool shm_map_set_end(ShmActor *actor, const ShmMapView *view, uint64_t expires);
/*
 * Settles that an entry is over, so that no touch that was held up brings it back. Its stale value can be had as long
 * as before, until another leaf replaces it. A claim is no entry, and stays as it is. False: the leaf has another end
 * by now.
 */
bool shm_map_settle_end(ShmActor *actor, const ShmMapView *view);

/*
 * To be called once a leaf with an end is linked, or has an earlier end, so that passes look at it. If the caller dies
 * before this, a count of the map does it (shm/map/entry/map-sweep.c).
 */
void shm_expiry_note(ShmArena *arena, uint64_t leaf, uint64_t expires);
/* Lowers a `first`. Returns whether nothing had an end before. */
bool shm_expiry_lower(uint64_t *first, uint64_t expires);

/* An entry with these tags is about to have this end: the tags stay at least as long. */
void shm_map_hold_tags(ShmActor *actor, const ShmTrie *trie, const uint64_t *tags, uint32_t n, uint64_t end);
/*
 * Gives a tag an end no earlier than this one, and later by `extra` if it changes. False: it is ending, or has another
 * end by now.
 */
bool shm_map_prolong_tag(ShmActor *actor, const ShmMapView *view, uint64_t end, uint64_t extra);
/* A tag is gone: a pass within some seconds frees the entries that had it. */
void shm_expiry_invalidated(ShmArena *arena);
