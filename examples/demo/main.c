/*
 * tslab-demo: the sessions and the pages of a web server, in memory that its worker processes share.
 *
 *      main ---- starts ---- tslabd             server.c
 *        |  \--- forks ----- workers            crew.c, worker.c: where the library is used most
 *        |                     |
 *        |                   pool "demo":  map "sessions"   demo-session.c
 *        |                                 map "ledger"     ledger.c
 *        |                                 map "pages"      demo-pages.c
 *        \------ epochs ------/                             rotation.c
 *
 * The requests of an access log (demo-log.c, or made up by traffic.c) are cut into periods (timeline.c). All
 * workers serve a period together; then the parent opens the next epoch, and expires the sessions
 * that have been idle for too long.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "examples/demo/crew.h"
#include "examples/demo/interrupt.h"
#include "examples/demo/ledger.h"
#include "examples/demo/demo-options.h"
#include "examples/demo/demo-progress.h"
#include "examples/demo/demo-report.h"
#include "examples/demo/rotation.h"
#include "examples/demo/server.h"
#include "examples/demo/timeline.h"
#include "examples/demo/traffic.h"
#include "examples/demo/util.h"

#define EXIT_USAGE 2

typedef struct Demo {
        Options options;
        Log log;
        Timeline timeline;
        Server server;
        Crew crew;
        Rotation rotation;
        Progress progress;
        uint32_t period;
        Report report;
} Demo;

static int demo_fail(const Demo *demo, const char *what, int error) {
        progress_end(&demo->progress);
        if (error != -EINTR)
                (void) fprintf(stderr, "tslab-demo: %s: %s\n", what, strerror(-error));
        return error;
}

static int make_log(Demo *demo) {
        size_t size;
        char *text;
        int r;

        if (demo->options.log)
                return log_read(&demo->log, demo->options.log);
        r = traffic_make(demo->options.seed, demo->options.n_requests, &text, &size);
        return r ?: log_parse(&demo->log, text, size);
}

static int demo_prepare(Demo *demo) {
        int r;

        r = make_log(demo);
        if (r)
                return demo_fail(demo, demo->options.log ?: "making up traffic", r);
        r = timeline_init(&demo->timeline, &demo->log);
        if (r)
                return demo_fail(demo, "sorting the log", r);
        if (!demo->options.log)
                (void) fprintf(stderr, "traffic made up from seed %llu\n",
                               (unsigned long long) demo->options.seed);

        demo->report.source = demo->options.log;
        demo->report.seed = demo->options.seed;
        demo->report.n_lines = demo->log.n_lines;
        demo->report.n_malformed = demo->log.n_malformed;
        demo->report.n_cut = demo->log.n_cut;
        demo->report.n_expected = demo->timeline.n_requests;
        demo->report.n_periods = demo->timeline.n_periods;
        demo->report.period_seconds = demo->timeline.period_seconds;
        demo->report.n_workers = demo->options.n_workers;
        demo->report.pages_limit = (uint64_t) demo->options.cache_mib << 20;
        demo->report.timer_ns = report_measure_timer();
        return 0;
}

static int demo_start(Demo *demo) {
        int r;

        r = server_start(&demo->server, demo->options.keep);
        if (r)
                return r;
        r = crew_start(&demo->crew, &demo->timeline, demo->options.n_workers, demo->report.pages_limit);
        if (r)
                return demo_fail(demo, "starting workers", r);
        /* Not before the fork: each worker opens the pool by itself, as any other program would. */
        r = rotation_init(&demo->rotation, demo->report.pages_limit);
        if (r)
                return demo_fail(demo, "opening the pool", r);
        return 0;
}

static void on_tick(void *userdata) {
        Demo *demo = userdata;

        progress_tick(&demo->progress, demo->period, crew_taken(&demo->crew, demo->period));
}

static int demo_serve_period(Demo *demo) {
        WorkerOrder order = { .period = demo->period, .pages_epoch = demo->rotation.pages_epoch };
        uint64_t begin;
        int r;

        r = rotation_begin(&demo->rotation, &order.epoch);
        if (r)
                return demo_fail(demo, "beginning an epoch", r);
        begin = now_ns();
        r = crew_serve(&demo->crew, &order, on_tick, demo);
        if (r)
                return r == -ECHILD ? demo_fail(demo, "no worker is left", r) : r;
        demo->report.elapsed_ns += now_ns() - begin;

        r = server_memory(&demo->server, &demo->report.before);
        if (r)
                return r;
        if (demo->report.before.committed_size > demo->report.peak_size)
                demo->report.peak_size = demo->report.before.committed_size;
        progress_period(&demo->progress, demo->period, crew_taken(&demo->crew, demo->period),
                        demo->report.before.committed_size);
        return 0;
}

static int demo_serve(Demo *demo) {
        int r = 0;

        progress_init(&demo->progress, demo->timeline.n_periods, demo->timeline.n_requests);
        for (demo->period = 0; r == 0 && demo->period < demo->timeline.n_periods; ++demo->period)
                r = interrupted() ? -EINTR : demo_serve_period(demo);
        progress_end(&demo->progress);
        return r;
}

/* After the end of the log: the sessions that are left expire, and then the pool must be as good as new. */
static int demo_finish(Demo *demo) {
        Total total;
        int r;

        crew_sum(&demo->crew, &demo->report.stats);
        demo->report.n_died = demo->crew.n - demo->crew.n_alive;
        r = rotation_finish(&demo->rotation);
        if (r)
                return demo_fail(demo, "expiring sessions", r);
        demo->report.reclaimed_size = demo->rotation.reclaimed_size;
        r = ledger_sum(demo->rotation.ledger, &total, &demo->report.n_clients);
        if (r)
                return demo_fail(demo, "adding up the ledger", r);
        demo->report.n_booked = total.n_requests;
        demo->report.pages.size = sizeof(demo->report.pages);
        r = tslab_map_statistics(demo->rotation.pages, &demo->report.pages);
        if (r)
                return demo_fail(demo, "counting pages", r);
        r = server_memory(&demo->server, &demo->report.after);
        if (r)
                return r;
        demo->report.check = server_check(&demo->server);
        return 0;
}

/* Writes a file by `write`; NULL: none. */
static int demo_write(Demo *demo, const char *path, int (*write)(Demo *demo, FILE *f)) {
        FILE *f;
        int r;

        if (!path)
                return 0;
        f = fopen(path, "we");
        if (!f)
                return demo_fail(demo, path, -errno);
        r = write(demo, f);
        if (fclose(f) && r == 0)
                r = -errno;
        return r ? demo_fail(demo, path, r) : 0;
}

static int write_ledger(Demo *demo, FILE *f) {
        return ledger_dump(demo->rotation.ledger, f);
}

static int write_timeline(Demo *demo, FILE *f) {
        return timeline_write(&demo->timeline, f);
}

static int demo_run(Demo *demo) {
        int r;

        r = demo_prepare(demo);
        if (r)
                return r;
        interrupt_init();
        r = demo_write(demo, demo->options.timeline, write_timeline);
        r = r ?: demo_start(demo);
        r = r ?: demo_serve(demo);
        r = r ?: demo_finish(demo);
        r = r ?: demo_write(demo, demo->options.dump, write_ledger);
        if (r) {
                server_explain(&demo->server, r);
                return r;
        }
        (demo->options.json ? report_print_json : report_print_text)(&demo->report, stdout);
        return report_is_good(&demo->report) ? 0 : -EBADMSG;
}

static void clean_up(Demo *demo) {
        rotation_deinit(&demo->rotation);
        crew_stop(&demo->crew);
        server_stop(&demo->server);
        timeline_deinit(&demo->timeline);
        log_deinit(&demo->log);
}

int main(int argc, char **argv) {
        static Demo demo;
        int r;

        r = options_parse(&demo.options, argc, argv);
        if (r)
                return r == OPTIONS_E_DONE ? EXIT_SUCCESS : EXIT_USAGE;
        r = demo_run(&demo);
        clean_up(&demo);
        interrupt_raise();
        return r || fflush(stdout) ? EXIT_FAILURE : EXIT_SUCCESS;
}
