#include "bench/web/web-trace.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/web/store.h"
#include "examples/demo/demo-log.h"
#include "examples/demo/traffic.h"
#include "tests/util/sieve.h"

#define ZIPF_KEYS 300000
#define ZIPF_SIZE_MAX 1000
#define WIDE_SIZE_MIN 64
#define WIDE_SIZE_DOUBLINGS 7
#define LOG_SEED 1
#define SIZE_MIN 4U /* a value holds its key's number */

static uint32_t *new_array(size_t n) {
        uint32_t *array = calloc(n + 1, sizeof(*array));

        if (!array)
                bench_fail("out of memory");
        return array;
}

/* Without regard to how often the key is asked for. */
static uint32_t size_of(uint32_t key, bool is_wide) {
        double random = 0x1p-32 * (key * UINT32_C(2654435761));

        if (is_wide)
                return (uint32_t) (WIDE_SIZE_MIN * exp2(WIDE_SIZE_DOUBLINGS * random));
        return SIZE_MIN + (uint32_t) ((ZIPF_SIZE_MAX - SIZE_MIN) * random);
}

static void make_zipf(Trace *trace, double s, bool is_wide) {
        Zipf zipf;

        trace->n_keys = ZIPF_KEYS;
        trace->sizes = new_array(trace->n_keys);
        zipf_init(&zipf, trace->n_keys, s);
        for (uint32_t i = 0; i < trace->n; i++)
                trace->keys[i] = zipf_draw(&zipf);
        for (uint32_t i = 0; i < trace->n_keys; i++)
                trace->sizes[i] = size_of(i, is_wide);
        zipf_deinit(&zipf);
}

static int compare_paths(const Request *a, const Request *b) {
        int order = memcmp(a->path.bytes, b->path.bytes,
                           a->path.size < b->path.size ? a->path.size : b->path.size);

        return order ?: (a->path.size > b->path.size) - (a->path.size < b->path.size);
}

/* The largest page of a path first. */
static int compare_requests(const void *p, const void *q) {
        const Request *a = *(const Request *const *) p, *b = *(const Request *const *) q;

        return compare_paths(a, b) ?: (a->size < b->size) - (a->size > b->size);
}

/* Numbers the paths; a page's size is the largest that was sent of it, as answers may be empty. */
static void number_pages(Trace *trace, const Log *log, const Request **sorted, uint32_t *page_of) {
        for (size_t i = 0; i < log->n_requests; i++)
                sorted[i] = &log->requests[i];
        qsort(sorted, log->n_requests, sizeof(sorted[0]), compare_requests);
        for (size_t i = 0; i < log->n_requests; i++) {
                if (i == 0 || compare_paths(sorted[i - 1], sorted[i]) != 0)
                        trace->sizes[trace->n_keys++] =
                                (uint32_t) fmin(fmax((double) sorted[i]->size, SIZE_MIN), UINT32_MAX);
                page_of[sorted[i] - log->requests] = trace->n_keys - 1;
        }
}

static void make_log(Trace *trace, const char *path) {
        const Request **sorted;
        uint32_t *page_of, n = 0;
        size_t size;
        char *text;
        Log log;
        int r;

        if (path)
                r = log_read(&log, path);
        else
                r = traffic_make(LOG_SEED, trace->n, &text, &size) ?: log_parse(&log, text, size);
        if (r)
                bench_fail("%s: %s", path ?: "the log", strerror(-r));
        sorted = calloc(log.n_requests + 1, sizeof(sorted[0]));
        if (!sorted)
                bench_fail("out of memory");
        page_of = new_array(log.n_requests);
        trace->sizes = new_array(log.n_requests);
        number_pages(trace, &log, sorted, page_of);
        for (size_t i = 0; i < log.n_requests && n < trace->n; i++)
                if (trace->sizes[page_of[i]] <= STORE_VALUE_MAX)
                        trace->keys[n++] = page_of[i];
        trace->n = n;
        free(page_of);
        free(sorted);
        log_deinit(&log);
}

void trace_make(Trace *trace, const char *name, const char *path, uint32_t n) {
        *trace = (Trace){ .n = n, .keys = new_array(n) };
        if (strcmp(name, "log") == 0)
                make_log(trace, path);
        else if (strncmp(name, "zipf-", 5) == 0 || strncmp(name, "wide-", 5) == 0)
                make_zipf(trace, strtod(name + 5, NULL), name[0] == 'w');
        else
                bench_fail("no such trace: %s", name);
}

void trace_free(Trace *trace) {
        free(trace->keys);
        free(trace->sizes);
}
