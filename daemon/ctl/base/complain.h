#pragma once

/*
 * The exit codes of tslabctl, and its complaints: one line on stderr that names the next step.
 *
 *      if (n > MAX)
 *              return complain_usage("'%s' is too long; at most %d bytes", text, MAX);
 */

#include <stdarg.h>

typedef enum CtlExit {
        CTL_DONE = 0,
        CTL_FAILED = 1, /* or the verb was done and found trouble */
        CTL_USAGE = 2,
        CTL_REMAIN = 3, /* close --wait: objects remain */
} CtlExit;

/*
 * Control characters, which arguments may have, are shown as '?', so that the complaint stays one
 * line.
 */
__attribute__((format(printf, 1, 2))) CtlExit complain(const char *format, ...);
__attribute__((format(printf, 1, 2))) CtlExit complain_usage(const char *format, ...);

/* The text, which the caller frees; ends the program without memory. */
__attribute__((format(printf, 1, 0))) char *must_format(const char *format, va_list arguments);

/* A copy of `text` for people or JSON: see proto_text_clean(). The caller frees it. */
char *must_clean(const char *text);

/* Returns `p`, the result of an allocation; ends the program if it is NULL. */
void *must(void *p);
