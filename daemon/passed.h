#pragma once
/*
 * Descriptors that systemd passes: the socket, and what earlier daemons had it keep, by name. All
 * others are refused, removed from the store and named in the journal.
 */
#include <stdbool.h>

#define PASSED_ARENA "arena"

typedef struct Passed {
        int socket; /* -1: none */
        int arena; /* -1: none */
} Passed;

/* Logs what goes wrong. */
int passed_take(Passed *ret);
void passed_deinit(Passed *passed);

/* Has systemd keep the memory, and waits till it does. Nothing where systemd is not there. */
void passed_store_arena(int fd);
/* It is not kept any more. */
void passed_remove(const char *name);
