#pragma once
/*
 * Descriptors that systemd passes: the socket, the arena that an earlier daemon had systemd keep, and the pidfds of
 * daemon/peer/kept.h. All others are refused, removed from the store and named in the journal.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PASSED_ARENA "arena"
#define PASSED_PROBE "probe" /* stored for a moment, to see whether the store takes it */
#define PASSED_TEXT(name) "FDSTORE=1\nFDNAME=" name

typedef struct PassedClient {
        uint32_t mark;
        int pidfd; /* -1: taken */
} PassedClient;

typedef struct Passed {
        int socket; /* -1: none */
        int arena; /* -1: none */
        PassedClient *clients;
        size_t n_clients;
} Passed;

/* Logs its errors. */
int passed_take(Passed *ret);
/* Whether systemd passes the memory of a pool to this process. The environment is all that this looks at. */
bool passed_has_arena(void);
void passed_deinit(Passed *passed);
/* The pidfd with this mark, which becomes the caller's; -1: none was passed. */
int passed_take_client(Passed *passed, uint32_t mark);
/* No client needs the pidfds that are left. */
void passed_drop_clients(Passed *passed);

/* Warns if systemd keeps no further descriptor. For a daemon whose memory it does not have yet. */
void passed_check_store(void);
/* Has systemd keep the memory, at a time of its own. Idempotent. False: there is no systemd, or it was not told. */
bool passed_send_arena(int fd);
/* Has systemd keep the memory, and waits until it does. Does nothing without systemd. */
void passed_store_arena(int fd);
/* systemd is to keep this descriptor no longer. Results: as of notify_send(). */
int passed_remove(const char *name);
