/* See shm/format/epoch-word.h for the table of the transitions. */
#include "shm/format/epoch-word.h"

#include "shm/format/slab-word.h"

#define STATE_SHIFT 56
#define FLAGS_SHIFT 48
#define ERA_SHIFT 24
#define VERSION_MASK UINT32_C(0xffffff)

static const ShmEdge edges[] = {
        { SHM_EPOCH_OPEN, SHM_EPOCH_EV_RETIRE, SHM_EPOCH_OPEN },
        { SHM_EPOCH_OPEN, SHM_EPOCH_EV_KEEP, SHM_EPOCH_OPEN },
        { SHM_EPOCH_OPEN, SHM_EPOCH_EV_CLOSE, SHM_EPOCH_CLOSING },
        { SHM_EPOCH_CLOSING, SHM_EPOCH_EV_CLOSE, SHM_EPOCH_CLOSING },
        { SHM_EPOCH_DRAINED, SHM_EPOCH_EV_CLOSE, SHM_EPOCH_DRAINED },
        { SHM_EPOCH_CLOSING, SHM_EPOCH_EV_EMPTY, SHM_EPOCH_DRAINED },
        { SHM_EPOCH_DRAINED, SHM_EPOCH_EV_NOT_EMPTY, SHM_EPOCH_CLOSING },
        { SHM_EPOCH_CLOSING, SHM_EPOCH_EV_REVOKED, SHM_EPOCH_CLOSING },
        { SHM_EPOCH_DRAINED, SHM_EPOCH_EV_REVOKED, SHM_EPOCH_DRAINED },
        { SHM_EPOCH_CLOSING, SHM_EPOCH_EV_REOPEN, SHM_EPOCH_OPEN },
        { SHM_EPOCH_DRAINED, SHM_EPOCH_EV_REOPEN, SHM_EPOCH_OPEN },
};

const ShmEdges shm_epoch_edges = SHM_EDGES(edges);

ShmEpochWord shm_epoch_word_decode(uint64_t word) {
        return (ShmEpochWord){
                .state = (ShmEpochState) (word >> STATE_SHIFT),
                .flags = (word >> FLAGS_SHIFT) & 0xff,
                .era = (word >> ERA_SHIFT) & SHM_ERA_MAX,
                .version = word & VERSION_MASK,
        };
}

uint64_t shm_epoch_word_encode(ShmEpochWord w) {
        return (uint64_t) w.state << STATE_SHIFT | (uint64_t) w.flags << FLAGS_SHIFT |
               (uint64_t) w.era << ERA_SHIFT | (w.version & VERSION_MASK);
}

bool shm_era_is_before(uint32_t a, uint32_t b) {
        uint32_t distance = (b - a) & SHM_ERA_MAX;

        return distance != 0 && distance <= SHM_ERA_MAX / 2;
}

uint32_t shm_era_whole(uint32_t newest, uint32_t slab_era) {
        return (newest - ((newest - slab_era) & SLAB_ERA_BITS)) & SHM_ERA_MAX;
}

/* Skips eras whose low 12 bits, which slab words hold, are 0. */
static uint32_t next_era(uint32_t era) {
        do
                era = (era + 1) & SHM_ERA_MAX;
        while ((era & SLAB_ERA_BITS) == 0);
        return era;
}

int shm_epoch_word_apply(ShmEpochWord w, ShmEpochEvent event, uint32_t flags, ShmEpochWord *ret) {
        int to = shm_edge_to(shm_epoch_edges, w.state, event);

        if (to < 0 || (event == SHM_EPOCH_EV_REOPEN && w.flags & SHM_EPOCH_REVOKE))
                return SHM_EPOCH_E_REFUSED;

        if (event == SHM_EPOCH_EV_RETIRE)
                w.flags |= SHM_EPOCH_RETIRING;
        if (event == SHM_EPOCH_EV_KEEP)
                w.flags &= ~SHM_EPOCH_RETIRING;
        if (event == SHM_EPOCH_EV_CLOSE && w.state == SHM_EPOCH_OPEN)
                w.flags = 0;
        if (event == SHM_EPOCH_EV_CLOSE)
                w.flags |= flags & (SHM_EPOCH_DRAIN | SHM_EPOCH_REVOKE);
        if (event == SHM_EPOCH_EV_REVOKED)
                w.flags &= ~SHM_EPOCH_REVOKE;
        if (event == SHM_EPOCH_EV_REOPEN) {
                w.flags = flags & SHM_EPOCH_RESERVED;
                w.era = next_era(w.era);
        }
        w.state = (ShmEpochState) to;
        w.version = (w.version + 1) & VERSION_MASK;
        *ret = w;
        return 0;
}
