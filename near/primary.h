#pragma once
/*
 * One primary, of which the near cache hears of each change. It has a name, its run id, which both connections have
 * to lead to: answers of a server of another name do not become copies. Its connection has BCAST tracking redirected
 * to itself and is subscribed: all that the server sends on it is in the order of the changes. So when a PING on it
 * is answered, all changes from before the PING was sent have been told. A second connection asks whether it is the
 * primary of its keys. Where nothing else tells that its address leads to another server now, each second question is
 * one by a new connection.
 */
#include "near/link.h"
#include "near/near-options.h"
#include "near/topology.h"

typedef struct Primary Primary;

typedef struct PrimaryOps {
        void (*on_ready)(void *userdata); /* changes are heard from now on */
        void (*on_change)(void *userdata, const char *key, size_t size); /* NULL: of all keys */
        void (*on_answer)(void *userdata); /* primary_seen_usec() is later now */
        /* Nothing is heard any more. The callback frees the primary. */
        void (*on_lost)(void *userdata, const char *why);
} PrimaryOps;

/*
 * `topology` and `options` are not copied. `topology` NULL: the server is alone. `is_named`: its address is asked of
 * Sentinel again and again.
 */
int primary_open(Primary **ret, sd_event *event, const TopologyServer *server, const Topology *topology,
                 bool is_named, const Options *options, const PrimaryOps *ops, void *userdata, char *ret_why);
Primary *primary_free(Primary *primary);

/* Asks whether all was heard. If there was no answer for `patience_usec`, on_lost() is called. */
void primary_ask(Primary *primary, uint64_t patience_usec);
/* All changes from before that time have been told, and the topology was the same; 0: not known yet. */
uint64_t primary_seen_usec(const Primary *primary);
bool primary_is_ready(const Primary *primary);
/* The run id; it is known once the primary is ready. */
const char *primary_id(const Primary *primary);
