#include <stdint.h>
#include <string.h>

#include "daemon/ctl/base/nearest.h"
#include "daemon/ctl/base/options.h"
#include "daemon/ctl/output/output.h"
#include "daemon/ctl/verbs.h"

static const Verb verbs[] = {
        {
                .name = "list",
                .operands = "",
                .summary = "Show the pools of this machine",
                .details = "Looks for sockets in /run/tslab and $XDG_RUNTIME_DIR/tslab, and starts no pool\n"
                           "that is idle.",
                .options = OPTION_COLUMNS,
                .run = verb_list,
        },
        {
                .name = "status",
                .operands = "",
                .summary = "Show the state of a pool, and hints on its troubles",
                .details =
                        "With --check, as for a container's probes: nothing is printed, and the exit code is 0\n"
                        "if the daemon answers and can work. A pool that is full is no reason for another.",
                .options = OPTION_POOL | OPTION_CHECK,
                .run = verb_status,
        },
        {
                .name = "stats",
                .operands = "",
                .summary = "Show all numbers of a pool",
                .options = OPTION_POOL,
                .run = verb_stats,
        },
        {
                .name = "epoch list",
                .operands = "",
                .summary = "Show the epochs and their memory",
                .options = OPTION_POOL | OPTION_COLUMNS,
                .run = verb_epoch_list,
        },
        {
                .name = "epoch advance",
                .operands = "",
                .summary = "Close the current epoch to allocation and open the next",
                .details =
                        "'epoch close' gives the memory of the old one back; so does the next turn of its id.",
                .options = OPTION_POOL,
                .run = verb_epoch_advance,
        },
        {
                .name = "epoch close",
                .operands = "EPOCH...",
                .summary = "Close epochs and give their memory back",
                .details = "EPOCH is N or N:ERA, or a number as --json shows. With --wait, the exit code\n"
                           "is 3 if objects remain. On a terminal, --revoke asks first, and so does a close\n"
                           "of the current epoch, of a leased one, or of that of all maps.",
                .options = OPTION_POOL | OPTION_REVOKE | OPTION_YES | OPTION_WAIT,
                .n_args_min = 1,
                .n_args_max = SIZE_MAX,
                .run = verb_epoch_close,
        },
        {
                .name = "epoch reserve",
                .operands = "[LABEL]",
                .summary = "Take an epoch out of the rotation, for long-lived objects",
                .options = OPTION_POOL,
                .n_args_max = 1,
                .run = verb_epoch_reserve,
        },
        {
                .name = "epoch label",
                .operands = "EPOCH TEXT",
                .summary = "Name an epoch; an empty text takes the name off",
                .options = OPTION_POOL,
                .n_args_min = 2,
                .n_args_max = 2,
                .run = verb_epoch_label,
        },
        {
                .name = "clients end",
                .operands = "PID",
                .summary = "End a client by SIGTERM, and wait until it has ended",
                .details = "The process must be the user's own, unless root asks. Its caches come back.",
                .options = OPTION_POOL,
                .n_args_min = 1,
                .n_args_max = 1,
                .run = verb_clients_end,
        },
        {
                .name = "clients",
                .operands = "",
                .summary = "Show the processes that are connected",
                .details =
                        "The process with the most free slots in caches comes first. --sort takes a column:\n"
                        "counts and times from the largest down, the rest from the lowest up.",
                .options = OPTION_POOL | OPTION_SORT | OPTION_COLUMNS,
                .run = verb_clients,
        },
        {
                .name = "top",
                .operands = "",
                .summary = "Show a pool as it changes: epochs, classes, clients",
                .details =
                        "Keys: e, l, c, m for epochs, classes, clients, maps; < and > choose the column to\n"
                        "sort by, r turns the order around; ? shows all, q ends. Where stdout is no terminal, one\n"
                        "text (or with --json, one line) after another is printed.",
                .options = OPTION_POOL | OPTION_TOP | OPTION_COUNT,
                .run = verb_top,
        },
        {
                .name = "monitor",
                .operands = "",
                .summary = "Show the events of a pool as they happen",
                .details = "One line an event, until it is interrupted; the exit code is 1 when the daemon\n"
                           "goes away, unless --follow waits for the next one.",
                .options = OPTION_POOL | OPTION_FOLLOW,
                .run = verb_monitor,
        },
        {
                .name = "slabs",
                .operands = "",
                .summary = "Draw the slabs of the arena and their use",
                .details = "Each character stands for one slab, or for as many neighbours as it takes to\n"
                           "fit the terminal. --svg draws a picture to send; '-' is stdout.",
                .options = OPTION_POOL | OPTION_BY | OPTION_SVG,
                .run = verb_slabs,
        },
        {
                .name = "maps set",
                .operands = "MAP",
                .summary = "Change the limits of a map, for all programs at once",
                .details = "Only the options that are given change.",
                .options = OPTION_POOL | OPTION_MAP,
                .n_args_min = 1,
                .n_args_max = 1,
                .run = verb_maps_set,
        },
        {
                .name = "maps clear",
                .operands = "MAP",
                .summary = "Delete all entries of a map",
                .details = "The map stays, with its options. Asks first; --yes does not.",
                .options = OPTION_POOL | OPTION_YES,
                .n_args_min = 1,
                .n_args_max = 1,
                .run = verb_maps_clear,
        },
        {
                .name = "maps remove",
                .operands = "MAP",
                .summary = "Remove a map and all its entries",
                .details = "Its name is free then. For programs that have it open it is no more, until they\n"
                           "open it again. Asks first; --yes does not.",
                .options = OPTION_POOL | OPTION_YES,
                .n_args_min = 1,
                .n_args_max = 1,
                .run = verb_maps_remove,
        },
        {
                .name = "maps top",
                .operands = "MAP",
                .summary = "Show the largest entries of a map",
                .details = "Looks at all entries, once. Ten are shown, or as many as --count says.",
                .options = OPTION_POOL | OPTION_COUNT,
                .n_args_min = 1,
                .n_args_max = 1,
                .run = verb_maps_top,
        },
        {
                .name = "maps",
                .operands = "[MAP]",
                .summary = "Show the maps: entries, memory, hits",
                .options = OPTION_POOL | OPTION_COLUMNS,
                .n_args_max = 1,
                .run = verb_maps,
        },
        {
                .name = "keys",
                .operands = "MAP",
                .summary = "Show the keys of a map, one a line",
                .details = "Bytes that are not printable, and spaces, are shown as \\xHH. PATTERN has *, ?\n"
                           "and [...], and stands for the whole key as it is shown.",
                .options = OPTION_POOL | OPTION_MATCH | OPTION_COUNT,
                .n_args_min = 1,
                .n_args_max = 1,
                .run = verb_keys,
        },
        {
                .name = "get",
                .operands = "MAP KEY",
                .summary = "Show the value of a key",
                .details = "In KEY, \\xHH is the byte of that number, and \\\\ a backslash.",
                .options = OPTION_POOL,
                .n_args_min = 2,
                .n_args_max = 2,
                .run = verb_get,
        },
        {
                .name = "put",
                .operands = "MAP KEY [VALUE]",
                .summary = "Set the value of a key, from stdin if it is not given",
                .details = "KEY is as for 'get'. Of the options of a map, --ttl alone.",
                .options = OPTION_POOL | OPTION_MAP,
                .n_args_min = 2,
                .n_args_max = 3,
                .run = verb_put,
        },
        {
                .name = "delete",
                .operands = "MAP KEY",
                .summary = "Delete a key and its value",
                .details = "KEY is as for 'get'.",
                .options = OPTION_POOL,
                .n_args_min = 2,
                .n_args_max = 2,
                .run = verb_delete,
        },
        {
                .name = "dump",
                .operands = "FILE [MAP...]",
                .summary = "Write maps into a file: values, lifetimes, counters, options",
                .details =
                        "All maps, unless some are named. Programs go on meanwhile. The file is there once\n"
                        "it is whole, and only its owner can read it.",
                .options = OPTION_POOL,
                .n_args_min = 1,
                .n_args_max = SIZE_MAX,
                .run = verb_dump,
        },
        {
                .name = "load",
                .operands = "FILE [MAP...]",
                .summary = "Put the maps of such a file into the pool",
                .details = "A file that is cut off or damaged is refused as a whole. Keys that have a value\n"
                           "keep it, and maps that are there their options.",
                .options = OPTION_POOL,
                .n_args_min = 1,
                .n_args_max = SIZE_MAX,
                .run = verb_load,
        },
        {
                .name = "roots",
                .operands = "",
                .summary = "Show the named roots",
                .options = OPTION_POOL,
                .run = verb_roots,
        },
        {
                .name = "trim",
                .operands = "",
                .summary = "Give memory that is not in use back to the system",
                .options = OPTION_POOL,
                .run = verb_trim,
        },
        {
                .name = "check",
                .operands = "",
                .summary = "Look for lost and doubled slots; the exit code is 1 if there are any",
                .options = OPTION_POOL | OPTION_REPAIR,
                .run = verb_check,
        },
        {
                .name = "metrics",
                .operands = "",
                .summary = "Print all numbers for a monitoring system (OpenMetrics)",
                .details =
                        "With --http, all pools are served on standard input, a listening socket:\n"
                        "tslab-metrics.socket runs it so. With --http=[ADDR:]PORT, as in a container, until it\n"
                        "is ended; the address is 127.0.0.1 unless one is given.",
                .options = OPTION_POOL | OPTION_METRICS,
                .run = verb_metrics,
        },
        {
                .name = "leaks",
                .operands = "",
                .summary = "Show the objects held longest, and where sampled ones came from",
                .details =
                        "Clients sample where they were started with TSLAB_SAMPLE=N in their environment:\n"
                        "each Nth allocation is noted then, with its stack.",
                .options = OPTION_POOL,
                .run = verb_leaks,
        },
        {
                .name = "suggest",
                .operands = "",
                .summary = "Suggest settings, from how the pool was used so far",
                .details =
                        "With --write, those that differ from the pool's go into a settings file, tslab.conf(5).\n"
                        "All else in it stays as it is, and the old file is kept.",
                .options = OPTION_POOL | OPTION_WRITE,
                .run = verb_suggest,
        },
        {
                .name = "peaks reset",
                .operands = "",
                .summary = "Begin the high-water marks anew",
                .details = "'suggest' goes by them, and 'stats --json' shows them.",
                .options = OPTION_POOL,
                .run = verb_peaks_reset,
        },
        {
                .name = "help",
                .operands = "[VERB]",
                .summary = "Show this text, or help on one verb",
                .n_args_max = 2,
                .run = verb_help,
        },
};

#define N_VERBS (sizeof(verbs) / sizeof(verbs[0]))

static bool is_in_group(const Verb *verb, const char *group) {
        size_t n = strcspn(verb->name, " ");

        return verb->name[n] && strlen(group) == n && !strncmp(verb->name, group, n);
}

static bool is_verb_group(const char *word) {
        for (const Verb *verb = verbs; verb < verbs + N_VERBS; ++verb)
                if (is_in_group(verb, word))
                        return true;

        return false;
}

/* The number of words that are the verb's name; 0: they name another verb. */
static size_t match_verb(const Verb *verb, char **words, size_t n_words) {
        if (!strchr(verb->name, ' '))
                return !strcmp(verb->name, words[0]);
        if (n_words >= 2 && is_in_group(verb, words[0]) && !strcmp(strchr(verb->name, ' ') + 1, words[1]))
                return 2;

        return 0;
}

/* Complains about "epoch" alone or with a word that is not known. */
static CtlExit refuse_in_group(const char *group, const char *word) {
        const char *names[N_VERBS], *nearest;
        char all[256] = "";
        size_t n = 0;

        for (const Verb *verb = verbs; verb < verbs + N_VERBS; ++verb)
                if (is_in_group(verb, group)) {
                        names[n] = strchr(verb->name, ' ') + 1;
                        (void) strncat(all, n ? ", " : "", sizeof(all) - strlen(all) - 1);
                        (void) strncat(all, names[n++], sizeof(all) - strlen(all) - 1);
                }

        if (!word)
                return complain_usage("'%s' needs one of: %s", group, all);

        nearest = nearest_word(word, names, n);
        if (nearest)
                return complain_usage("unknown verb '%s %s'; did you mean '%s %s'?", group, word, group,
                                      nearest);
        return complain_usage("unknown verb '%s %s'; after '%s' comes one of: %s", group, word, group, all);
}

static CtlExit refuse_verb(const char *word) {
        char firsts[N_VERBS][32];
        const char *names[N_VERBS], *nearest;

        for (size_t i = 0; i < N_VERBS; ++i) {
                (void) snprintf(firsts[i], sizeof(firsts[i]), "%.*s", (int) strcspn(verbs[i].name, " "),
                                verbs[i].name);
                names[i] = firsts[i];
        }

        nearest = nearest_word(word, names, N_VERBS);
        if (nearest)
                return complain_usage("unknown verb '%s'; did you mean '%s'?", word, nearest);
        return complain_usage("unknown verb '%s'; 'tslabctl --help' lists all", word);
}

CtlExit verb_find(char **words, size_t n_words, const Verb **ret_verb, size_t *ret_n_name) {
        if (n_words == 0)
                return complain_usage("a verb is missing; 'tslabctl --help' lists all");

        for (const Verb *verb = verbs; verb < verbs + N_VERBS; ++verb) {
                size_t n = match_verb(verb, words, n_words);

                if (n > 0) {
                        *ret_verb = verb;
                        *ret_n_name = n;
                        return CTL_DONE;
                }
        }

        if (is_verb_group(words[0]))
                return refuse_in_group(words[0], n_words > 1 ? words[1] : NULL);

        return refuse_verb(words[0]);
}

CtlExit verb_admit(const Verb *verb, size_t n_args, char **args, unsigned options) {
        if (options & ~verb->options)
                return complain_usage("%s does not go with '%s'; see 'tslabctl %s --help'",
                                      options_name(options & ~verb->options), verb->name, verb->name);
        if (n_args < verb->n_args_min)
                return complain_usage("an argument is missing: tslabctl %s %s", verb->name, verb->operands);
        if (n_args > verb->n_args_max)
                return complain_usage("unexpected argument '%s'; usage: tslabctl %s%s%s",
                                      args[verb->n_args_max], verb->name, verb->operands[0] ? " " : "",
                                      verb->operands);

        return CTL_DONE;
}

static void print_verbs(FILE *out, const char *group, unsigned *ret_options) {
        for (const Verb *verb = verbs; verb < verbs + N_VERBS; ++verb) {
                char usage[64];

                /* 'maps' is a verb itself, too. */
                if (group && !is_in_group(verb, group) && strcmp(verb->name, group) != 0)
                        continue;

                (void) snprintf(usage, sizeof(usage), "%s %s", verb->name, verb->operands);
                (void) fprintf(out, "  %-24s%s\n", usage, verb->summary);
                *ret_options |= verb->options;
        }
}

static void print_all_help(FILE *out) {
        unsigned options = 0;

        (void) fprintf(out, "Usage: tslabctl [OPTION...] VERB [ARGUMENT...]\n"
                            "\n"
                            "Ask the daemon of a tslab pool, and have it do things.\n"
                            "\n"
                            "Verbs:\n");
        print_verbs(out, NULL, &options);
        (void) fprintf(out, "\nOptions:\n");
        options_print_help(out, options);
        (void) fprintf(out, "\n"
                            "Exit codes: 0 done; 1 failed, or check found something; 2 wrong usage;\n"
                            "3 objects remain after 'epoch close --wait'.\n"
                            "\n"
                            "See tslabctl(1).\n");
}

static bool print_group_help(FILE *out, const char *group) {
        unsigned options = 0;

        if (!is_verb_group(group))
                return false;

        (void) fprintf(out, "Usage: tslabctl [OPTION...] %s VERB [ARGUMENT...]\n\nVerbs:\n", group);
        print_verbs(out, group, &options);
        (void) fprintf(out, "\nOptions:\n");
        options_print_help(out, options);
        return true;
}

static void print_verb_help(FILE *out, const Verb *verb) {
        (void) fprintf(out, "Usage: tslabctl [OPTION...] %s%s%s\n\n%s.\n", verb->name,
                       verb->operands[0] ? " " : "", verb->operands, verb->summary);
        if (verb->details)
                (void) fprintf(out, "\n%s\n", verb->details);

        (void) fprintf(out, "\nOptions:\n");
        options_print_help(out, verb->options);
}

CtlExit verb_help(char **words, size_t n_words) {
        const Verb *verb;
        size_t n_name;
        CtlExit r;

        if (n_words == 0) {
                print_all_help(output_stream());
                return CTL_DONE;
        }
        if (n_words == 1 && print_group_help(output_stream(), words[0]))
                return CTL_DONE;

        r = verb_find(words, n_words, &verb, &n_name);
        if (r == CTL_DONE)
                print_verb_help(output_stream(), verb);
        return r;
}
