#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "daemon/ctl/base/progress.h"
#include "daemon/ctl/base/style.h"

#define CLEAR_LINE "\r\033[K"

/* The signal handler reads these. */
static volatile sig_atomic_t progress_shown;
static const char *volatile progress_interrupted;

static void write_quietly(const char *text) {
        ssize_t n = write(STDERR_FILENO, text, strlen(text));

        (void) n;
}

/* Installed with SA_RESETHAND; the signal raised here is delivered on return. */
static void on_progress_interrupt(int number) {
        if (progress_shown)
                write_quietly(CLEAR_LINE);
        if (progress_interrupted) {
                write_quietly("tslabctl: interrupted; ");
                write_quietly(progress_interrupted);
                write_quietly("\n");
        }
        (void) raise(number);
}

static void handle_signal(int number, void (*handler)(int)) {
        struct sigaction action = { .sa_handler = handler, .sa_flags = (int) SA_RESETHAND }, old;

        /* nohup and shells, for background jobs, start us with the signal ignored, and want it so */
        if (sigaction(number, NULL, &old) == 0 && old.sa_handler != SIG_IGN)
                (void) sigaction(number, &action, NULL);
}

/* The text is cut to one row, because only one row can be cleared. */
static int n_columns(void) {
        struct winsize size;

        return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col - 1 : 79;
}

static void show_line(const char *text) {
        if (!style_progress())
                return;

        progress_shown = 1;
        (void) fprintf(stderr, CLEAR_LINE "%.*s", n_columns(), text);
        (void) fflush(stderr);
}

void progress_begin(const char *text, const char *when_interrupted) {
        progress_interrupted = when_interrupted;
        handle_signal(SIGINT, on_progress_interrupt);
        handle_signal(SIGTERM, on_progress_interrupt);
        show_line(text);
}

void progress_format(char *ret, size_t size, const Tslab__Progress *progress) {
        const char *text = progress->text && progress->text[0] ? progress->text : "working";
        double part;

        if (progress->total == 0) {
                (void) snprintf(ret, size, "%.100s", text);
                return;
        }

        part = progress->done < progress->total ? (double) progress->done / (double) progress->total : 1;
        (void) snprintf(ret, size, "%.100s %u%%", text, (unsigned) (part * 100));
}

static void show_progress(const Tslab__Progress *progress) {
        char line[128];

        progress_format(line, sizeof(line), progress);
        show_line(line);
}

void progress_show(const char *text, uint64_t done, uint64_t total) {
        Tslab__Progress progress = TSLAB__PROGRESS__INIT;

        progress.text = (char *) text;
        progress.done = done;
        progress.total = total;
        show_progress(&progress);
}

int progress_on_reply(void *userdata, const ProtoReply *reply) {
        if (reply->progress)
                show_progress(reply->progress);
        return 0;
}

void progress_clear(void) {
        if (!progress_shown)
                return;

        write_quietly(CLEAR_LINE);
        progress_shown = 0;
}

void progress_end(void) {
        progress_clear();
        progress_interrupted = NULL;
        handle_signal(SIGINT, SIG_DFL);
        handle_signal(SIGTERM, SIG_DFL);
}
