#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "daemon/ctl/base/options.h"
#include "daemon/ctl/output/output.h"

#define EXIT_NO_COMMAND 127 /* exit code of a shell that finds no such program */

static char *output_text;
static size_t output_size;
static FILE *output_file;

FILE *output_stream(void) {
        if (!output_file)
                output_file = must(open_memstream(&output_text, &output_size));
        return output_file;
}

void output_json(json_object *value) {
        int flags = JSON_C_TO_STRING_NOSLASHESCAPE;

        flags |= isatty(STDOUT_FILENO) ? JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED
                                       : JSON_C_TO_STRING_PLAIN;
        (void) fprintf(output_stream(), "%s\n",
                       (const char *) must((void *) json_object_to_json_string_ext(value, flags)));
        (void) json_object_put(value);
}

void output_json_line(json_object *value) {
        int flags = JSON_C_TO_STRING_NOSLASHESCAPE | JSON_C_TO_STRING_PLAIN;

        (void) fprintf(output_stream(), "%s\n",
                       (const char *) must((void *) json_object_to_json_string_ext(value, flags)));
        (void) json_object_put(value);
}

bool output_is_long(const char *text, size_t size, unsigned rows) {
        size_t n_lines = 0;

        for (size_t i = 0; i < size; ++i)
                n_lines += text[i] == '\n';

        /* one row is left for the prompt */
        return rows > 1 && n_lines > rows - 1;
}

static const char *find_pager(void) {
        const char *pager = secure_getenv("PAGER");
        struct winsize size;

        if (!arg_pager || !isatty(STDOUT_FILENO) || !isatty(STDIN_FILENO))
                return NULL;
        if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0 ||
            !output_is_long(output_text, output_size, size.ws_row))
                return NULL;
        if (!pager)
                return "less";

        return pager[0] && strcmp(pager, "cat") ? pager : NULL;
}

/* False: there is no such program, and nothing was shown. */
static bool write_to_pager(const char *pager) {
        FILE *pipe_file;
        int status;

        (void) setenv("LESS", "FRSX", false);
        /* operators run this with sudo, and a pager must give them no root shell */
        (void) setenv("LESSSECURE", "1", true);

        /*
         * the pager handles both signals while it runs; popen() started it with interrupts as they
         * were
         */
        pipe_file = popen(pager, "we");
        if (!pipe_file)
                return false;
        (void) signal(SIGPIPE, SIG_IGN);
        (void) signal(SIGINT, SIG_IGN);

        (void) fwrite(output_text, 1, output_size, pipe_file);
        status = pclose(pipe_file);
        return !(WIFEXITED(status) && WEXITSTATUS(status) == EXIT_NO_COMMAND);
}

static CtlExit write_to_stdout(bool *ret_gone) {
        size_t done = 0;

        while (done < output_size) {
                ssize_t n = write(STDOUT_FILENO, output_text + done, output_size - done);

                if (n >= 0)
                        done += (size_t) n;
                else if (errno == EPIPE) {
                        *ret_gone = true;
                        return CTL_DONE;
                } else if (errno != EINTR)
                        return complain("cannot write the output: %s", strerror(errno));
        }
        return CTL_DONE;
}

CtlExit output_flush_part(bool *ret_gone) {
        CtlExit r;

        if (!output_file)
                return CTL_DONE;
        if (fclose(output_file) != 0)
                (void) must(NULL);
        r = write_to_stdout(ret_gone);
        free(output_text);
        output_text = NULL;
        output_file = NULL;
        return r;
}

CtlExit output_flush(void) {
        bool gone = false;
        const char *pager;
        CtlExit r = CTL_DONE;

        if (!output_file)
                return CTL_DONE;
        if (fclose(output_file) != 0)
                (void) must(NULL);

        pager = find_pager();
        if (!pager || !write_to_pager(pager))
                r = write_to_stdout(&gone);

        free(output_text);
        output_text = NULL;
        output_file = NULL;
        return r;
}
