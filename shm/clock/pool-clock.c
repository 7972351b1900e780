/*
 * The pool's clock in a process
 *
 * Purpose: tells the time since the host booted without a system call.
 *
 * Invariants
 *   1. `lead` changes by compare-and-set of both halves, and only if the distance of CLOCK_REALTIME to CLOCK_MONOTONIC
 *      has changed. So its low half counts while the high half is the distance that a thread finds.
 *   2. A thread stores `tick` once it has found, in this tick, that `lead` counts. A thread that finds the same tick by
 *      CLOCK_REALTIME and the distance in `lead` need not look at CLOCK_MONOTONIC: a jump of either clock would have
 *      changed the sum.
 *
 * Who may do what: any thread. Everything here is this process's own; a forked child goes on with a copy, and looks
 *   again if it is in another time namespace.
 *
 * Crash: nothing is shared.
 */
#include "shm/clock/pool-clock.h"

#include "shm/clock/time-namespace.h"

#define TRIES_MAX 16
#define NARROW_NS 20000 /* a measurement that is as exact is good enough */

ShmClock shm_clock;

/*
 * How far CLOCK_REALTIME is ahead of CLOCK_MONOTONIC. Both must be of one tick. A thread that is interrupted each time
 * takes clocks of two ticks for a jump, and looks again later.
 */
static uint64_t real_lead(uint64_t *ret_tick) {
        uint64_t tick = shm_clock_read(CLOCK_MONOTONIC_COARSE), again, real;

        for (uint32_t tries = 0;; tries++) {
                real = shm_clock_read(CLOCK_REALTIME_COARSE);
                again = shm_clock_read(CLOCK_MONOTONIC_COARSE);
                if (again == tick || tries == TRIES_MAX)
                        break;
                tick = again;
        }
        *ret_tick = tick;
        return real - tick;
}

/*
 * Measures how far CLOCK_BOOTTIME is ahead of CLOCK_MONOTONIC. It is read between two readings of the latter, and the
 * narrowest attempt counts: the error is less than half of its width. No suspension came between if CLOCK_REALTIME kept
 * its distance.
 */
static ShmPair measure_lead(void) {
        ShmPair lead = {};
        uint64_t best = UINT64_MAX, before, boot, width, distance, tick;

        for (uint32_t tries = 0; tries < TRIES_MAX && best > NARROW_NS; tries++) {
                distance = real_lead(&tick);
                before = shm_clock_read(CLOCK_MONOTONIC);
                boot = shm_clock_read(CLOCK_BOOTTIME);
                width = shm_clock_read(CLOCK_MONOTONIC) - before;
                if (best == UINT64_MAX)
                        lead = (ShmPair){ .low = boot - before, .high = distance };
                if (real_lead(&tick) != distance || (width >= best && distance == lead.high))
                        continue;
                best = width;
                lead = (ShmPair){ .low = boot - before - width / 2, .high = distance };
        }
        lead.low -= (uint64_t) shm_time_namespace_boot_ns();
        return lead;
}

/* Two measurements without a suspension in between differ a little: the clock does not jump by that. */
static bool is_about(uint64_t a, uint64_t b) {
        return a - b + SHM_NS_PER_MS / 2 <= SHM_NS_PER_MS;
}

static ShmPair renew_lead(ShmPair before) {
        ShmPair lead = measure_lead();

        if (before.high != 0 && is_about(lead.low, before.low))
                lead.low = before.low;
        /* ORDER: acqrel; both halves at once. If another thread was faster, its measurement counts. */
        (void) shm_local_pair_cas_acqrel(&shm_clock.lead, &before, lead);
        return lead;
}

uint64_t shm_clock_next_tick(void) {
        uint64_t tick, distance = real_lead(&tick);
        ShmPair lead;

        /* ORDER: acq; high, low, high: the halves belong together. */
        do {
                lead.high = shm_local_load_acq(&shm_clock.lead.high);
                lead.low = shm_local_load_acq(&shm_clock.lead.low); /* ORDER: acq; as above. */
        } while (shm_local_load_acq(&shm_clock.lead.high) != lead.high); /* ORDER: acq; as above. */
        if (lead.high != distance) {
                lead = renew_lead(lead);
                return shm_clock_read(CLOCK_MONOTONIC_COARSE) + lead.low;
        }
        shm_local_store_rlx(&shm_clock.tick, tick); /* ORDER: rlx; invariant 2. */
        return tick + lead.low;
}
