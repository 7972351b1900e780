#pragma once
/*
 * Notes and guards: entries in a thread's record about single objects, for repair and revocation. Each put of a map
 * uses them, so they are inline.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include "shm/arena/actor.h"
#include "shm/arena/slot.h"

/*
 * Notes an object that is to be freed if this thread dies (see ShmNote). -ENOBUFS: all notes are in use.
 * A note must stand before the object's tag becomes odd, or before the link to the object is cut.
 */
static inline int shm_actor_note(ShmActor *actor, uint64_t handle, uint64_t root, uint64_t hash) {
        ShmRecord *r = actor->record;

        for (uint32_t i = 0; i < SHM_NOTES_MAX; i++) {
                /* ORDER: rlx; only this thread writes its notes. */
                if (shm_load_rlx(&r->notes[i].handle) != 0)
                        continue;
                if (i >= shm_load_rlx(&r->n_notes)) /* ORDER: rlx; only this thread writes it. */
                        shm_store_rlx(&r->n_notes, i + 1); /* ORDER: rlx; ordered by the handle below. */
                shm_store_rlx(&r->notes[i].root, root); /* ORDER: rlx; ordered by the handle below. */
                shm_store_rlx(&r->notes[i].hash, hash); /* ORDER: rlx; ordered by the handle below. */
                /* ORDER: rel; root and hash are stored before the handle. */
                shm_store_rel(&r->notes[i].handle, handle);
                return 0;
        }
        return -ENOBUFS;
}

/* Whether a note is left. */
static inline bool shm_actor_can_note(const ShmActor *actor) {
        for (uint32_t i = 0; i < SHM_NOTES_MAX; i++)
                /* ORDER: rlx; only this thread writes its notes. */
                if (shm_load_rlx(&actor->record->notes[i].handle) == 0)
                        return true;
        return false;
}

/* Makes the note one of another object, with the same root and hash. -ENOENT: this thread has no such note. */
static inline int shm_actor_renote(ShmActor *actor, uint64_t handle, uint64_t other) {
        ShmRecord *r = actor->record;

        if (handle == 0) /* 0 marks a note that is not in use */
                return -ENOENT;
        for (uint32_t i = 0; i < SHM_NOTES_MAX; i++) {
                /* ORDER: rlx; only this thread writes its notes. */
                if (shm_load_rlx(&r->notes[i].handle) != handle)
                        continue;
                /* ORDER: rel; the publishing or freeing after which the note is not needed is before. */
                shm_store_rel(&r->notes[i].handle, other);
                return 0;
        }
        return -ENOENT;
}

static inline int shm_actor_unnote(ShmActor *actor, uint64_t handle) {
        return shm_actor_renote(actor, handle, 0);
}

/* Reuses the note of the kept path for this object, which has the same root and hash. */
static inline int shm_actor_renote_kept(ShmActor *actor, uint64_t handle) {
        uint64_t note = actor->kept.note;

        actor->kept.note = 0;
        return shm_actor_renote(actor, note, handle);
}

static inline void shm_actor_unguard(ShmActor *actor) {
        shm_store_rel(&actor->record->guard, 0); /* ORDER: rel; all stores into the object are before. */
}

/*
 * Guards an object while the actor writes into it: the handle may be revoked meanwhile, but the slot is not
 * given back. The handle must have been live once. False: it is stale by now. One object at a time.
 */
static inline bool shm_actor_guard(ShmActor *actor, uint64_t handle) {
        const uint32_t *tag = shm_slot_tag(actor->arena, shm_handle_slot(handle));

        /* ORDER: rlx; the maintainer makes the tag even, issues a membarrier, then reads guards. */
        shm_store_rlx(&actor->record->guard, handle);
        if (actor->fences)
                shm_fence_sc(); /* ORDER: sc; in place of that membarrier: the guard is before the tag. */
        shm_compiler_barrier();
        /* ORDER: acq, pairs with shm_uncached_free(); if it is odd after the guard, the slot is not reused. */
        if (shm_load_acq(tag) == shm_handle_tag(actor->arena->key, handle))
                return true;
        shm_actor_unguard(actor);
        return false;
}

/* The handle in note i of a dead thread, or of the calling thread; 0: none. */
static inline uint64_t shm_record_note(const ShmRecord *record, uint32_t i) {
        return shm_load_rlx(&record->notes[i].handle); /* ORDER: rlx; the owner is dead, or this thread. */
}
