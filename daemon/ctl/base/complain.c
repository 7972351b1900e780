#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/ctl/base/complain.h"
#include "daemon/ctl/base/progress.h"
#include "proto/text.h"

/* Room for the longest sentence of a daemon and for a path. */
#define LINE_SIZE 2048

static void print_complaint(const char *format, va_list arguments) {
        char line[LINE_SIZE], clean[LINE_SIZE];

        (void) vsnprintf(line, sizeof(line), format, arguments);
        proto_text_clean(clean, sizeof(clean), line);
        progress_clear();
        (void) fprintf(stderr, "tslabctl: %s\n", clean);
}

CtlExit complain(const char *format, ...) {
        va_list arguments;

        va_start(arguments, format);
        print_complaint(format, arguments);
        va_end(arguments);
        return CTL_FAILED;
}

CtlExit complain_usage(const char *format, ...) {
        va_list arguments;

        va_start(arguments, format);
        print_complaint(format, arguments);
        va_end(arguments);
        return CTL_USAGE;
}

char *must_format(const char *format, va_list arguments) {
        char *text = NULL;

        return must(vasprintf(&text, format, arguments) < 0 ? NULL : text);
}

char *must_clean(const char *text) {
        size_t size = strlen(text) + 1;
        char *clean = must(malloc(size));

        proto_text_clean(clean, size, text);
        return clean;
}

void *must(void *p) {
        if (!p)
                exit(complain("out of memory"));
        return p;
}
