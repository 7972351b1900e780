#pragma once
/*
 * The small arena that cases about the core run in, and the conditions at the end.
 *
 * Three classes, of 4, 2 and 1 slots a slab; two epochs; a record for each actor, and record 0 for the
 * one that does control work, if any. Pages are a bitmap here: fallocate() and madvise() are ours.
 */
#include <stdint.h>

#include "shm/cache/object.h"
#include "shm/maintain/freeze.h"
#include "shm/arena/record.h"
#include "shm/slab/set.h"
#include "shm/slab/slab.h"
#include "tests/model/explore.h"

#define WORLD_SIZE_4 1024 /* class 0, 4 slots a slab */
#define WORLD_SIZE_2 2048 /* class 1 */
#define WORLD_SIZE_1 4096 /* class 2 */
#define WORLD_N_EPOCHS 2
/* As much of a ShmActor as ever changes, of so few epochs. */
#define WORLD_ACTOR_SIZE (offsetof(ShmActor, places) + WORLD_N_EPOCHS * SHM_CLASSES_MAX * sizeof(ShmPlaceOf))
#define WORLD_N_PRE 8 /* objects made by pre() */
#define WORLD_FILL_MAX 12 /* slots that are put into a cache */
#define WORLD_N_ALLOCS 2 /* by each actor */
#define WORLD_N_OBJECTS (WORLD_N_PRE + MODEL_ACTORS_MAX * WORLD_N_ALLOCS)

typedef struct WorldObject {
        uint64_t handle; /* 0: none */
        int32_t error; /* the allocation's, where it failed */
        uint8_t n_begun, n_won, n_stale; /* frees */
        uint8_t unused;
} WorldObject;

/* The private part. */
typedef struct World {
        uint64_t pages; /* slabs' pages: shared, as the kernel's state is */
        uint64_t tag_pages; /* tags have these, by slab / SHM_TAGS_PER_PAGE */
        uint64_t shortcut_pages; /* the first 64 pages of the table of shortcuts */
        WorldObject objects[WORLD_N_OBJECTS];
        uint8_t n_allocs[MODEL_ACTORS_MAX];
        int32_t results[MODEL_ACTORS_MAX]; /* for the case */
        int32_t populate_errno; /* with this error the making of slabs' pages fails, once for each bit of: */
        uint32_t n_populate_errors;
        uint32_t n_membarrier_errors; /* so many membarriers fail, and are none; UINT32_MAX: all */
        uint32_t unused;
        uint64_t notes[2]; /* for the case */
        uint64_t passed_usec; /* since the case began, by the clock for waits */
} World;

extern World world;
extern ShmActor world_actors[1 + MODEL_ACTORS_MAX]; /* by record */
extern ShmArena world_arena;

/* For pre(). n_committed slabs are FREE; clients cannot commit more than n_allowed. */
void world_init(uint32_t n_slabs, uint32_t n_committed, uint32_t n_allowed);
/* This actor caches; so far as cases see, in this class of epoch 0. */
void world_set_caching(unsigned actor, uint32_t class);
/* A cache of epoch 0 that is in use, with so small a capacity: a refill takes half of it. */
void world_set_capacity(uint32_t record, uint32_t class, uint32_t capacity);
/* The record's owner allocates n objects of this size and frees them: their slots are in its cache. */
void world_fill_cache(uint32_t record, uint32_t n, size_t size);
/* This actor does control work, with record 0. */
void world_set_control(unsigned actor);
/* Control is of another process than the threads. */
void world_set_other(void);
bool world_is_own(void);
/* All plain stores of the actor may wait, wherever they go. */
void world_set_late(unsigned actor);
/* The same, and control is of another process, whose membarriers leave out the actor's processor. */
void world_leave_out(unsigned actor);
/* The next object; returns its index. */
unsigned world_object(size_t size, uint32_t epoch);
/* So many at once; returns the index of the first. */
unsigned world_objects(unsigned n, size_t size, uint32_t epoch);

/* Clears bits that are stale: claims leave those of the set `free` to the next actor that meets them. */
void world_tidy(void);

/* For actors. */
ShmActor *world_actor(unsigned actor);
/* Time passes, so much that control need not wait for stores of before its last membarrier. */
void world_pass_time(void);
/* Control's fence, and the time that it takes. */
void world_fence(void);
/* Control looks at a freeze that it began, too early and then twice; nobody waits for threads that are pending. */
void world_look(ShmFreeze *freeze);
int world_alloc(unsigned actor, size_t size, uint32_t epoch);
int world_free(unsigned actor, unsigned object);
/* Around a batch of the actor's first n objects, of which `done` were allocated. */
void world_begin_batch(unsigned actor, unsigned n);
void world_end_batch(unsigned actor, unsigned n, const uint64_t *handles, size_t done);
/* Batches: the actor's first n objects, and n of those that were there before. */
void world_batch_alloc(unsigned actor, unsigned n, size_t size, uint32_t epoch);
void world_batch_free(unsigned actor, unsigned n, unsigned first);

/* Around an allocation of the actor's k-th object that is not by world_alloc(). */
void world_begin_alloc(unsigned actor, unsigned k);
void world_end_alloc(unsigned actor, unsigned k, uint64_t handle, int error);

/* The k-th object that an actor allocated. */
static inline unsigned world_allocated(unsigned actor, unsigned k) {
        return WORLD_N_PRE + actor * WORLD_N_ALLOCS + k;
}

static inline uint32_t world_slab_of(unsigned object) {
        return slot_id_slab(shm_handle_slot(world.objects[object].handle));
}

/* Whether the intent of one of the dead names the slab. */
bool world_names_slab(unsigned dead, uint32_t slab);
/* Sets, as repair does, the hints of a slab that the intent of a dead actor names. */
void world_repair_hints(unsigned dead, uint32_t slab);
/*
 * For post(): every slot is free, or live and an actor has its handle, or the intent of a dead actor names it. Once the
 * slabs that such intents name are repaired, every hint is there. No live actor has anything under way.
 */
void world_check(unsigned dead);
