#pragma once
/*
 * All that the explorer's actors change: the memory, line by line, and the private part, as a whole; with a
 * log to put things back from.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MEMORY_CELL 16

/* The memory; NULL: none yet. */
void *memory_base(size_t *ret_size);
bool memory_has(const void *address);
/* Before and after a case has named its memory by model_memory() and model_private(). */
void memory_forget(void);
void memory_prepare(void);
/* All is as the case left it. Which cells were touched stays known. */
void memory_reset(void);
/* Whether the memory is so now, after pieces were put back. */
bool memory_is_reset(void);

/* Saves a piece; puts back all that was saved since the mark. */
void memory_save(void *at, size_t size);
size_t memory_mark(void);
void memory_undo(size_t mark);

/* Whether the step changed the private part, the actor's own memory, which then is saved as it was before. */
bool memory_private_changed(void);
bool memory_own_changed(unsigned actor);
/* Saves all that is not in the memory, and the lines watched. */
void memory_save_plain(void);
/* Saves a line of the memory: before each access, as plain stores may have been made to it that nobody watched. */
void memory_save_line(const void *address);
/*
 * By how much the sum of hashes has changed with lines that an access, and the actor after it, may have changed.
 * Each that did change is saved as it was before.
 */
uint64_t memory_rehash_step(const void *address);
uint64_t memory_rehash_line(const void *address);
/* A line that a plain store has changed which nobody knows of: it would not be put back. NULL: none. */
const void *memory_unknown_change(void);
uint64_t memory_private_hash(void);
uint64_t memory_own_hash(unsigned actor);

/* Whether an access here commutes with those of all others, as far as the search knows. */
bool memory_commutes(const void *address);
/* True when that was believed, and is wrong. */
bool memory_touch(const void *address, unsigned actor, bool changed);
