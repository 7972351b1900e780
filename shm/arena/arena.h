#pragma once
/*
 * One process's view of an arena: the addresses of its parts, and a private copy of its geometry.
 *
 * The geometry is read from the arena once, checked, and from then on used only from this copy: another
 * process that overwrites the header cannot lead this one outside of the mapping.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/arena/geometry.h"
#include "shm/format/layout-record.h"
#include "shm/format/layout.h"
#include "shm/format/slab-word.h"

typedef struct ShmClass {
        uint32_t size;
        uint32_t n_slots;
        uint32_t share; /* the part of a slab, with its line and its tags, that a slot takes */
        uint64_t tail_mask; /* bits of a slab's bitmap beyond n_slots */
} ShmClass;

typedef struct ShmArena {
        uint8_t *base;
        size_t size;
        ShmHeader *header;
        ShmClient *clients;
        ShmRecordHead *heads;
        uint8_t *records;
        uint64_t *changed; /* see shm/slab/changed.h */
        uint64_t *sets;
        ShmSlabLine *lines;
        ShmTags *tags;
        ShmShortcuts *shortcuts;
        uint8_t *slabs;

        uint64_t record_stride;
        ShmSetShape shape;
        uint32_t set_maps; /* the first set that belongs to maps */
        uint32_t n_slabs;
        uint32_t n_records;
        uint32_t n_epochs;
        uint32_t n_classes;
        uint32_t key; /* the pool key in all of its handles */
        uint32_t size_max; /* size of the largest class */
        ShmClass classes[SHM_CLASSES_MAX];
        uint8_t class_of[SHM_GRANULES_MAX]; /* by (size - 1) / SHM_CLASS_GRANULE */
        uint64_t arena_id[2];
        uint8_t pool_key[16];

        int fd;
        int wake_fd; /* eventfd that wakes the daemon; -1: none */
        bool read_only;
        int64_t (*find_allowance)(
                void); /* slabs that may be committed now; NULL: a daemon publishes how many */
        bool huge; /* has huge pages: a trim gives back whole ones first */
        bool populate; /* commits also map the new pages in this process: of the daemon, or of a private pool */
} ShmArena;

enum {
        _SHM_ARENA_E_SUCCESS,
        SHM_ARENA_E_FORMAT, /* not an arena, or of another format version or build */
        SHM_ARENA_E_DAMAGED, /* its header contradicts itself, its size or its seals */
};

/* The thing that this machine lacks for an arena, in words for a log, or NULL. */
const char *shm_machine_lacks(void);

/*
 * Makes a memfd of mode 0600 and of a size that stays. `seals`: as of fcntl(F_ADD_SEALS). -EFBIG: it would be larger
 * than RLIMIT_FSIZE; or another errno of the kernel.
 */
int shm_arena_memfd(const char *name, uint64_t size, int seals, int *ret_fd);

/*
 * Makes an arena in a fresh, sealed memfd of mode 0600 and maps it. `pool` may be NULL.
 * -EINVAL (geometry), -ENOMEM, -EOPNOTSUPP, or an error of shm_arena_memfd().
 */
int shm_arena_create(ShmArena *arena, const ShmGeometry *geometry, const char *pool);

/* The id of an arena, of any format; SHM_ARENA_E_FORMAT: it is no arena, or a negative errno. */
int shm_arena_read_id(int fd, uint64_t ret_id[2]);

/*
 * Maps the arena behind fd. The arena owns fd if this succeeds; if it fails, the caller does. Positive
 * SHM_ARENA_E_* if fd is not an arena of this format. With `read_only` the mapping is PROT_READ.
 */
int shm_arena_map(ShmArena *arena, int fd, bool read_only);
/* Maps the memfd once. The mapping is left out of core dumps unless $TSLAB_DUMP is 1. */
int shm_arena_map_fd(int fd, size_t size, bool read_only, uint8_t **ret);
/* Unmaps the arena and closes its descriptors. */
void shm_arena_deinit(ShmArena *arena);

/* Bytes of the memfd that have pages (st_blocks), or 0 if fstat() fails. */
uint64_t shm_arena_resident_size(const ShmArena *arena);

static inline ShmRecord *shm_arena_record(const ShmArena *arena, uint32_t record) {
        return (ShmRecord *) (arena->records + record * arena->record_stride);
}

static inline uint32_t shm_arena_n_caches(const ShmArena *arena) {
        return shm_n_caches(arena->n_epochs, arena->n_classes);
}

/* The place of a cache in its record: below SHM_CACHES_MAX. */
static inline uint32_t shm_arena_cache_index(const ShmArena *arena, uint32_t epoch, uint32_t class) {
        uint32_t group = shm_cache_group(arena->n_classes);

        return (class / group * arena->n_epochs + epoch) * group + class % group;
}

/* The class at a place; n_classes or more: the place is for none. */
static inline uint32_t shm_arena_cache_class(const ShmArena *arena, uint32_t index) {
        uint32_t group = shm_cache_group(arena->n_classes);

        return index / group / arena->n_epochs * group + index % group;
}

static inline ShmCache *shm_arena_cache_at(const ShmArena *arena, uint32_t record, uint32_t index) {
        return (ShmCache *) (arena->records + record * arena->record_stride + sizeof(ShmRecord)) + index;
}

static inline ShmCache *shm_arena_cache(const ShmArena *arena, uint32_t record, uint32_t epoch,
                                        uint32_t class) {
        return shm_arena_cache_at(arena, record, shm_arena_cache_index(arena, epoch, class));
}

/* The metadata of slabs below this index may be read, that of others may not: it has no pages. */
static inline uint32_t shm_arena_n_slabs_ever(const ShmArena *arena) {
        /* ORDER: acq, pairs with pages_extend_arena(); tags and words of slabs below it have pages. */
        uint64_t n = shm_load_acq(&arena->header->n_slabs_ever.value);

        return n < arena->n_slabs ? (uint32_t) n : arena->n_slabs;
}

static inline uint8_t *shm_arena_slab(const ShmArena *arena, uint32_t slab) {
        return arena->slabs + (uint64_t) slab * SHM_SLAB_SIZE;
}

/* The class for `size` bytes: from 1 to shm_arena_size_max(). */
static inline uint32_t shm_arena_class(const ShmArena *arena, size_t size) {
        return arena->class_of[(size - 1) / SHM_CLASS_GRANULE];
}

static inline size_t shm_arena_size_max(const ShmArena *arena) {
        return arena->size_max;
}
