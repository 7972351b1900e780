/*
 * Run while building: copies the source of tslabctl(1) from stdin to stdout and puts the lists of
 * numbers in the place of the lines "@pool numbers@" and so on.
 */

#include <stdlib.h>
#include <string.h>

#include "daemon/ctl/base/numbers.h"

static const char *const list_lines[_NUMBER_SCOPE_N] = {
        [NUMBER_OF_POOL] = "@pool numbers@\n",   [NUMBER_OF_COUNTERS] = "@counters@\n",
        [NUMBER_OF_EPOCH] = "@epoch numbers@\n", [NUMBER_OF_CLASS] = "@class numbers@\n",
        [NUMBER_OF_MAP] = "@map numbers@\n",
};

static bool print_list(const char *line) {
        for (NumberScope scope = 0; scope < _NUMBER_SCOPE_N; ++scope)
                if (!strcmp(line, list_lines[scope])) {
                        numbers_print_manual(stdout, scope);
                        return true;
                }
        return false;
}

int main(void) {
        size_t n_lists = 0, size = 0;
        char *line = NULL;

        while (getline(&line, &size, stdin) >= 0)
                if (print_list(line))
                        n_lists++;
                else
                        (void) fputs(line, stdout);
        free(line);
        return n_lists == _NUMBER_SCOPE_N && !ferror(stdin) && fflush(stdout) == 0 ? EXIT_SUCCESS
                                                                                   : EXIT_FAILURE;
}
