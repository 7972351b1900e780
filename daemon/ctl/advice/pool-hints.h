#pragma once

/* Hints for an operator: sentences that say which trouble a pool has and which command helps. */

#include <stddef.h>

#include "proto/message.h"

#define HINTS_MAX 16
#define HINT_SIZE 384

typedef struct Hints {
        size_t n_hints;
        char hints[HINTS_MAX][HINT_SIZE];
} Hints;

/* `command` begins the commands in advice, which so name the pool: connection_command(). */
void hints_find(Hints *hints, const Tslab__StatsReply *stats, const char *command);
/* The hints on epochs alone: closed epochs that still hold memory, and how few objects keep it. */
void hints_find_epochs(Hints *hints, Tslab__EpochInfo *const *epochs, size_t n_epochs, const char *command);
