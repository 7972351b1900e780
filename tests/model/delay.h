#pragma once
/*
 * Stores that wait in their processor's buffer, which is what x86 does to the order of memory: the word
 * is written for its own actor, and not yet for others. A case names the words of which that may be said.
 *
 * A store goes out at the latest with the next change that its actor makes, and in front of a
 * membarrier: less than a processor may do, and nothing that it may not.
 */
#include <stdbool.h>
#include <stdint.h>

#include "tests/model/explore.h"

/* What has been stored and is not out: of each actor one word at most. Part of a state. */
typedef struct Delays {
        bool waits[MODEL_ACTORS_MAX];
        uint64_t old[MODEL_ACTORS_MAX]; /* what others see */
} Delays;

void delay_forget(void);
/* Whether a store of the actor to this address may wait. */
bool delay_may(unsigned actor, const void *address);
/* It waits; the word was `old`. */
void delay_begin(Delays *delays, unsigned actor, uint64_t old);
/* Around a step of an actor: what others' words are to it. */
void delay_hide(const Delays *delays, unsigned actor);
void delay_show(const Delays *delays, unsigned actor);
/* All that waits goes out, while the actor runs. */
void delay_end_all(Delays *delays, unsigned actor);
uint64_t delay_hash(const Delays *delays);
