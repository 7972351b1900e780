#pragma once

/*
 * The verbs. Each lives in a file of its own, verb-NAME.c, and has one entry in the table. To add
 * one: write the file, name its function here and in the table, the file in meson.build, and the
 * verb in tslabctl.1.scd (test-verbs.py looks that it is there). Shells complete what the help tells.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "daemon/ctl/base/complain.h"

typedef struct Verb {
        const char *name; /* one word or two: "epoch close" */
        const char *operands; /* as help shows them */
        const char *summary;
        const char *details; /* more sentences for its help, or NULL */
        unsigned options; /* OPTION_* that it takes */
        size_t n_args_min, n_args_max;
        /* Says itself what went wrong. */
        CtlExit (*run)(char **args, size_t n_args);
} Verb;

/*
 * The verb that `words` begin with, and how many of them are its name. CTL_DONE, or CTL_USAGE after
 * a complaint.
 */
CtlExit verb_find(char **words, size_t n_words, const Verb **ret_verb, size_t *ret_n_name);
/* CTL_USAGE after a complaint: too few or too many arguments, or options that it does not take. */
CtlExit verb_admit(const Verb *verb, size_t n_args, char **args, unsigned options);

void verbs_print_help(FILE *out);
/* Help on the verbs "epoch ..."; false: there are no such. */
bool verbs_print_group_help(FILE *out, const char *group);
void verb_print_help(FILE *out, const Verb *verb);

CtlExit verb_list(char **args, size_t n_args);
CtlExit verb_status(char **args, size_t n_args);
CtlExit verb_stats(char **args, size_t n_args);
CtlExit verb_epoch_list(char **args, size_t n_args);
CtlExit verb_epoch_advance(char **args, size_t n_args);
CtlExit verb_epoch_close(char **args, size_t n_args);
CtlExit verb_epoch_reserve(char **args, size_t n_args);
CtlExit verb_epoch_label(char **args, size_t n_args);
CtlExit verb_clients(char **args, size_t n_args);
CtlExit verb_top(char **args, size_t n_args);
CtlExit verb_monitor(char **args, size_t n_args);
CtlExit verb_map(char **args, size_t n_args);
CtlExit verb_roots(char **args, size_t n_args);
CtlExit verb_trim(char **args, size_t n_args);
CtlExit verb_check(char **args, size_t n_args);
CtlExit verb_metrics(char **args, size_t n_args);
CtlExit verb_leaks(char **args, size_t n_args);
CtlExit verb_suggest(char **args, size_t n_args);
