#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "daemon/ctl/base/terminal.h"

#define SIZE_MAX_SANE 4096U

static unsigned from_variable(const char *name, unsigned otherwise) {
        const char *text = getenv(name);
        unsigned long n = text ? strtoul(text, NULL, 10) : 0;

        return n > 0 && n <= SIZE_MAX_SANE ? (unsigned) n : otherwise;
}

TerminalSize terminal_size(void) {
        struct winsize size = {};

        if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0)
                return (TerminalSize){ .columns = size.ws_col, .rows = size.ws_row };

        return (TerminalSize){ .columns = from_variable("COLUMNS", 80), .rows = from_variable("LINES", 24) };
}

unsigned terminal_table_width(void) {
        return isatty(STDOUT_FILENO) ? terminal_size().columns : 0;
}

bool terminal_is_utf8(void) {
        return setlocale(LC_CTYPE, "") && !strcmp(nl_langinfo(CODESET), "UTF-8");
}

bool terminal_answers_yes(void) {
        char line[16];

        (void) fflush(stderr);
        return fgets(line, sizeof(line), stdin) && (!strcasecmp(line, "y\n") || !strcasecmp(line, "yes\n"));
}
