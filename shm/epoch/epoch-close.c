/*
 * Closing and revoking eras
 *
 * Purpose: stores which eras of an id are closed, and which are to be revoked: their objects are to be freed.
 *
 * Invariants: see shm/epoch/epoch.c.
 *
 * Who may do what: only the maintainer writes.
 *
 * Crash: revoke_from is stored before the epoch's word gets SHM_EPOCH_REVOKE; revoke_older is a single word. An era
 *   stays to be revoked until shm_epoch_set_revoked().
 */
#include "shm/epoch/epoch-close.h"

#include <errno.h>

#include "shm/arch/probe.h"
#include "shm/arena/clock.h"

bool shm_epoch_change(ShmArena *arena, uint32_t id, ShmEpochEvent event, uint32_t flags) {
        ShmEpochWord w;

        if (shm_epoch_word_apply(shm_epoch_load(arena, id), event, flags, &w))
                return false;
        /* ORDER: rel, pairs with shm_epoch_load(); label, owner and the eras to be revoked are stored before. */
        shm_store_rel(&arena->header->epochs[id].word, shm_epoch_word_encode(w));
        return true;
}

/* From an API number to its id and era; era 0 is the newest. -EINVAL: no such id; -ESTALE: no such era yet. */
static int epoch_find_era(const ShmArena *arena, uint32_t number, uint32_t *ret_id, uint32_t *ret_era,
                          uint32_t *ret_newest) {
        uint32_t id = number & 0xff, era = number >> 8;

        if (id >= arena->n_epochs)
                return -EINVAL;
        *ret_id = id;
        *ret_newest = shm_epoch_load(arena, id).era;
        *ret_era = era != 0 ? era : *ret_newest;
        return shm_era_is_before(*ret_newest, *ret_era) ? -ESTALE : 0;
}

static void epoch_close_newest(ShmArena *arena, uint32_t id, uint32_t flags) {
        if (shm_epoch_load(arena, id).state == SHM_EPOCH_OPEN)
                shm_hint_store(&arena->header->epochs[id].closed_usec, shm_now_usec());
        if (shm_epoch_change(arena, id, SHM_EPOCH_EV_CLOSE, flags))
                shm_probe(close, id, flags);
}

int shm_epoch_close(ShmArena *arena, uint32_t number, bool drain) {
        uint32_t id, era, newest;
        int r;

        r = epoch_find_era(arena, number, &id, &era, &newest);
        if (r)
                return r;
        if (era != newest)
                return -ESTALE;
        epoch_close_newest(arena, id, drain ? SHM_EPOCH_DRAIN : 0);
        return 0;
}

static void epoch_revoke_newest(ShmArena *arena, uint32_t id, uint32_t from) {
        ShmEpoch *e = &arena->header->epochs[id];
        ShmRevoking now;

        (void) shm_epoch_revoking(arena, id, &now);
        if (now.from == 0 || shm_era_is_before(from, now.from))
                shm_store_rlx(&e->revoke_from, from); /* ORDER: rlx; ordered by the word. */
        epoch_close_newest(arena, id, SHM_EPOCH_DRAIN | SHM_EPOCH_REVOKE);
}

static int epoch_revoke_older(ShmArena *arena, uint32_t id, uint32_t from, uint32_t to) {
        ShmEpoch *e = &arena->header->epochs[id];
        uint64_t old = shm_load_rlx(&e->revoke_older); /* ORDER: rlx; only the maintainer writes it. */
        uint32_t old_from = (uint32_t) old, old_to = (uint32_t) (old >> 32);

        if (old != 0) {
                if (shm_era_is_before(to + 1, old_from) || shm_era_is_before(old_to + 1, from))
                        return -EBUSY;
                from = shm_era_is_before(old_from, from) ? old_from : from;
                to = shm_era_is_before(to, old_to) ? old_to : to;
        }
        /* ORDER: rel; the whole range is in one word. */
        shm_store_rel(&e->revoke_older, (uint64_t) to << 32 | from);
        return 0;
}

int shm_epoch_to_revoke(const ShmArena *arena, uint32_t number, bool older, ShmRevoking *ret) {
        uint32_t id, era, newest, from;
        int r;

        r = epoch_find_era(arena, number, &id, &era, &newest);
        if (r)
                return r;
        /* ORDER: rlx; only the maintainer writes it. */
        from = older ? shm_load_rlx(&arena->header->epochs[id].floor_era) & SHM_ERA_MAX : era;
        from = shm_era_is_before(era, from) ? era : from;
        *ret = (ShmRevoking){ .id = id, .newest = newest };
        if (era == newest)
                ret->from = from;
        else
                ret->older = (uint64_t) era << 32 | from;
        return 0;
}

int shm_epoch_revoke(ShmArena *arena, uint32_t number, bool older) {
        ShmRevoking eras;
        int r;

        r = shm_epoch_to_revoke(arena, number, older, &eras);
        if (r)
                return r;
        if (eras.older != 0)
                return epoch_revoke_older(arena, eras.id, (uint32_t) eras.older,
                                          (uint32_t) (eras.older >> 32));
        epoch_revoke_newest(arena, eras.id, eras.from);
        return 0;
}

void shm_epoch_set_revoked(ShmArena *arena, const ShmRevoking *revoking) {
        ShmRevoking now;

        (void) shm_epoch_revoking(arena, revoking->id, &now);
        if (now.older != 0 && now.older == revoking->older)
                /* ORDER: rel; all frees of the revocation are before. */
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

        /* ORDER: rlx; only the maintainer uses it. */
        shm_store_rlx(&e->floor_era, shm_era_whole(w.era, floor_era));
        (void) shm_epoch_change(arena, id, n_left == 0 ? SHM_EPOCH_EV_EMPTY : SHM_EPOCH_EV_NOT_EMPTY, 0);
        shm_probe(walked, id, w.era, n_left);
        if (n_left == 0 && w.state != SHM_EPOCH_OPEN && !(w.flags & SHM_EPOCH_REVOKE))
                shm_store_rlx(&e->owner_client, 0); /* ORDER: rlx; only the maintainer writes it. */
}
