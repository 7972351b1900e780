#pragma once
/*
 * Explorer: runs two or three actors under every interleaving of their accesses to shared memory, sequentially
 * consistent or weaker, and, as one more choice after every access, lets one of them die there.
 *
 * A case:
 *
 *     static void pre(void) { ...make the memory...; model_memory(base, size); model_private(&mine, sizeof(mine)); }
 *     static void t0(void) { ... }
 *     static void t1(void) { ... }
 *     static void post(unsigned dead) { if (...) model_fail("..."); }
 *
 *     static const ModelCase model_cases[] = {
 *             { .name = "claim-claim", .pre = pre, .actors = { t0, t1 }, .post = post, .deaths = 1 },
 *     };
 *
 * pre() runs once. Actors run as coroutines and change nothing but their declared parts: the memory,
 * by shm/arch/atomic.h; the private part, by plain accesses; and their stacks. post() runs in every state
 * in which all actors have finished or died; bit i of `dead` says that actor i died. It may call any
 * function: all that it changes in the same places is undone.
 *
 * x86's stores that go out late are those that model_delay() names. A case that is `weak` runs
 * under the memory that C11 promises, too: see weak.h.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifndef MODEL_ACTORS_MAX
#define MODEL_ACTORS_MAX 3
#endif

typedef enum ModelMode {
        MODEL_REDUCED, /* states are visited once, steps that commute with all others are not reordered */
        MODEL_STATES, /* states are visited once */
        MODEL_LITERAL, /* every interleaving one by one: for small cases, and to check the others */
        _MODEL_MODE_N,
} ModelMode;

typedef struct ModelCase {
        const char *name;
        void (*pre)(void);
        void (*actors[MODEL_ACTORS_MAX])(void);
        void (*post)(unsigned dead);
        unsigned deaths; /* at most so many in one schedule, 0 to 2 */
        unsigned preemptions; /* at most so many; 0: no bound */
        unsigned full_preemptions; /* the same with TSLAB_TEST_FULL=1 */
        bool full_only; /* too large for every run */
        bool weak; /* also under a weak memory: see weak.h */
        bool weak_full; /* the same, with TSLAB_TEST_FULL=1 alone */
        unsigned weak_preemptions; /* the bound there; 0: as above */
        bool variants; /* pre() calls model_cut(): run once for each place where it can */
        unsigned
                late; /* so many stores of each actor, of those that model_delay() names, may wait; at most 4 */
        const char *planted; /* the violation, in part, that must be found: the case has a fault on purpose */
} ModelCase;

typedef struct ModelResult {
        double n_schedules; /* interleavings that were told apart, each a way to an end; 0: not counted, with a bound */
        uint64_t n_states;
        uint64_t n_ends; /* different ones */
        uint64_t n_ends_dead; /* with a death */
        uint64_t ends; /* a digest of all of them */
        unsigned bound; /* on preemptions; 0: none */
        bool violated; /* as planted */
} ModelResult;

/* For pre(). */
void model_memory(void *base, size_t size); /* 64-byte aligned, both */
/* All other memory that actors may change, for post() to see. */
void model_private(void *base, size_t size);
/* Memory that one actor alone uses, and post() does not look at: up to eight pieces. */
void model_own(unsigned actor, void *base, size_t size);
/* A line of the memory that is also written by plain stores. */
void model_watch(void *line);
/*
 * For pre() of a case that is `late`: others may see plain stores of the actor to this piece of the memory late,
 * in the order in which it made them (see delay.h). Up to eight pieces.
 */
void model_delay(unsigned actor, const void *base, size_t size);
/* For pre(): membarriers leave out this actor's processor. */
void model_leave_out(unsigned actor);
/* For actors: a membarrier. All that waits goes out, of all actors that are not left out. A step. */
void model_barrier(void);
/* The same, and none is left out. */
void model_barrier_all(void);
/* For actors: so much time passes that stores go out that waited when the last membarrier left them out. A step. */
void model_pass_time(void);
/* For actors, in a loop that waits: others go on until one of them has changed the memory. */
void model_wait(void);
/* Names an address in print; returns `text`. */
void model_names(const char *(*name)(const void *address, char *text, size_t size));

/*
 * For pre(): somebody begins `operation` and dies in front of an access, of which each variant of the case
 * has the next. The last variant's is over: it died right after.
 */
void model_cut(void (*operation)(void));
/* The variant, from 0 on, which model_run()'s caller sets. Whether the last run had it whole. */
extern unsigned model_variant;
bool model_was_last_variant(void);

/* For actors and post(): prints the schedule that led here; does not return. */
__attribute__((format(printf, 1, 2), noreturn)) void model_fail(const char *format, ...);

/* A violation that is not planted ends the process with status 1. */
ModelResult model_run(const ModelCase *c, ModelMode mode);
