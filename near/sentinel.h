#pragma once
/*
 * Sentinels, of which one is asked again and again which server is the primary. If it does not answer, the next one is
 * asked.
 */
#include "near/link.h"
#include "near/near-options.h"
#include "near/topology.h"

typedef struct Sentinel Sentinel;

typedef struct SentinelOps {
        void (*on_named)(void *userdata, const TopologyServer *server); /* for each answer */
        /* No answer came. The next sentinel is asked at the next call of sentinel_ask(). */
        void (*on_trouble)(void *userdata, const char *why);
} SentinelOps;

int sentinel_open(Sentinel **ret, sd_event *event, const Options *options, uint32_t first,
                  const SentinelOps *ops, void *userdata);
Sentinel *sentinel_free(Sentinel *sentinel);

/* Asks. If there was no answer for `patience_usec`, another sentinel is asked. */
void sentinel_ask(Sentinel *sentinel, uint64_t patience_usec);
/* The answer is that to a question of this time; 0: there is none yet. */
uint64_t sentinel_seen_usec(const Sentinel *sentinel);
