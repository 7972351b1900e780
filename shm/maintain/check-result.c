/* See the header. */
#include "shm/maintain/check-result.h"

#include <stdarg.h>
#include <stdio.h>

void shm_check_problem(ShmCheck *check, const char *format, ...) {
        va_list args;

        check->problems++;
        if (check->n_texts == SHM_CHECK_PROBLEMS_MAX)
                return;
        va_start(args, format);
        vsnprintf(check->texts[check->n_texts++], sizeof(check->texts[0]), format, args);
        va_end(args);
}
