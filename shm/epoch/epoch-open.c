/*
 * Opening eras
 *
 * Purpose: advances to the next epoch, and takes ids out of the rotation.
 *
 * Invariants: see shm/epoch/epoch.c.
 *
 * Who may do what: only the maintainer writes.
 *
 * Crash: see shm/epoch/epoch.c; shm_epochs_recover() ends an advance in which a maintainer died.
 */
#include "shm/epoch/epoch-open.h"

#include <errno.h>
#include <string.h>

#include "shm/arena/clock.h"
#include "shm/epoch/attention.h"
#include "shm/epoch/epoch-close.h"
#include "shm/slab/set.h"
#include "shm/slab/slab.h"

static void epoch_put_figure(uint64_t *p, uint64_t value) {
        shm_hint_store(p, value);
}

static void epoch_put_label(ShmEpoch *e, const char *label) {
        uint64_t words[SHM_LABEL_SIZE / sizeof(uint64_t)] = {};

        if (label)
                memcpy(words, label, strnlen(label, SHM_LABEL_SIZE - 1));
        for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
                epoch_put_figure((uint64_t *) e->label + i, words[i]);
}

static uint32_t epoch_load_owner(const ShmArena *arena, uint32_t id) {
        /* ORDER: rlx; only the maintainer writes it. */
        return shm_load_rlx(&arena->header->epochs[id].owner_client);
}

/* Whether the id may be opened in its next era, once it is closed. */
static bool epoch_may_reopen(const ShmArena *arena, uint32_t id) {
        ShmRevoking revoking;
        uint32_t floor;

        if (shm_epoch_revoking(arena, id, &revoking) || epoch_load_owner(arena, id) != 0)
                return false;
        floor = shm_load_rlx(&arena->header->epochs[id].floor_era); /* ORDER: rlx; the maintainer's alone. */
        /* 2, not 1: the next era skips one number if that has low bits of 0 (next_era() in epoch-word.c). */
        return ((revoking.newest + 2 - floor) & SHM_ERA_MAX) <= SLAB_ERA_BITS;
}

int shm_epoch_next(const ShmArena *arena, uint32_t *ret_id) {
        uint32_t current = shm_epoch_current(arena) & 0xff;

        for (uint32_t i = 1; i < arena->n_epochs; i++) {
                uint32_t id = (current + i) % arena->n_epochs;

                if (shm_epoch_load(arena, id).flags & SHM_EPOCH_RESERVED || !epoch_may_reopen(arena, id))
                        continue;
                *ret_id = id;
                return 0;
        }
        return -ENOSPC;
}

/* Opens a new era of an id that is closed. 0 or -ENOSPC. */
static int epoch_open_era(ShmArena *arena, uint32_t id, uint32_t flags, const char *label, uint32_t owner,
                          uint32_t *ret_number) {
        ShmEpoch *e = &arena->header->epochs[id];

        if (!epoch_may_reopen(arena, id))
                return -ENOSPC;
        epoch_put_figure(&e->opened_usec, shm_now_usec());
        epoch_put_figure(&e->closed_usec, 0);
        epoch_put_figure(&e->era_reclaimed_size, 0);
        epoch_put_label(e, label);
        shm_store_rlx(&e->owner_client, owner); /* ORDER: rlx; ordered by the word, in shm_epoch_change(). */
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
                return -EINVAL; /* a process scribbled over it */
        if (shm_epoch_load(arena, id).state == SHM_EPOCH_OPEN)
                (void) shm_epoch_close(arena, id, true);

        (void) shm_epoch_change(arena, old, SHM_EPOCH_EV_RETIRE, 0);
        r = epoch_open_era(arena, id, 0, NULL, 0, &number);
        if (r) {
                (void) shm_epoch_change(arena, old, SHM_EPOCH_EV_KEEP, 0);
                return r;
        }
        /* ORDER: rel, pairs with shm_epoch_current(); the epoch is opened before it is current. */
        shm_store_rel(&arena->header->epoch_current.value, number);
        (void) shm_epoch_close(arena, old, false);
        shm_attention_publish(arena);
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
        shm_attention_publish(arena);
}

/* Whether no slab of the id, of any era, holds objects or may get some. */
static bool epoch_is_unused(const ShmArena *arena, uint32_t id) {
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
                if (id != current && epoch_may_reopen(arena, id) && epoch_is_unused(arena, id))
                        found = id;
        }
        if (found == UINT32_MAX || n_rotating <= 2)
                return -ENOSPC;
        *ret_id = found;
        return 0;
}

static int epoch_reserve_id(ShmArena *arena, uint32_t id, const char *label, uint32_t owner,
                            uint32_t *ret_number) {
        int r;

        if (id >= arena->n_epochs || (label && strlen(label) >= SHM_LABEL_SIZE))
                return -EINVAL;
        if (shm_epoch_load(arena, id).state == SHM_EPOCH_OPEN)
                (void) shm_epoch_close(arena, id, true);
        r = epoch_open_era(arena, id, SHM_EPOCH_RESERVED, label, owner, ret_number);
        if (r == 0)
                shm_attention_publish(arena);
        return r;
}

int shm_epoch_reserve(ShmArena *arena, uint32_t id, const char *label, uint32_t *ret_number) {
        return epoch_reserve_id(arena, id, label, 0, ret_number);
}

int shm_epoch_lease(ShmArena *arena, uint32_t id, const char *label, uint32_t client, uint32_t *ret_number) {
        return epoch_reserve_id(arena, id, label, client + 1, ret_number);
}

uint32_t shm_epoch_end_leases(ShmArena *arena, uint32_t client) {
        uint32_t n = 0;

        for (uint32_t id = 0; id < arena->n_epochs; id++) {
                if (epoch_load_owner(arena, id) != client + 1)
                        continue;
                (void) shm_epoch_revoke(arena, id, false);
                /* ORDER: rel; the word says that the era is to be revoked before the lease is cleared. */
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
        epoch_put_label(&arena->header->epochs[id], label);
        return 0;
}
