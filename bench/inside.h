#pragma once
/*
 * A look into a pool's arena for what <tslab.h> does not tell: counters, resident memory. The one part
 * of the bench that knows the private layers; what is measured never passes through here.
 */
#include <stdint.h>

#include "bench/harness.h"

struct tslab;

typedef struct Inside Inside;

Inside *inside_new(struct tslab *pool);

/* The refills of the calling thread, which has a record; NULL: it shares one. */
const uint64_t *inside_refills(const Inside *inside);

uint64_t inside_resident(const Inside *inside);

/* Since inside_new(): rates of hits that met no refill or flush, of refills, flushes and bypasses; what is live and resident now. */
void inside_report(const Inside *inside, Bench *bench);
