#pragma once
/*
 * Tags of entries, by which any number of entries is made absent at once. A tag is a leaf of the map, under a hash of
 * its own, that no call but these finds. An entry has the handles of its tags, and is there while all of these are
 * live.
 */
#include "shm/map/entry/map.h"

/* The key of a tag's leaf: no key of an entry has these bytes with this hash. */
static inline ShmMapKey shm_map_tag_key(const ShmMapKey *name) {
        return (ShmMapKey){ name->bytes, name->size, name->hash ^ UINT64_C(0x7461677461677461) };
}

/*
 * The handle of a tag, which is made if it is absent. Entries that are put with it are gone once it is invalidated,
 * also if that comes before the put. `key`: see shm_map_tag_key(). Errors of shm_map_put().
 */
int shm_map_tag(ShmActor *actor, const ShmTrie *trie, const ShmMapKey *key, uint32_t epoch, uint64_t *ret);

/* Makes all entries with this tag absent. -ENOENT: none has it. -EROFS, -EIDRM. */
int shm_map_invalidate(ShmActor *actor, const ShmTrie *trie, const ShmMapKey *key);
