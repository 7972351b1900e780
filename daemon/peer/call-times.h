#pragma once
/*
 * How long requests take, from their message to the last reply: for each kind, how many took less than 16 us, 64 us and
 * so on, by fours. Since this daemon started. Requests whose session ends before the answer are not counted.
 */
#include <stdint.h>

#define CALL_TIMES_BUCKETS 11U /* the last: 4.2 s and more */
#define CALL_TIMES_MAX 32U /* kinds */
#define CALL_TIMES_OPEN 9U /* SESSION_CALLS_MAX of a session, and the one that is being read */

typedef struct CallTime {
        uint32_t kind; /* the field's number in Request; 0: unused */
        uint64_t counts[CALL_TIMES_BUCKETS];
        uint64_t total_usec, longest_usec;
} CallTime;

typedef struct CallTimes {
        CallTime of[CALL_TIMES_MAX];
} CallTimes;

/* The requests of a session that are not answered yet. */
typedef struct CallsOpen {
        struct {
                uint64_t id; /* 0: none */
                uint64_t since_usec;
                uint32_t kind;
        } calls[CALL_TIMES_OPEN];
} CallsOpen;

void call_times_begin(CallsOpen *open, uint64_t id, uint32_t kind, uint64_t now_usec);
void call_times_end(CallTimes *times, CallsOpen *open, uint64_t id, uint64_t now_usec);

/* The upper end of a bucket; UINT64_MAX: the last. */
static inline uint64_t call_times_below_usec(uint32_t bucket) {
        return bucket < CALL_TIMES_BUCKETS - 1 ? UINT64_C(16) << 2 * bucket : UINT64_MAX;
}
