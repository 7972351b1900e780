/*
 * Explorer
 *
 * Purpose: see explore.h. A depth-first search over states. A state is the memory, the private part,
 *   and the stack of every actor, which holds its registers while it waits in shm_step(). A step is
 *   the access an actor waits to make and all it does up to the next; whoever it changes is saved to
 *   a log before and put back from there afterwards.
 *
 * Why not replay: a state reached twice need not be gone on from twice, which is what makes three
 *   actors with deaths exhaustible. How many interleavings there are is still known: ways from a
 *   state to the ends are summed up and kept with its hash.
 *
 * Invariants
 *   1. A state's hash covers all that decides what comes after it. Two states with one hash of 64
 *      bits would hide one; with 10 million states the odds are below 1 in 100,000.
 *   2. An actor's death changes nothing for others, so it is tried right after each of its own steps
 *      (and before the first) rather than at every moment until the end.
 *   3. A step commutes with all of others' if its 16-byte cell is touched by one actor alone or
 *      never changes. If an actor waits to make such a step, no other choice is tried first. What is
 *      such a cell is assumed, and the search begun anew when a step proves it wrong: up to the first
 *      such step the assumption held, so the reduced search meets that step too.
 *   4. Meeting a state again below itself is a loop that makes no progress: a violation.
 */
#include "tests/model/explore.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "shm/atomic.h"
#include "tests/model/delay.h"
#include "tests/model/memory.h"
#include "tests/model/report.h"
#include "tests/model/table.h"

#define STACK_SIZE (64 << 10)
#define DEPTH_MAX 2000
#define STATES_MAX (UINT64_C(48) << 20)

typedef enum ActorState { ACTOR_LIVE, ACTOR_DONE, ACTOR_DEAD } ActorState;

typedef struct Actor {
        void *sp;
        const void *address; /* of the access it waits to make */
        const void *caller;
        uint64_t hash; /* of its stack and what is its own; 0 when it has ended */
        uint64_t own_hash; /* 0: as at the start */
        ActorState state;
        unsigned n_steps;
} Actor;

/* What is saved and put back as a whole. */
typedef struct Now {
        Actor actors[MODEL_ACTORS_MAX];
        uint64_t memory_hash; /* sum over the lines, less what it was at the start */
        uint64_t private_hash;
        unsigned n_dead, last, n_preemptions;
        Delays delays;
} Now;

static const ModelCase *model;
static ModelMode mode;
static unsigned n_actors, n_preemptions_max;
static ModelResult result;

static uint8_t *stacks[MODEL_ACTORS_MAX];
static Actor *running;
static void *explorer_sp;
static Now now;
static Step path[DEPTH_MAX];
static unsigned depth;
static Table table, ends;
static jmp_buf again, found, cut;
static unsigned cut_in; /* so many accesses until model_cut() is; 0: it is not under way */
static bool was_whole, in_post;
static char failure[512];

static uint64_t hash_now(void) {
        uint64_t h = table_mix(now.memory_hash, now.private_hash) + delay_hash(&now.delays);

        for (unsigned i = 0; i < n_actors; i++)
                h = table_mix(h + now.actors[i].state, now.actors[i].hash);
        return h ? h : 1;
}

/* The same where the bound decides what comes after, too. */
static uint64_t hash_bounded(void) {
        uint64_t h = hash_now();

        return n_preemptions_max > 0 ? table_mix(h, now.last << 8 | now.n_preemptions) | 1 : h;
}

/*
 * Actors
 */
void switch_stack(void **save_sp, void *sp);
__asm__(".text\n.globl switch_stack\n.hidden switch_stack\n.type switch_stack,@function\n"
        "switch_stack:\n"
        "push %rbp; push %rbx; push %r12; push %r13; push %r14; push %r15\n"
        "mov %rsp, (%rdi); mov %rsi, %rsp\n"
        "pop %r15; pop %r14; pop %r13; pop %r12; pop %rbx; pop %rbp\n"
        "ret\n.size switch_stack,.-switch_stack\n");

void shm_step(const void *address) {
        if (!running) {
                if (cut_in > 0 && --cut_in == 0)
                        longjmp(cut, 1);
                if (in_post)
                        memory_save_line(address);
                return;
        }
        running->address = address;
        running->caller = __builtin_return_address(0);
        switch_stack(&running->sp, explorer_sp);
}

static void begin(void) {
        model->actors[running - now.actors]();
        running->state = ACTOR_DONE;
        switch_stack(&running->sp, explorer_sp);
        abort();
}

static void resume(unsigned i) {
        Actor *a = &now.actors[i];

        delay_hide(&now.delays, i);
        running = a;
        switch_stack(&explorer_sp, a->sp);
        running = NULL;
        delay_show(&now.delays, i);
        if (failure[0])
                model_fail("%s", failure);
        if (memory_own_changed(i))
                a->own_hash = memory_own_hash(i);
        a->hash = 0;
        if (a->state == ACTOR_LIVE)
                a->hash =
                        table_hash(a->own_hash, a->sp, (size_t) (stacks[i] + STACK_SIZE - (uint8_t *) a->sp));
        now.private_hash = memory_private_hash();
}

void model_barrier(void) {
        if (running)
                delay_end_all(&now.delays, (unsigned) (running - now.actors));
}

/* Whether all the others' steps commute with the one the actor waits to make. */
static bool commutes(const Actor *a) {
        return mode == MODEL_REDUCED && !model->late && memory_commutes(a->address);
}

static void step(unsigned i) {
        Actor *a = &now.actors[i];
        Step *s = &path[depth];
        const void *cell = (const void *) ((uintptr_t) a->address & ~(uintptr_t) (MEMORY_CELL - 1));

        *s = (Step){ .actor = i, .number = a->n_steps++, .address = a->address, .caller = a->caller };
        memory_save(a->sp, (size_t) (stacks[i] + STACK_SIZE - (uint8_t *) a->sp));
        memory_save_step(s->address);
        if (cell)
                memcpy(s->before, cell, MEMORY_CELL);
        resume(i);
        if (cell)
                memcpy(s->after, cell, MEMORY_CELL);
        s->changed = memcmp(s->before, s->after, MEMORY_CELL) != 0;
        if (s->changed)
                now.delays.waits[i] = false;
        now.memory_hash += memory_rehash_step(s->address);
        if (memory_touch(s->address, i, s->changed) && mode == MODEL_REDUCED)
                longjmp(again, 1);
}

/*
 * The search
 */
static double end(void) {
        size_t mark = memory_mark();
        uint64_t hash = hash_now();
        unsigned dead = 0;
        bool new;

        for (unsigned i = 0; i < n_actors; i++)
                dead |= (unsigned) (now.actors[i].state == ACTOR_DEAD) << i;
        memory_save_plain();
        in_post = true;
        model->post(dead);
        in_post = false;
        memory_undo(mark);

        (void) table_add(&ends, hash, &new);
        if (new) {
                result.n_ends_dead += dead != 0;
                result.ends += table_mix(hash, 1);
        }
        return 1;
}

static double explore(void);

/* What follows a step if what it stored is late. */
static double explore_late(unsigned i) {
        Step *s = &path[depth - 1];
        double n;

        if (!s->changed || now.actors[i].state != ACTOR_LIVE || !delay_may(i, s->address))
                return 0;
        s->late = true;
        delay_begin(&now.delays, i, s->before[(uintptr_t) s->address / 8 % 2]);
        n = explore();
        now.delays.waits[i] = s->late = false;
        return n;
}

/* One step of an actor, what follows it, and what follows if the actor dies there. */
static double explore_step(unsigned i) {
        Actor *a = &now.actors[i];
        bool free_choice = !commutes(a);
        size_t mark = memory_mark();
        double n;

        memory_save(&now, sizeof(now));
        if (free_choice && now.last != i && now.actors[now.last].state == ACTOR_LIVE)
                now.n_preemptions++;
        if (free_choice)
                now.last = i;
        if (n_preemptions_max > 0 && now.n_preemptions > n_preemptions_max) {
                memory_undo(mark);
                return 0;
        }
        step(i);
        depth++;
        n = explore();
        n += explore_late(i);
        if (a->state == ACTOR_LIVE && now.n_dead < model->deaths) {
                path[depth - 1].died = true;
                now.delays.waits[i] = false;
                a->state = ACTOR_DEAD;
                a->hash = 0;
                now.n_dead++;
                n += explore();
        }
        depth--;
        memory_undo(mark);
        return n;
}

static double explore(void) {
        uint64_t hash = hash_bounded();
        double n = 0;
        bool new, live = false;
        unsigned only = MODEL_ACTORS_MAX;

        if (mode != MODEL_LITERAL) {
                Entry *e = table_add(&table, hash, &new);

                if (table.n > STATES_MAX)
                        model_fail("more than %lu states: bound this case", (unsigned long) STATES_MAX);
                if (isnan(e->n) && !new)
                        model_fail("does not terminate: this state was met before on the way");
                if (!new)
                        return e->n;
                e->n = NAN;
        }
        result.n_states++;
        if (depth + 1 == DEPTH_MAX)
                model_fail("does not terminate within %d steps", DEPTH_MAX);

        for (unsigned i = 0; i < n_actors; i++) {
                live = live || now.actors[i].state == ACTOR_LIVE;
                if (now.actors[i].state == ACTOR_LIVE && commutes(&now.actors[i]))
                        only = i;
        }
        if (!live)
                n = end();
        for (unsigned i = 0; i < n_actors; i++)
                if (now.actors[i].state == ACTOR_LIVE && (only == MODEL_ACTORS_MAX || only == i))
                        n += explore_step(i);
        if (mode != MODEL_LITERAL)
                table_find(&table, hash)->n = n;
        return n;
}

/* Also with each of the actors never beginning. */
static double explore_all(void) {
        double n = explore();

        for (unsigned i = 0; i < n_actors && model->deaths > 0; i++) {
                size_t mark = memory_mark();

                memory_save(&now, sizeof(now));
                now.actors[i].state = ACTOR_DEAD;
                now.actors[i].hash = 0;
                now.n_dead = 1;
                n += explore();
                memory_undo(mark);
        }
        return n;
}

void model_fail(const char *format, ...) {
        va_list ap;

        va_start(ap, format);
        if (!failure[0])
                vsnprintf(failure, sizeof(failure), format, ap);
        va_end(ap);
        if (running) {
                switch_stack(&running->sp, explorer_sp);
                abort();
        }
        if (model->planted && strstr(failure, model->planted))
                longjmp(found, 1);
        printf("%s: %s\n", model->name, failure);
        if (model->variants)
                printf("  variant %u\n", model_variant);
        report_steps(path, depth);
        for (unsigned i = 0; i < n_actors; i++)
                if (now.actors[i].state == ACTOR_DEAD && now.actors[i].n_steps == 0)
                        printf("  actor %u never began\n", i);
        exit(EXIT_FAILURE);
}

unsigned model_variant;

void model_cut(void (*operation)(void)) {
        was_whole = false;
        cut_in = model_variant + 1;
        if (setjmp(cut) == 0) {
                operation();
                was_whole = true;
        }
        cut_in = 0;
}

bool model_was_last_variant(void) {
        return was_whole;
}

static void prepare(const ModelCase *c, ModelMode m) {
        bool full = getenv("TSLAB_TEST_FULL") != NULL;

        model = c;
        mode = m;
        result = (ModelResult){};
        n_preemptions_max = full ? c->full_preemptions : c->preemptions;
        failure[0] = 0;
        running = NULL;
        in_post = false;
        for (n_actors = 0; n_actors < MODEL_ACTORS_MAX && c->actors[n_actors]; n_actors++)
                if (!stacks[n_actors])
                        stacks[n_actors] = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE,
                                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
        memory_forget();
        delay_forget();
        c->pre();
        memory_prepare();
}

/* Brings each actor to its first access. */
static void start(void) {
        memory_reset();
        table_reset(&table);
        table_reset(&ends);
        result = (ModelResult){ .bound = n_preemptions_max };
        now = (Now){};
        depth = 0;
        for (unsigned i = 0; i < n_actors; i++) {
                void **top = (void **) (stacks[i] + STACK_SIZE);

                memset(stacks[i], 0, STACK_SIZE);
                top[-2] = (void *) begin;
                now.actors[i].sp = top - 8;
                resume(i);
        }
}

ModelResult model_run(const ModelCase *c, ModelMode m) {
        prepare(c, m);
        if (setjmp(found)) {
                result.violated = true;
                return result;
        }
        setjmp(again);
        start();
        result.n_schedules = explore_all();
        result.n_ends = ends.n;
        if (!memory_is_reset())
                model_fail("memory was written by a plain store, which model_watch() should know of");
        return result;
}
