#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/ctl/base/complain.h"
#include "daemon/ctl/base/format.h"
#include "daemon/ctl/base/nearest.h"
#include "daemon/ctl/base/options.h"
#include "proto/path.h"
#include "proto/validate.h"

const char *arg_pool;
const char *arg_socket;
bool arg_json;
bool arg_legend;
bool arg_pager;
bool arg_help;
bool arg_version;
bool arg_revoke;
bool arg_older;
bool arg_yes;
bool arg_wait;
uint32_t arg_wait_msec;
bool arg_repair;
bool arg_all;
bool arg_http;
const char *arg_http_at;
bool arg_check;
MapBy arg_by;
uint32_t arg_map_set;
uint64_t arg_map_limit;
uint64_t arg_map_value_max;
uint64_t arg_map_ttl_msec;
uint64_t arg_map_stale_msec;
bool arg_map_sieve;
const char *arg_svg;
const char *arg_write;
uint32_t arg_delay_msec;
uint32_t arg_count;
bool arg_once;
bool arg_follow;
const char *arg_sort;
const char *arg_columns;
const char *arg_match;

static void set_defaults(void) {
        arg_pool = arg_socket = arg_svg = arg_write = NULL;
        arg_by = MAP_BY_PLACE;
        arg_sort = arg_columns = arg_match = NULL;
        arg_delay_msec = 1000;
        arg_count = 0;
        arg_map_set = 0;
        arg_once = arg_follow = false;
        arg_json = arg_help = arg_version = arg_revoke = arg_older = arg_yes = arg_wait = arg_repair =
                arg_all = arg_http = arg_check = false;
        arg_http_at = NULL;
        arg_legend = arg_pager = true;
        arg_wait_msec = UINT32_MAX;
}

static int set_pool(const char *name) {
        if (!proto_pool_name_is_valid(name))
                return complain_usage(
                        "'%s' is not a pool name: these are 1 to %d characters of a-z, 0-9 and '_', "
                        "the first no '_'; a path goes with --socket",
                        name, PROTO_POOL_NAME_MAX);

        arg_pool = name;
        return CTL_DONE;
}

static int set_socket(const char *path) {
        if (!path[0])
                return complain_usage("--socket needs the path of a socket, like /run/tslab/default.sock");

        arg_socket = path;
        return CTL_DONE;
}

static int set_wait(const char *seconds) {
        int r;

        arg_wait = true;
        arg_wait_msec = UINT32_MAX;
        if (!seconds)
                return CTL_DONE;

        r = parse_seconds(seconds, &arg_wait_msec);
        if (r == -ERANGE)
                return complain_usage("--wait=%s is more than a day; leave out the number to wait for ever",
                                      seconds);
        if (r < 0)
                return complain_usage("'%s' is not a number of seconds, as in --wait=2.5", seconds);

        return CTL_DONE;
}

static int set_by(const char *what) {
        static const char *const names[] = {
                [MAP_BY_PLACE] = "place",
                [MAP_BY_EPOCH] = "epoch",
                [MAP_BY_CLASS] = "class",
        };

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); ++i)
                if (!strcmp(what, names[i])) {
                        arg_by = (MapBy) i;
                        return CTL_DONE;
                }
        return complain_usage("'%s' is nothing to draw by; --by takes place, epoch or class", what);
}

static int set_delay(const char *seconds) {
        uint32_t msec;

        if (parse_seconds(seconds, &msec) < 0 || msec < 100 || msec > 3600000)
                return complain_usage("'%s' is no delay; -d takes 0.1 to 3600 seconds", seconds);
        arg_delay_msec = msec;
        return CTL_DONE;
}

static int set_count(const char *text) {
        char *end;
        unsigned long n;

        n = strtoul(text, &end, 10);
        if (text[0] < '0' || text[0] > '9' || *end || n == 0 || n > UINT32_MAX)
                return complain_usage("'%s' is no count; -n takes a number from 1 on", text);
        arg_count = (uint32_t) n;
        return CTL_DONE;
}

static int set_map_bytes(const char *name, const char *text, uint32_t bit, uint64_t max, uint64_t *ret) {
        if (parse_bytes(text, ret) < 0 || *ret > max)
                return complain_usage("'%s' is no size; %s takes a number of bytes, as 4096 or 16M%s", text,
                                      name, max == UINT64_MAX ? "" : ", the most");
        arg_map_set |= bit;
        return CTL_DONE;
}

static int set_map_span(const char *name, const char *text, uint32_t bit, uint64_t max, const char *words,
                        uint64_t *ret) {
        if (parse_span(text, max, ret) < 0)
                return complain_usage("'%s' is no time; %s takes seconds, as 0.5, and %s at most", text, name,
                                      words);
        arg_map_set |= bit;
        return CTL_DONE;
}

static int set_evict(const char *how) {
        arg_map_sieve = !strcmp(how, "sieve");
        if (!arg_map_sieve && strcmp(how, "never") != 0)
                return complain_usage("'%s' is no way to evict; --evict takes never or sieve", how);
        arg_map_set |= MAP_SET_EVICT;
        return CTL_DONE;
}

static int set_limit(const char *text) {
        return set_map_bytes("--limit", text, MAP_SET_LIMIT, UINT64_MAX, &arg_map_limit);
}

static int set_value_max(const char *text) {
        return set_map_bytes("--value-max", text, MAP_SET_VALUE_MAX, PROTO_MAP_VALUE_MAX, &arg_map_value_max);
}

static int set_ttl(const char *text) {
        return set_map_span("--ttl", text, MAP_SET_TTL, PROTO_MAP_TTL_MSEC_MAX, "ten years",
                            &arg_map_ttl_msec);
}

static int set_stale(const char *text) {
        return set_map_span("--stale", text, MAP_SET_STALE, UINT32_MAX - 1, "49 days", &arg_map_stale_msec);
}

static int set_svg(const char *path) {
        if (!path[0])
                return complain_usage("--svg needs the name of a file; '-' is stdout");
        arg_svg = path;
        return CTL_DONE;
}

/*
 * The one list of options: names for getopt, the verbs that take the option, its line in help texts, and its effect, a
 * variable or a function that looks at the argument. getopt knows an option without a letter by its row.
 */
static const struct {
        const char *name;
        int argument; /* as in getopt */
        char letter; /* 0: none */
        unsigned bit; /* 0: every verb */
        const char *usage;
        const char *help;
        bool *yes, *no; /* becomes true, false */
        const char **text; /* becomes the argument */
        int (*set)(const char *argument);
} options[] = {
        { "pool", required_argument, 0, OPTION_POOL, "--pool NAME",
          "the pool (default: $TSLAB_POOL, else 'default')", .set = set_pool },
        { "socket", required_argument, 0, OPTION_POOL, "--socket PATH", "the pool whose daemon listens there",
          .set = set_socket },
        { "revoke", no_argument, 0, OPTION_REVOKE, "--revoke",
          "free all objects of the epoch: handles become stale", .yes = &arg_revoke },
        { "older", no_argument, 0, OPTION_REVOKE, "--older",
          "with --revoke: objects of earlier eras of the id, too", .yes = &arg_older },
        { "yes", no_argument, 0, OPTION_YES, "--yes", "without a question, whatever follows",
          .yes = &arg_yes },
        { "wait", optional_argument, 0, OPTION_WAIT, "--wait[=SEC]",
          "until no object remains, at most SEC seconds", .set = set_wait },
        { "repair", no_argument, 0, OPTION_REPAIR, "--repair", "repair the faults found",
          .yes = &arg_repair },
        { "all", no_argument, 0, OPTION_METRICS, "--all", "all pools of this machine", .yes = &arg_all },
        { "http", optional_argument, 0, OPTION_METRICS, "--http[=ADDR:PORT]",
          "serve HTTP there, or on the socket that is standard input", .yes = &arg_http,
          .text = &arg_http_at },
        { "check", no_argument, 0, OPTION_CHECK, "--check",
          "print nothing; the exit code tells whether it serves", .yes = &arg_check },
        { "by", required_argument, 0, OPTION_BY, "--by WHAT",
          "colour slabs by place (default), epoch or class", .set = set_by },
        { "svg", required_argument, 0, OPTION_SVG, "--svg FILE", "draw into a file", .set = set_svg },
        { "write", required_argument, 0, OPTION_WRITE, "--write FILE", "merge into a file",
          .text = &arg_write },
        { "delay", required_argument, 'd', OPTION_TOP, "-d, --delay SEC", "between two looks (default: 1)",
          .set = set_delay },
        { "count", required_argument, 'n', OPTION_COUNT, "-n, --count N",
          "end after N looks, keys or entries", .set = set_count },
        { "once", no_argument, 0, OPTION_TOP, "--once", "print one look, as text", .yes = &arg_once },
        { "follow", no_argument, 0, OPTION_FOLLOW, "--follow", "when the daemon goes away, wait for the next",
          .yes = &arg_follow },
        { "sort", required_argument, 0, OPTION_SORT, "--sort FIELD",
          "by that column (default: cached); -FIELD turns around", .text = &arg_sort },
        { "limit", required_argument, 0, OPTION_MAP, "--limit BYTES",
          "memory for the entries, as 64M; 0: no limit", .set = set_limit },
        { "evict", required_argument, 0, OPTION_MAP, "--evict HOW",
          "at the limit: never (puts fail), or sieve", .set = set_evict },
        { "ttl", required_argument, 0, OPTION_MAP, "--ttl SEC",
          "lifetime of entries put without one; 0: no end", .set = set_ttl },
        { "stale", required_argument, 0, OPTION_MAP, "--stale SEC", "keep entries so long after their end",
          .set = set_stale },
        { "value-max", required_argument, 0, OPTION_MAP, "--value-max BYTES",
          "the largest value; 0: the library's default", .set = set_value_max },
        { "match", required_argument, 0, OPTION_MATCH, "--match PATTERN",
          "keys as they are shown, as 'user:*'", .text = &arg_match },
        { "columns", required_argument, 'o', OPTION_COLUMNS, "-o, --columns LIST",
          "only these columns, as pid,cached", .text = &arg_columns },
        { "json", no_argument, 0, 0, "--json", "print JSON", .yes = &arg_json },
        { "no-legend", no_argument, 0, 0, "--no-legend", "no column titles and no closing lines",
          .no = &arg_legend },
        { "no-pager", no_argument, 0, 0, "--no-pager", "do not pipe long output into $PAGER",
          .no = &arg_pager },
        { "help", no_argument, 'h', 0, "-h, --help", "show help, after a verb for that verb",
          .yes = &arg_help },
        { "version", no_argument, 0, 0, "--version", "show the version", .yes = &arg_version },
};

#define N_OPTIONS (sizeof(options) / sizeof(options[0]))
#define ROW 0x100 /* above all letters */

static int option_value(size_t row) {
        return options[row].letter ? options[row].letter : ROW + (int) row;
}

static int set_option(size_t row, const char *argument) {
        if (options[row].yes)
                *options[row].yes = true;
        if (options[row].no)
                *options[row].no = false;
        if (options[row].text)
                *options[row].text = argument;
        return options[row].set ? options[row].set(argument) : CTL_DONE;
}

static size_t find_option(int value) {
        size_t i = 0;

        while (i < N_OPTIONS && option_value(i) != value)
                i++;
        return i;
}

/* Complains about a word that getopt refused: `value` is '?', or ':' if an argument is missing. */
static int refuse_option(int value, const char *word) {
        const char *names[N_OPTIONS], *nearest;
        size_t i = find_option(optopt);
        char name[32];

        if (value == ':')
                return complain_usage("%s needs a value: %s", word, options[i].usage);
        if (optopt && i < N_OPTIONS)
                return complain_usage("--%s takes no value", options[i].name);
        if (optopt)
                return complain_usage("unknown option '-%c'; 'tslabctl --help' lists all", optopt);

        for (i = 0; i < N_OPTIONS; ++i)
                names[i] = options[i].name;

        /* without the dashes and the value, which would count as differences */
        word += strspn(word, "-");
        (void) snprintf(name, sizeof(name), "%.*s", (int) strcspn(word, "="), word);
        nearest = nearest_word(name, names, N_OPTIONS);
        if (nearest)
                return complain_usage("unknown option '--%s'; did you mean '--%s'?", name, nearest);

        return complain_usage("unknown option '--%s'; 'tslabctl --help' lists all", name);
}

/* "--wait 5" looks like five seconds, and would close epoch 5. */
static int refuse_wait(const char *next) {
        if (!next || next[0] < '0' || next[0] > '9')
                return CTL_DONE;
        return complain_usage(
                "is '%s' after --wait seconds, or an epoch? write --wait=%s, or all epochs before "
                "--wait",
                next, next);
}

CtlExit options_parse(int argc, char **argv, char ***ret_words, size_t *ret_n_words, unsigned *ret_given) {
        struct option list[N_OPTIONS + 1] = {};
        unsigned given = 0;

        for (size_t i = 0; i < N_OPTIONS; ++i)
                list[i] = (struct option){ .name = options[i].name,
                                           .has_arg = options[i].argument,
                                           .val = option_value(i) };

        set_defaults();
        optind = 0; /* glibc: makes getopt begin anew, which the tests need */
        opterr = 0;

        for (;;) {
                int value, r;

                value = getopt_long(argc, argv, ":hd:n:o:", list, NULL);
                if (value < 0)
                        break;

                r = value == '?' || value == ':' ? refuse_option(value, argv[optind - 1])
                                                 : set_option(find_option(value), optarg);
                if (r == CTL_DONE && options[find_option(value)].set == set_wait && !optarg)
                        r = refuse_wait(argv[optind]);
                if (r)
                        return r;
                given |= options[find_option(value)].bit;
        }

        if (arg_pool && arg_socket)
                return complain_usage("--pool and --socket both name a pool: give one of them");
        if (arg_older && !arg_revoke)
                return complain_usage("--older goes with --revoke: it revokes earlier eras too");

        *ret_words = argv + optind;
        *ret_n_words = (size_t) (argc - optind);
        *ret_given = given;
        return CTL_DONE;
}

const char *options_name(unsigned set) {
        /* the bit stands for --socket too, and the user may have given that */
        if (set & OPTION_POOL)
                return arg_socket ? "--socket" : "--pool";
        if (set & OPTION_REVOKE)
                return "--revoke";
        if (set & OPTION_YES)
                return "--yes";
        if (set & OPTION_WAIT)
                return "--wait";
        if (set & OPTION_METRICS)
                return arg_http ? "--http" : "--all";
        if (set & OPTION_CHECK)
                return "--check";
        if (set & OPTION_BY)
                return "--by";
        if (set & OPTION_SVG)
                return "--svg";
        if (set & OPTION_WRITE)
                return "--write";
        if (set & OPTION_SORT)
                return "--sort";
        if (set & OPTION_COLUMNS)
                return "--columns";
        if (set & OPTION_FOLLOW)
                return "--follow";
        if (set & OPTION_MAP)
                return "--limit, --evict, --ttl, --stale or --value-max";
        if (set & OPTION_TOP)
                return "--delay or --once";
        if (set & OPTION_COUNT)
                return "--count";
        if (set & OPTION_MATCH)
                return "--match";

        return "--repair";
}

void options_print_help(FILE *out, unsigned set) {
        for (size_t i = 0; i < N_OPTIONS; ++i)
                if (!options[i].bit || (options[i].bit & set))
                        (void) fprintf(out, "  %-20s%s\n", options[i].usage, options[i].help);
}
