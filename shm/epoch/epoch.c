/*
 * The epoch table
 *
 * Purpose: says which epochs are open to allocation.
 *
 * Invariants
 *   1. Only the maintainer changes an epoch's word, by one store for each edge of shm_epoch_edges; the version in
 *      the word rises with each.
 *   2. An epoch is opened before it is made current, and the epoch that was current is closed only after that. So a
 *      thread that finds the current epoch closed looks again which one is current.
 *   3. An id is opened in a new era only after a freeze began that empties all caches of the id. Threads that are
 *      pending in that freeze do not use their caches until it has emptied them. A claim compares eras besides.
 *   4. Every change is published to all records (shm/epoch/attention.h) before the maintainer answers the request.
 *   5. Slab words hold the low 12 bits of an era. No id is opened in an era that shares them with an era since
 *      floor_era, so the distance to the newest era tells the era of every slab.
 *   6. An id is not opened in a new era while objects of it are to be revoked, or while a client leases it.
 *
 * Who may do what: the maintainer writes, all processes read. A client that read OPEN may go on allocating
 *   until its operation ends; the maintainer takes that into account (shm_freeze_pending()).
 *
 * Crash: each step leaves a state of the table in shm/format/epoch-word.h, and shm_epochs_recover() goes on from
 * there.
 *   RETIRING marks the current epoch during an advance. If the next epoch is current already, recovery closes the old
 *   one; else the old one stays open.
 *   The owner of a lease is stored before the era opens, and cleared after the word says that the era is to be revoked.
 *   revoke_from is stored before the word gets SHM_EPOCH_REVOKE.
 */
#include "shm/epoch/epoch.h"

#include <errno.h>
#include <string.h>

#include "shm/arena/text.h"

ShmEpochWord shm_epoch_load(const ShmArena *arena, uint32_t id) {
        /* ORDER: acq, pairs with shm_epoch_change(); the maintainer's stores before that are seen. */
        return shm_epoch_word_decode(shm_load_acq(&arena->header->epochs[id].word));
}

/* Figures are for people to read. They may be older than the word, and the maintainer may be writing them. */
static uint64_t epoch_get_figure(const uint64_t *p) {
        return shm_hint_load(p);
}

static void epoch_get_label(const ShmEpoch *e, char *ret) {
        uint64_t words[SHM_LABEL_SIZE / sizeof(uint64_t)];

        for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
                words[i] = epoch_get_figure((const uint64_t *) e->label + i);
        memcpy(ret, words, SHM_LABEL_SIZE);
        ret[SHM_LABEL_SIZE - 1] = 0;
        shm_text_clean(ret);
}

uint32_t shm_epoch_current(const ShmArena *arena) {
        /* ORDER: acq, pairs with shm_epoch_advance(); the epoch was opened before. */
        return (uint32_t) shm_load_acq(&arena->header->epoch_current.value);
}

static int epoch_admit_number(const ShmArena *arena, uint32_t number, uint32_t *ret_id, uint32_t *ret_era) {
        uint32_t id = number & 0xff, era = number >> 8;
        ShmEpochWord w;

        if (id >= arena->n_epochs)
                return -EINVAL;
        w = shm_epoch_load(arena, id);
        if (era != 0 && era != w.era)
                return -ESTALE;
        if (w.state != SHM_EPOCH_OPEN)
                return -ESHUTDOWN;
        *ret_id = id;
        *ret_era = w.era;
        return 0;
}

int shm_epoch_admit(const ShmArena *arena, uint32_t number, uint32_t *ret_id, uint32_t *ret_era) {
        uint32_t current;
        int r;

        if (number != SHM_EPOCH_CURRENT)
                return epoch_admit_number(arena, number, ret_id, ret_era);

        /*
         * If the current epoch is closed, or its era over, it may not be current any more: look again. Three times are
         * enough, since three advances do not come between two loads of ours. More would let a hostile arena keep us
         * here.
         */
        for (int tries = 0; tries < 3; tries++) {
                current = shm_epoch_current(arena);
                r = epoch_admit_number(arena, current, ret_id, ret_era);
                if (r == 0 || current == shm_epoch_current(arena))
                        break;
        }
        return r == -ESTALE ? -ESHUTDOWN : r;
}

bool shm_epoch_over(const ShmArena *arena, uint32_t id, uint32_t slab_era) {
        ShmEpochWord w = shm_epoch_load(arena, id);

        return w.state != SHM_EPOCH_OPEN || (w.era & SLAB_ERA_BITS) != slab_era;
}

int shm_epoch_get(const ShmArena *arena, uint32_t id, ShmEpochInfo *ret) {
        ShmRevoking revoking;
        const ShmEpoch *e;
        ShmEpochWord w;

        if (id >= arena->n_epochs)
                return -EINVAL;
        e = &arena->header->epochs[id];
        w = shm_epoch_load(arena, id);
        *ret = (ShmEpochInfo){
                .id = id,
                .state = w.state <= SHM_EPOCH_DRAINED ? w.state : SHM_EPOCH_UNUSED,
                .flags = w.flags,
                .era = w.era,
                .current = shm_epoch_number(id, w.era) == shm_epoch_current(arena),
                .revoking = shm_epoch_revoking(arena, id, &revoking),
                /* The word is loaded before. */
                .owner = shm_hint_load(&e->owner_client),
                .opened_usec = epoch_get_figure(&e->opened_usec),
                .closed_usec = epoch_get_figure(&e->closed_usec),
                .reclaimed_size = epoch_get_figure(&e->era_reclaimed_size),
        };
        epoch_get_label(e, ret->label);
        return 0;
}

static uint64_t revoking_load_older(const ShmArena *arena, uint32_t id) {
        /* ORDER: rlx; only the maintainer writes it. */
        return shm_load_rlx(&arena->header->epochs[id].revoke_older);
}

bool shm_epoch_revoking(const ShmArena *arena, uint32_t id, ShmRevoking *ret) {
        const ShmEpoch *e = &arena->header->epochs[id];
        ShmEpochWord w = shm_epoch_load(arena, id);

        *ret = (ShmRevoking){
                .id = id,
                .newest = w.era,
                .open = w.state == SHM_EPOCH_OPEN,
                /* ORDER: rlx; the word, loaded before, says whether it is valid. */
                .from = w.flags & SHM_EPOCH_REVOKE ? shm_load_rlx(&e->revoke_from) & SHM_ERA_MAX : 0,
                .older = revoking_load_older(arena, id),
        };
        return ret->from != 0 || ret->older != 0;
}

static bool era_is_within(uint32_t era, uint32_t from, uint32_t to) {
        return !shm_era_is_before(era, from) && !shm_era_is_before(to, era);
}

bool shm_revoking_has(const ShmRevoking *revoking, uint32_t slab_era) {
        uint32_t era = shm_era_whole(revoking->newest, slab_era);

        if (revoking->open && era == revoking->newest)
                return false;
        if (revoking->from != 0 && era_is_within(era, revoking->from, revoking->newest))
                return true;
        return revoking->older != 0 && era_is_within(era, (uint32_t) revoking->older & SHM_ERA_MAX,
                                                     (uint32_t) (revoking->older >> 32) & SHM_ERA_MAX);
}
