#include "tests/crash/successor.h"

#include <setjmp.h>
#include <string.h>

#include "shm/arena/client.h"
#include "shm/arena/clock.h"
#include "shm/epoch/epoch-open.h"
#include "shm/maintain/check.h"
#include "shm/maintain/maintain.h"
#include "shm/cache/object.h"
#include "tests/util/test.h"

#define STEPS_MAX 1000000U
#define WORD 16U /* all that one access can change */

/* ---- its death */

static struct {
        jmp_buf end;
        const ShmArena *arena; /* NULL: nobody is to die */
        const uint8_t *word; /* the word of the access before; NULL: outside of the arena */
        uint8_t before[WORD];
        unsigned n_changes, dies_at;
} seam;

static void watch(const void *address) {
        const uint8_t *word = (const uint8_t *) ((uintptr_t) address & ~(uintptr_t) (WORD - 1));

        seam.word = word >= seam.arena->base && word < seam.arena->slabs ? word : NULL;
        if (seam.word)
                memcpy(seam.before, word, WORD);
}

static void look_back(void) {
        if (!seam.word || memcmp(seam.word, seam.before, WORD) == 0)
                return;
        if (++seam.n_changes == seam.dies_at)
                longjmp(seam.end, 1);
}

/* In front of each access: looks at the changes of the access before. */
void shm_step(const void *address) {
        if (!seam.arena)
                return;
        look_back();
        watch(address);
}

/* ---- its life */

typedef struct Life {
        Successor *successor;
        ShmArena *arena;
        ShmActor control;
        ShmMaintain engine;
        uint64_t now_usec;
} Life;

static void forget_stale(ShmArena *arena, ShmRecord *record) {
        for (uint32_t i = 0; i < SHM_NOTES_MAX; i++)
                if (record->notes[i].handle != 0 && !shm_object_live(arena, record->notes[i].handle))
                        record->notes[i].handle = 0;
}

/* Notes of revoked objects: the threads saw the revocation, and let the slots go. */
static void forget_stale_notes(ShmArena *arena) {
        for (uint32_t i = 1; i < shm_arena_n_records_ever(arena); i++)
                forget_stale(arena, shm_arena_record(arena, i));
}

/* Until it is idle; with `pending`, until it waits for a thread. */
static void settle(Life *life, bool pending) {
        for (unsigned n = 0; n < STEPS_MAX; n++) {
                uint64_t next = shm_maintain_step(&life->engine, life->now_usec);
                bool waits = next > life->now_usec;

                if (next == SHM_MAINTAIN_IDLE ||
                    (pending && waits && !shm_freeze_waits_for_time(&life->engine.freeze)))
                        return;
                if (waits)
                        forget_stale_notes(life->arena);
                life->now_usec = waits ? next : life->now_usec + 1;
        }
        fail_msg("the engine does not come to an end");
}

/* As daemon/peer/client-watch.c has it done. */
static void end_client(Life *life) {
        uint32_t client = life->successor->ended, n_left;
        ShmClientInfo info;

        if (client == SUCCESSOR_NONE || shm_client_get(life->arena, client, &info) != 0)
                return;
        n_left = shm_client_release_records(life->arena, client);
        if (shm_epoch_end_leases(life->arena, client) > 0)
                shm_maintain_look(&life->engine, true, life->now_usec);
        if (n_left == 0)
                shm_client_remove(life->arena, client);
        else
                shm_maintain_repair(&life->engine);
}

/* Threads that the engine waits for go on. */
static void go_on(Life *life) {
        settle(life, true);
        forget_stale_notes(life->arena);
        if (life->successor->inside != 0)
                shm_arena_record(life->arena, life->successor->inside)->seq = life->successor->seq;
}

static void check_repairs(Life *life) {
        ShmCheck c;

        assert_int_equal(shm_check_repair(&life->control, &c), 0);
        assert_int_equal(c.problems, 0);
}

/* As daemon/takeover/takeover.c has it done, and the ticks after it. */
static void live(Life *life) {
        ShmRepairCounts counts, *sum = &life->successor->counts;

        shm_actor_init_daemon(&life->control, life->arena);
        life->control.record->seq += life->control.record->seq & 1;
        shm_maintain_init(&life->engine, &life->control);
        shm_actor_enter(&life->control);
        (void) shm_maintain_take_over(&life->engine, life->now_usec, &counts);
        shm_actor_leave(&life->control);
        sum->slots += counts.slots;
        sum->slabs += counts.slabs;
        assert_int_equal(counts.in_flight, 0);
        end_client(life);
        shm_maintain_look(&life->engine, true, life->now_usec);
        go_on(life);
        settle(life, false);
        end_client(life);
        if (life->successor->repairs)
                check_repairs(life);
        shm_maintain_look(&life->engine, true, life->now_usec);
        settle(life, false);
}

unsigned successor_run(Successor *successor, ShmArena *arena, unsigned n_changes) {
        static Life life;

        memset(&life, 0, sizeof(life));
        life.successor = successor;
        life.arena = arena;
        life.now_usec = shm_monotonic_usec(); /* freezes go by that clock */
        seam.arena = arena;
        seam.word = NULL;
        seam.n_changes = 0;
        seam.dies_at = n_changes;
        if (setjmp(seam.end) == 0)
                live(&life);
        seam.arena = NULL;
        return seam.n_changes;
}
