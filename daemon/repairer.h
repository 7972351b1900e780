#pragma once
/* Repairs the records of clients that died, a slice a turn of the loop. */
#include "daemon/manager.h"

int repairer_new(Repairer **ret_repairer, Manager *manager);
/* NULL-safe, returns NULL. */
Repairer *repairer_free(Repairer *repairer);

/* Records were marked DEAD, or what is unsettled is to be looked at again. */
void repairer_start(Repairer *repairer);
