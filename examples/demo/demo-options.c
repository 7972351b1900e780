#include "examples/demo/demo-options.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#define REQUESTS_MAX 10000000
#define CACHE_MIB_MAX 512

enum {
        ARG_LOG = 256,
        ARG_WORKERS,
        ARG_REQUESTS,
        ARG_CACHE,
        ARG_SEED,
        ARG_DUMP,
        ARG_TIMELINE,
        ARG_JSON,
        ARG_KEEP,
};

static void print_help(void) {
        (void) puts("Usage: tslab-demo [OPTION...]\n"
                    "Starts a tslab daemon, and worker processes that share the sessions and the pages of a\n"
                    "web server: one session a client address, served by whichever worker is free.\n"
                    "\n"
                    "  --log FILE      the requests of this access log (Combined or Common Log Format)\n"
                    "  --workers N     so many worker processes, 1 to 256 (4)\n"
                    "  --cache MIB     limit of the page cache, 1 to 512 (8)\n"
                    "  --requests N    without --log: make up so many requests (300000)\n"
                    "  --seed N        without --log: other ones than those of seed 1\n"
                    "  --dump FILE     write 'ADDRESS REQUESTS' of all clients, as awk counts them:\n"
                    "                  awk '{n[$1]++} END {for (a in n) print a, n[a]}' LOG | LC_ALL=C sort\n"
                    "  --timeline FILE write each request as it is served: period, time, address, status,\n"
                    "                  bytes, whether by GET, path, with tabs between\n"
                    "  --json          print the report as JSON\n"
                    "  --keep          leave the daemon running, and say how to look at it\n"
                    "  -h, --help      show this text\n"
                    "\n"
                    "Exit codes: 0 done, 1 failed, a worker died, or the check found something, 2 usage.");
}

static int options_complain(const char *option, const char *value, const char *allowed) {
        (void) fprintf(stderr, "tslab-demo: --%s: '%s' will not do; %s\n", option, value, allowed);
        return OPTIONS_E_USAGE;
}

/* Digits alone, as strtoull() takes signs and spaces. */
static int parse_number(const char *text, uint64_t min, uint64_t max, uint64_t *ret) {
        unsigned long long number;
        char *end;

        if (text[0] < '0' || text[0] > '9')
                return -EINVAL;
        errno = 0;
        number = strtoull(text, &end, 10);
        if (errno || *end || number < min || number > max)
                return -EINVAL;
        *ret = number;
        return 0;
}

static int set_number(Options *options, int id) {
        uint64_t n;

        switch (id) {
        case ARG_WORKERS:
                if (parse_number(optarg, 1, WORKERS_MAX, &n))
                        return options_complain("workers", optarg, "1 to 256 workers can be started");
                options->n_workers = (uint32_t) n;
                return 0;
        case ARG_REQUESTS:
                if (parse_number(optarg, 1, REQUESTS_MAX, &n))
                        return options_complain("requests", optarg, "1 to 10000000 requests can be made up");
                options->n_requests = (uint32_t) n;
                return 0;
        case ARG_CACHE:
                if (parse_number(optarg, 1, CACHE_MIB_MAX, &n))
                        return options_complain("cache", optarg, "1 to 512 MiB of pages can be cached");
                options->cache_mib = (uint32_t) n;
                return 0;
        default:
                if (parse_number(optarg, 0, UINT64_MAX, &n))
                        return options_complain("seed", optarg, "it is a number");
                options->seed = n;
                return 0;
        }
}

static int set_option(Options *options, int id) {
        switch (id) {
        case ARG_LOG:
                options->log = optarg;
                return 0;
        case ARG_DUMP:
                options->dump = optarg;
                return 0;
        case ARG_TIMELINE:
                options->timeline = optarg;
                return 0;
        case ARG_JSON:
                options->json = true;
                return 0;
        case ARG_KEEP:
                options->keep = true;
                return 0;
        case 'h':
                print_help();
                return OPTIONS_E_DONE;
        case '?':
                (void) fputs("tslab-demo: 'tslab-demo --help' shows the options there are\n", stderr);
                return OPTIONS_E_USAGE;
        default:
                return set_number(options, id);
        }
}

int options_parse(Options *ret, int argc, char **argv) {
        static const struct option long_options[] = {
                { "log", required_argument, NULL, ARG_LOG },
                { "workers", required_argument, NULL, ARG_WORKERS },
                { "requests", required_argument, NULL, ARG_REQUESTS },
                { "cache", required_argument, NULL, ARG_CACHE },
                { "seed", required_argument, NULL, ARG_SEED },
                { "dump", required_argument, NULL, ARG_DUMP },
                { "timeline", required_argument, NULL, ARG_TIMELINE },
                { "json", no_argument, NULL, ARG_JSON },
                { "keep", no_argument, NULL, ARG_KEEP },
                { "help", no_argument, NULL, 'h' },
                {},
        };
        Options options = { .n_workers = 4, .n_requests = 300000, .cache_mib = 8, .seed = 1 };
        int c, r;

        while ((c = getopt_long(argc, argv, "h", long_options, NULL)) >= 0) {
                r = set_option(&options, c);
                if (r)
                        return r;
        }
        if (optind < argc) {
                (void) fprintf(stderr, "tslab-demo: '%s' is too much: there are options only, see --help\n",
                               argv[optind]);
                return OPTIONS_E_USAGE;
        }
        *ret = options;
        return 0;
}
