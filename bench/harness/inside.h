#pragma once
/*
 * A look into a pool's arena for what <tslab.h> does not tell: counters, resident memory. The one part
 * of the bench that knows the private layers; what is measured never passes through here.
 */
#include <stdint.h>

#include "bench/harness/harness.h"

struct tslab;

typedef struct Inside Inside;

Inside *inside_new(struct tslab *pool);

/* Counters are reported as of here; any member may say so. */
void inside_reset(Inside *inside);

/*
 * The refills of the calling thread, NULL where it shares its record. `operate` does an operation: a
 * process has more records than threads, and this one's is the one it moves.
 */
const uint64_t *inside_refills(const Inside *inside, void (*operate)(void));

/* Has a daemon tell its figures; the connection is made once. */
void inside_ask_stats(const char *socket);

uint64_t inside_resident(const Inside *inside);
/* Slots in caches now. */
uint64_t inside_cached(const Inside *inside);

/*
 * Since inside_reset(): rates of hits that met no refill or flush, of refills, flushes and bypasses;
 * what is live and resident now.
 */
void inside_report(const Inside *inside, Bench *bench);
