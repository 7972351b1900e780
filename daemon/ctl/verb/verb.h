#pragma once

/*
 * The verbs, as the table in verbs.c sees them. Each has a file of its own here, NAME.c; it prints
 * into output_stream(), complains about its failures, and returns the exit code.
 */

#include <stddef.h>

#include "daemon/ctl/base/complain.h"

typedef struct Verb {
        const char *name; /* one word or two: "epoch close" */
        const char *operands; /* as help shows them */
        const char *summary;
        const char *details; /* more sentences for its help, or NULL */
        unsigned options; /* OPTION_* that it takes */
        size_t n_args_min, n_args_max;
        /* The verb itself complains about failures. */
        CtlExit (*run)(char **args, size_t n_args);
} Verb;

CtlExit verb_list(char **args, size_t n_args);
CtlExit verb_status(char **args, size_t n_args);
CtlExit verb_stats(char **args, size_t n_args);
CtlExit verb_epoch_list(char **args, size_t n_args);
CtlExit verb_epoch_advance(char **args, size_t n_args);
CtlExit verb_epoch_close(char **args, size_t n_args);
CtlExit verb_epoch_reserve(char **args, size_t n_args);
CtlExit verb_epoch_label(char **args, size_t n_args);
CtlExit verb_clients(char **args, size_t n_args);
CtlExit verb_clients_end(char **args, size_t n_args);
CtlExit verb_top(char **args, size_t n_args);
CtlExit verb_monitor(char **args, size_t n_args);
CtlExit verb_slabs(char **args, size_t n_args);
CtlExit verb_get(char **args, size_t n_args);
CtlExit verb_put(char **args, size_t n_args);
CtlExit verb_delete(char **args, size_t n_args);
CtlExit verb_keys(char **args, size_t n_args);
CtlExit verb_dump(char **args, size_t n_args);
CtlExit verb_load(char **args, size_t n_args);
CtlExit verb_maps(char **args, size_t n_args);
CtlExit verb_maps_top(char **args, size_t n_args);
CtlExit verb_maps_clear(char **args, size_t n_args);
CtlExit verb_maps_remove(char **args, size_t n_args);
CtlExit verb_maps_set(char **args, size_t n_args);
CtlExit verb_peaks_reset(char **args, size_t n_args);
CtlExit verb_roots(char **args, size_t n_args);
CtlExit verb_trim(char **args, size_t n_args);
CtlExit verb_check(char **args, size_t n_args);
CtlExit verb_metrics(char **args, size_t n_args);
CtlExit verb_leaks(char **args, size_t n_args);
CtlExit verb_suggest(char **args, size_t n_args);
