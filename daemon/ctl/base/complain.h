#pragma once

/*
 * How tslabctl ends, and what it says then: one line on stderr that tells what to do next.
 *
 *      if (n > MAX)
 *              return complain_usage("'%s' is too long; at most %d bytes", text, MAX);
 */

#include <stdarg.h>

typedef enum CtlExit {
        CTL_DONE = 0,
        CTL_FAILED = 1, /* or done, and something is unclean */
        CTL_USAGE = 2,
        CTL_REMAIN = 3, /* close --wait: objects remain */
} CtlExit;

/* Control characters, as in arguments, are shown as '?', so that it stays one line. */
__attribute__((format(printf, 1, 2))) CtlExit complain(const char *format, ...);
__attribute__((format(printf, 1, 2))) CtlExit complain_usage(const char *format, ...);

/* The text, which the caller frees; ends the program without memory. */
__attribute__((format(printf, 1, 0))) char *must_format(const char *format, va_list arguments);

/* `p`, which is what an allocation returned; ends the program if that is NULL. */
void *must(void *p);
