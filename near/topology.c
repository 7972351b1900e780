#include "near/topology.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Index of the server, which is added where it is new. */
static int find_server(Topology *topology, const char *host, int port, const char *id, uint16_t *ret) {
        TopologyServer *servers = topology->servers;
        uint32_t i = 0;

        while (i < topology->n && (servers[i].port != port || strcmp(servers[i].host, host) != 0))
                i++;
        if (i == TOPOLOGY_PRIMARIES_MAX)
                return -EBADMSG;
        if (i == topology->n) {
                if (snprintf(servers[i].host, TOPOLOGY_HOST_SIZE, "%s", host) >= TOPOLOGY_HOST_SIZE ||
                    snprintf(servers[i].id, TOPOLOGY_ID_SIZE, "%s", id) >= TOPOLOGY_ID_SIZE)
                        return -EBADMSG;
                servers[i].port = port;
                topology->n++;
        }
        *ret = (uint16_t) (i + 1);
        return 0;
}

static bool is_integer(const redisReply *reply, long long max) {
        return reply->type == REDIS_REPLY_INTEGER && reply->integer >= 0 && reply->integer <= max;
}

/* A range: first slot, last slot, primary, replicas. A server: host, port, id, and so on. */
static int parse_range(Topology *topology, const redisReply *range, const char *host) {
        const redisReply *primary;
        uint16_t server;
        int r;

        if (range->type != REDIS_REPLY_ARRAY || range->elements < 3)
                return -EBADMSG;
        primary = range->element[2];
        if (!is_integer(range->element[0], TOPOLOGY_SLOTS - 1) ||
            !is_integer(range->element[1], TOPOLOGY_SLOTS - 1) || primary->type != REDIS_REPLY_ARRAY ||
            primary->elements < 3 || !is_integer(primary->element[1], 65535) ||
            primary->element[2]->type != REDIS_REPLY_STRING)
                return -EBADMSG;
        if (primary->element[0]->type == REDIS_REPLY_STRING && primary->element[0]->len > 0)
                host = primary->element[0]->str;
        r = find_server(topology, host, (int) primary->element[1]->integer, primary->element[2]->str,
                        &server);
        for (long long i = range->element[0]->integer; r == 0 && i <= range->element[1]->integer; i++) {
                topology->n_slots += topology->owner[i] == 0;
                topology->owner[i] = server;
        }
        return r;
}

int topology_parse(Topology *ret, const redisReply *reply, const char *host) {
        int r = 0;

        memset(ret, 0, sizeof(*ret));
        if (reply->type != REDIS_REPLY_ARRAY)
                return -EBADMSG;
        for (size_t i = 0; r == 0 && i < reply->elements; i++)
                r = parse_range(ret, reply->element[i], host);
        return r;
}

/* Servers may come in another order. */
bool topology_is_equal(const Topology *a, const Topology *b) {
        if (a->n != b->n || a->n_slots != b->n_slots)
                return false;
        for (uint32_t i = 0; i < TOPOLOGY_SLOTS; i++) {
                const TopologyServer *x, *y;

                if ((a->owner[i] == 0) != (b->owner[i] == 0))
                        return false;
                if (a->owner[i] == 0)
                        continue;
                x = &a->servers[a->owner[i] - 1];
                y = &b->servers[b->owner[i] - 1];
                if (x->port != y->port || strcmp(x->host, y->host) != 0)
                        return false;
        }
        return true;
}

static bool has_server(const Topology *topology, const char *id, size_t size) {
        for (uint32_t i = 0; i < topology->n; i++)
                if (strlen(topology->servers[i].id) == size && memcmp(topology->servers[i].id, id, size) == 0)
                        return true;
        return false;
}

/* In the server's own line: "[slot->-id]". */
bool topology_moves_out(const Topology *topology, const char *nodes) {
        for (const char *at = strstr(nodes, "->-"); at; at = strstr(at, "->-")) {
                at += 3;
                if (!has_server(topology, at, strcspn(at, "]")))
                        return true;
        }
        return false;
}

bool topology_run_id(const redisReply *info, char *ret) {
        static const char field[] = "run_id:";
        const char *at = info->type == REDIS_REPLY_STRING ? strstr(info->str, field) : NULL;
        size_t size;

        if (!at)
                return false;
        at += strlen(field);
        size = strcspn(at, "\r\n");
        if (size == 0 || size >= TOPOLOGY_ID_SIZE)
                return false;
        memcpy(ret, at, size);
        ret[size] = 0;
        return true;
}

bool topology_is_primary(const redisReply *role) {
        return role->type == REDIS_REPLY_ARRAY && role->elements > 0 &&
               role->element[0]->type == REDIS_REPLY_STRING && strcmp(role->element[0]->str, "master") == 0;
}
