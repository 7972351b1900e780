/* One allocator's program: runs one workload once and prints one JSON object. See bench/harness/allocator.h. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/harness/allocator.h"
#include "bench/harness/harness.h"
#include "bench/workloads/adversarial.h"
#include "bench/workloads/attach.h"
#include "bench/workloads/batch.h"
#include "bench/workloads/batch_calls.h"
#include "bench/workloads/churn.h"
#include "bench/workloads/close.h"
#include "bench/workloads/control.h"
#include "bench/workloads/fresh.h"
#include "bench/workloads/idle.h"
#include "bench/workloads/instructions.h"
#include "bench/workloads/misuse.h"
#include "bench/workloads/line.h"
#include "bench/workloads/mix.h"
#include "bench/workloads/pair.h"
#include "bench/workloads/refill.h"
#include "bench/workloads/remote.h"
#include "bench/workloads/repair.h"
#include "bench/workloads/requests.h"
#include "bench/workloads/rotation.h"
#include "bench/workloads/safety.h"
#include "bench/workloads/scaling.h"
#include "bench/workloads/sparse.h"
#include "bench/workloads/steady.h"
#include "bench/workloads/timeline.h"

#define NOT_APPLICABLE 77 /* exit code */

static const struct {
        const char *name;
        void (*function)(Bench *);
        const char *measures;
} workloads[] = {
        { "pair", workload_pair,
          "one object allocated, touched and freed, again and again: the best case of every cache" },
        { "batch", workload_batch, "1024 objects allocated, then freed: more than a cache holds" },
        { "batch_calls", workload_batch_calls, "calls for 16, 64 and 256 objects, beside calls for one" },
        { "churn", workload_churn, "latency of each operation at random places of 200,000" },
        { "churn_fixed", workload_churn_fixed, "latency of each operation while 100,000 objects live" },
        { "adversarial", workload_adversarial, "1,000,000 objects allocated, then freed: no cache can help" },
        { "fresh", workload_fresh, "allocations, and first writes, of memory that is new" },
        { "refill", workload_refill, "the cheapest refill of a cache" },
        { "remote", workload_remote, "objects allocated by one process and freed by another" },
        { "scaling", workload_scaling, "throughput of several threads together" },
        { "rotation", workload_rotation, "latency while another process advances and closes epochs" },
        { "steady", workload_steady, "growth of memory over 1000 cycles of churn" },
        { "sparse", workload_sparse, "memory that a twentieth of the objects keeps, after eight turnovers" },
        { "idle", workload_idle, "memory that the caches of 63 idle threads keep, after 10 s" },
        { "attach", workload_attach, "opening a pool, to the first object" },
        { "repair", workload_repair,
          "repair of a killed process's caches, and the longest allocation meanwhile" },
        { "instructions", workload_instructions, "instructions of a hit, for callgrind to count" },
        { "close", workload_close, "closing an epoch of 1 GiB, beside a hole punch of as many bytes" },
        { "control", workload_control, "calls to a daemon, with clients, threads and objects beside" },
        { "line", workload_line, "the time of a cache line from one processor to another" },
        { "mix", workload_mix, "memory for objects of mixed sizes" },
        { "requests", workload_requests, "requests with objects of their own, epochs closed or not" },
        { "timeline", workload_timeline, "memory over waves of objects, with and without epochs" },
        { "safety_kill", workload_safety_kill,
          "outcomes where one of two processes is killed at random moments" },
        { "safety_stop", workload_safety_stop, "outcomes where one of two processes is stopped" },
        { "misuse", workload_misuse, "outcomes of a double free, and of a free after reuse" },
};

enum {
        OPTION_SIZE = 256,
        OPTION_OPS,
        OPTION_MEMBERS,
        OPTION_LIVE,
        OPTION_SCALE,
        OPTION_CACHE,
        OPTION_POOL,
        OPTION_POLICY,
        OPTION_CLIENTS,
        OPTION_THREADS,
        OPTION_FILL,
        OPTION_RESTART,
        OPTION_LIST,
        OPTION_HELP,
};

static const struct option option_table[] = {
        { "size", required_argument, NULL, OPTION_SIZE },
        { "ops", required_argument, NULL, OPTION_OPS },
        { "members", required_argument, NULL, OPTION_MEMBERS },
        { "live", required_argument, NULL, OPTION_LIVE },
        { "scale", required_argument, NULL, OPTION_SCALE },
        { "cache", required_argument, NULL, OPTION_CACHE },
        { "pool", required_argument, NULL, OPTION_POOL },
        { "policy", required_argument, NULL, OPTION_POLICY },
        { "clients", required_argument, NULL, OPTION_CLIENTS },
        { "threads", required_argument, NULL, OPTION_THREADS },
        { "fill", required_argument, NULL, OPTION_FILL },
        { "restart", no_argument, NULL, OPTION_RESTART },
        { "list", no_argument, NULL, OPTION_LIST },
        { "help", no_argument, NULL, OPTION_HELP },
        {},
};

static void show_help(void) {
        printf("Usage: bench-" BENCH_NAME " [OPTION...] WORKLOAD\n\n"
               "Runs a workload once with this allocator and prints what it measured as JSON; ./dev bench runs\n"
               "them all. Exit code 77: this allocator cannot be asked that.\n\n"
               "  --size BYTES     of an object; 128\n"
               "  --ops N          operations; default: the workload's own number\n"
               "  --scale FACTOR   of that number\n"
               "  --members N      processes, or threads where memory is private to a process\n"
               "  --live N         objects that a churn keeps\n"
               "  --cache MODE     on, off or adaptive; tslab's handle caches\n"
               "  --pool NAME      use a daemon's pool\n"
               "  --policy POLICY  of requests, timeline: when epochs are closed\n"
               "  --clients N      of control: processes beside this one; 1\n"
               "  --threads N      of each of them; 1\n"
               "  --fill BYTES     of live objects; 0\n"
               "  --restart        time the first call to another daemon\n"
               "  --list           name the workloads, and say what they measure\n");
}

static void show_list(void) {
        for (size_t i = 0; i < sizeof(workloads) / sizeof(workloads[0]); i++)
                printf("%-14s %s\n", workloads[i].name, workloads[i].measures);
}

static double parse_number(const char *text, double least, double most) {
        char *end;
        double value = strtod(text, &end);

        if (end == text || *end || !(value >= least && value <= most)) {
                (void) fprintf(stderr, "bench-" BENCH_NAME ": not a number from %g to %g: %s\n", least, most,
                               text);
                exit(2);
        }
        return value;
}

static void set_option(Options *options, int c) {
        switch (c) {
        case OPTION_SIZE:
                options->size = (uint32_t) parse_number(optarg, 8, 4096);
                break;
        case OPTION_OPS:
                options->n_ops = (uint64_t) parse_number(optarg, 1, 1e12);
                break;
        case OPTION_MEMBERS:
                options->n_members = (uint32_t) parse_number(optarg, 1, GROUP_MEMBERS_MAX);
                break;
        case OPTION_LIVE:
                options->n_live = (uint64_t) parse_number(optarg, 1, 1e9);
                break;
        case OPTION_SCALE:
                options->scale = parse_number(optarg, 1e-6, 1e6);
                break;
        case OPTION_CACHE:
                options->cache = optarg;
                break;
        case OPTION_POOL:
                options->pool = optarg;
                break;
        case OPTION_POLICY:
                options->policy = optarg;
                break;
        case OPTION_CLIENTS:
                options->n_clients = (uint32_t) parse_number(optarg, 0, 10000);
                break;
        case OPTION_THREADS:
                options->n_threads = (uint32_t) parse_number(optarg, 1, 4095);
                break;
        case OPTION_FILL:
                options->fill = (uint64_t) parse_number(optarg, 0, 1e12);
                break;
        case OPTION_RESTART:
                options->restart = true;
                break;
        case OPTION_LIST:
                show_list();
                exit(0);
        case OPTION_HELP:
                show_help();
                exit(0);
        default:
                exit(2);
        }
}

static void parse_options(int argc, char **argv, Options *ret) {
        Options options = { .size = 128, .scale = 1, .n_clients = 1, .n_threads = 1 };
        int c;

        while ((c = getopt_long(argc, argv, "", option_table, NULL)) != -1)
                set_option(&options, c);
        if (optind != argc - 1) {
                (void) fprintf(stderr, "bench-" BENCH_NAME ": one workload, please; --list names them\n");
                exit(2);
        }
        options.workload = argv[optind];
        *ret = options;
}

static void run_workload(Bench *bench) {
        for (size_t i = 0; i < sizeof(workloads) / sizeof(workloads[0]); i++)
                if (strcmp(workloads[i].name, bench->options.workload) == 0) {
                        workloads[i].function(bench);
                        return;
                }
        (void) fprintf(stderr, "bench-" BENCH_NAME ": no such workload: %s\n", bench->options.workload);
        exit(2);
}

static void print_result(const Bench *bench) {
        json_object *result = json_object_new_object();

        json_object_object_add(result, "workload", json_object_new_string(bench->options.workload));
        json_object_object_add(result, "allocator", json_object_new_string(BENCH_NAME));
        if (bench->options.cache)
                json_object_object_add(result, "cache", json_object_new_string(bench->options.cache));
        json_object_object_add(result, "size", json_object_new_int64(bench->options.size));
        json_object_object_add(result, "members", json_object_new_int64(bench->n_members));
        json_object_object_add(result, "processes", json_object_new_boolean(bench->processes));
        json_object_object_add(result, "timer_ns",
                               json_object_new_double(bench->clock.cost_ticks * bench->clock.ns_per_tick));
        json_object_object_add(
                result, "timer_step_ns",
                json_object_new_double((double) bench->clock.step_ticks * bench->clock.ns_per_tick));
        json_object_object_add(result, "ns_per_tick", json_object_new_double(bench->clock.ns_per_tick));
        json_object_object_add(result, "alloc_symbol", json_object_new_string(BENCH_ALLOC_SYMBOL));
        json_object_object_add(result, "free_symbol", json_object_new_string(BENCH_FREE_SYMBOL));
        json_object_object_add(result, "metrics", json_object_get(bench->metrics));
        if (json_object_object_length(bench->series) > 0)
                json_object_object_add(result, "series", json_object_get(bench->series));
        printf("%s\n", json_object_to_json_string_ext(result, JSON_C_TO_STRING_PLAIN));
        json_object_put(result);
}

int main(int argc, char **argv) {
        Bench bench = { .processes = BENCH_SHARED };
        bool is_counted;

        parse_options(argc, argv, &bench.options);
        bench.metrics = json_object_new_object();
        bench.series = json_object_new_object();
        (void) group_n_cpus();
        is_counted = strcmp(bench.options.workload, "instructions") == 0;
        /* clock_init() waits by the clock, and would not take the same number of instructions each time. */
        if (!is_counted)
                clock_init(&bench.clock);

        run_workload(&bench);
        if (bench.not_applicable)
                return NOT_APPLICABLE;
        if (!is_counted)
                bench_report(&bench);
        print_result(&bench);
        json_object_put(bench.metrics);
        json_object_put(bench.series);
        return 0;
}
