/*
 * Slabs
 *
 * Purpose: changes slab words, by a compare-and-set loop around the pure transitions, and then sets the hints.
 *
 * Invariants
 *   1. A transition is one compare-and-set of the slab word; there is nothing to undo.
 *   2. Before the word changes, the actor's intent names the slab, and it goes on naming it until the
 *      hints of the new word are set: a PARTIAL slab in `partial`, a FREE slab in `free`, a slab in use
 *      in `of_epoch`.
 *   3. n_free and n_drained are hints too. The thread whose fetch-and-add crosses the threshold wakes the
 *      daemon, so each crossing wakes it once.
 *
 * Who may do what: see the table in shm/format/slab-word.h.
 *
 * Crash: before the compare-and-set nothing has changed. After it, hints may be missing, of a slab that the
 *   intent names, and a count may be off by one until the daemon recounts.
 */
#include "shm/slab/slab.h"

#include <errno.h>
#include <pthread.h>
#include <unistd.h>

#include "shm/slab/changed.h"
#include "shm/slab/set.h"

void shm_wake(const ShmArena *arena) {
        uint64_t one = 1;
        int saved = errno, cancel_state;

        /* write() is a cancellation point, but the thread is inside an operation. */
        (void) pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
        if (arena->wake_fd >= 0 && write(arena->wake_fd, &one, sizeof(one)) < 0) {
                /* EAGAIN: the daemon is about to wake anyway. */
        }
        (void) pthread_setcancelstate(cancel_state, NULL);
        errno = saved;
}

void shm_free_added(ShmArena *arena, uint32_t n) {
        /* ORDER: acqrel, pairs with shm_free_recount(); the slabs' words are before. Else a hint. */
        (void) shm_add_acqrel(&arena->header->n_free.value, n);
}

void shm_free_taken(ShmArena *arena, uint32_t n) {
        /* ORDER: acqrel; of all threads that take slabs, one sees the crossing. */
        uint64_t old = shm_sub_acqrel(&arena->header->n_free.value, n);
        /* ORDER: rlx; the daemon sets it, and it may lag behind. */
        uint64_t low = shm_load_rlx(&arena->header->reserve_low.value);

        if (low != 0 && (int64_t) old >= (int64_t) low && (int64_t) (old - n) < (int64_t) low)
                shm_wake(arena);
}

/* Sets the hints of the new word that the old word did not have. */
static void slab_set_hints(ShmActor *actor, uint32_t slab, SlabWord old, SlabWord new) {
        ShmArena *arena = actor->arena;
        SlabState from = slab_word_state(old), to = slab_word_state(new);
        uint32_t epoch = slab_word_epoch(new);

        if (epoch >= arena->n_epochs || slab_word_class(new) >= arena->n_classes)
                return;
        if (from == SLAB_FREE) {
                shm_free_taken(arena, 1);
                shm_actor_count(actor, SHM_COUNT_SLABS_TAKEN, 1);
                shm_set_add(arena, shm_set_of_epoch(arena, epoch), slab);
        }
        if (to == SLAB_PARTIAL && from != SLAB_PARTIAL)
                shm_set_add(arena, shm_set_partial(arena, epoch, slab_word_class(new)), slab);
        if (to == SLAB_FULL && from != SLAB_FULL)
                shm_actor_count(actor, SHM_COUNT_SLABS_FILLED, 1);
        if (from == SLAB_FULL && (to == SLAB_PARTIAL || to == SLAB_FREE))
                shm_actor_count(actor, SHM_COUNT_SLABS_REOPENED, 1);
        if (to == SLAB_FREE) {
                shm_set_add(arena, SHM_SET_FREE, slab);
                shm_free_added(arena, 1);
                actor->emptied = slab + 1;
                actor->recent[actor->recent_end++ % SHM_RECENT_MAX] = slab;
                actor->n_recent += actor->n_recent < SHM_RECENT_MAX;
                shm_actor_count(actor, SHM_COUNT_SLABS_RECYCLED, 1);
        }
        /* ORDER: acqrel, pairs with shm_drain_step(); the first slab to drain since the daemon looked wakes it. */
        if (to == SLAB_FREE && from == SLAB_DRAINING &&
            shm_add_acqrel(&arena->header->n_drained.value, 1) == 0)
                shm_wake(arena);
}

/* The arguments of one transition, for slab_word_*(). */
typedef struct SlabRequest {
        SlabOp op;
        SlabState from; /* BEGIN: refused unless the word is in this state */
        uint32_t holder;
        uint64_t key; /* CLAIM, HOLD, DRAIN */
        uint32_t n; /* CLAIM, HOLD: slots to take, at most */
        uint64_t mask; /* FREE_SLOTS: the slots; after CLAIM and HOLD: the slots that were taken */
} SlabRequest;

static inline bool slab_request_claims(const SlabRequest *request) {
        return request->op == SLAB_OP_CLAIM || request->op == SLAB_OP_HOLD;
}

/* Pure, except that it stores the request's mask. */
static inline int slab_request_apply(const ShmArena *arena, SlabRequest *request, SlabWord old,
                                     SlabWord *ret) {
        uint32_t class = slab_request_claims(request) ? slab_key_class(request->key) : slab_word_class(old);
        uint64_t tail_mask = arena->classes[class].tail_mask;

        switch (request->op) {
        case SLAB_OP_BEGIN:
                return slab_word_state(old) != request->from ? SLAB_E_REFUSED
                                                             : slab_word_begin(old, request->holder, ret);
        case SLAB_OP_COMMIT:
                return slab_word_commit(old, request->holder, ret);
        case SLAB_OP_DROP:
                return slab_word_drop(old, request->holder, ret);
        case SLAB_OP_CLAIM:
                return slab_word_claim(old, request->key, tail_mask, request->n, ret, &request->mask);
        case SLAB_OP_HOLD:
                return slab_word_hold(old, request->holder, request->key, tail_mask, request->n, ret,
                                      &request->mask);
        case SLAB_OP_RELEASE:
                return slab_word_release(old, tail_mask, ret);
        case SLAB_OP_FREE_SLOTS:
                return slab_word_free_slots(old, request->mask, tail_mask, ret);
        case SLAB_OP_DRAIN:
                return slab_word_drain(old, request->key, tail_mask, ret);
        case SLAB_OP_PIN:
                return slab_word_pin(old, request->holder, ret);
        default:
                return SLAB_E_REFUSED;
        }
}

/* The intent CLAIM names the slots before they are taken; each attempt stores its own mask. */
static inline void slab_request_intend(ShmActor *actor, uint32_t slab, const SlabRequest *request,
                                       bool intended) {
        shm_actor_intend_mask(actor, request->mask);
        if (!intended)
                shm_actor_intend(actor, shm_intent_other(SHM_INTENT_CLAIM, slab, 0));
}

/*
 * The one loop by which slab words change. It is inlined, so that the compiler specializes it for each transition.
 * For BEGIN, COMMIT and DROP the caller sets the hints (shm/slab/pages.c).
 */
static inline __attribute__((always_inline)) int slab_change(ShmActor *actor, uint32_t slab,
                                                             SlabRequest *request) {
        ShmPair *word = &actor->arena->lines[slab].word;
        SlabWord old = shm_slab_word(actor->arena, slab), new;
        bool intended = false;
        int r;

        do {
                r = slab_request_apply(actor->arena, request, old, &new);
                if (r) {
                        if (intended)
                                shm_actor_intend(actor, 0);
                        return r;
                }
                if (slab_request_claims(request)) {
                        slab_request_intend(actor, slab, request, intended);
                        intended = true;
                }
                /* ORDER: acqrel, pairs with shm_slab_word(); all work on the slots or pages is before. */
        } while (!shm_pair_cas_acqrel(word, &old, new));
        shm_changed_mark(actor->arena, slab);
        if (request->op >= SLAB_OP_CLAIM)
                slab_set_hints(actor, slab, old, new);
        return 0;
}

int shm_slab_claim(ShmActor *actor, uint32_t slab, uint64_t key, uint32_t n, uint64_t *ret_mask) {
        SlabRequest request = { .op = SLAB_OP_CLAIM, .key = key, .n = n };
        int r = slab_change(actor, slab, &request);

        if (r == 0)
                *ret_mask = request.mask;
        return r;
}

int shm_slab_hold(ShmActor *actor, uint32_t slab, uint64_t key, uint32_t n, uint64_t *ret_mask) {
        SlabRequest request = { .op = SLAB_OP_HOLD, .holder = actor->id, .key = key, .n = n };
        int r = slab_change(actor, slab, &request);

        if (r == 0)
                *ret_mask = request.mask;
        return r;
}

int shm_slab_free_slots(ShmActor *actor, uint32_t slab, uint64_t mask) {
        return slab_change(actor, slab, &(SlabRequest){ .op = SLAB_OP_FREE_SLOTS, .mask = mask });
}

int shm_slab_release(ShmActor *actor, uint32_t slab) {
        return slab_change(actor, slab, &(SlabRequest){ .op = SLAB_OP_RELEASE });
}

int shm_slab_drain(ShmActor *control, uint32_t slab, uint64_t key) {
        return slab_change(control, slab, &(SlabRequest){ .op = SLAB_OP_DRAIN, .key = key });
}

int shm_slab_pin(ShmActor *control, uint32_t slab) {
        return slab_change(control, slab, &(SlabRequest){ .op = SLAB_OP_PIN, .holder = control->id });
}

int shm_slab_begin(ShmActor *actor, uint32_t slab, SlabState from) {
        return slab_change(actor, slab,
                           &(SlabRequest){ .op = SLAB_OP_BEGIN, .from = from, .holder = actor->id });
}

int shm_slab_end(ShmActor *actor, uint32_t holder, uint32_t slab, SlabState to) {
        SlabRequest request = { .op = to == SLAB_FREE ? SLAB_OP_COMMIT : SLAB_OP_DROP, .holder = holder };

        return slab_change(actor, slab, &request);
}
