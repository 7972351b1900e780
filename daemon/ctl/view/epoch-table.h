#pragma once

/* Epochs for people; `stats` and `epoch list` show the same table. */

#include <stdbool.h>
#include <stdio.h>

#include "proto/message.h"

void epoch_table_print(FILE *out, Tslab__EpochInfo *const *epochs, size_t n_epochs, bool legend);
