#pragma once
/* Claims: one computation of a value at a time. */
#include "libclient/map.h"

/*
 * Looks at a claim. 1: it stands, and *ret_claim tells whose it is; 0: it does not; -EIDRM. With a word of
 * shm_wait_word(), *ret_value is the value to sleep with while it stands.
 */
int map_look_at_claim(struct tslab_map *map, const ShmMapKey *key, uint64_t version, uint32_t *word,
                      uint32_t *ret_value, ShmClaim *ret_claim);

/* As tslab_map_claim(), of a claim that another process may end, as near caches' are: its thread may wait for it. */
int map_claim_for_news(struct tslab_map *map, const void *key, size_t key_size, uint32_t epoch,
                       tslab_handle *ret_version);
/*
 * Fulfils a claim with a value from outside of the pool: in the claim's epoch, and with a lifetime that counts from the
 * claim. -EAGAIN: the claim is no more, or the lifetime is over. Errors of tslab_map_put_with().
 */
int map_fulfil(struct tslab_map *map, const void *key, size_t key_size, tslab_handle claim, const void *value,
               size_t value_size, uint64_t ttl_ms);
