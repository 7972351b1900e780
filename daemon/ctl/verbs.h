#pragma once

/* The table of all verbs: finds the verb of a command line and prints help. */

#include <stddef.h>

#include "daemon/ctl/verb/verb.h"

/*
 * Finds the verb that `words` begin with, and the number of words that are its name. CTL_DONE, or
 * CTL_USAGE after a complaint.
 */
CtlExit verb_find(char **words, size_t n_words, const Verb **ret_verb, size_t *ret_n_name);
/* CTL_USAGE after a complaint: too few or too many arguments, or options that it does not take. */
CtlExit verb_admit(const Verb *verb, size_t n_args, char **args, unsigned options);

/* Prints help on one verb, on the verbs "epoch ...", or, without words, on all. */
CtlExit verb_help(char **words, size_t n_words);
