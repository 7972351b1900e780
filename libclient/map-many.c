/*
 * Many keys in one call
 *
 * A look-up in a large map waits for memory once for each level of the index, and for the entry. So the paths of
 * several keys are fetched level by level, all at one time, and then each call is as for a small map. With 10^6 entries
 * of 72 bytes, 64 keys take 0.35 to 0.43 of the time of single gets, and 0.35 to 0.37 of that of single puts (AMD EPYC
 * family 25).
 */
#include <errno.h>

#include "libclient/map.h"

/* The keys of one round. */
typedef struct Round {
        ShmMapKey keys[SHM_MAP_PREFETCH_MAX];
        struct tslab_map_item *items[SHM_MAP_PREFETCH_MAX];
        uint32_t n;
} Round;

/* Takes items until the round is full. Returns how many it took; those with keys that are too large have a result. */
static size_t round_init(Round *round, const struct tslab_map *map, struct tslab_map_item *items, size_t n,
                         int too_large) {
        size_t i;

        round->n = 0;
        for (i = 0; i < n && round->n < SHM_MAP_PREFETCH_MAX; i++) {
                if (map_key_init(&round->keys[round->n], map, items[i].key, items[i].key_size))
                        round->items[round->n++] = &items[i];
                else
                        items[i].result = too_large;
        }
        shm_map_prefetch(&map->trie, round->keys, round->n);
        return i;
}

static void get_item(struct tslab_map *map, const ShmMapKey *key, struct tslab_map_item *item) {
        ShmMapView view;

        item->result = map_get_key(map, key, item->value, item->value_size, &view);
        if (item->result >= 0 || item->result == -EMSGSIZE) {
                item->value_size = view.head.value_size;
                item->version = view.handle;
        }
}

_public_ ssize_t tslab_map_get_many(struct tslab_map *map, struct tslab_map_item *items, size_t n) {
        ssize_t n_copied = 0;
        Round round;

        for (size_t done = 0; done < n;) {
                done += round_init(&round, map, items + done, n - done, -ENOENT);
                for (uint32_t i = 0; i < round.n; i++) {
                        get_item(map, &round.keys[i], round.items[i]);
                        if (round.items[i]->result == -EIDRM)
                                return -EIDRM;
                        n_copied += round.items[i]->result >= 0;
                }
        }
        return n_copied;
}

_public_ ssize_t tslab_map_put_many(struct tslab_map *map, struct tslab_map_item *items, size_t n,
                                    const struct tslab_map_put_options *options) {
        ssize_t n_set = 0;
        ShmMapPut all, p;
        Round round;

        if (map_put_init(&all, options) < 0)
                return -EINVAL;
        if (map->pool->is_reader)
                return -EROFS;
        for (size_t done = 0; done < n;) {
                done += round_init(&round, map, items + done, n - done, -E2BIG);
                for (uint32_t i = 0; i < round.n; i++) {
                        struct tslab_map_item *item = round.items[i];

                        p = all;
                        p.value = item->value;
                        p.expected = item->version;
                        item->result = map_put_key(map, &round.keys[i], &p, item->value_size);
                        n_set += item->result == 0;
                }
        }
        return n_set;
}
