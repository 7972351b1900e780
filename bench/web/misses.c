/*
 * The share of requests that miss in a store with a limit, where each that misses puts the value: tslab's map that
 * evicts, with limit_bytes, and servers whose command line has the limit. And the share that an exact SIEVE misses, for
 * the same limit and the same memory of each entry.
 *
 * Stores count differently against a limit: memcached leaves its hash table out, and
 * gives each of its size classes a megabyte whatever the limit is. So the result also has the growth of the store's
 * resident memory. memcached refuses some values of many pages: the next request for one misses again.
 *
 * tslab is also measured with PROCESSES processes, which take the requests by turns: when several evict at once, the
 * share must not be worse than with one.
 *
 * Arguments: TRACE MIB [PID [LOG]], with the server's process and an access log.
 */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/web/web-trace.h"
#include "bench/web/web.h"
#include "tests/util/sieve.h"

#define MISSES_REQUESTS 300000 /* as many as the demo makes up */
#define PROCESSES 4

/* Resident bytes that are of no file. */
static uint64_t process_resident(long pid) {
        uint64_t kib = 0, n;
        char path[64], line[256];
        FILE *f;

        (void) snprintf(path, sizeof(path), "/proc/%ld/status", pid);
        f = fopen(path, "re");
        if (!f)
                bench_fail("%s cannot be read", path);
        while (fgets(line, sizeof(line), f))
                if (sscanf(line, "RssAnon: %lu", &n) == 1 || sscanf(line, "RssShmem: %lu", &n) == 1)
                        kib += n;
        (void) fclose(f);
        return kib << 10;
}

static double percent_of(uint64_t part, uint64_t whole) {
        return 100.0 * (double) part / (double) whole;
}

static void report_exact(Web *web, const Trace *trace, uint64_t limit) {
        uint32_t *costs = calloc(trace->n_keys, sizeof(costs[0])), n_misses = 0;
        Sieve exact;

        sieve_init(&exact, trace->n_keys, limit);
        for (uint32_t i = 0; costs && i < trace->n; i++) {
                uint32_t key = trace->keys[i];
                StoreItem item = web_item(web, key, trace->sizes[key]);

                if (costs[key] == 0)
                        costs[key] = (uint32_t) web->store->cost(&item);
                n_misses += !sieve_use(&exact, key, costs[key]);
        }
        web_metric(web, percent_of(n_misses, trace->n), "exact_percent");
        sieve_deinit(&exact);
        free(costs);
}

/* In memory that all processes have in common. */
typedef struct Shared {
        _Atomic uint32_t next, n_misses; /* the request that nobody took */
} Shared;

static uint32_t misses_count(Web *web, const Trace *trace, Shared *shared) {
        uint32_t n = 0, i;

        while ((i = shared->next++) < trace->n) {
                uint32_t key = trace->keys[i];
                StoreItem item = web_item(web, key, trace->sizes[key]);

                if (web->store->find(&item)) {
                        if (memcmp(web->value, &key, sizeof(key)) != 0)
                                bench_fail("another key's value");
                        continue;
                }
                n++;
                memcpy(web->value, &key, sizeof(key));
                web->store->put(&item);
        }
        return n;
}

/* All requests, by so many processes. */
static uint32_t misses_beside(Web *web, const Trace *trace, uint32_t n_processes) {
        Shared *shared =
                mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        uint32_t n;

        if (shared == MAP_FAILED)
                bench_fail("no memory");
        for (uint32_t i = 1; i < n_processes; i++) {
                pid_t pid = fork();

                if (pid < 0)
                        bench_fail("fork failed");
                if (pid == 0) {
                        web->value = bench_reserve(STORE_VALUE_MAX); /* else all would write one buffer */
                        shared->n_misses += misses_count(web, trace, shared);
                        _exit(EXIT_SUCCESS);
                }
        }
        shared->n_misses += misses_count(web, trace, shared);
        for (uint32_t i = 1; i < n_processes; i++) {
                int status;

                if (wait(&status) < 0 || status != 0)
                        bench_fail("a process that put failed");
        }
        n = shared->n_misses;
        (void) munmap(shared, sizeof(*shared));
        return n;
}

/* The store begins empty. */
static void open_anew(const Web *web, const StoreOptions *options) {
        if (web->store->close)
                web->store->close();
        web->store->open(options);
}

void web_misses(Web *web) {
        char **arguments = web->arguments;
        StoreOptions options = { .socket = web->options.socket, .evicts = true, .may_refuse = true };
        uint64_t before;
        uint32_t n_misses;
        Trace trace;
        long pid;

        if (!web->store->find)
                return;
        if (!arguments[0] || !arguments[1])
                bench_fail("misses: TRACE MIB [PID [LOG]]");
        options.limit_bytes = strtoull(arguments[1], NULL, 10) << 20;
        pid = arguments[2] ? strtol(arguments[2], NULL, 10) : 0;
        trace_make(&trace, arguments[0], arguments[2] ? arguments[3] : NULL,
                   (uint32_t) (web->n_wanted ?: MISSES_REQUESTS));
        web_make_keys(web, "missing", trace.n_keys);
        if (web->store->cost)
                report_exact(web, &trace, options.limit_bytes);
        if (web->store->close)
                web->store->close();
        before = process_resident(pid ?: getpid());
        web->store->open(&options);
        n_misses = misses_beside(web, &trace, 1);
        web_metric(web, percent_of(n_misses, trace.n), "miss_percent");
        web_metric(web, ((double) process_resident(pid ?: getpid()) - (double) before) / (1 << 20),
                   "taken_mib");
        if (web->store->cost) {
                open_anew(web, &options);
                n_misses = misses_beside(web, &trace, PROCESSES);
                web_metric(web, percent_of(n_misses, trace.n), "miss_beside_percent");
        }
        trace_free(&trace);
}
