#include "daemon/request/trail.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "daemon/message-id.h"
#include "proto/cleanup.h"
#include "proto/deadline.h"
#include "proto/text.h"

#define TRAIL_LINES 20U
#define TRAIL_WINDOW_USEC (10 * PROTO_USEC_PER_SEC)
#define TRAIL_USERS 16U
#define PROC_TEXT_SIZE 1024

/* A user has a budget alone, so that nobody hides the request of another user behind many of their own. */
typedef struct TrailBudget {
        uid_t uid;
        uint64_t since_usec;
        unsigned n_lines;
} TrailBudget;

static void read_proc(pid_t pid, const char *name, char ret[PROC_TEXT_SIZE]) {
        _cleanup_(proto_closep) int fd = -1;
        char path[48];
        ssize_t n;

        (void) snprintf(path, sizeof(path), "/proc/%d/%s", (int) pid, name);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        n = fd < 0 ? -1 : read(fd, ret, PROC_TEXT_SIZE - 1);
        ret[n > 0 ? n : 0] = 0;
}

static void copy_line(char *ret, size_t size, char *text) {
        text[strcspn(text, "\n")] = 0;
        proto_text_clean(ret, size, text);
}

/* The line of cgroup2 begins with "0::"; lines of cgroup1 come before it. */
static void find_cgroup(Trail *trail) {
        char text[PROC_TEXT_SIZE], *line;

        read_proc(trail->pid, "cgroup", text);
        line = !strncmp(text, "0::", 3) ? text : strstr(text, "\n0::");
        if (line)
                copy_line(trail->cgroup, sizeof(trail->cgroup), strchr(line, '/') ?: line);
}

void trail_init(Trail *trail, const RequestContext *context) {
        const struct ucred *sender =
                context->sender && context->sender->pid > 0 ? context->sender : &context->session->peer;
        char text[PROC_TEXT_SIZE];

        *trail = (Trail){ .pid = sender->pid, .uid = sender->uid };
        read_proc(trail->pid, "comm", text);
        copy_line(trail->comm, sizeof(trail->comm), *text ? text : context->session->comm);
        find_cgroup(trail);
}

/* A user that is new takes the place of the user whose window is the oldest. */
static TrailBudget *find_budget(uid_t uid, uint64_t now) {
        static TrailBudget budgets[TRAIL_USERS];
        TrailBudget *oldest = &budgets[0];

        for (size_t i = 0; i < TRAIL_USERS; i++) {
                if (budgets[i].since_usec != 0 && budgets[i].uid == uid) {
                        oldest = &budgets[i];
                        break;
                }
                if (budgets[i].since_usec < oldest->since_usec)
                        oldest = &budgets[i];
        }
        if (oldest->uid != uid || now - oldest->since_usec >= TRAIL_WINDOW_USEC)
                *oldest = (TrailBudget){ .uid = uid, .since_usec = now };
        return oldest;
}

static bool take_line(const Trail *trail) {
        TrailBudget *budget = find_budget(trail->uid, proto_now_usec());

        if (++budget->n_lines == TRAIL_LINES + 1)
                log_line(
                        LOG_NOTICE,
                        "user %u advances, closes, trims or repairs often: further requests of theirs are left "
                        "out of the log for some seconds",
                        (unsigned) trail->uid);
        return budget->n_lines <= TRAIL_LINES;
}

void trail_log(const Trail *trail, const char *action, const uint32_t *epoch, const char *format, ...) {
        LogFields fields = { .message = MESSAGE_TRAIL,
                             .pid = trail->pid,
                             .uid = &trail->uid,
                             .comm = trail->comm,
                             .cgroup = trail->cgroup,
                             .action = action,
                             .epoch = epoch };
        char text[160];
        va_list arguments;

        if (!take_line(trail))
                return;
        va_start(arguments, format);
        (void) vsnprintf(text, sizeof(text), format, arguments);
        va_end(arguments);
        log_fields(LOG_NOTICE, fields, "%s (%s) of user %u %s%s%s", log_process(trail->pid).text, trail->comm,
                   (unsigned) trail->uid, text, *trail->cgroup ? ", from cgroup " : "", trail->cgroup);
}
