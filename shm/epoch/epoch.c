/*
 * The epoch table
 *
 * Purpose: which lifetimes are open to allocation.
 *
 * Invariants
 *   1. An epoch's word changes only by the maintainer, one store at a time, along shm_epoch_edges; its
 *      version rises with each.
 *   2. The current epoch is opened before it is made current, and the one before it closed only
 *      after that: a thread that finds the current one closed looks again.
 *   3. An id is opened anew only after a freeze that empties all caches of it has begun; a thread that
 *      is pending then does not use its caches before. A claim compares eras besides.
 *   4. Every change is published to all records (shm/maintain/freeze.h) before the maintainer answers for it.
 *   5. Slab words hold the low 12 bits of an era. No id is opened in an era that shares them with one since
 *      floor_era, so of any slab the distance to the newest era tells its era.
 *   6. An id is not opened anew while objects of it are to be freed, or a client holds it in lease.
 *
 * Who may do what: the maintainer writes, everybody reads. A client that read OPEN may go on allocating
 *   until its operation ends: the maintainer waits for it (shm_freeze_pending()).
 *
 * Crash: each step leaves a state that the table in shm/format/epoch-word.h has, and
 * shm_epochs_recover() goes on from there.
 *   RETIRING tells of an advance under way: where the next epoch is current the old one is closed, else it stays.
 *   The owner of a lease is set before the era opens, and taken off after the word says that its objects are to be
 *   freed. Which eras are to be freed is stored before the word says that some are.
 */
#include "shm/epoch/epoch.h"

#include <errno.h>
#include <string.h>

#include "shm/arena/clock.h"
#include "shm/epoch/epoch-table.h"
#include "shm/maintain/freeze.h"
#include "shm/slab/set.h"
#include "shm/slab/slab.h"
#include "shm/arena/text.h"

ShmEpochWord shm_epoch_load(const ShmArena *arena, uint32_t id) {
        /* ORDER: acq, pairs with shm_epoch_change(); all that the maintainer did before it opened the era. */
        return shm_epoch_word_decode(shm_load_acq(&arena->header->epochs[id].word));
}

bool shm_epoch_change(ShmArena *arena, uint32_t id, ShmEpochEvent event, uint32_t flags) {
        ShmEpochWord w;

        if (shm_epoch_word_apply(shm_epoch_load(arena, id), event, flags, &w))
                return false;
        /* ORDER: rel, pairs with shm_epoch_load(); the ids before it are drained, label and eras are set. */
        shm_store_rel(&arena->header->epochs[id].word, shm_epoch_word_encode(w));
        return true;
}

/* What is for people may lag behind the word, and is read while control writes it. */
static uint64_t get(const uint64_t *p) {
        return shm_load_rlx(p); /* ORDER: rlx; for people. */
}

static void put(uint64_t *p, uint64_t value) {
        shm_store_rlx(p, value); /* ORDER: rlx; for people. */
}

typedef union Label {
        char text[SHM_LABEL_SIZE];
        uint64_t words[SHM_LABEL_SIZE / sizeof(uint64_t)];
} Label;

static void put_label(ShmEpoch *e, const char *label) {
        Label l = {};

        if (label)
                strncpy(l.text, label, sizeof(l.text) - 1);
        for (size_t i = 0; i < SHM_LABEL_SIZE / sizeof(uint64_t); i++)
                put((uint64_t *) e->label + i, l.words[i]);
}

static void get_label(const ShmEpoch *e, char *ret) {
        Label l;

        for (size_t i = 0; i < SHM_LABEL_SIZE / sizeof(uint64_t); i++)
                l.words[i] = get((const uint64_t *) e->label + i);
        l.text[sizeof(l.text) - 1] = 0;
        shm_text_clean(l.text);
        memcpy(ret, l.text, sizeof(l.text));
}

uint32_t shm_epoch_current(const ShmArena *arena) {
        /* ORDER: acq, pairs with shm_epoch_advance(); it was opened before. */
        return (uint32_t) shm_load_acq(&arena->header->epoch_current.value);
}

static int admit(const ShmArena *arena, uint32_t number, uint32_t *ret_id, uint32_t *ret_era) {
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
                return admit(arena, number, ret_id, ret_era);

        /* Closed, or over, while current: look whether it still is. A hostile arena could go on for
         * ever; three advances between two loads of ours do not happen. */
        for (int tries = 0; tries < 3; tries++) {
                current = shm_epoch_current(arena);
                r = admit(arena, current, ret_id, ret_era);
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
                /* ORDER: rlx; the word, loaded before, says since when. */
                .owner = shm_load_rlx(&e->owner_client),
                .opened_usec = get(&e->opened_usec),
                .closed_usec = get(&e->closed_usec),
                .reclaimed_size = get(&e->era_reclaimed_size),
        };
        get_label(e, ret->label);
        return 0;
}

static uint32_t load_owner(const ShmArena *arena, uint32_t id) {
        /* ORDER: rlx; the maintainer's alone. */
        return shm_load_rlx(&arena->header->epochs[id].owner_client);
}

/* Whether the id may be opened in its next era, once it is closed. */
static bool may_reopen(const ShmArena *arena, uint32_t id) {
        ShmRevoking revoking;
        uint32_t floor;

        if (shm_epoch_revoking(arena, id, &revoking) || load_owner(arena, id) != 0)
                return false;
        floor = shm_load_rlx(&arena->header->epochs[id].floor_era); /* ORDER: rlx; the maintainer's alone. */
        /* By one more than the next era, which may skip one. */
        return ((revoking.newest + 2 - floor) & SHM_ERA_MAX) <= SLAB_ERA_BITS;
}

int shm_epoch_next(const ShmArena *arena, uint32_t *ret_id) {
        uint32_t current = shm_epoch_current(arena) & 0xff;

        for (uint32_t i = 1; i < arena->n_epochs; i++) {
                uint32_t id = (current + i) % arena->n_epochs;

                if (shm_epoch_load(arena, id).flags & SHM_EPOCH_RESERVED || !may_reopen(arena, id))
                        continue;
                *ret_id = id;
                return 0;
        }
        return -ENOSPC;
}

/* Opening */

/* A new era of an id that is closed. 0 or -ENOSPC. */
static int open_era(ShmArena *arena, uint32_t id, uint32_t flags, const char *label, uint32_t owner,
                    uint32_t *ret_number) {
        ShmEpoch *e = &arena->header->epochs[id];

        if (!may_reopen(arena, id))
                return -ENOSPC;
        put(&e->opened_usec, shm_now_usec());
        put(&e->closed_usec, 0);
        put(&e->era_reclaimed_size, 0);
        put_label(e, label);
        shm_store_rlx(&e->owner_client, owner); /* ORDER: rlx; ordered by the word, in change(). */
        (void) shm_epoch_change(arena, id, SHM_EPOCH_EV_REOPEN, flags);
        *ret_number = shm_epoch_number(id, shm_epoch_load(arena, id).era);
        return 0;
}

int shm_epoch_advance(ShmArena *arena, uint32_t *ret_number) {
        uint32_t old = shm_epoch_current(arena) % SHM_EPOCHS_MAX, id, number;
        int r;

        r = shm_epoch_next(arena, &id);
        if (r)
                return r;
        if (old >= arena->n_epochs)
                return -EINVAL; /* somebody scribbled over it */
        if (shm_epoch_load(arena, id).state == SHM_EPOCH_OPEN)
                (void) shm_epoch_close(arena, id, true);

        (void) shm_epoch_change(arena, old, SHM_EPOCH_EV_RETIRE, 0);
        r = open_era(arena, id, 0, NULL, 0, &number);
        if (r) {
                (void) shm_epoch_change(arena, old, SHM_EPOCH_EV_KEEP, 0);
                return r;
        }
        /* ORDER: rel, pairs with shm_epoch_current(); opened before it is current. */
        shm_store_rel(&arena->header->epoch_current.value, number);
        (void) shm_epoch_close(arena, old, false);
        shm_freeze_publish(arena);
        *ret_number = number;
        return 0;
}

void shm_epochs_recover(ShmArena *arena) {
        uint32_t current = shm_epoch_current(arena) & 0xff;

        for (uint32_t id = 0; id < arena->n_epochs; id++) {
                if (!(shm_epoch_load(arena, id).flags & SHM_EPOCH_RETIRING))
                        continue;
                if (id == current)
                        (void) shm_epoch_change(arena, id, SHM_EPOCH_EV_KEEP, 0);
                else
                        (void) shm_epoch_close(arena, id, false);
        }
        shm_freeze_publish(arena);
}

/* No slab of it, of whatever era, holds or may get objects. */
static bool unused(const ShmArena *arena, uint32_t id) {
        uint32_t set = shm_set_of_epoch(arena, id), slab = 0;

        for (; shm_set_find(arena, set, slab, &slab); slab++)
                if (shm_set_wants(arena, set, shm_slab_word(arena, slab)))
                        return false;
        return true;
}

int shm_epoch_spare(const ShmArena *arena, uint32_t *ret_id) {
        uint32_t current = shm_epoch_current(arena) & 0xff, n_rotating = 0, found = UINT32_MAX;

        for (uint32_t id = 0; id < arena->n_epochs; id++) {
                if (shm_epoch_load(arena, id).flags & SHM_EPOCH_RESERVED)
                        continue;
                n_rotating++;
                if (id != current && may_reopen(arena, id) && unused(arena, id))
                        found = id;
        }
        if (found == UINT32_MAX || n_rotating <= 2)
                return -ENOSPC;
        *ret_id = found;
        return 0;
}

static int reserve(ShmArena *arena, uint32_t id, const char *label, uint32_t owner, uint32_t *ret_number) {
        int r;

        if (id >= arena->n_epochs || (label && strlen(label) >= SHM_LABEL_SIZE))
                return -EINVAL;
        if (shm_epoch_load(arena, id).state == SHM_EPOCH_OPEN)
                (void) shm_epoch_close(arena, id, true);
        r = open_era(arena, id, SHM_EPOCH_RESERVED, label, owner, ret_number);
        if (r == 0)
                shm_freeze_publish(arena);
        return r;
}

int shm_epoch_reserve(ShmArena *arena, uint32_t id, const char *label, uint32_t *ret_number) {
        return reserve(arena, id, label, 0, ret_number);
}

int shm_epoch_lease(ShmArena *arena, uint32_t id, const char *label, uint32_t client, uint32_t *ret_number) {
        return reserve(arena, id, label, client + 1, ret_number);
}

uint32_t shm_epoch_end_leases(ShmArena *arena, uint32_t client) {
        uint32_t n = 0;

        for (uint32_t id = 0; id < arena->n_epochs; id++) {
                if (load_owner(arena, id) != client + 1)
                        continue;
                (void) shm_epoch_revoke(arena, id, false);
                /* ORDER: rel; the word says so before the client, and with it the lease, is forgotten. */
                shm_store_rel(&arena->header->epochs[id].owner_client, 0);
                n++;
        }
        return n;
}

int shm_epoch_label(ShmArena *arena, uint32_t number, const char *label) {
        uint32_t id = number & 0xff, era = number >> 8;

        if (id >= arena->n_epochs || (label && strlen(label) >= SHM_LABEL_SIZE))
                return -EINVAL;
        if (era != 0 && era != shm_epoch_load(arena, id).era)
                return -ESTALE;
        put_label(&arena->header->epochs[id], label);
        return 0;
}
