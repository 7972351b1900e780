#pragma once
/*
 * The cover of a near cache: an object that says which epoch's copies may be read, which keys these can have, and until
 * when. It lives in that epoch, and is no more when the epoch is revoked.
 *
 * The time is on two clocks, and both have to agree. CLOCK_MONOTONIC is set by nobody, but stands still while the
 * system is suspended; CLOCK_REALTIME is set ahead then, before any program runs. A look at the coarse kind of both
 * costs less than one at CLOCK_BOOTTIME.
 *
 * Its words are sealed as those of leaves are (shm/map/leaf.h): the process that gives the cover may be stopped in a
 * change, and go on when the object's slot is another's.
 */
#include "shm/arena/arena.h"

#define SHM_COVER_MAGIC UINT64_C(0x7265766f63616873) /* "shacover" */
#define SHM_COVER_PREFIXES_MAX 1024U

typedef struct ShmCoverTime {
        uint64_t monotonic_ms, real_ms; /* 0: past */
} ShmCoverTime;

/* The prefixes of keys follow, each with its zero. None: all keys are covered. */
typedef struct ShmCover {
        uint64_t magic;
        ShmCoverTime until; /* in the arena: sealed */
        uint32_t epoch;
        uint32_t prefixes_size;
} ShmCover;
static_assert(sizeof(ShmCover) == 32, "arena format");

/* For an object that nobody knows of yet: nothing is covered. */
void shm_cover_init(ShmCover *object, uint64_t handle, uint32_t epoch, uint32_t prefixes_size);

/* -ENOENT: there is no such cover, or no more. To be read before the copy that it is to cover. */
int shm_cover_load(const ShmArena *arena, uint64_t handle, ShmCover *ret);

static inline bool shm_cover_holds(const ShmCover *cover, const ShmCoverTime *now) {
        return now->monotonic_ms < cover->until.monotonic_ms && now->real_ms < cover->until.real_ms;
}

/*
 * Moves the time. For the one process that gives the cover; `seen` is what it stored last, and `until` from then on.
 * -ESTALE: the object is no more.
 */
int shm_cover_set(const ShmArena *arena, uint64_t handle, ShmCoverTime *seen, const ShmCoverTime *until);

/* Whether the cover, as it was loaded, is of keys like this one. */
bool shm_cover_has_key(const ShmArena *arena, uint64_t handle, const ShmCover *cover, const void *key,
                       size_t key_size);
