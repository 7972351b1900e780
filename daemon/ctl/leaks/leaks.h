#pragma once

/*
 * The findings of `tslabctl leaks`: leaks.c finds them, text.c and json.c show them. This room alone
 * maps the arena, read-only. Requests could not tell the same: replies have sums by epoch and by
 * class, but not by both, and each of the 4096 handles that a client may have sampled is looked up to
 * see whether its object lives.
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
        const char *state; /* state of the epoch */
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
        bool unreadable; /* its file holds no samples */
        StackSource samples;
} LeaksClient;

typedef struct Leaks {
        LeaksHolding *holdings; /* holdings of the oldest epochs come first */
        size_t n_holdings;
        LeaksClient clients[LEAKS_CLIENTS_MAX];
        size_t n_clients;
        Stacks stacks;
        SymbolsFile **symbols; /* by module; NULL: not opened yet */
} Leaks;

/* Asks the daemon for its arena and for the samples of all clients. */
CtlExit leaks_find(Leaks *ret, Connection *connection);
void leaks_deinit(Leaks *leaks);

/*
 * Finds the function of a frame; opens files when they are needed. Returns the path of the module, or
 * NULL if there is none.
 */
const char *leaks_symbol(Leaks *leaks, const StackFrame *frame, Symbol *ret);

void leaks_print(FILE *out, Leaks *leaks);
json_object *leaks_to_json(Leaks *leaks);
