#pragma once
/*
 * The cover of a near cache: an object that says which epoch's copies may be read, which keys they can have, and until
 * when. It lives in that epoch, and is gone when the epoch is revoked.
 *
 * The time is on two clocks, and both must agree. Nobody sets CLOCK_MONOTONIC, but it stands still while the system is
 * suspended; CLOCK_REALTIME is set ahead then, before any program runs. To read the coarse kind of both costs less than
 * to read CLOCK_BOOTTIME.
 *
 * The words are sealed as those of leaves are (leaf.h): the process that gives the cover may be stopped in a
 * change, and go on when the slot is another object's.
 */
#include "shm/arena/actor.h"
#include "shm/clock/pool-clock.h"

/* The root of the cover of the near cache NAME is "near.NAME". */
#define SHM_COVER_ROOT_PREFIX "near."
#define SHM_COVER_MAGIC UINT64_C(0x7265766f63616873) /* "shacover" */
#define SHM_COVER_PREFIXES_MAX 1024U
#define SHM_COVER_SERVERS_MAX 128U

typedef struct ShmCoverTime {
        uint64_t monotonic_ms, real_ms; /* 0: past */
} ShmCoverTime;

static inline ShmCoverTime shm_cover_now(void) {
        return (ShmCoverTime){
                .monotonic_ms = shm_clock_read(CLOCK_MONOTONIC_COARSE) / SHM_NS_PER_MS,
                .real_ms = shm_clock_read(CLOCK_REALTIME_COARSE) / SHM_NS_PER_MS,
        };
}

/*
 * The numbers of the servers follow, whose answers may become copies; if there are none, answers of any server may.
 * Then the prefixes of keys, each with its zero; if there are none, all keys are covered.
 */
typedef struct ShmCover {
        uint64_t magic;
        ShmCoverTime until; /* in the arena: sealed */
        uint32_t epoch;
        uint16_t n_servers;
        uint16_t prefixes_size;
} ShmCover;
static_assert(sizeof(ShmCover) == 32, "arena format");

/* The number of a server, from the name of its process (its run id). Never 0. */
uint64_t shm_cover_server(const char *id);

/* Fills an object that nobody knows of yet. It covers nothing at first. */
void shm_cover_init(ShmCover *object, uint64_t handle, uint32_t epoch, uint32_t n_servers,
                    uint32_t prefixes_size);

/* -ENOENT: there is no such cover, or no longer. Call this before you read the copy that the cover is for. */
int shm_cover_load(const ShmArena *arena, uint64_t handle, ShmCover *ret);

static inline bool shm_cover_holds(const ShmCover *cover, const ShmCoverTime *now) {
        return now->monotonic_ms < cover->until.monotonic_ms && now->real_ms < cover->until.real_ms;
}

/*
 * Moves the time. Only the process that gives the cover calls this. `seen`: the time that it stored last; it becomes
 * `until`. -ESTALE: the object is no more. It uses the actor's guard.
 */
int shm_cover_set(ShmActor *actor, uint64_t handle, ShmCoverTime *seen, const ShmCoverTime *until);

/* Whether a cover that was loaded has this key. */
bool shm_cover_has_key(const ShmArena *arena, uint64_t handle, const ShmCover *cover, const void *key,
                       size_t key_size);

/* Whether answers of that server may become copies. `id` NULL: it is not known which server answered. */
bool shm_cover_has_server(const ShmArena *arena, uint64_t handle, const ShmCover *cover, const char *id);
