/*
 * Errors: exceptions of the classes, messages in the log of PHP.
 */
#include "php_tslab.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include <zend_exceptions.h>

#define LOG_MS 60000 /* between two messages about one map */
#define NAME_FORMAT "%.200s" /* a key may be of any length */

zend_class_entry *php_tslab_ce_exception;

uint64_t php_tslab_now_ms(void) {
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
        return (uint64_t) now.tv_sec * 1000 + (uint64_t) now.tv_nsec / 1000000;
}

static const char *explain(int error) {
        switch (-error) {
        case ENOSPC:
                return "the map is full: raise its limit, or let it evict";
        case ENOMEM:
                return "no memory is left, in the pool (see \"tslabctl status\") or in the system";
        case EMFILE:
                return "this process has no descriptor left: ulimit -n";
        case E2BIG:
                return "the key or the value is too large";
        case ESHUTDOWN:
                return "the current epoch is closed, and no daemon opens another";
        case ENOTCONN:
        case ENOENT:
        case ECONNREFUSED:
                return "no daemon answers: is tslabd running?";
        case EACCES:
        case EPERM:
                return "this user may not use the pool";
        case EUSERS:
        case EDQUOT:
                return "the pool has no room for another thread or process";
        case EBADF:
                return "the pool is closed";
        case EIDRM:
                return "the map is no more";
        case EUCLEAN:
                return "a stray write has damaged the entry, or the daemon has another arena";
        default:
                return strerror(-error);
        }
}

/* Throws Tslab\Exception, whose code is the errno. */
void php_tslab_throw(int error, const char *what, const char *name) {
        zend_throw_exception_ex(php_tslab_ce_exception, -error, "%s " NAME_FORMAT ": %s", what, name,
                                explain(error));
}

/* For calls that go on without the pool: a line in the log of PHP, at most one in a minute for each map. */
void php_tslab_log_seldom(uint64_t *next_ms, const char *what, const char *name, int error) {
        uint64_t now = php_tslab_now_ms();
        char *text;

        if (now < *next_ms)
                return;
        *next_ms = now + LOG_MS;
        spprintf(&text, 0, "tslab: %s " NAME_FORMAT ": %s", what, name, explain(error));
        php_log_err(text);
        efree(text);
}

/* Errors that are no trouble: the key is absent, or present, or has changed; -EBADMSG was told already. */
bool php_tslab_is_miss(int error) {
        return error == -ENOENT || error == -EEXIST || error == -EAGAIN || error == -EBADMSG;
}
