#pragma once
/*
 * Included in front of every source that the explorer runs (gcc -include): shm/arch/atomic.h's accesses, each of
 * which names the kind of instruction that makes it. x86 lets a plain store wait in its processor's buffer;
 * a locked instruction and a fence empty that first.
 */
#include "shm/arch/atomic.h"
#include "shm/arch/racy.h"

#define SHM_TAGS_PER_PAGE 2U /* pages of tags are as small as the arenas */

typedef enum ModelKind {
        MODEL_LOAD,
        MODEL_STORE, /* plain */
        MODEL_LOCKED, /* read-modify-writes and stores of the kernel; a fence, where there is no address */
        MODEL_BARRIER, /* a membarrier: the buffers of all processors are emptied */
} ModelKind;

/* The kind of the next step; its setter calls shm_step() at once, which makes it MODEL_LOAD again. */
extern ModelKind model_kind;
extern unsigned model_size; /* a store's, in bytes */

/* A macro, so that the caller is known by its own line. */
#define model_step(address, kind, size)                                                                      \
        ({                                                                                                   \
                const void *model_address_ = (address);                                                      \
                                                                                                             \
                model_kind = (kind);                                                                         \
                model_size = (size);                                                                         \
                shm_step(model_address_);                                                                    \
        })

#undef SHM_AT
#define SHM_AT(p, expression)                                                                                \
        ({                                                                                                   \
                model_step((p),                                                                              \
                           __builtin_strncmp(#expression, "__atomic_load", 13) ? MODEL_LOCKED : MODEL_LOAD,  \
                           0);                                                                               \
                expression;                                                                                  \
        })

#undef SHM_STORE
#define SHM_STORE(p, v, order)                                                                               \
        ({                                                                                                   \
                __typeof__(*(p)) shm_v_ = (v);                                                               \
                model_step((p), MODEL_STORE, sizeof(shm_v_));                                                \
                *(volatile __typeof__(*(p)) *) (p) = shm_v_;                                                 \
        })

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
                (shm_racy_copy)(shm_to_, shm_from_, (size));                                                 \
        })

/* Functions, whose steps are loads if nobody says otherwise. */
#define shm_count_rlx(p)                                                                                     \
        ({                                                                                                   \
                uint64_t *shm_p_ = (p);                                                                      \
                shm_store_rlx(shm_p_, *shm_p_ + 1);                                                          \
        })
#define shm_fence_sc() (model_kind = MODEL_LOCKED, (shm_fence_sc) ())
#define shm_pair_cas_acqrel(p, expected, ...)                                                                \
        ({                                                                                                   \
                ShmPair *shm_p_ = (p), *shm_expected_ = (expected), shm_desired_ = (__VA_ARGS__);            \
                model_kind = MODEL_LOCKED;                                                                   \
                (shm_pair_cas_acqrel)(shm_p_, shm_expected_, shm_desired_);                                  \
        })
