#pragma once
/*
 * Descriptors that systemd passes: the socket, and the arena that an earlier daemon had systemd keep. All others are
 * refused, removed from the store and named in the journal.
 */
#include <stdbool.h>

#define PASSED_ARENA "arena"

typedef struct Passed {
        int socket; /* -1: none */
        int arena; /* -1: none */
} Passed;

/* Logs its errors. */
int passed_take(Passed *ret);
/* Whether systemd passes the memory of a pool to this process. The environment is all that this looks at. */
bool passed_has_arena(void);
void passed_deinit(Passed *passed);

/* Has systemd keep the memory, and waits until it does. Does nothing without systemd. */
void passed_store_arena(int fd);
/* systemd is to keep this descriptor no longer. */
void passed_remove(const char *name);
