#pragma once
/*
 * Included in front of every source that the explorer runs (gcc -include): shm/arch/atomic.h's accesses, each of
 * which names the kind of instruction that makes it, and its order. x86 lets a plain store wait in its processor's
 * buffer; a locked instruction and a fence empty that first. What a weak memory lets go is in weak.h.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHM_TAGS_PER_PAGE 2U /* pages of tags are as small as the arenas */
#define SHM_SHORTCUT_GROW_PAGES 1U

typedef enum ModelKind {
        MODEL_LOAD,
        MODEL_STORE, /* plain */
        MODEL_LOCKED, /* read-modify-writes and stores of the kernel; a fence, where there is no address */
        MODEL_BARRIER, /* a membarrier: the buffers of processors are emptied, but for those that it leaves out */
        MODEL_BARRIER_ALL, /* one that leaves out none */
        MODEL_TIME, /* stores that waited when the last membarrier left their processor out are out by now */
        MODEL_WAIT, /* a loop that waits goes round */
} ModelKind;

/* As gcc numbers them. */
typedef enum ModelOrder {
        MODEL_RLX = 0,
        MODEL_ACQ = 2,
        MODEL_REL = 3,
        MODEL_ACQREL = 4,
        MODEL_SC = 5
} ModelOrder;

/* The next step's; their setter calls shm_step() at once, which makes them a relaxed load's again. */
extern ModelKind model_kind;
extern unsigned model_size; /* in bytes */
extern ModelOrder model_order;
/* For faults: the next access has this order instead. */
extern int model_weaker;
/* For the accessor, after the step: a compare-and-set found another value, and has stored nothing. */
extern bool model_stored_nothing;
/* The case runs under a weak memory. */
extern bool model_weak;
/* An actor makes the access, not pre() or post(). */
extern bool model_acts;

/*
 * A place in the source that makes an access with an order, or a fence. orders.py asks for all that a case reaches, and
 * weakens one after the other, by $TSLAB_TEST_WEAKEN.
 */
typedef struct ModelSite {
        const char *file, *function;
        int line;
        const char *kind; /* load, store, rmw, fence; NULL: no actor was here yet */
        int order, weaker; /* -1: its own order */
} ModelSite;

/* The order of an access by this place. */
static inline ModelOrder model_site(ModelSite *site, const char *kind, int order) {
        if (model_acts) {
                site->kind = kind;
                site->order = order;
        }
        return (ModelOrder) (site->weaker < 0 ? order : site->weaker);
}

/* Takes FILE:LINE:ORDER, ORDER a number of ModelOrder; false: no such place. */
bool model_sites_weaken(const char *text);
/* Prints the places that the case's actors reached, and forgets that they did; without a name, all places. */
void model_sites_print(const char *name);

void shm_step(const void *address);
/* For actors under a weak memory: what they stored before counts as released by their stores after it. No step. */
void model_fence_rel(void);
/* A copy from or to the memory, a step for each word. */
void model_copy(void *to, const void *from, size_t size);

/* Macros, so that the caller is known by its own line. */
#define MODEL_SITE(kind, order)                                                                              \
        ({                                                                                                   \
                static ModelSite model_site_ = { __FILE__, __func__, __LINE__, NULL, 0, -1 };                \
                static ModelSite *model_at_ __attribute__((used, section("model_sites"))) = &model_site_;    \
                                                                                                             \
                model_site(&model_site_, kind, order);                                                       \
        })
#define model_access(address, kind, size, order)                                                             \
        ({                                                                                                   \
                const void *model_address_ = (address);                                                      \
                                                                                                             \
                model_kind = (kind);                                                                         \
                model_size = (size);                                                                         \
                model_order = (order);                                                                       \
                shm_step(model_address_);                                                                    \
        })
#define model_step(address, kind, size) model_access(address, kind, size, MODEL_RLX)

/* By the name that the text of a builtin begins with, and the order that it ends with. */
#define MODEL_IS(text, name) (__builtin_strncmp(text, name, sizeof(name) - 1) == 0)
#define MODEL_ENDS(text, order)                                                                              \
        (sizeof(text) > sizeof(order) && __builtin_strcmp(&(text)[sizeof(text) - sizeof(order)], order) == 0)
#define MODEL_ORDER(text)                                                                                    \
        (MODEL_ENDS(text, "RELAXED)")                                      ? MODEL_RLX                       \
         : MODEL_ENDS(text, "SEQ_CST)")                                    ? MODEL_SC                        \
         : MODEL_ENDS(text, "ACQUIRE)") && MODEL_IS(text, "__atomic_load") ? MODEL_ACQ                       \
                                                                           : MODEL_ACQREL)

#define SHM_AT(p, expression)                                                                                \
        ({                                                                                                   \
                model_access((p), MODEL_IS(#expression, "__atomic_load") ? MODEL_LOAD : MODEL_LOCKED,        \
                             sizeof(*(p)),                                                                   \
                             MODEL_SITE(MODEL_IS(#expression, "__atomic_load") ? "load" : "rmw",             \
                                        MODEL_ORDER(#expression)));                                          \
                __auto_type model_result_ = (expression);                                                    \
                if (MODEL_IS(#expression, "__atomic_compare"))                                               \
                        model_stored_nothing = !model_result_;                                               \
                model_result_;                                                                               \
        })

#define SHM_STORE(p, v, order)                                                                               \
        ({                                                                                                   \
                __typeof__(*(p)) shm_v_ = (v);                                                               \
                model_access((p), MODEL_STORE, sizeof(shm_v_), MODEL_SITE("store", (order)));                \
                *(volatile __typeof__(*(p)) *) (p) = shm_v_;                                                 \
        })

#include "shm/arch/atomic.h"
#include "shm/arch/racy.h"

/*
 * For pre(): a copy of bytes from or to the arena is a step, in front of it. Else it is done with the access before,
 * and no actor stops between the two.
 */
extern bool model_copies;

#define shm_racy_copy(to, from, size)                                                                        \
        ({                                                                                                   \
                void *shm_to_ = (to);                                                                        \
                const void *shm_from_ = (from);                                                              \
                                                                                                             \
                if (model_copies) {                                                                          \
                        model_step(shm_from_, MODEL_LOAD, 0);                                                \
                        model_step(shm_to_, MODEL_LOAD, 0);                                                  \
                }                                                                                            \
                if (model_weak)                                                                              \
                        model_copy(shm_to_, shm_from_, (size));                                              \
                else                                                                                         \
                        (shm_racy_copy)(shm_to_, shm_from_, (size));                                         \
        })

/* As shm_racy_copy(); only a weak memory makes it steps. */
#define shm_racy_copy_out(buffer, from, size)                                                                \
        ({                                                                                                   \
                if (model_weak)                                                                              \
                        model_copy((buffer), (from), (size));                                                \
                else                                                                                         \
                        (shm_racy_copy_out)((buffer), (from), (size));                                       \
        })

/* Functions, whose steps are relaxed loads if nobody says otherwise. */
#define shm_hint_count(p)                                                                                    \
        ({                                                                                                   \
                uint64_t *shm_p_ = (p);                                                                      \
                shm_store_rlx(shm_p_, *shm_p_ + 1);                                                          \
        })
#define MODEL_FENCE(order) (MODEL_SITE("fence", order) == (order))
#define shm_fence_sc()                                                                                       \
        (MODEL_FENCE(MODEL_SC) ? (void) (model_kind = MODEL_LOCKED, (shm_fence_sc) ()) : (void) 0)
#define shm_fence_acq()                                                                                      \
        (MODEL_FENCE(MODEL_ACQ) ? (void) (model_order = MODEL_ACQ, (shm_fence_acq) ()) : (void) 0)
#define shm_fence_rel() (MODEL_FENCE(MODEL_REL) ? (void) ((shm_fence_rel) (), model_fence_rel()) : (void) 0)
/* x86 has none. */
#define shm_fence_after_rmw()                                                                                \
        ({                                                                                                   \
                if (MODEL_FENCE(MODEL_SC) && model_weak)                                                     \
                        model_step(NULL, MODEL_LOCKED, 0);                                                   \
                (shm_fence_after_rmw)();                                                                     \
        })
#define shm_pair_cas_acqrel(p, expected, ...)                                                                \
        ({                                                                                                   \
                ShmPair *shm_p_ = (p), *shm_expected_ = (expected), shm_desired_ = (__VA_ARGS__);            \
                bool model_done_;                                                                            \
                                                                                                             \
                model_kind = MODEL_LOCKED;                                                                   \
                model_size = sizeof(ShmPair);                                                                \
                model_order = MODEL_SITE("rmw", MODEL_ACQREL);                                               \
                model_done_ = (shm_pair_cas_acqrel) (shm_p_, shm_expected_, shm_desired_);                   \
                model_stored_nothing = !model_done_;                                                         \
                model_done_;                                                                                 \
        })

/* As the function of this name, at the place of its caller. */
#define shm_pair_load_acq(p)                                                                                 \
        ({                                                                                                   \
                const ShmPair *shm_p_ = (p);                                                                 \
                ShmPair shm_pair_ = { .high = shm_load_acq(&shm_p_->high) };                                 \
                uint64_t shm_again_;                                                                         \
                                                                                                             \
                for (;;) {                                                                                   \
                        shm_pair_.low = shm_load_acq(&shm_p_->low);                                          \
                        shm_again_ = shm_load_acq(&shm_p_->high);                                            \
                        if (shm_again_ == shm_pair_.high)                                                    \
                                break;                                                                       \
                        shm_pair_.high = shm_again_;                                                         \
                }                                                                                            \
                shm_pair_;                                                                                   \
        })

/* For faults: accesses of weaker orders than any that the core makes. */
#define MODEL_WEAKER(order, ...) (model_weaker = (order), __VA_ARGS__)
#define shm_cas_rlx(...) MODEL_WEAKER(MODEL_RLX, shm_cas_acqrel(__VA_ARGS__))
#define shm_cas_acq(...) MODEL_WEAKER(MODEL_ACQ, shm_cas_acqrel(__VA_ARGS__))
#define shm_cas_rel(...) MODEL_WEAKER(MODEL_REL, shm_cas_acqrel(__VA_ARGS__))
#define shm_pair_cas_rlx(...) MODEL_WEAKER(MODEL_RLX, shm_pair_cas_acqrel(__VA_ARGS__))
#define shm_pair_cas_acq(...) MODEL_WEAKER(MODEL_ACQ, shm_pair_cas_acqrel(__VA_ARGS__))
#define shm_pair_cas_rel(...) MODEL_WEAKER(MODEL_REL, shm_pair_cas_acqrel(__VA_ARGS__))
#define shm_pair_load_rlx(p)                                                                                 \
        ({                                                                                                   \
                const ShmPair *shm_p_ = (p);                                                                 \
                ShmPair shm_pair_;                                                                           \
                                                                                                             \
                do {                                                                                         \
                        shm_pair_.high = shm_load_rlx(&shm_p_->high);                                        \
                        shm_pair_.low = shm_load_rlx(&shm_p_->low);                                          \
                } while (shm_load_rlx(&shm_p_->high) != shm_pair_.high);                                     \
                shm_pair_;                                                                                   \
        })
#define shm_xchg_rlx(...) MODEL_WEAKER(MODEL_RLX, shm_xchg_acqrel(__VA_ARGS__))
#define shm_xchg_acq(...) MODEL_WEAKER(MODEL_ACQ, shm_xchg_acqrel(__VA_ARGS__))
#define shm_xchg_rel(...) MODEL_WEAKER(MODEL_REL, shm_xchg_acqrel(__VA_ARGS__))
#define shm_or_rlx(...) MODEL_WEAKER(MODEL_RLX, shm_or_sc(__VA_ARGS__))
#define shm_or_acqrel(...) MODEL_WEAKER(MODEL_ACQREL, shm_or_sc(__VA_ARGS__))
#define shm_and_rlx(...) MODEL_WEAKER(MODEL_RLX, shm_and_sc(__VA_ARGS__))
#define shm_and_acqrel(...) MODEL_WEAKER(MODEL_ACQREL, shm_and_sc(__VA_ARGS__))
#define shm_sub_rlx(...) MODEL_WEAKER(MODEL_RLX, shm_sub_acqrel(__VA_ARGS__))
