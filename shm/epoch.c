/*
 * The epoch table
 *
 * Purpose: which lifetimes are open to allocation.
 *
 * Invariants
 *   1. An epoch's word changes only by control work, one compare-and-set or store at a time; its
 *      version rises with each.
 *   2. The current epoch is opened before it is made current, and the one before it closed only
 *      after that: who finds the current one closed looks again.
 *   3. An id is opened anew only after a freeze that empties all caches of it has begun; who is
 *      pending then does not use its caches before. A claim compares eras besides.
 *   4. Every change is published to all records (shm/maintain/freeze.h) before control answers for it.
 *
 * Who may do what: control writes, everybody reads. A client that read OPEN may go on allocating
 *   until its operation ends: control waits for it (shm_freeze_pending()).
 *
 * Crash: each step leaves a state that the table in epoch.h has. Between opening the next and
 *   closing the old one, two are open: advance is done again. The owner of a lease is set before the
 *   era opens, and taken off after the word says that its objects are to be freed, which it says till
 *   they are.
 */
#include "shm/epoch.h"

#include <errno.h>
#include <string.h>

#include "shm/clock.h"
#include "shm/maintain/freeze.h"
#include "shm/set.h"
#include "shm/slab.h"
#include "shm/text.h"

#define ERA_MAX UINT32_C(0xffffff)
#define STATE_SHIFT 56
#define FLAGS_SHIFT 48
#define ERA_SHIFT 24

typedef struct Word {
        ShmEpochState state;
        uint32_t flags, era, version;
} Word;

static Word decode(uint64_t word) {
        return (Word){
                .state = (ShmEpochState) (word >> STATE_SHIFT),
                .flags = (word >> FLAGS_SHIFT) & 0xff,
                .era = (word >> ERA_SHIFT) & ERA_MAX,
                .version = word & 0xffffff,
        };
}

static uint64_t encode(Word w) {
        return (uint64_t) w.state << STATE_SHIFT | (uint64_t) w.flags << FLAGS_SHIFT |
               (uint64_t) w.era << ERA_SHIFT | (w.version & 0xffffff);
}

static Word load(const ShmArena *arena, uint32_t id) {
        /* ORDER: acq, pairs with change(); what control did before it opened the era. */
        return decode(shm_load_acq(&arena->header->epochs[id].word));
}

static void change(ShmArena *arena, uint32_t id, Word w) {
        w.version++;
        /* ORDER: rel, pairs with load(); the ids before it are drained, the label is set. */
        shm_store_rel(&arena->header->epochs[id].word, encode(w));
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

void shm_epochs_init(ShmHeader *header, uint64_t usec) {
        for (uint32_t i = 0; i < header->n_epochs; i++) {
                header->epochs[i].word = encode((Word){ .state = SHM_EPOCH_OPEN, .era = 1 });
                header->epochs[i].opened_usec = usec;
        }
        header->epoch_current.value = shm_epoch_number(0, 1);
}

uint32_t shm_epoch_current(const ShmArena *arena) {
        /* ORDER: acq, pairs with shm_epoch_advance(); it was opened before. */
        return (uint32_t) shm_load_acq(&arena->header->epoch_current.value);
}

static int admit(const ShmArena *arena, uint32_t number, uint32_t *ret_id, uint32_t *ret_era) {
        uint32_t id = number & 0xff, era = number >> 8;
        Word w;

        if (id >= arena->n_epochs)
                return -EINVAL;
        w = load(arena, id);
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
        Word w = load(arena, id);

        return w.state != SHM_EPOCH_OPEN || (w.era & SLAB_ERA_BITS) != slab_era;
}

int shm_epoch_get(const ShmArena *arena, uint32_t id, ShmEpochInfo *ret) {
        const ShmEpoch *e;
        Word w;

        if (id >= arena->n_epochs)
                return -EINVAL;
        e = &arena->header->epochs[id];
        w = load(arena, id);
        *ret = (ShmEpochInfo){
                .id = id,
                .state = w.state <= SHM_EPOCH_DRAINED ? w.state : SHM_EPOCH_UNUSED,
                .flags = w.flags,
                .era = w.era,
                .current = shm_epoch_number(id, w.era) == shm_epoch_current(arena),
                /* ORDER: rlx; the word, loaded before, says since when. */
                .owner = shm_load_rlx(&e->owner_client),
                .opened_usec = get(&e->opened_usec),
                .closed_usec = get(&e->closed_usec),
                .reclaimed_size = get(&e->era_reclaimed_size),
        };
        get_label(e, ret->label);
        return 0;
}

/* A new era forgets that objects of the last one are yet to be revoked: such an id is the last resort. */
int shm_epoch_next(const ShmArena *arena, uint32_t *ret_id) {
        uint32_t current = shm_epoch_current(arena) & 0xff, found = UINT32_MAX;

        for (uint32_t i = arena->n_epochs - 1; i > 0; i--) {
                uint32_t id = (current + i) % arena->n_epochs, flags = load(arena, id).flags;

                if (flags & SHM_EPOCH_RESERVED)
                        continue;
                if (found == UINT32_MAX || !(flags & SHM_EPOCH_REVOKE) ||
                    load(arena, found).flags & SHM_EPOCH_REVOKE)
                        found = id;
        }
        if (found == UINT32_MAX)
                return -ENOSPC;
        *ret_id = found;
        return 0;
}

static int close_with(ShmArena *arena, uint32_t number, uint32_t flags) {
        uint32_t id = number & 0xff, era = number >> 8;
        Word w;

        if (id >= arena->n_epochs)
                return -EINVAL;
        w = load(arena, id);
        if (era != 0 && era != w.era)
                return -ESTALE;
        if (w.state == SHM_EPOCH_OPEN) {
                w.state = SHM_EPOCH_CLOSING;
                w.flags &= ~SHM_EPOCH_RESERVED;
                put(&arena->header->epochs[id].closed_usec, shm_now_usec());
        }
        w.flags |= flags;
        change(arena, id, w);
        return 0;
}

int shm_epoch_close(ShmArena *arena, uint32_t number, bool drain) {
        return close_with(arena, number, drain ? SHM_EPOCH_DRAIN : 0);
}

int shm_epoch_revoke(ShmArena *arena, uint32_t number) {
        return close_with(arena, number, SHM_EPOCH_DRAIN | SHM_EPOCH_REVOKE);
}

void shm_epoch_set_drained(ShmArena *arena, uint32_t id, bool drained) {
        Word w = load(arena, id);
        ShmEpochState state = drained ? SHM_EPOCH_DRAINED : SHM_EPOCH_CLOSING;

        if (w.state == SHM_EPOCH_OPEN || w.state == state)
                return;
        w.state = state;
        change(arena, id, w);
}

/* A new era of an id that is closed. The low 12 bits, which slab words hold, are never 0. */
static uint32_t open_era(ShmArena *arena, uint32_t id, uint32_t flags, const char *label, uint32_t owner) {
        ShmEpoch *e = &arena->header->epochs[id];
        Word w = load(arena, id);

        do
                w.era = (w.era + 1) & ERA_MAX;
        while ((w.era & SLAB_ERA_BITS) == 0);
        w.state = SHM_EPOCH_OPEN;
        w.flags = flags;
        put(&e->opened_usec, shm_now_usec());
        put(&e->closed_usec, 0);
        put(&e->era_reclaimed_size, 0);
        put_label(e, label);
        shm_store_rlx(&e->owner_client, owner); /* ORDER: rlx; ordered by the word, below. */
        change(arena, id, w);
        return shm_epoch_number(id, w.era);
}

int shm_epoch_advance(ShmArena *arena, uint32_t *ret_number) {
        uint32_t old = shm_epoch_current(arena), id, number;
        int r;

        r = shm_epoch_next(arena, &id);
        if (r)
                return r;
        if (load(arena, id).state == SHM_EPOCH_OPEN)
                shm_epoch_close(arena, id, true);

        number = open_era(arena, id, 0, NULL, 0);
        /* ORDER: rel, pairs with shm_epoch_current(); opened before it is current. */
        shm_store_rel(&arena->header->epoch_current.value, number);
        shm_epoch_close(arena, old, false);
        shm_freeze_publish(arena);
        *ret_number = number;
        return 0;
}

/* No slab of it, of whatever era, holds or may get objects. */
static bool unused(const ShmArena *arena, uint32_t id) {
        uint32_t set = shm_set_of_epoch(arena, id), slab = 0;

        for (; shm_set_find(arena, set, slab, &slab); slab++)
                if (shm_set_wants(arena, set, shm_slab_word(arena, slab)))
                        return false;
        return true;
}

/*
 * Never one that is to be revoked, though no slab of it is in use: who was admitted before may yet claim one,
 * and the new era would forget that its objects are to be freed. It still rotates.
 */
int shm_epoch_spare(const ShmArena *arena, uint32_t *ret_id) {
        uint32_t current = shm_epoch_current(arena) & 0xff, n_rotating = 0, found = UINT32_MAX;

        for (uint32_t id = 0; id < arena->n_epochs; id++) {
                uint32_t flags = load(arena, id).flags;

                if (flags & SHM_EPOCH_RESERVED)
                        continue;
                n_rotating++;
                if (id != current && !(flags & SHM_EPOCH_REVOKE) && unused(arena, id))
                        found = id;
        }
        if (found == UINT32_MAX || n_rotating <= 2)
                return -ENOSPC;
        *ret_id = found;
        return 0;
}

static int reserve(ShmArena *arena, uint32_t id, const char *label, uint32_t owner, uint32_t *ret_number) {
        if (id >= arena->n_epochs || (label && strlen(label) >= SHM_LABEL_SIZE))
                return -EINVAL;
        if (load(arena, id).state == SHM_EPOCH_OPEN)
                shm_epoch_close(arena, id, true);
        *ret_number = open_era(arena, id, SHM_EPOCH_RESERVED, label, owner);
        shm_freeze_publish(arena);
        return 0;
}

int shm_epoch_reserve(ShmArena *arena, uint32_t id, const char *label, uint32_t *ret_number) {
        return reserve(arena, id, label, 0, ret_number);
}

int shm_epoch_lease(ShmArena *arena, uint32_t id, const char *label, uint32_t client, uint32_t *ret_number) {
        return reserve(arena, id, label, client + 1, ret_number);
}

void shm_epoch_set_revoking(ShmArena *arena, uint32_t number, bool revoking) {
        uint32_t id = number & 0xff;
        Word w = load(arena, id);

        if (w.state == SHM_EPOCH_OPEN || w.era != number >> 8 || !(w.flags & SHM_EPOCH_REVOKE) != revoking)
                return;
        w.flags ^= SHM_EPOCH_REVOKE;
        change(arena, id, w);
}

uint32_t shm_epoch_end_leases(ShmArena *arena, uint32_t client) {
        uint32_t n = 0;

        for (uint32_t id = 0; id < arena->n_epochs; id++) {
                ShmEpoch *e = &arena->header->epochs[id];

                /* ORDER: rlx; control's alone. */
                if (shm_load_rlx(&e->owner_client) != client + 1)
                        continue;
                (void) shm_epoch_revoke(arena, id);
                /* ORDER: rel; the word says so before the client, and with it the lease, is forgotten. */
                shm_store_rel(&e->owner_client, 0);
                n++;
        }
        return n;
}

int shm_epoch_label(ShmArena *arena, uint32_t number, const char *label) {
        uint32_t id = number & 0xff, era = number >> 8;

        if (id >= arena->n_epochs || (label && strlen(label) >= SHM_LABEL_SIZE))
                return -EINVAL;
        if (era != 0 && era != load(arena, id).era)
                return -ESTALE;
        put_label(&arena->header->epochs[id], label);
        return 0;
}
