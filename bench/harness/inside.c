#include "bench/harness/inside.h"

#include <assert.h>
#include <stdlib.h>
#include <unistd.h>

#include "libclient/pool/pool.h"
#include "proto/call.h"
#include "shm/arena/record.h"
#include "shm/stats/stats.h"

/*
 * The first two counters. Each operation counts once: as a hit, also if it had to refill or flush first, or
 * as a bypass.
 */
enum {
        ALLOCS_UNCACHED,
        FREES_UNCACHED,
};
static_assert(SHM_COUNT_ALLOC_HITS == 2, "the counters before the hits");

struct Inside {
        const ShmArena *arena;
        ShmStats begin;
};

/* Shared by the members, so that each can reset it. */
Inside *inside_new(struct tslab *pool) {
        Inside *inside = bench_reserve(sizeof(*inside));

        inside->arena = &pool->arena;
        inside_reset(inside);
        return inside;
}

void inside_reset(Inside *inside) {
        shm_stats(inside->arena, &inside->begin);
}

static uint64_t load_seq(const Inside *inside, uint32_t record) {
        return shm_load_rlx(&shm_arena_record(inside->arena, record)->seq);
}

const uint64_t *inside_refills(const Inside *inside, void (*operate)(void)) {
        uint32_t n = shm_arena_n_records_ever(inside->arena), tid = (uint32_t) gettid();
        uint64_t *seqs = calloc(n, sizeof(*seqs));
        const uint64_t *found = NULL;

        if (!seqs)
                bench_fail("out of memory");
        for (uint32_t i = 1; i < n; i++)
                seqs[i] = load_seq(inside, i);
        operate();
        for (uint32_t i = 1; i < n; i++) {
                ShmRecordOwner owner = shm_record_owner(inside->arena, i);

                if (owner.state == SHM_RECORD_USED && owner.tid == tid && load_seq(inside, i) != seqs[i])
                        found = &shm_arena_record(inside->arena, i)->counters[SHM_COUNT_REFILLS];
        }
        free(seqs);
        return found;
}

uint64_t inside_resident(const Inside *inside) {
        return shm_arena_resident_size(inside->arena);
}

uint64_t inside_held(const Inside *inside) {
        uint64_t n_slabs = 0;
        ShmStats stats;

        shm_stats(inside->arena, &stats);
        for (uint32_t i = 0; i < inside->arena->n_classes; i++)
                n_slabs += stats.classes[i].slabs;
        return n_slabs * SHM_SLAB_SIZE;
}

void inside_ask_stats(const char *socket) {
        static ProtoCall *call;
        ProtoHello hello = PROTO_HELLO_INIT;
        ProtoRequest request = PROTO_REQUEST_INIT;
        Tslab__Stats stats = TSLAB__STATS__INIT;
        ProtoReply *reply = NULL;

        hello.software = (char *) "bench";
        hello.comm = (char *) "bench";
        if (!call && proto_call_open(&call, socket, &hello, UINT64_MAX, &reply) != 0)
                bench_fail("no connection to %s", socket);
        (void) proto_reply_free(reply);
        reply = NULL;
        request.body_case = TSLAB__REQUEST__BODY_STATS;
        request.stats = &stats;
        if (proto_call(call, &request, UINT64_MAX, NULL, NULL, &reply, NULL) != 0)
                bench_fail("the daemon does not tell its figures");
        (void) proto_reply_free(reply);
}

uint64_t inside_cached(const Inside *inside) {
        ShmStats stats;

        shm_stats(inside->arena, &stats);
        return stats.cached_objects;
}

static double counter_ratio(uint64_t part, uint64_t whole) {
        return whole ? (double) part / (double) whole : 0;
}

static void report_counters(const uint64_t *begin, const uint64_t *end, Bench *bench) {
        uint64_t n[SHM_COUNTERS_MAX], allocs, frees;

        for (uint32_t i = 0; i < SHM_COUNTERS_MAX; i++)
                n[i] = end[i] - begin[i];
        allocs = n[SHM_COUNT_ALLOC_HITS] + n[ALLOCS_UNCACHED];
        frees = n[SHM_COUNT_FREES_CACHED] + n[FREES_UNCACHED];
        bench_metric(bench, "count_allocs", (double) allocs);
        bench_metric(bench, "count_frees", (double) frees);
        bench_metric(bench, "alloc_hit_rate",
                     counter_ratio(n[SHM_COUNT_ALLOC_HITS] - n[SHM_COUNT_REFILLS], allocs));
        bench_metric(bench, "free_hit_rate",
                     counter_ratio(n[SHM_COUNT_FREES_CACHED] - n[SHM_COUNT_FLUSHES], frees));
        bench_metric(bench, "refills_per_alloc", counter_ratio(n[SHM_COUNT_REFILLS], allocs));
        bench_metric(bench, "flushes_per_free", counter_ratio(n[SHM_COUNT_FLUSHES], frees));
        bench_metric(bench, "slots_per_refill",
                     counter_ratio(n[SHM_COUNT_REFILLED_SLOTS], n[SHM_COUNT_REFILLS]));
        bench_metric(bench, "bypassed_share",
                     counter_ratio(n[SHM_COUNT_ALLOC_BYPASSED] + n[SHM_COUNT_FREE_BYPASSED], allocs + frees));
        bench_metric(bench, "count_failures", (double) n[SHM_COUNT_FAILURES]);
        bench_metric(bench, "count_slabs_committed", (double) n[SHM_COUNT_SLABS_COMMITTED]);
        bench_metric(bench, "count_slabs_recycled", (double) n[SHM_COUNT_SLABS_RECYCLED]);
}

void inside_report(const Inside *inside, Bench *bench) {
        ShmStats stats;

        shm_stats(inside->arena, &stats);
        report_counters(inside->begin.counters, stats.counters, bench);
        bench_metric(bench, "live_objects", (double) stats.live_objects);
        bench_metric(bench, "cached_objects", (double) stats.cached_objects);
        bench_metric(bench, "committed_bytes", (double) stats.committed_size);
        bench_metric(bench, "resident_bytes", (double) shm_arena_resident_size(inside->arena));
}
