#pragma once
/* The demo's command line. */
#include <stdbool.h>
#include <stdint.h>

#define WORKERS_MAX 256

typedef struct Options {
        const char *log; /* NULL: traffic is made up */
        const char *dump; /* NULL: none */
        const char *timeline; /* NULL: none */
        uint32_t n_workers;
        uint32_t n_requests; /* to make up */
        uint32_t cache_mib; /* limit of the page cache */
        uint64_t seed;
        bool json;
        bool keep;
} Options;

enum {
        _OPTIONS_E_SUCCESS,
        OPTIONS_E_DONE, /* help was asked for, and printed */
        OPTIONS_E_USAGE, /* a message has been printed */
};

int options_parse(Options *ret, int argc, char **argv);
