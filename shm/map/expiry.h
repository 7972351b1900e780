#pragma once
/*
 * Entries whose time is over, or is to be prolonged. The memory of one that is over goes back when a put takes its
 * place, or when a pass over the slabs finds it.
 */
#include "shm/map/lifetime.h"
#include "shm/map/map.h"

/* Gives an entry another end, as from now. -ENOENT, -EIDRM, -EROFS. */
int shm_map_touch(ShmActor *actor, const ShmTrie *trie, const ShmMapKey *key, uint32_t ttl_ms);

/* Whether a step is due. Looks at the clock only if any entry expires. Passes are apart, but where memory is short. */
bool shm_expiry_due(ShmArena *arena, bool at_once, uint64_t *ret_now_ms);
/*
 * Goes on with the pass under way, or begins one: looks at up to n slabs, or at fewer, if there are entries in them
 * whose time is over, and deletes these. For the maintainer. True: the pass is over.
 */
bool shm_expiry_step(ShmActor *control, uint64_t now_ms, uint32_t n);
