/*
 * Closing and revoking eras
 *
 * Purpose: which eras of an id are over, and of which the objects are to be freed.
 *
 * Invariants: those of shm/epoch/epoch.c.
 *
 * Who may do what: the maintainer writes.
 *
 * Crash: which eras are to be revoked stands before the epoch's word says that some are; a word of earlier eras
 *   says all by itself. What is to be freed stays so until shm_epoch_set_revoked().
 */
#include <errno.h>

#include "shm/arena/clock.h"
#include "shm/epoch/epoch-table.h"
#include "shm/epoch/epoch.h"

/* Eras: which are to be revoked, which may be opened */

/* a is before b; both are of 24 bits, and less than half of these apart. */
static bool is_before(uint32_t a, uint32_t b) {
        uint32_t distance = (b - a) & SHM_ERA_MAX;

        return distance != 0 && distance <= SHM_ERA_MAX / 2;
}

static bool is_within(uint32_t era, uint32_t from, uint32_t to) {
        return !is_before(era, from) && !is_before(to, era);
}

static uint64_t range_make(uint32_t from, uint32_t to) {
        return (uint64_t) to << 32 | from;
}

static uint64_t load_older(const ShmArena *arena, uint32_t id) {
        /* ORDER: rlx; the maintainer's alone. */
        return shm_load_rlx(&arena->header->epochs[id].revoke_older);
}

bool shm_epoch_revoking(const ShmArena *arena, uint32_t id, ShmRevoking *ret) {
        const ShmEpoch *e = &arena->header->epochs[id];
        ShmEpochWord w = shm_epoch_load(arena, id);

        *ret = (ShmRevoking){
                .id = id,
                .newest = w.era,
                .open = w.state == SHM_EPOCH_OPEN,
                /* ORDER: rlx; the word, loaded before, says whether it counts. */
                .from = w.flags & SHM_EPOCH_REVOKE ? shm_load_rlx(&e->revoke_from) & SHM_ERA_MAX : 0,
                .older = load_older(arena, id),
        };
        return ret->from != 0 || ret->older != 0;
}

/* Invariant 5: the latest era that has these low bits. */
static uint32_t whole_era(uint32_t newest, uint32_t slab_era) {
        return (newest - ((newest - slab_era) & SLAB_ERA_BITS)) & SHM_ERA_MAX;
}

bool shm_revoking_has(const ShmRevoking *revoking, uint32_t slab_era) {
        uint32_t era = whole_era(revoking->newest, slab_era);

        if (revoking->open && era == revoking->newest)
                return false;
        if (revoking->from != 0 && is_within(era, revoking->from, revoking->newest))
                return true;
        return revoking->older != 0 && is_within(era, (uint32_t) revoking->older & SHM_ERA_MAX,
                                                 (uint32_t) (revoking->older >> 32) & SHM_ERA_MAX);
}

/* Closing */

/* 0; -EINVAL, -ESTALE. */
static int find_era(const ShmArena *arena, uint32_t number, uint32_t *ret_id, uint32_t *ret_era,
                    uint32_t *ret_newest) {
        uint32_t id = number & 0xff, era = number >> 8;

        if (id >= arena->n_epochs)
                return -EINVAL;
        *ret_id = id;
        *ret_newest = shm_epoch_load(arena, id).era;
        *ret_era = era != 0 ? era : *ret_newest;
        return is_before(*ret_newest, *ret_era) ? -ESTALE : 0;
}

static void close_newest(ShmArena *arena, uint32_t id, uint32_t flags) {
        if (shm_epoch_load(arena, id).state == SHM_EPOCH_OPEN)
                /* ORDER: rlx; for people. */
                shm_store_rlx(&arena->header->epochs[id].closed_usec, shm_now_usec());
        (void) shm_epoch_change(arena, id, SHM_EPOCH_EV_CLOSE, flags);
}

int shm_epoch_close(ShmArena *arena, uint32_t number, bool drain) {
        uint32_t id, era, newest;
        int r;

        r = find_era(arena, number, &id, &era, &newest);
        if (r)
                return r;
        if (era != newest)
                return -ESTALE;
        close_newest(arena, id, drain ? SHM_EPOCH_DRAIN : 0);
        return 0;
}

static void revoke_newest(ShmArena *arena, uint32_t id, uint32_t from) {
        ShmEpoch *e = &arena->header->epochs[id];
        ShmRevoking now;

        (void) shm_epoch_revoking(arena, id, &now);
        if (now.from == 0 || is_before(from, now.from))
                shm_store_rlx(&e->revoke_from, from); /* ORDER: rlx; ordered by the word. */
        close_newest(arena, id, SHM_EPOCH_DRAIN | SHM_EPOCH_REVOKE);
}

static int revoke_older(ShmArena *arena, uint32_t id, uint32_t from, uint32_t to) {
        uint64_t old = load_older(arena, id);
        uint32_t old_from = (uint32_t) old, old_to = (uint32_t) (old >> 32);

        if (old != 0) {
                if (is_before(to + 1, old_from) || is_before(old_to + 1, from))
                        return -EBUSY;
                from = is_before(old_from, from) ? old_from : from;
                to = is_before(to, old_to) ? old_to : to;
        }
        /* ORDER: rel; one word says all. */
        shm_store_rel(&arena->header->epochs[id].revoke_older, range_make(from, to));
        return 0;
}

int shm_epoch_revoke(ShmArena *arena, uint32_t number, bool older) {
        uint32_t id, era, newest, from;
        int r;

        r = find_era(arena, number, &id, &era, &newest);
        if (r)
                return r;
        /* ORDER: rlx; the maintainer's alone. */
        from = older ? shm_load_rlx(&arena->header->epochs[id].floor_era) & SHM_ERA_MAX : era;
        from = is_before(era, from) ? era : from;
        if (era != newest)
                return revoke_older(arena, id, from, era);
        revoke_newest(arena, id, from);
        return 0;
}

void shm_epoch_set_revoked(ShmArena *arena, const ShmRevoking *revoking) {
        ShmRevoking now;

        (void) shm_epoch_revoking(arena, revoking->id, &now);
        if (now.older != 0 && now.older == revoking->older)
                /* ORDER: rel; what was freed is free before. */
                shm_store_rel(&arena->header->epochs[revoking->id].revoke_older, 0);
        if (now.from != 0 && now.from == revoking->from && now.newest == revoking->newest)
                (void) shm_epoch_change(arena, revoking->id, SHM_EPOCH_EV_REVOKED, 0);
}

void shm_epoch_set_not_empty(ShmArena *arena, uint32_t id) {
        (void) shm_epoch_change(arena, id, SHM_EPOCH_EV_NOT_EMPTY, 0);
}

void shm_epoch_walked(ShmArena *arena, uint32_t id, uint32_t floor_era, uint32_t n_left) {
        ShmEpoch *e = &arena->header->epochs[id];
        ShmEpochWord w = shm_epoch_load(arena, id);

        /* ORDER: rlx; the maintainer's alone. */
        shm_store_rlx(&e->floor_era, whole_era(w.era, floor_era));
        (void) shm_epoch_change(arena, id, n_left == 0 ? SHM_EPOCH_EV_EMPTY : SHM_EPOCH_EV_NOT_EMPTY, 0);
        if (n_left == 0 && w.state != SHM_EPOCH_OPEN && !(w.flags & SHM_EPOCH_REVOKE))
                shm_store_rlx(&e->owner_client, 0); /* ORDER: rlx; the maintainer's alone. */
}
