#include "daemon/peer/call-times.h"

#include <stddef.h>

void call_times_begin(CallsOpen *open, uint64_t id, uint32_t kind, uint64_t now_usec) {
        for (uint32_t i = 0; i < CALL_TIMES_OPEN; i++)
                if (open->calls[i].id == 0) {
                        open->calls[i].id = id;
                        open->calls[i].since_usec = now_usec;
                        open->calls[i].kind = kind;
                        return;
                }
}

static CallTime *find_kind(CallTimes *times, uint32_t kind) {
        for (uint32_t i = 0; i < CALL_TIMES_MAX; i++)
                if (times->of[i].kind == kind || times->of[i].kind == 0)
                        return &times->of[i];
        return NULL;
}

static void add_call(CallTimes *times, uint32_t kind, uint64_t usec) {
        CallTime *time = find_kind(times, kind);
        uint32_t bucket = 0;

        if (!time)
                return;
        while (usec >= call_times_below_usec(bucket))
                bucket++;
        time->kind = kind;
        time->counts[bucket]++;
        time->total_usec += usec;
        if (usec > time->longest_usec)
                time->longest_usec = usec;
}

void call_times_end(CallTimes *times, CallsOpen *open, uint64_t id, uint64_t now_usec) {
        for (uint32_t i = 0; i < CALL_TIMES_OPEN; i++)
                if (open->calls[i].id == id && id != 0) {
                        add_call(times, open->calls[i].kind, now_usec - open->calls[i].since_usec);
                        open->calls[i].id = 0;
                        return;
                }
}
