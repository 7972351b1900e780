/*
 * top. Each look takes one stats request, and one for the list of clients if the view shows it. After
 * a daemon goes away the verb waits for the next: it may be restarting.
 */
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include "daemon/ctl/base/connect.h"
#include "daemon/ctl/base/format.h"
#include "daemon/ctl/base/options.h"
#include "daemon/ctl/base/terminal.h"
#include "daemon/ctl/output/output.h"
#include "daemon/ctl/top/top-json.h"
#include "daemon/ctl/top/screen.h"
#include "daemon/ctl/verb/verb.h"
#include "proto/deadline.h"

#define ANSWER_USEC UINT64_C(2000000) /* no key is served meanwhile */

typedef struct Top {
        Connection connection;
        TopState state;
        TopSample before, now;
        char trouble[160];
        uint32_t n_looks;
} Top;

static void top_deinit(Top *top) {
        connection_deinit(&top->connection);
        top_sample_deinit(&top->before);
        top_sample_deinit(&top->now);
}

static int reconnect_top(Top *top) {
        top->connection.hello = proto_reply_free(top->connection.hello);
        return connection_try_running(top->connection.path, ANSWER_USEC, &top->connection.call,
                                      &top->connection.hello);
}

static int take_sample(Top *top, TopSample *ret) {
        bool clients = top->state.view == TOP_CLIENTS || arg_json;
        int r = 0;

        if (!top->connection.call)
                r = reconnect_top(top);
        r = r ?: top_sample_take(ret, top->connection.call, clients, ANSWER_USEC);
        if (r)
                top->connection.call = proto_call_free(top->connection.call);
        return r;
}

/* Keeps the last numbers if no new ones come, and says why. */
static void update_sample(Top *top) {
        TopSample sample;
        int r = take_sample(top, &sample);

        if (r == PROTO_E_CLOSED) /* the stand-in may have hung up, since the main loop goes on */
                r = take_sample(top, &sample);
        if (r) {
                (void) snprintf(top->trouble, sizeof(top->trouble), "%s; trying again",
                                r == -ETIMEDOUT ? "the daemon does not answer" : "the daemon is gone");
                top->state.trouble = top->trouble;
                return;
        }
        top->state.trouble = NULL;
        top->n_looks++;
        top_sample_deinit(&top->before);
        top->before = top->now;
        top->now = sample;
        top_averages_add(&top->state.averages, &top->before, &top->now);
}

static bool is_over(const Top *top) {
        return arg_count > 0 && top->n_looks >= arg_count;
}

static void draw_screen(const Top *top) {
        unsigned columns, rows;
        TopLines lines;

        top_screen_size(&columns, &rows);
        top_view_make(&lines, &top->state, &top->before, &top->now, columns, rows, format_now_usec());
        top_screen_draw(&lines);
        top_lines_deinit(&lines);
}

/* Serves keys until the next look is due. False: the user ends the program. */
static bool serve_keys(Top *top, uint64_t deadline) {
        for (;;) {
                TopView view = top->state.view;
                int key;

                draw_screen(top);
                key = top_screen_key(proto_deadline_left(deadline));
                if (key == TOP_KEY_END)
                        return false;
                if (key == TOP_KEY_NONE)
                        return true;
                if (key != TOP_KEY_RESIZE && !top_state_key(&top->state, key))
                        return false;
                /* another view may have no numbers yet */
                if (top->state.view != view)
                        return true;
        }
}

static CtlExit run_screen(Top *top) {
        if (!top_screen_begin())
                return complain(
                        "the terminal '%s' is not known, or can't do this; 'tslabctl top --once' needs none",
                        getenv("TERM") ?: "");
        do
                update_sample(top);
        while (serve_keys(top, proto_deadline(arg_delay_msec * UINT64_C(1000))) && !is_over(top));
        top_screen_end();
        return CTL_DONE;
}

static void print_top_sample(const Top *top) {
        TopState state = top->state;
        FILE *out = output_stream();
        TopLines lines;

        if (arg_json) {
                output_json_line(top_json(&top->before, &top->now, &state.averages, format_now_usec()));
                return;
        }
        top_view_make(&lines, &state, &top->before, &top->now, terminal_size().columns, 0, format_now_usec());
        for (size_t i = 0; i < lines.n_lines; ++i)
                (void) fprintf(out, "%s\n", lines.lines[i]);
        if (arg_legend)
                (void) fputc('\n', out);
        top_lines_deinit(&lines);
}

/* The first look gives no line, but the first rates are counted from it. */
static CtlExit run_batch(Top *top) {
        uint32_t n = arg_once ? 1 : arg_count;

        update_sample(top);
        for (uint32_t i = 0; n == 0 || i < n; ++i) {
                bool gone = false;
                CtlExit r;

                (void) poll(NULL, 0, (int) arg_delay_msec);
                update_sample(top);
                if (top->state.trouble) {
                        if (n > 0)
                                return complain("%s", "the daemon is gone");
                        continue;
                }
                print_top_sample(top);
                r = output_flush_part(&gone);
                if (r || gone)
                        return r;
        }
        return CTL_DONE;
}

CtlExit verb_top(char **args, size_t n_args) {
        _cleanup_(top_deinit) Top top = {};
        bool screen = isatty(STDOUT_FILENO) && isatty(STDIN_FILENO) && !arg_once && !arg_json;
        char pool[64];
        CtlExit r;

        top_state_init(&top.state);
        top.state.bare = !screen && !arg_legend;
        r = connection_open(&top.connection);
        if (r)
                return r;

        connection_pool_name(pool, sizeof(pool), top.connection.path);
        top.state.pool = pool[0] ? pool : "pool";
        return screen ? run_screen(&top) : run_batch(&top);
}
