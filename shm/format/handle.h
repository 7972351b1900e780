#pragma once
/*
 * Handles: 64-bit names of objects, the same in every process.
 *
 *     63           32 31 30 29            6 5     0
 *     [ tag ^ key32 ][ ver ][  slab index ][ slot ]        ver = 1, so 0 is never valid
 *
 * A slot id is the low 30 bits: slab index × 64 + slot.
 */
#include <stdint.h>

typedef struct SlotId {
        uint32_t value;
} SlotId;

#define SHM_HANDLE_VERSION UINT64_C(1)
#define SHM_SLOT_ID_MASK UINT32_C(0x3fffffff)

static inline SlotId slot_id(uint32_t slab, uint32_t slot) {
        return (SlotId){ slab << 6 | slot };
}

static inline uint32_t slot_id_slab(SlotId id) {
        return id.value >> 6;
}

static inline uint32_t slot_id_slot(SlotId id) {
        return id.value & 63;
}

static inline uint64_t slot_id_mask(SlotId id) {
        return UINT64_C(1) << (id.value & 63);
}

static inline uint64_t shm_handle_make(uint32_t key, SlotId id, uint32_t tag) {
        return (uint64_t) (tag ^ key) << 32 | SHM_HANDLE_VERSION << 30 | id.value;
}

static inline uint32_t shm_handle_tag(uint32_t key, uint64_t handle) {
        return (uint32_t) (handle >> 32) ^ key;
}

static inline SlotId shm_handle_slot(uint64_t handle) {
        return (SlotId){ (uint32_t) handle & SHM_SLOT_ID_MASK };
}
