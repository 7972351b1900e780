#include "examples/demo/timeline.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

/* Chooses the shortest periods of which TIMELINE_PERIODS_MAX reach from the first request to the last. */
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

static int write_request(uint32_t period, const Request *request, FILE *f) {
        if (fprintf(f, "%" PRIu32 "\t%" PRId64 "\t%.*s\t%" PRIu32 "\t%" PRIu64 "\t%d\t", period,
                    request->time, (int) request->client.size, request->client.bytes, request->status,
                    request->size, request->is_get) < 0)
                return -errno;
        if (fwrite(request->path.bytes, 1, request->path.size, f) != request->path.size ||
            fputc('\n', f) == EOF)
                return -errno;
        return 0;
}

int timeline_write(const Timeline *timeline, FILE *f) {
        int r = 0;

        for (uint32_t i = 0; i < timeline->n_periods; ++i) {
                const Period *period = &timeline->periods[i];

                for (size_t n = 0; r == 0 && n < period->n; ++n)
                        r = write_request(i, &timeline->requests[period->first + n], f);
        }
        return r;
}
