#pragma once
/* The primaries of a cluster, and the slots of each, as one of them tells by CLUSTER SLOTS. */
#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stdint.h>

#define TOPOLOGY_PRIMARIES_MAX 128 /* a sweep of a near cache asks each of them again and again */
#define TOPOLOGY_HOST_SIZE 256
#define TOPOLOGY_SLOTS 16384
#define TOPOLOGY_ID_SIZE 41 /* a node of a cluster, or a process (run_id) */

typedef struct TopologyServer {
        char host[TOPOLOGY_HOST_SIZE];
        int port;
        char id[TOPOLOGY_ID_SIZE]; /* in a cluster */
} TopologyServer;

typedef struct Topology {
        TopologyServer servers[TOPOLOGY_PRIMARIES_MAX];
        uint32_t n;
        uint32_t n_slots; /* that some primary has */
        uint16_t owner[TOPOLOGY_SLOTS]; /* index of the server + 1; 0: none */
} Topology;

/* `host` stands for hosts that the server does not name: the one by which it was reached. -EBADMSG. */
int topology_parse(Topology *ret, const redisReply *reply, const char *host);
bool topology_is_equal(const Topology *a, const Topology *b);
/*
 * Whether the server whose answer to CLUSTER NODES this is gives a slot away to one that has no slots yet. That one
 * serves keys of the slot before it is a primary by CLUSTER SLOTS.
 */
bool topology_moves_out(const Topology *topology, const char *nodes);
/* The run id in an answer to INFO. False: there is none. */
bool topology_run_id(const redisReply *info, char *ret);
/* By its answer to ROLE. */
bool topology_is_primary(const redisReply *role);
