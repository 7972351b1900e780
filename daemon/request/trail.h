#pragma once
/*
 * The trail in the journal: which process advanced, closed, revoked, trimmed or repaired. At notice, with fields.
 * Each user has some lines in ten seconds; if a user makes more requests than that, one line says so.
 */
#include "daemon/log.h"
#include "daemon/request/request.h"

#define TRAIL_CGROUP_SIZE 256

/* The process that sent a request. It may be gone when the request is carried out. */
typedef struct Trail {
        pid_t pid;
        uid_t uid;
        char comm[16];
        char cgroup[TRAIL_CGROUP_SIZE]; /* "": not known */
} Trail;

void trail_init(Trail *trail, const RequestContext *context);
/* `action` goes into the field TSLAB_ACTION; `epoch`: NULL or a number with its era; the text is what was done. */
void trail_log(const Trail *trail, const char *action, const uint32_t *epoch, const char *format, ...)
        __attribute__((format(printf, 4, 5)));
