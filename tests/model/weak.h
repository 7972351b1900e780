#pragma once
/*
 * A weak memory: RC11, whose executions are those in which each load reads a store that was made before it. A location
 * has a list of stores, in the order in which all actors agree on (modification order). What an actor knows is a view:
 * the oldest place of each list that it may still read from.
 *
 *     load        reads any store that is not older than the view, which then is of that store
 *     acquire     and the view becomes as new as what the store released
 *     store       comes anywhere behind the view's place in the list
 *     release     and takes the view with it; so do the actor's later stores to the same location (as RC11 has it, and
 *                 processors do; C++20 does not)
 *     read-modify-write   comes right behind the store that it read, and hands on what that one released; nothing
 *                 comes between the two later
 *     fences      release: for relaxed stores after it; acquire: for relaxed loads before it; sc: both, and each
 *                 knows what the ones before it knew
 *     membarrier  an sc fence in each actor, in the midst of the caller's two
 *
 * The model leaves out load buffering, which hardware may do where two relaxed accesses do not depend on each other; no
 * code here relies on it, nor on its absence. It leaves out orders by dependency, which all processors keep but C11
 * does not. An sc access has less than in C11: it only adds that an sc load reads nothing older than an sc store that
 * was made before. A load that spans locations, as one of 8 bytes over two tags, reads each by itself, but no half of
 * what was stored at once. A store of less than 4 bytes comes last.
 *
 * A loop that waits might read one stale store over and over; but stores reach all actors at last. So where there are
 * newer stores of locations that the loop read, each of these is a choice: from then on it reads a newer one there. The
 * last choice is to wait until another actor changes the memory. If nobody will, it was one of the others.
 *
 * Locations are words of 4 or 8 bytes that two actors touch and one changes. Which these are is learned as the
 * search goes: see explore.c. All else has one value, as without this.
 */
#include <stdbool.h>
#include <stdint.h>

#include "tests/model/seam.h"

typedef struct WeakAccess {
        const void *address;
        unsigned size;
        ModelOrder order;
        bool reads, writes;
} WeakAccess;

/* Before a case; once it has its memory; before each search. `waits`: some actor does. */
void weak_forget(void);
void weak_prepare(void *base, size_t size);
void weak_reset(bool waits);
/* Whether the search must begin anew: an access proved what was assumed wrong. */
bool weak_touch(unsigned actor, const WeakAccess *a, bool changed);
/* Whether the access is of a location, so that its place among others' steps matters. */
bool weak_matters(const WeakAccess *a);

/* In how many ways the actor may make the access. */
unsigned weak_n_choices(unsigned actor, const WeakAccess *a);
/*
 * Puts into the memory what the actor reads in this way; then, that done, takes what it stored from there. False: there
 * is no such way.
 */
bool weak_show(unsigned actor, const WeakAccess *a, unsigned choice);
bool weak_end(unsigned actor, const WeakAccess *a, unsigned choice, bool stored);
/* Whether that was not the newest in its list. */
bool weak_is_stale(unsigned actor, const WeakAccess *a, unsigned choice);

void weak_fence(unsigned actor, ModelOrder order);
void weak_barrier(unsigned actor, unsigned n_actors);
/* Forgets stores that none of these actors may still read, so that states that differ in them alone are one. */
void weak_trim(unsigned live);
/* The number of locations that the actor has read since its last wait, and not their newest store. */
unsigned weak_n_old(unsigned actor);
/* The actor goes on: of this one of them, counted from 0, it reads a newer store. */
void weak_end_wait(unsigned actor, unsigned choice);

/* Saves all for memory_undo(). */
void weak_save(void);
uint64_t weak_hash(void);
