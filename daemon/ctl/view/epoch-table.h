#pragma once

/* Epochs for people; `stats` and `epoch list` show the same table. */

#include <stdbool.h>
#include <stdio.h>

#include "daemon/ctl/view/table.h"
#include "proto/message.h"

/* A table with all columns, of which table_select() may choose. */
Table *epoch_table_new(void);
void epoch_table_print(Table *table, FILE *out, Tslab__EpochInfo *const *epochs, size_t n_epochs,
                       bool legend);
