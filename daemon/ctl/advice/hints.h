#pragma once

/* What an operator should know of: sentences on what is wrong with a pool, and what helps. */

#include <stddef.h>

#include "proto/message.h"

#define HINTS_MAX 16
#define HINT_SIZE 256

typedef struct Hints {
        size_t n_hints;
        char hints[HINTS_MAX][HINT_SIZE];
} Hints;

void hints_find(Hints *hints, const Tslab__StatsReply *stats);
/* Of epochs alone: those that hold memory after they were closed, and for how few objects. */
void hints_find_epochs(Hints *hints, Tslab__EpochInfo *const *epochs, size_t n_epochs);
