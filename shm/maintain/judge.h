#pragma once
/*
 * Judging slots: whether a slot that a dead thread may have held is anybody's. Control work.
 *
 *     shm_judge_init(judge, arena, false)
 *     shm_judge_add(judge, id)               at most SHM_JUDGE_MAX
 *     shm_judge_decide(judge)                one scan of all records for all of them
 *     shm_judge_give_back(judge, control)    those that are lost
 *
 * Claims in a slab make a scan void. Where they keep coming a slot is OPEN after deciding; giving back
 * then takes the slab into control's hand, judges anew, and lets it go. What is OPEN or UNSETTLED in the
 * end is to be looked at again later.
 */
#include <stdbool.h>
#include <stdint.h>

#include "shm/record.h"
#include "shm/slab-word.h"

#define SHM_JUDGE_MAX 256
#define SHM_JUDGE_TABLE (4 * SHM_JUDGE_MAX)

typedef enum ShmVerdict {
        SHM_VERDICT_OPEN, /* claims kept coming */
        SHM_VERDICT_OVER, /* free, or somebody's object: of no concern */
        SHM_VERDICT_OWNED, /* in the cache of a thread that lives */
        SHM_VERDICT_UNSETTLED, /* an intent, or a dead thread's record, names it: look again later */
        SHM_VERDICT_LOST, /* taken, and nobody's */
} ShmVerdict;

typedef struct ShmSuspect {
        SlotId id;
        uint32_t tag; /* this and the word as first sampled */
        SlabWord word;
        ShmVerdict named; /* by a record: OWNED, UNSETTLED, or OPEN for not at all */
        ShmVerdict verdict;
} ShmSuspect;

typedef struct ShmJudge {
        const ShmArena *arena;
        bool live; /* suspects are objects, tags odd: of a revoked epoch */
        uint64_t target; /* of these, as their slab's word said when it was found to be over */
        ShmIntent flush; /* of a control that died: what it was giving back is not the cache's any more */
        uint32_t n;
        ShmSuspect suspects[SHM_JUDGE_MAX];
        uint16_t table[SHM_JUDGE_TABLE]; /* by id: index + 1 */
        uint64_t caches[SHM_CACHES_MAX / 64]; /* where suspects can be, by their slabs' words */
} ShmJudge;

void shm_judge_init(ShmJudge *judge, const ShmArena *arena, bool live);
/* What is no slot at all is left out, and so is what was added before. */
void shm_judge_add(ShmJudge *judge, SlotId id);
void shm_judge_decide(ShmJudge *judge);
/* Takes no slab where an intent of control stands. Returns how many slots went back. */
uint32_t shm_judge_give_back(ShmJudge *judge, ShmActor *control);

static inline bool shm_judge_is_unsettled(const ShmSuspect *suspect) {
        return suspect->verdict == SHM_VERDICT_OPEN || suspect->verdict == SHM_VERDICT_UNSETTLED;
}

/* Slots of one slab, all three steps; the mask of those that went back. */
uint64_t shm_judge_slab(ShmActor *control, uint32_t slab, uint64_t mask);
