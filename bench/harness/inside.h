#pragma once
/*
 * A look into a pool's arena for figures that <tslab.h> does not give: counters, resident memory. No other
 * part of the bench knows the private layers; measured operations never pass through here.
 */
#include <stdint.h>

#include "bench/harness/harness.h"

struct tslab;

typedef struct Inside Inside;

Inside *inside_new(struct tslab *pool);

/* Counters are reported from here on; any member may call this. */
void inside_reset(Inside *inside);

/*
 * The refill counter of the calling thread's record, NULL if threads share one. `operate` does an operation:
 * a process has more records than threads, and the record whose counters move is this thread's.
 */
const uint64_t *inside_refills(const Inside *inside, void (*operate)(void));

/* Asks a daemon for its figures; the connection is made once. */
void inside_ask_stats(const char *socket);

uint64_t inside_resident(const Inside *inside);
/* Bytes of the slabs that have live objects, or slots in caches. */
uint64_t inside_held(const Inside *inside);
/* Slots that are in caches now. */
uint64_t inside_cached(const Inside *inside);

/*
 * Reports the rates since inside_reset(), of hits that met no refill or flush, of refills, flushes and bypasses;
 * and the live and resident bytes of now.
 */
void inside_report(const Inside *inside, Bench *bench);
