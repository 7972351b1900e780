#pragma once
/*
 * Leaves of maps: objects that are entries, a key and a value.
 *
 * Words of a leaf that change in place are sealed in memory: xor a mix of the leaf's handle, as words of the trie's
 * nodes are (shm/map/trie-word.h). A change is one compare-and-set from what was read while the leaf was live. If it
 * comes late, to a slot that is another object's by then, it fails (but for a chance of 2^-64).
 */
#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include "shm/arch/racy.h"
#include "shm/cache/object.h"

/* Key and value follow, in this order, at once. */
typedef struct ShmMapLeaf {
        uint64_t hash;
        uint64_t expires; /* sealed: milliseconds of the pool's clock; 0: never */
        uint32_t value_size;
        uint32_t epoch; /* API number: the leaf's */
        uint16_t key_size;
        uint16_t flags; /* 0 */
        uint32_t map; /* index of the named root + 1; 0: not known. A hint */
} ShmMapLeaf;
static_assert(sizeof(ShmMapLeaf) == 32, "arena format");

static inline uint64_t shm_leaf_seal(uint64_t leaf) {
        uint64_t mix = leaf * UINT64_C(0x9e3779b97f4a7c15);

        return mix ^ mix >> 32;
}

/* A leaf seen in place. Read it, then ask shm_map_view_live() whether the bytes were the leaf's. */
typedef struct ShmMapView {
        uint64_t handle;
        const uint8_t *bytes; /* the key, then the value */
        ShmMapLeaf head; /* a copy; the sizes fit the object */
} ShmMapView;

/* -ESTALE: no live object, or none that can be a leaf. */
static inline int shm_map_view(const ShmArena *arena, uint64_t handle, ShmMapView *ret) {
        size_t size, room;
        void *object;
        int r;

        r = shm_object_get(arena, handle, &object, &size);
        if (r)
                return r;
        ret->handle = handle;
        ret->bytes = (const uint8_t *) object + sizeof(ShmMapLeaf);
        shm_racy_copy(&ret->head, object, sizeof(ret->head));
        room = size - sizeof(ShmMapLeaf);
        if (ret->head.key_size <= room && ret->head.value_size <= room - ret->head.key_size)
                return 0;
        /* ORDER: acq, pairs with shm_uncached_free(); if it was overwritten, its unlinking is seen. */
        shm_fence_acq();
        return -ESTALE;
}

static inline bool shm_map_view_live(const ShmArena *arena, const ShmMapView *view) {
        uint32_t *tag = shm_slot_tag(arena, shm_handle_slot(view->handle));

        /* ORDER: acq, pairs with shm_uncached_free(); the bytes are read before the tag is again. */
        shm_fence_acq();
        /* ORDER: acq, pairs with shm_uncached_free(); its unlinking before that is seen hereafter. */
        return shm_load_acq(tag) == shm_handle_tag(arena->key, view->handle);
}
