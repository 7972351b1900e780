#include "examples/demo/timeline.h"

#include <errno.h>
#include <stdlib.h>

/* Periods as short as they can be for that many of them to reach from the first request to the last. */
static void choose_periods(Timeline *timeline, const Log *log) {
        int64_t first = log->n_requests ? log->requests[0].time : 0, last = first;

        for (size_t i = 0; i < log->n_requests; ++i) {
                int64_t time = log->requests[i].time;

                first = time < first ? time : first;
                last = time > last ? time : last;
        }

        timeline->begin = first;
        timeline->period_seconds = (last - first) / TIMELINE_PERIODS_MAX + 1;
        timeline->n_periods = (uint32_t) ((last - first) / timeline->period_seconds) + 1;
}

static Period *period_of(Timeline *timeline, const Request *request) {
        return &timeline->periods[(request->time - timeline->begin) / timeline->period_seconds];
}

/* A counting sort: how many in each, where each begins, then each request to its place. */
static void sort_requests(Timeline *timeline, const Log *log) {
        size_t first = 0;

        for (size_t i = 0; i < log->n_requests; ++i)
                ++period_of(timeline, &log->requests[i])->n;
        for (uint32_t i = 0; i < timeline->n_periods; ++i) {
                Period *period = &timeline->periods[i];

                period->first = first;
                first += period->n;
                period->n = 0;
        }
        for (size_t i = 0; i < log->n_requests; ++i) {
                Period *period = period_of(timeline, &log->requests[i]);

                timeline->requests[period->first + period->n++] = log->requests[i];
        }
}

int timeline_init(Timeline *ret, const Log *log) {
        Timeline timeline = { .n_requests = log->n_requests };

        timeline.requests = calloc(log->n_requests + 1, sizeof(*timeline.requests));
        if (!timeline.requests)
                return -ENOMEM;
        choose_periods(&timeline, log);
        sort_requests(&timeline, log);
        *ret = timeline;
        return 0;
}

void timeline_deinit(Timeline *timeline) {
        free(timeline->requests);
        *timeline = (Timeline){};
}
