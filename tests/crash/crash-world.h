#pragma once
/* An arena, a thread that is to die in it, and one that lives on. */
#include <stdint.h>

#include "shm/maintain/repair.h"
#include "shm/map/entry/map.h"

#define WORLD_OBJECTS_MAX 64

typedef struct World {
        ShmArena arena;
        ShmActor victim, survivor, control;
        uint64_t objects[WORLD_OBJECTS_MAX];
        uint32_t n;
        ShmTrie trie;
        struct tslab *pool; /* for operations by way of the library; it owns this arena */
        void (*deinit)(struct World *world);
} World;

enum { WORLD_SURVIVOR, WORLD_VICTIM }; /* clients */

/* The process of the operation. */
typedef enum OperationWhere {
        OPERATION_PROCESS, /* the child */
        OPERATION_THREAD, /* a new thread of it */
        OPERATION_THREAD_END, /* the same, in ending; `run` is the operation before */
} OperationWhere;

typedef struct Operation {
        const char *name;
        void (*prepare)(World *world);
        int (*run)(World *world);
        int least, most; /* objects that come to be */
        bool warm; /* the thread has done something before */
        bool is_alloc; /* nothing is allocated while an intent stands */
        void (*make)(World *world); /* another world than usual */
        int (*enter)(World *world); /* by the child, before it is traced; leaves no object */
        int (*leave)(World *world); /* and where it goes on afterwards; leaves none, too */
        OperationWhere where;
        void (*after)(
                ShmArena
                        *arena); /* by the survivor, once the victim's records are repaired; leaves nothing */
} Operation;

extern const Operation operations[];
extern const unsigned n_operations;

void world_init(World *world, const Operation *operation);
void world_deinit(World *world);

/* The same arena in other memory, of its own descriptor. `copy` is zeros before. */
void world_copy_init(ShmArena *copy, const ShmArena *arena);
void world_copy_deinit(ShmArena *copy);

/* The victim's process is dead: its records are repaired. */
void world_repair(ShmArena *arena, ShmRepairCounts *ret);
uint64_t world_count_live(const ShmArena *arena);
