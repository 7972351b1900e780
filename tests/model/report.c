/* See report.h. */
#include "tests/model/report.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/model/explore.h"

static const char *(*name_of)(const void *address, char *text, size_t size);

void model_names(const char *(*name)(const void *address, char *text, size_t size)) {
        name_of = name;
}

const char *report_name(const void *address, char text[REPORT_NAME_MAX]) {
        snprintf(text, REPORT_NAME_MAX, "?");
        if (!address)
                snprintf(text, REPORT_NAME_MAX, "fence");
        else if (name_of)
                name_of(address, text, REPORT_NAME_MAX);
        return text;
}

static void print_step(const Step *s, const char *where) {
        char text[REPORT_NAME_MAX];

        (void) report_name(s->address, text);
        if (s->out) {
                printf("  actor %u           %-26s goes out\n", s->actor, text);
                return;
        }
        printf("  actor %u step %2u  %-26s %s", s->actor, s->number, text, where);
        if (s->changed)
                printf("  %lx:%lx -> %lx:%lx", (unsigned long) s->before[1], (unsigned long) s->before[0],
                       (unsigned long) s->after[1], (unsigned long) s->after[0]);
        printf("%s%s\n",
               s->late    ? "  (waits: others do not see it yet)"
               : s->stale ? "  (there is a later store)"
                          : "",
               s->died ? "  +++ dies here" : "");
}

/* Two lines a step: function; file and line. NULL, or less, where binutils are not there to tell. */
static FILE *open_callers(const Step *steps, size_t n_steps) {
        char program[256] = {}, command[384], name[] = "/tmp/model-callers.XXXXXX";
        int fd = mkstemp(name);
        Dl_info self;
        FILE *in, *out;

        if (fd < 0 || !dladdr(steps[0].caller, &self) ||
            readlink("/proc/self/exe", program, sizeof(program) - 1) < 0)
                return NULL;
        out = fdopen(fd, "r");
        unlink(name);
        snprintf(command, sizeof(command), "addr2line -fse '%s' >&%d 2>/dev/null", program, fd);
        fflush(stdout);
        in = popen(command, "w");
        for (size_t i = 0; in && i < n_steps; i++)
                fprintf(in, "%lx\n",
                        (unsigned long) ((const char *) steps[i].caller - (char *) self.dli_fbase) - 1);
        if (in)
                pclose(in);
        if (out)
                rewind(out);
        return out;
}

void report_steps(const Step *steps, size_t n_steps) {
        FILE *f = n_steps > 0 ? open_callers(steps, n_steps) : NULL;
        char function[80], line[80], where[168] = "";

        for (size_t i = 0; i < n_steps; i++) {
                if (f && fgets(function, sizeof(function), f) && fgets(line, sizeof(line), f)) {
                        function[strcspn(function, "\n")] = 0;
                        line[strcspn(line, " \n")] = 0;
                        snprintf(where, sizeof(where), "%-22s %s", function, line);
                }
                print_step(&steps[i], where);
        }
        if (f)
                fclose(f);
}
