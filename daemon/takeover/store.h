#pragma once
/*
 * Whether systemd still keeps the memory of the pool. After a 'systemctl daemon-reload' with a lower
 * FileDescriptorStoreMax= it drops descriptors beyond that, which may include the memory, and tells nobody. So the
 * daemon hands the memory over again from time to time: that changes nothing where systemd has it. Without systemd
 * these functions do nothing.
 */
#include <stdbool.h>
#include <stdint.h>

#include "daemon/peer/client-watch.h"

typedef struct Store {
        enum { STORE_UNKNOWN, STORE_ROOM, STORE_FULL } state; /* as the last check found it */
        int probe, barrier; /* pipes whose other ends systemd has, or has closed; -1: no check is under way */
        uint64_t begun_usec; /* the last check; 0: one is due */
        uint32_t
                n_visited; /* clients that had to give way to the memory, or came back since there is room again */
        bool returning; /* their pidfds go back, since there is room again */
        uint64_t ousted_usec; /* when all clients had given way; 0: not yet, or they are to do so again */
} Store;

#define STORE_INIT ((Store){ .probe = -1, .barrier = -1 })

/* Once a second. */
void store_tick(Store *store, const Clients *clients);
/* The next tick begins a check. */
void store_check_soon(Store *store);
void store_deinit(Store *store);
