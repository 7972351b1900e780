/*
 * Explorer
 *
 * Purpose: see explore.h. A depth-first search over states. A state is the memory, the private part,
 *   and the stack of every actor, which holds its registers while it waits in shm_step(). A step is
 *   the access an actor waits to make and all it does up to the next; all that it changes is saved to a log as it was
 *   before, and put back from there afterwards.
 *
 * Why not replay: the search goes on only once from a state that it reaches twice, so three actors with
 *   deaths are exhaustible. How many interleavings there are is still known: ways from a
 *   state to the ends are summed up and kept with its hash.
 *
 * Invariants
 *   1. A state's hash covers all that decides the steps after it. Two states with one hash of 64
 *      bits would hide one; with 10 million states the odds are below 1 in 100,000.
 *   2. An actor's death changes nothing for others, so it is tried right after each of its own steps
 *      (and before the first) rather than at every moment until the end.
 *   3. A step commutes with all of others' if its 16-byte cell is touched by one actor alone or
 *      never changes. If an actor waits to make such a step, no other choice is tried first. The search
 *      assumes which cells are such, and begins anew when a step proves it wrong: up to the first such step
 *      the assumption held, so the reduced search meets that step too.
 *   4. Meeting a state again below itself is a loop that makes no progress: a violation.
 *   5. A store that waits is part of the state. Until it goes out, which is a choice of its own in every
 *      state, it changes nothing for others. So the step that makes it commutes with all of others' but a
 *      membarrier. Whether an actor that makes such stores meets another one's membarrier is assumed as
 *      in 3. A membarrier itself may come first: stores that follow it may still go out at once.
 *   6. Under a weak memory the memory holds the newest store of each location, other ones are part of the state. An
 *      access of no location, and a fence that is not sc, changes what its actor alone knows. A state that is met again
 *      below itself is no violation there: an actor may read one stale store over and over.
 */
#include "tests/model/explore.h"

#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "shm/arch/atomic.h"
#include "tests/model/delay.h"
#include "tests/model/memory.h"
#include "tests/model/report.h"
#include "tests/model/seam.h"
#include "tests/model/table.h"
#include "tests/model/weak.h"

#define STACK_SIZE (64 << 10)
#define DEPTH_MAX 8000
#define LOOP "does not terminate: this state was met before on the way"
#define STATES_MAX (UINT64_C(48) << 20)
#define LOOKS_MAX 1000 /* steps and ends of a run after which the whole memory is looked at */

typedef enum ActorState { ACTOR_LIVE, ACTOR_DONE, ACTOR_DEAD } ActorState;

typedef struct Actor {
        void *sp;
        const void *address; /* the access that it waits to make */
        const void *caller;
        ModelKind kind;
        unsigned size;
        ModelOrder order;
        uint64_t hash; /* covers its stack and its own memory; 0 when it has ended */
        uint64_t own_hash; /* 0: as at the start */
        ActorState state;
        bool news; /* another one has changed the memory since the actor last called model_wait() */
        bool waits; /* for that */
        bool chooses; /* which newer store it sees when it goes on: see weak.h */
        unsigned n_steps;
} Actor;

/* The part of a state that is saved and put back as a whole. */
typedef struct Now {
        Actor actors[MODEL_ACTORS_MAX];
        uint64_t memory_hash; /* sum over the lines, less the sum at the start */
        uint64_t private_hash; /* 0: as at the start */
        unsigned n_dead, last, n_preemptions;
} Now;

static const ModelCase *model;
static ModelMode mode;
static unsigned n_actors, n_preemptions_max;
static ModelResult result;

static uint8_t *stacks[MODEL_ACTORS_MAX];
static Actor *running;
static void *explorer_sp;
static Now now;
static Delays delays; /* saved and put back where the case has any */
static unsigned left_out; /* actors whose processors membarriers leave out */
static unsigned late_actors, barrier_actors; /* that made stores that wait; that issued membarriers */
static Step path[DEPTH_MAX];
static unsigned depth;
static Table table, ends;
static jmp_buf again, found, cut;
static unsigned cut_in; /* so many accesses until model_cut() is; 0: it is not under way */
static bool was_whole, in_post;
static bool some_wait; /* model_wait() was called */
static bool fenced; /* the step's access was followed by a release fence */
static char failure[512];
static unsigned n_looks;

/* In a case in which nobody waits, news make no difference. */
static uint64_t hash_state(const Actor *a) {
        return a->state +
               (some_wait && a->state == ACTOR_LIVE ? 4U * a->news + 8U * a->waits + 16U * a->chooses : 0);
}

static uint64_t hash_now(void) {
        uint64_t h = table_mix(now.memory_hash, now.private_hash);

        if (model->late)
                h += delay_hash(&delays);
        if (model->weak)
                h += weak_hash();
        for (unsigned i = 0; i < n_actors; i++)
                h = table_mix(h + hash_state(&now.actors[i]), now.actors[i].hash);
        return h ? h : 1;
}

/*
 * Actors
 */
void switch_stack(void **save_sp, void *sp);
#if defined(__x86_64__)
#define FRAME_WORDS 8
#define FRAME_RETURN 6
__asm__(".text\n.globl switch_stack\n.hidden switch_stack\n.type switch_stack,@function\n"
        "switch_stack:\n"
        "push %rbp; push %rbx; push %r12; push %r13; push %r14; push %r15\n"
        "mov %rsp, (%rdi); mov %rsi, %rsp\n"
        "pop %r15; pop %r14; pop %r13; pop %r12; pop %rbx; pop %rbp\n"
        "ret\n.size switch_stack,.-switch_stack\n");
#elif defined(__aarch64__)
#define FRAME_WORDS 22
#define FRAME_RETURN 11
__asm__(".text\n.globl switch_stack\n.hidden switch_stack\n.type switch_stack,@function\n"
        "switch_stack:\n"
        "sub sp, sp, #160\n"
        "stp x19, x20, [sp]; stp x21, x22, [sp, #16]; stp x23, x24, [sp, #32]; stp x25, x26, [sp, #48]\n"
        "stp x27, x28, [sp, #64]; stp x29, x30, [sp, #80]\n"
        "stp d8, d9, [sp, #96]; stp d10, d11, [sp, #112]; stp d12, d13, [sp, #128]; stp d14, d15, [sp, #144]\n"
        "mov x9, sp; str x9, [x0]; mov sp, x1\n"
        "ldp x19, x20, [sp]; ldp x21, x22, [sp, #16]; ldp x23, x24, [sp, #32]; ldp x25, x26, [sp, #48]\n"
        "ldp x27, x28, [sp, #64]; ldp x29, x30, [sp, #80]\n"
        "ldp d8, d9, [sp, #96]; ldp d10, d11, [sp, #112]; ldp d12, d13, [sp, #128]; ldp d14, d15, [sp, #144]\n"
        "add sp, sp, #160\n"
        "ret\n.size switch_stack,.-switch_stack\n");
#else
#error "switch_stack() is missing for this processor"
#endif

void shm_step(const void *address) {
        ModelKind kind = model_kind;
        unsigned size = model_size;
        ModelOrder order = model_weaker < 0 ? model_order : (ModelOrder) model_weaker;

        model_kind = MODEL_LOAD;
        model_size = 0;
        model_order = MODEL_RLX;
        model_weaker = -1;
        if (!running) {
                if (cut_in > 0 && --cut_in == 0)
                        longjmp(cut, 1);
                if (in_post)
                        memory_save_line(address);
                return;
        }
        running->address = address;
        running->kind = kind;
        running->size = size;
        running->order = order;
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

        running = a;
        model_acts = true;
        model_stored_nothing = fenced = false;
        switch_stack(&explorer_sp, a->sp);
        running = NULL;
        model_acts = false;
        if (failure[0])
                model_fail("%s", failure);
        if (memory_own_changed(i))
                a->own_hash = memory_own_hash(i);
        a->hash = 0;
        if (a->state == ACTOR_LIVE)
                a->hash =
                        table_hash(a->own_hash, a->sp, (size_t) (stacks[i] + STACK_SIZE - (uint8_t *) a->sp));
        if (memory_private_changed())
                now.private_hash = memory_private_hash();
}

void model_fence_rel(void) {
        fenced = true;
}

void model_wait(void) {
        if (!running)
                return;
        running->chooses = !running->news && model->weak && weak_n_old((unsigned) (running - now.actors)) > 0;
        running->waits = !running->news && !running->chooses;
        running->news = false;
        some_wait = true;
        model_step(NULL, MODEL_WAIT, 0);
}

/* An actor has changed the memory. */
static void wake_others(unsigned actor) {
        for (unsigned i = 0; i < n_actors; i++)
                if (i != actor) {
                        now.actors[i].news = true;
                        now.actors[i].waits = false;
                }
}

static bool may_go_on(const Actor *a) {
        return a->state == ACTOR_LIVE && !a->waits;
}

void model_leave_out(unsigned actor) {
        left_out |= 1U << actor;
}

void model_barrier(void) {
        if (running)
                model_step(NULL, MODEL_BARRIER, 0);
}

void model_barrier_all(void) {
        if (running)
                model_step(NULL, MODEL_BARRIER_ALL, 0);
}

void model_pass_time(void) {
        if (running)
                model_step(NULL, MODEL_TIME, 0);
}

/*
 * Stores that wait
 */
static bool may_wait(const Actor *a) {
        return model->late && a->kind == MODEL_STORE && delay_may((unsigned) (a - now.actors), a->address);
}

/* The oldest of the actor's goes out. */
static void go_out(unsigned i) {
        uint8_t *at = delays.stores[i][0].at;

        memory_save_line(at);
        delay_remove(&delays, i);
        now.memory_hash += memory_rehash_line(at);
        wake_others(i);
}

static void all_go_out(unsigned i) {
        while (delays.n[i] > 0)
                go_out(i);
}

static bool is_barrier(const Actor *a) {
        return a->kind == MODEL_BARRIER || a->kind == MODEL_BARRIER_ALL || a->kind == MODEL_TIME;
}

/* It changes nothing for others. */
static bool loads(const Actor *a) {
        return a->kind == MODEL_LOAD || a->kind == MODEL_WAIT;
}

/* The actor i is at a barrier, or time passes for it. Its own processor is never left out. */
static void barrier_reaches(unsigned i, ModelKind kind, unsigned k) {
        if (kind == MODEL_TIME)
                while (delays.owed[k] > 0)
                        go_out(k);
        else if (kind == MODEL_BARRIER && k != i && left_out >> k & 1)
                delays.owed[k] = delays.n[k];
        else
                all_go_out(k);
}

/* Stores that have to go out before the actor makes its step. */
static void go_out_before(unsigned i) {
        const Actor *a = &now.actors[i];

        if (is_barrier(a))
                for (unsigned k = 0; k < n_actors; k++)
                        barrier_reaches(i, a->kind, k);
        else if (may_wait(a) && delays.n[i] == model->late)
                go_out(i);
        else if (!loads(a) && !may_wait(a))
                all_go_out(i);
}

/* Whether one actor makes stores that wait, and another one issues membarriers. */
static bool barriers_matter(void) {
        unsigned both = late_actors | barrier_actors;

        return late_actors != 0 && barrier_actors != 0 && (both & (both - 1)) != 0;
}

/* Notes the step for that. True: so far it was not assumed. */
static bool note_barriers(const Actor *a) {
        bool mattered = barriers_matter();
        unsigned bit = 1U << (a - now.actors);

        late_actors |= may_wait(a) ? bit : 0;
        barrier_actors |= model->late && is_barrier(a) ? bit : 0;
        return barriers_matter() && !mattered;
}

/*
 * A weak memory
 */
static WeakAccess weak_access(const Actor *a) {
        return (WeakAccess){ .address = a->address,
                             .size = a->size,
                             .order = a->order,
                             .reads = a->kind != MODEL_STORE,
                             .writes = a->kind == MODEL_STORE || a->kind == MODEL_LOCKED };
}

static bool is_sc_fence(const Actor *a) {
        return !a->address && (a->kind == MODEL_LOCKED || is_barrier(a));
}

static bool weak_commutes(const Actor *a) {
        WeakAccess access = weak_access(a);

        return !is_sc_fence(a) && !weak_matters(&access) &&
               (memory_has(a->address) || memory_commutes(a->address));
}

/* A step without an address. */
static void make_fence(const Actor *a, unsigned choice) {
        unsigned i = (unsigned) (a - now.actors);

        if (a->kind == MODEL_WAIT)
                weak_end_wait(i, a->chooses ? choice : UINT_MAX);
        else if (is_barrier(a))
                weak_barrier(i, n_actors);
        else if (a->kind == MODEL_LOCKED)
                weak_fence(i, MODEL_SC);
        else if (a->order == MODEL_ACQ)
                weak_fence(i, MODEL_ACQ);
}

static unsigned live(void) {
        unsigned bits = 0;

        for (unsigned i = 0; i < n_actors; i++)
                bits |= (unsigned) (now.actors[i].state == ACTOR_LIVE) << i;
        return bits;
}

/* Whether all the others' steps commute with the one the actor waits to make. */
static bool commutes(const Actor *a) {
        unsigned n_late = delays.n[a - now.actors];

        if (mode != MODEL_REDUCED)
                return false;
        if (model->weak)
                return weak_commutes(a);
        if (may_wait(a))
                return n_late < model->late && !barriers_matter();
        return (n_late == 0 || loads(a)) && memory_commutes(a->address);
}

/* A look at the whole memory takes long. An actor makes the same plain stores early in a search. */
static void look_for_plain_stores(void) {
        const void *line = n_looks < LOOKS_MAX ? memory_unknown_change() : NULL;
        char text[REPORT_NAME_MAX];

        n_looks++;
        if (line)
                model_fail("%s: written by a plain store, which model_watch() should know of",
                           report_name(line, text));
}

/* False: the actor cannot make the step in this way. */
static bool step(unsigned i, unsigned choice) {
        Actor *a = &now.actors[i];
        WeakAccess access = weak_access(a);
        Step *s = &path[depth];
        uint8_t *address = (uint8_t *) a->address, *cell = address - (uintptr_t) address % MEMORY_CELL;
        unsigned size = a->size;
        bool touched = note_barriers(a), waited_before = some_wait, possible = true, nothing;

        *s = (Step){ .actor = i, .number = a->n_steps++, .address = address, .caller = a->caller };
        s->late = may_wait(a);
        memory_save(a->sp, (size_t) (stacks[i] + STACK_SIZE - (uint8_t *) a->sp));
        memory_save_line(address);
        go_out_before(i);
        delay_show(&delays, i);
        if (model->weak) {
                s->stale = weak_is_stale(i, &access, choice);
                if (!address)
                        make_fence(a, choice);
                a->chooses = false;
                if (!weak_show(i, &access, choice))
                        return false;
        }
        if (cell)
                memcpy(s->before, cell, MEMORY_CELL);
        resume(i);
        nothing = model_stored_nothing;
        if (cell)
                memcpy(s->after, cell, MEMORY_CELL);
        s->changed = memcmp(s->before, s->after, MEMORY_CELL) != 0;
        if (s->changed)
                wake_others(i);
        if (s->late)
                delay_add(&delays, i, address, (uint8_t *) s->before + (address - cell), size);
        delay_hide(&delays, i);
        if (model->weak) {
                bool stored = access.writes && !nothing;

                possible = weak_end(i, &access, choice, stored);
                touched |= weak_touch(i, &access, stored);
                if (fenced)
                        weak_fence(i, MODEL_REL);
        }
        now.memory_hash += memory_rehash_step(address);
        touched |= memory_touch(address, i, s->changed || s->late);
        if ((touched && (mode == MODEL_REDUCED || model->weak)) || (some_wait && !waited_before))
                longjmp(again, 1);
        return possible;
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
        look_for_plain_stores();

        (void) table_add(&ends, hash, &new);
        if (new) {
                result.n_ends_dead += dead != 0;
                result.ends += table_mix(hash, 1);
        }
        return 1;
}

static double explore(void);

static void save_now(void) {
        memory_save(&now, sizeof(now));
        if (model->late)
                memory_save(&delays, sizeof(delays));
        if (model->weak)
                weak_save();
}

/* Explores the states after a waiting store goes out. */
static double explore_out(unsigned i) {
        size_t mark = memory_mark();
        double n;

        save_now();
        path[depth++] = (Step){ .actor = i, .out = true, .address = delays.stores[i][0].at };
        go_out(i);
        n = explore();
        depth--;
        memory_undo(mark);
        return n;
}

/* Explores one step of an actor, made in one way, and the states after it, also those after the actor's death there. */
static double explore_way(unsigned i, unsigned choice) {
        Actor *a = &now.actors[i];
        bool free_choice = !commutes(a);
        size_t mark = memory_mark();
        double n;

        save_now();
        if (free_choice && now.last != i && may_go_on(&now.actors[now.last]))
                now.n_preemptions++;
        if (free_choice)
                now.last = i;
        if (n_preemptions_max > 0 && now.n_preemptions > n_preemptions_max) {
                memory_undo(mark);
                return 0;
        }
        if (!step(i, choice)) {
                memory_undo(mark);
                return 0;
        }
        depth++;
        look_for_plain_stores();
        n = explore();
        if (a->state == ACTOR_LIVE && now.n_dead < model->deaths) {
                path[depth - 1].died = true;
                a->state = ACTOR_DEAD;
                a->hash = 0;
                now.n_dead++;
                n += explore();
        }
        depth--;
        memory_undo(mark);
        return n;
}

/* Explores the states after an actor waits, though it might see a newer store. */
static double explore_wait(unsigned i) {
        size_t mark = memory_mark();
        double n;

        save_now();
        now.actors[i].chooses = false;
        now.actors[i].waits = true;
        n = explore();
        memory_undo(mark);
        return n;
}

static double explore_step(unsigned i) {
        WeakAccess access = weak_access(&now.actors[i]);
        bool chooses = now.actors[i].chooses;
        unsigned n_choices = chooses ? weak_n_old(i) : model->weak ? weak_n_choices(i, &access) : 1;
        double n = chooses ? explore_wait(i) : 0;

        for (unsigned choice = 0; choice < n_choices; choice++)
                n += explore_way(i, choice);
        return n;
}

/* Whether an actor that waits might see a newer store. */
static bool may_see_more(void) {
        for (unsigned i = 0; i < n_actors; i++)
                if (now.actors[i].waits && now.actors[i].state == ACTOR_LIVE && model->weak &&
                    weak_n_old(i) > 0)
                        return true;
        return false;
}

/* One choice alone, where nothing else need be tried first. Preemptions last: what they lead to may be known then. */
static double explore_choices(void) {
        unsigned first = n_preemptions_max > 0 ? now.last : 0;
        bool any = false;
        double n = 0;

        for (unsigned i = n_actors; i-- > 0;)
                if (delays.n[i] > 0 && mode == MODEL_REDUCED && memory_commutes(delays.stores[i][0].at))
                        return explore_out(i);
        for (unsigned i = n_actors; i-- > 0;)
                if (may_go_on(&now.actors[i]) && commutes(&now.actors[i]))
                        return explore_step(i);
        for (unsigned k = 0; k < n_actors; k++) {
                unsigned i = (first + k) % n_actors;

                any |= may_go_on(&now.actors[i]) || delays.n[i] > 0;
                if (may_go_on(&now.actors[i]))
                        n += explore_step(i);
                if (delays.n[i] > 0)
                        n += explore_out(i);
        }
        if (!any && !may_see_more())
                model_fail("all that live wait for ever");
        return n;
}

static bool is_over(void) {
        for (unsigned i = 0; i < n_actors; i++)
                if (now.actors[i].state == ACTOR_LIVE || delays.n[i] > 0)
                        return false;
        return true;
}

/* Whether the search goes on from a state: for the first time. */
static bool entry_begin(Entry *e, bool is_new) {
        if (!is_new && isnan(e->n) && !model->weak)
                model_fail(LOOP);
        if (is_new)
                e->n = NAN;
        return is_new;
}

/*
 * The same with a bound: also where more of it is left than all the times before. With one preemption less, or as many
 * and the same actor that went last, all was reached from here that can be reached now.
 */
static bool entry_begin_bounded(Entry *e, bool is_new) {
        uint8_t last = (uint8_t) (1U << now.last);

        if (is_new || now.n_preemptions < e->n_preemptions)
                *e = (Entry){ .hash = e->hash, .n_preemptions = (uint8_t) now.n_preemptions };
        if (now.n_preemptions == e->n_preemptions && (e->under_way & last) && !model->weak)
                model_fail(LOOP);
        if (now.n_preemptions > e->n_preemptions || (e->lasts & last))
                return false;
        e->lasts |= last;
        e->under_way |= last;
        return true;
}

static void entry_end(Entry *e, double n) {
        if (n_preemptions_max > 0)
                e->under_way &= (uint8_t) ~(1U << now.last);
        else
                e->n = n;
}

/* Returns how many schedules there are from here; with a bound, not those that an earlier visit has counted. */
static double explore(void) {
        bool bounded = n_preemptions_max > 0, new;
        uint64_t hash;
        double n;

        if (model->weak)
                weak_trim(live());
        hash = hash_now();
        if (mode != MODEL_LITERAL) {
                Entry *e = table_add(&table, hash, &new);

                if (table.n > STATES_MAX)
                        model_fail("more than %lu states: bound this case", (unsigned long) STATES_MAX);
                if (bounded ? !entry_begin_bounded(e, new) : !entry_begin(e, new))
                        return bounded || isnan(e->n) ? 0 : e->n;
        }
        result.n_states++;
        if (depth + 1 == DEPTH_MAX)
                model_fail("does not terminate within %d steps", DEPTH_MAX);
        n = is_over() ? end() : explore_choices();
        if (mode != MODEL_LITERAL)
                entry_end(table_find(&table, hash), n);
        return n;
}

/* Also with each of the actors never beginning. */
static double explore_all(void) {
        double n = explore();

        for (unsigned i = 0; i < n_actors && model->deaths > 0; i++) {
                size_t mark = memory_mark();

                save_now();
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
        void *base;
        size_t size;

        model = c;
        mode = m;
        result = (ModelResult){};
        n_preemptions_max = full ? c->full_preemptions : c->preemptions;
        failure[0] = 0;
        running = NULL;
        model_acts = false;
        in_post = false;
        for (n_actors = 0; n_actors < MODEL_ACTORS_MAX && c->actors[n_actors]; n_actors++)
                if (!stacks[n_actors])
                        stacks[n_actors] = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE,
                                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
        memory_forget();
        delay_forget();
        late_actors = barrier_actors = left_out = 0;
        weak_forget();
        some_wait = model_copies = false;
        model_weak = false;
        c->pre();
        memory_prepare();
        model_weak = c->weak;
        if (c->weak) {
                base = memory_base(&size);
                weak_prepare(base, size);
        }
}

/* Brings each actor to its first access. */
static void start(void) {
        memory_reset();
        table_reset(&table);
        table_reset(&ends);
        result = (ModelResult){ .bound = n_preemptions_max };
        now = (Now){};
        delays = (Delays){};
        if (model->weak)
                weak_reset(some_wait);
        depth = n_looks = 0;
        for (unsigned i = 0; i < n_actors; i++) {
                void **top = (void **) (stacks[i] + STACK_SIZE);

                memset(stacks[i], 0, STACK_SIZE);
                top[FRAME_RETURN - FRAME_WORDS] = (void *) begin;
                now.actors[i].sp = top - FRAME_WORDS;
                resume(i);
        }
        now.memory_hash = memory_rehash_step(NULL);
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
        if (n_preemptions_max > 0 && mode != MODEL_LITERAL)
                result.n_schedules = 0;
        result.n_ends = ends.n;
        if (!memory_is_reset())
                model_fail("memory was written by a plain store, which model_watch() should know of");
        return result;
}
