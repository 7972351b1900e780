#pragma once

/* The command line. Options may stand anywhere; "--" ends them. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "daemon/ctl/base/complain.h"

/* Options that not every verb takes. */
enum {
        OPTION_POOL = 1 << 0, /* --pool and --socket */
        OPTION_REVOKE = 1 << 1,
        OPTION_WAIT = 1 << 2,
        OPTION_REPAIR = 1 << 3,
        OPTION_YES = 1 << 4,
        OPTION_CHECK = 1 << 5,
        OPTION_METRICS = 1 << 8, /* --all and --http */
        OPTION_BY = 1 << 16,
        OPTION_SVG = 1 << 17,
        OPTION_FOLLOW = 1 << 19,
        OPTION_TOP = 1 << 18, /* --delay and --once */
        OPTION_COUNT = 1 << 24,
        OPTION_MATCH = 1 << 25,
        OPTION_SORT = 1 << 20,
        OPTION_COLUMNS = 1 << 21,
        OPTION_MAP = 1 << 23, /* options of a map */
        OPTION_WRITE = 1 << 22,
};

/* In arg_map_set, as in the protocol. */
enum {
        MAP_SET_LIMIT = 1,
        MAP_SET_TTL = 2,
        MAP_SET_STALE = 4,
        MAP_SET_VALUE_MAX = 8,
        MAP_SET_EVICT = 16,
};

/* The property of slabs that the colours of a map show. */
typedef enum MapBy {
        MAP_BY_PLACE,
        MAP_BY_EPOCH,
        MAP_BY_CLASS,
} MapBy;

extern const char *arg_pool; /* NULL: not given */
extern const char *arg_socket; /* NULL: not given */
extern bool arg_json;
extern bool arg_legend;
extern bool arg_pager;
extern bool arg_help;
extern bool arg_version;
extern bool arg_revoke;
extern bool arg_older; /* with arg_revoke */
extern bool arg_yes;
extern bool arg_wait;
extern uint32_t arg_wait_msec; /* from --wait=SEC; UINT32_MAX: for ever */
extern bool arg_repair;
extern bool arg_all;
extern bool arg_http;
extern const char *arg_http_at; /* from --http=ADDR:PORT; NULL: standard input */
extern bool arg_check;
/* Options of a map. arg_map_set: the bits of MapSet.set. */
extern uint32_t arg_map_set;
extern uint64_t arg_map_limit;
extern uint64_t arg_map_value_max;
extern uint64_t arg_map_ttl_msec;
extern uint64_t arg_map_stale_msec;
extern bool arg_map_sieve;
extern MapBy arg_by;
extern const char *arg_columns; /* NULL: not given */
extern const char *arg_sort; /* NULL: not given */
extern uint32_t arg_delay_msec;
extern uint32_t arg_count; /* 0: no end */
extern bool arg_once;
extern bool arg_follow;
extern const char *arg_svg; /* NULL: not given; "-": stdout */
extern const char *arg_write; /* NULL: not given */
extern const char *arg_match; /* NULL: not given */

/*
 * Sets all of the above. *ret_words points to the words that are no options, at the end of `argv`,
 * which is reordered; *ret_given has the OPTION_* that were given. CTL_DONE, or CTL_USAGE after a
 * complaint.
 */
CtlExit options_parse(int argc, char **argv, char ***ret_words, size_t *ret_n_words, unsigned *ret_given);

/* The name, as "--wait", of the lowest option of a set that is not empty; for complaints. */
const char *options_name(unsigned options);

/* Prints the help lines of these options and of the options that every verb takes. */
void options_print_help(FILE *out, unsigned options);
