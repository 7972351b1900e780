#pragma once
/*
 * Entries that expire, or whose end is moved. The memory of an expired entry goes back when a put replaces it, or when
 * a pass over the slabs finds it.
 */
#include "shm/map/state/lifetime.h"
#include "shm/map/entry/map.h"
#include "shm/map/state/options.h"

/* Gives an entry a new end: `ttl_ms` from now. -ENOENT, -EIDRM, -EROFS; -EINVAL: it is a bucket. */
int shm_map_touch(ShmActor *actor, const ShmTrie *trie, const ShmMapKey *key, uint64_t ttl_ms);

/*
 * As shm_map_touch(), and copies out the value of that entry. -EMSGSIZE: nothing was done; ret_view has the size.
 * -EUCLEAN. Do not use the bytes of ret_view.
 */
ssize_t shm_map_get_touch(ShmActor *actor, const ShmTrie *trie, const ShmMapKey *key, uint64_t ttl_ms,
                          void *buffer, size_t size, ShmMapView *ret_view);

/*
 * Whether a step is due. It looks at the clock only if any entry expires. There is some time between two passes, unless
 * `at_once` says that memory is short: the time is exact then, where it is else that of the last tick.
 */
bool shm_expiry_due(ShmArena *arena, bool at_once, uint64_t *ret_now_ms);
/* After a change of options that say how long entries are kept: the next pass looks at all of these. */
void shm_expiry_look_again(ShmArena *arena);
/* Changes the options of a map, while nobody but the calling thread does control work. -ESTALE: the map is no more. */
int shm_map_options_change(ShmArena *arena, const ShmTrie *trie, const ShmMapOptions *options);
/*
 * Maps that are full (a bit for each; all bits: the pool is) lose their stale values in the next pass, which is due
 * now. Such a pass looks at all entries with an end, so calls that follow soon do nothing.
 */
void shm_expiry_squeeze(ShmArena *arena, uint32_t map);
/*
 * Goes on with the pass under way, or begins one: looks at up to n slabs, or at fewer if there are expired entries in
 * them, and deletes these. For the maintainer. True: the pass is over.
 */
bool shm_expiry_step(ShmActor *control, uint64_t now_ms, uint32_t n);
/*
 * For a call that needs memory while the maintainer stands still: looks at up to n slabs, as a step does, from the one
 * on at which the last such call ended, and deletes their expired entries. The pass and the notes of ends stay. Returns
 * at how many slabs it looked; *deleted becomes true if any entry went.
 */
uint32_t shm_expiry_help(ShmActor *actor, uint64_t now_ms, uint32_t n, bool *deleted);
