#pragma once

/*
 * What `tslabctl leaks` finds out: leaks.c finds it, text.c and json.c show it.
 *
 * This room alone maps the arena, read-only. Requests could not tell it: `held` needs the live
 * objects of each class in each epoch, of which replies have only the sums, and each of
 * the 4096 handles that a client may have sampled is looked up to see whether its object lives.
 */

#include <json-c/json.h>
#include <stdbool.h>
#include <stdio.h>

#include "daemon/ctl/base/connect.h"
#include "daemon/ctl/leaks/stacks.h"
#include "daemon/ctl/leaks/symbols.h"

#define LEAKS_CLIENTS_MAX 64U

/* Objects of one class of one epoch. */
typedef struct LeaksHolding {
        uint32_t epoch; /* id | era << 8 */
        const char *state; /* of the epoch */
        uint64_t opened_usec;
        bool older; /* some are of earlier eras */
        uint32_t size;
        uint64_t n_objects;
} LeaksHolding;

/* A client that samples, or did. */
typedef struct LeaksClient {
        uint32_t client;
        int32_t pid;
        uint32_t uid;
        char comm[16];
        uint32_t every;
        bool gone;
        bool unreadable; /* what it gave was not of samples */
        StackSource samples;
} LeaksClient;

typedef struct Leaks {
        LeaksHolding *holdings; /* of the epochs that were opened first, first */
        size_t n_holdings;
        LeaksClient clients[LEAKS_CLIENTS_MAX];
        size_t n_clients;
        Stacks stacks;
        SymbolsFile **symbols; /* by module; NULL: not opened so far */
} Leaks;

/* Asks the daemon for its arena and for the samples of all clients. */
CtlExit leaks_find(Leaks *ret, Connection *connection);
void leaks_deinit(Leaks *leaks);

/* Opens files as they are needed. The module's path, or NULL where there is none. */
const char *leaks_symbol(Leaks *leaks, const StackFrame *frame, Symbol *ret);

void leaks_print(FILE *out, Leaks *leaks);
json_object *leaks_to_json(Leaks *leaks);
