#pragma once
/*
 * Whether systemd still keeps the memory of the pool. After a 'systemctl daemon-reload' with a lower
 * FileDescriptorStoreMax= it drops descriptors beyond that, which may include the memory, and tells nobody. So the
 * daemon hands the memory over again from time to time: that changes nothing where systemd has it. The same goes for
 * the pidfds of clients that systemd may not have, since there was no room in its store or its socket. Without systemd
 * these functions do nothing.
 */
#include <stdbool.h>
#include <stdint.h>

#include "daemon/peer/client-watch.h"

typedef struct Store {
        enum { STORE_UNKNOWN, STORE_ROOM, STORE_FULL } state; /* as the last check found it */
        int probe, barrier; /* pipes whose other ends systemd has, or has closed; -1: no check is under way */
        uint64_t begun_usec; /* the last check; 0: one is due */
        uint64_t oust_usec; /* all clients may have to give way to the memory again from then on */
} Store;

#define STORE_INIT ((Store){ .probe = -1, .barrier = -1 })

/* Once a second. */
void store_tick(Store *store, const Clients *clients);
/* The next tick begins a check. */
void store_check_soon(Store *store);
void store_deinit(Store *store);
