#pragma once

/* The numbers of a pool at one moment, kept to be compared with the next ones. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/call.h"

typedef struct TopClient {
        uint32_t client;
        int32_t pid;
        uint32_t uid, role, threads;
        uint64_t allocs, frees, cached, pending, held, attached_usec;
        char comm[PROTO_COMM_MAX + 1];
} TopClient;

typedef struct TopSample {
        uint64_t usec; /* CLOCK_MONOTONIC; 0: there is none */
        ProtoReply *reply; /* to the stats request */
        TopClient *clients; /* processes that have attached */
        size_t n_clients;
} TopSample;

/* Asks for the numbers and, if wanted, the clients. 0 or as proto_call(); *ret is set on 0 alone. */
int top_sample_take(TopSample *ret, ProtoCall *call, bool with_clients, uint64_t timeout_usec);
void top_sample_deinit(TopSample *sample);

static inline const Tslab__StatsReply *top_stats(const TopSample *sample) {
        return sample->reply->stats;
}

typedef enum TopAveraged { TOP_ALLOCS, TOP_FREES, TOP_HITS, TOP_MISSES, _TOP_AVERAGED_N } TopAveraged;

#define TOP_SPANS 3

/* Rates over about the last 10, 60 and 600 seconds: as time goes on, older ones count less and less. */
typedef struct TopAverages {
        double rates[_TOP_AVERAGED_N][TOP_SPANS];
        double seconds; /* since the first sample that counts */
} TopAverages;

extern const unsigned top_spans[TOP_SPANS]; /* in seconds */
extern const char *const top_averaged_names[_TOP_AVERAGED_N];

/* Takes the time between two samples in. If they are not of one arena, the averages begin anew. */
void top_averages_add(TopAverages *averages, const TopSample *before, const TopSample *now);

/*
 * Per second, from `before` to `now`; 0 where there is nothing to compare with: no sample before,
 * another arena, or a number that went back.
 */
bool top_comparable(const TopSample *before, const TopSample *now);
double top_rate(const TopSample *before, const TopSample *now, uint64_t from, uint64_t to);
/* As top_rate() for a number that may fall. */
double top_change(const TopSample *before, const TopSample *now, uint64_t from, uint64_t to);
