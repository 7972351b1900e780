#pragma once
/*
 * An actor is a thread's own view of its record: where things are, what it saw last. No two threads
 * use one at a time. Here are the stores that every operation makes into its record; they are plain.
 */
#include <stdbool.h>
#include <stdint.h>

#include "shm/arena/arena.h"
#include "shm/format/slab-word.h"

typedef enum ShmCacheMode {
        SHM_CACHE_ADAPTIVE, /* steps aside where it does not pay */
        SHM_CACHE_ON,
        SHM_CACHE_OFF,
} ShmCacheMode;

/* All that allocating needs to know of a size. */
typedef struct ShmSizeOf {
        ShmCache *cache; /* in the current epoch */
        uint32_t cache_off; /* of its class' cache, from the first one of an epoch */
        uint32_t size_more; /* of an object of the class, than the smallest's */
} ShmSizeOf;
static_assert(sizeof(ShmSizeOf) == SHM_CLASS_GRANULE, "a size is the offset of its entry");

/* Where the slots of a class of an open epoch are cached, by these bits of their slab's word. */
typedef struct ShmPlaceOf {
        uint64_t key; /* class, epoch and era, as in the word; 0: nowhere */
        ShmCache *cache;
} ShmPlaceOf;
static_assert(sizeof(ShmPlaceOf) == 1 << SLAB_CLASS_SHIFT,
              "a word's class and epoch are the offset of its entry");

/* A word's bits that choose its entry: class and epoch. */
#define SHM_PLACE_MASK (UINT64_C(0x3ff) << SLAB_CLASS_SHIFT)

typedef struct ShmActor {
        /* What the fast path needs, in the order in which it does. */
        ShmRecord *record;
        uint64_t attention; /* the record's, when the copies below were made; UINT64_MAX: the slow way */
        uint8_t *caches; /* of the record */
        uint64_t size_max; /* of the largest class */
        uint32_t *tags;
        uint8_t *slabs;
        ShmSlabLine *lines;
        uint64_t handle_bits; /* what a handle is besides tag and slot id */
        uint64_t n_slots_ever; /* slots of slabs that have ever been used; may lag */

        ShmArena *arena;
        uint32_t id; /* of the record */
        bool fences; /* no membarrier: this thread fences for itself, on the slow way */
        ShmCacheMode mode;
        uint32_t emptied; /* slab + 1 that this actor made FREE last: for pools without a daemon */
        uint64_t searched_msec; /* when it last searched the slab words themselves, in vain */
        uint64_t seen; /* the record's attention when the copies were made */
        uint32_t numbers[SHM_EPOCHS_MAX]; /* API numbers of open epochs, or UINT32_MAX */
        ShmSizeOf sizes[SHM_GRANULES_MAX]; /* by (size - 1) / SHM_CLASS_GRANULE */
        ShmPlaceOf places[SHM_EPOCHS_MAX * SHM_CLASSES_MAX]; /* by class | epoch << 4 */
} ShmActor;

/*
 * Operations. Between enter and leave `seq` is odd: whoever closes an epoch, having closed it for
 * all to see and issued a membarrier, waits for the odd ones it then finds.
 */
static inline void shm_record_enter(ShmRecord *record) {
        /* ORDER: rlx; its owner's alone; the other side's membarrier makes it precede every later load. */
        shm_store_rlx(&record->seq, shm_load_rlx(&record->seq) + 1);
        shm_compiler_barrier();
}

static inline void shm_record_leave(ShmRecord *record) {
        /* ORDER: rel, pairs with shm_freeze_step(); the operation is over before it says so. ORDER: rlx; ours. */
        shm_store_rel(&record->seq, shm_load_rlx(&record->seq) + 1);
}

static inline void shm_actor_enter(ShmActor *actor) {
        shm_record_enter(actor->record);
}

static inline void shm_actor_leave(ShmActor *actor) {
        shm_record_leave(actor->record);
}

/* The stores are release: the intent precedes what it speaks of, and what it spoke of its end. */
static inline void shm_actor_intend(ShmActor *actor, uint64_t what) {
        /* ORDER: rel, pairs with shm_record_intent(); all before is done when the intent changes. */
        shm_store_rel(&actor->record->intent_what, what);
        shm_compiler_barrier();
}

static inline void shm_actor_intend_mask(ShmActor *actor, uint64_t mask) {
        /* ORDER: rel, pairs with shm_record_intent(); the mask is there before its `what`. */
        shm_store_rel(&actor->record->intent_mask, mask);
        shm_compiler_barrier();
}

static inline void shm_actor_count(ShmActor *actor, ShmCounter counter, uint64_t n) {
        uint64_t *c = &actor->record->counters[counter];

        /* ORDER: rlx; written by this thread alone, read for statistics. */
        shm_store_rlx(c, shm_load_rlx(c) + n);
}
