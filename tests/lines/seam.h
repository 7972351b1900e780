#pragma once
/*
 * Included in front of every source of the library that is counted (gcc -include): each access through
 * shm/arch/atomic.h and each copy of bytes tells lines.c which memory it is of. __func__ is the caller's, since all of
 * these are macros.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

void lines_access(const void *address, size_t size, bool is_store, const char *function);

/* By the name that the text of a builtin begins with. A compare-and-set that fails takes the line as well. */
#define SHM_AT(p, expression)                                                                                \
        ({                                                                                                   \
                lines_access((p), sizeof(*(p)), __builtin_strncmp(#expression, "__atomic_load", 13) != 0,    \
                             __func__);                                                                      \
                expression;                                                                                  \
        })

#define SHM_STORE(p, v, order)                                                                               \
        ({                                                                                                   \
                __typeof__(*(p)) shm_v_ = (v);                                                               \
                lines_access((p), sizeof(shm_v_), true, __func__);                                           \
                atomic_store_explicit((_Atomic(__typeof__(*(p))) *) (p), shm_v_, order);                     \
        })

#include "shm/arch/atomic.h"
#include "shm/arch/racy.h"

#define shm_hint_count(p)                                                                                    \
        ({                                                                                                   \
                uint64_t *shm_p_ = (p);                                                                      \
                lines_access(shm_p_, sizeof(*shm_p_), true, __func__);                                       \
                (shm_hint_count)(shm_p_);                                                                    \
        })

#define shm_pair_cas_acqrel(p, expected, ...)                                                                \
        ({                                                                                                   \
                ShmPair *shm_p_ = (p), *shm_expected_ = (expected), shm_desired_ = (__VA_ARGS__);            \
                                                                                                             \
                lines_access(shm_p_, sizeof(*shm_p_), true, __func__);                                       \
                (shm_pair_cas_acqrel)(shm_p_, shm_expected_, shm_desired_);                                  \
        })

#define shm_pair_load_acq(p)                                                                                 \
        ({                                                                                                   \
                const ShmPair *shm_p_ = (p);                                                                 \
                                                                                                             \
                lines_access(shm_p_, sizeof(*shm_p_), false, __func__);                                      \
                (shm_pair_load_acq)(shm_p_);                                                                 \
        })

#define shm_racy_copy(to, from, size)                                                                        \
        ({                                                                                                   \
                void *shm_to_ = (to);                                                                        \
                const void *shm_from_ = (from);                                                              \
                size_t shm_size_ = (size);                                                                   \
                                                                                                             \
                lines_access(shm_from_, shm_size_, false, __func__);                                         \
                lines_access(shm_to_, shm_size_, true, __func__);                                            \
                (shm_racy_copy)(shm_to_, shm_from_, shm_size_);                                              \
        })

#define shm_racy_equal(a, b, size)                                                                           \
        ({                                                                                                   \
                const void *shm_a_ = (a), *shm_b_ = (b);                                                     \
                size_t shm_size_ = (size);                                                                   \
                                                                                                             \
                lines_access(shm_a_, shm_size_, false, __func__);                                            \
                lines_access(shm_b_, shm_size_, false, __func__);                                            \
                (shm_racy_equal)(shm_a_, shm_b_, shm_size_);                                                 \
        })
