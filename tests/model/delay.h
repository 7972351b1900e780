#pragma once
/*
 * Stores that wait in their processor's buffer, as x86 orders memory (x86-TSO): their own actor sees them, others do
 * not yet. A case says which words' stores may wait, and how many at a time. The memory holds the stores that have gone
 * out. Stores of one actor go out in the order in which they were made, each at any time. All of them go out before the
 * actor makes a locked instruction, a fence, or a plain store that may not wait. Before a membarrier the stores of all
 * actors go out, except for actors whose processor the membarrier leaves out: their stores go out as time passes.
 * Stores of a dead actor go out too: its processor lives.
 */
#include <stdbool.h>
#include <stdint.h>

#include "tests/model/explore.h"

#define DELAY_MAX 4 /* stores of one actor */

typedef struct Late {
        uint8_t *at;
        uint64_t value;
        uint64_t under; /* the value that others see, while the actor itself runs */
        uint32_t size;
} Late;

/* Oldest first. Part of a state. */
typedef struct Delays {
        Late stores[MODEL_ACTORS_MAX][DELAY_MAX];
        unsigned n[MODEL_ACTORS_MAX];
        unsigned owed[MODEL_ACTORS_MAX]; /* the oldest, which waited when a membarrier left the actor out */
} Delays;

void delay_forget(void);
/* Whether a store of the actor to this address may wait. */
bool delay_may(unsigned actor, const void *address);
/* It waits. The actor's own step has made it: where it is, `before` was. */
void delay_add(Delays *delays, unsigned actor, void *address, const void *before, uint32_t size);
/* The oldest one goes out. */
void delay_remove(Delays *delays, unsigned actor);
/* Around a step of an actor: puts its own stores into the memory, and takes them out again. */
void delay_show(Delays *delays, unsigned actor);
void delay_hide(Delays *delays, unsigned actor);
uint64_t delay_hash(const Delays *delays);
