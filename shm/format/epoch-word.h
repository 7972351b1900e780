#pragma once
/*
 * The word of an epoch, which holds all of its state that changes together, and its transitions as pure
 * functions on plain values:  state 8 | flags 8 | era 24 | version 24
 *
 *     edge                          event             by
 *     OPEN    -> OPEN               RETIRE            an advance that is about to open the next id
 *     OPEN    -> OPEN               KEEP              the next maintainer, after a death within that advance
 *     OPEN    -> CLOSING            CLOSE             close, advance, the end of a lease
 *     CLOSING -> CLOSING            CLOSE             the same, which may add flags
 *     DRAINED -> DRAINED            CLOSE             the same
 *     CLOSING -> DRAINED            EMPTY             a walk that found no slab while no thread could add one
 *     DRAINED -> CLOSING            NOT_EMPTY         a walk that found a slab after all
 *     CLOSING -> CLOSING            REVOKED           a revocation, as it ends
 *     DRAINED -> DRAINED            REVOKED           the same
 *     CLOSING | DRAINED -> OPEN     REOPEN            advance, reserve: the next era
 *
 * Only the maintainer changes the word (the daemon, or in a private pool the owner of control work); clients
 * read it.
 */
#include <stdbool.h>

#include "shm/format/edge.h"

typedef enum ShmEpochState {
        SHM_EPOCH_UNUSED,
        SHM_EPOCH_OPEN,
        SHM_EPOCH_CLOSING, /* closed to allocation; its objects may live on */
        SHM_EPOCH_DRAINED, /* closed, and no slab of it is left */
        _SHM_EPOCH_STATE_N,
} ShmEpochState;

typedef enum ShmEpochEvent {
        SHM_EPOCH_EV_RETIRE,
        SHM_EPOCH_EV_KEEP,
        SHM_EPOCH_EV_CLOSE,
        SHM_EPOCH_EV_EMPTY,
        SHM_EPOCH_EV_NOT_EMPTY,
        SHM_EPOCH_EV_REVOKED,
        SHM_EPOCH_EV_REOPEN,
        _SHM_EPOCH_EV_N,
} ShmEpochEvent;

#define SHM_EPOCH_RESERVED UINT32_C(1) /* taken out of the rotation */
#define SHM_EPOCH_DRAIN UINT32_C(2) /* closed by request: its slabs drain, their pages go */
#define SHM_EPOCH_REVOKE UINT32_C(4) /* a revocation from revoke_from to its newest era is not over */
#define SHM_EPOCH_RETIRING UINT32_C(8) /* an advance from this epoch to the next is under way */

#define SHM_ERA_MAX UINT32_C(0xffffff)

typedef struct ShmEpochWord {
        ShmEpochState state;
        uint32_t flags, era, version;
} ShmEpochWord;

extern const ShmEdges shm_epoch_edges;

/* API numbers: id | era << 8. */
static inline uint32_t shm_epoch_number(uint32_t id, uint32_t era) {
        return id | era << 8;
}

/* Whether era a is before era b. Eras have 24 bits and wrap; the two must be less than half the range apart. */
bool shm_era_is_before(uint32_t a, uint32_t b);
/* All 24 bits of a slab word's era, which has 12: the latest era with these low bits that is not after `newest`. */
uint32_t shm_era_whole(uint32_t newest, uint32_t slab_era);

ShmEpochWord shm_epoch_word_decode(uint64_t word);
uint64_t shm_epoch_word_encode(ShmEpochWord word);

enum {
        _SHM_EPOCH_E_SUCCESS,
        SHM_EPOCH_E_REFUSED, /* no such edge; or a REOPEN while the id is still to be revoked */
};

/*
 * Returns the word after the event, its version raised by one. `flags`: CLOSE adds DRAIN and REVOKE if they are
 * given, REOPEN sets RESERVED if it is given; the other events take 0.
 */
int shm_epoch_word_apply(ShmEpochWord word, ShmEpochEvent event, uint32_t flags, ShmEpochWord *ret);
