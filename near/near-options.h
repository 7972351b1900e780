#pragma once
/* The settings of tslab-near, from its arguments and, where these say nothing, from the environment. */
#include <stdbool.h>
#include <stdint.h>
#include <tslab_near.h>

#include "near/link.h"
#include "near/topology.h"

#define OPTIONS_SERVERS_MAX 16
#define OPTIONS_PREFIXES_MAX 32

typedef struct Options {
        const char *pool, *name;
        TopologyServer servers[OPTIONS_SERVERS_MAX];
        uint32_t n_servers;
        const char *prefixes[OPTIONS_PREFIXES_MAX];
        uint32_t n_prefixes;
        size_t prefixes_size;
        const char *sentinel; /* the name of a primary: the servers are Sentinels; NULL: they are not */
        LinkLogin login, sentinel_login;
        TlsFiles tls_files;
        bool has_tls, has_plain; /* URLs with rediss, and servers without TLS by the network */
        bool is_environment; /* settings come from there, which others do not see */
        uint32_t bound_ms;
        uint64_t limit_bytes; /* 0: half of the pool; TSLAB_NEAR_NO_LIMIT */
        uint32_t value_max;
        bool check;
} Options;

/* 0: go on; 1: done, as after --help; -EINVAL: `ret_why`, of NEAR_WHY_SIZE bytes, says why. */
int options_load(Options *ret, int argc, char **argv, char *ret_why);
