#pragma once
/*
 * Gives free slabs back: in the background those beyond what is retained, and all of them when an
 * operator asks.
 */
#include "daemon/peer/session.h"

int trimmer_new(Trimmer **ret_trimmer, Manager *manager);
/* NULL-safe, returns NULL. */
Trimmer *trimmer_free(Trimmer *trimmer);

/* All that is free now, and surplus pages; one pass is for all who asked before it began. -ENOMEM. */
int trimmer_start(Trimmer *trimmer, Session *session, uint64_t id);
/* Memory is short: all that is free now, in the background. */
void trimmer_press(Trimmer *trimmer);
void trimmer_tick(Trimmer *trimmer);
