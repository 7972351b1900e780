#pragma once
/* Runs tslabctl on the pool of a daemon, and reads its output. */
#include <json-c/json.h>
#include <stdint.h>

#include "tests/util/daemon-fixture.h"

/* Exit status; *ret_reply, which may be NULL, is its parsed output, and the caller's to put. */
#define ctl_run(_daemon, _ret_reply, ...)                                                                    \
        ctl_run_argv((_daemon), (_ret_reply), (const char *[]){ __VA_ARGS__, NULL })
int ctl_run_argv(const DaemonFixture *daemon, json_object **ret_reply, const char *const *arguments);

/* A number by the names on the way to it; an index into an array is a name like "3". It must be there. */
#define ctl_number(_reply, ...) ctl_number_at((_reply), (const char *[]){ __VA_ARGS__, NULL })
uint64_t ctl_number_at(json_object *reply, const char *const *names);

/* A number of `tslabctl stats --json`. */
#define ctl_stat(_daemon, ...) ctl_stat_at((_daemon), (const char *[]){ __VA_ARGS__, NULL })
uint64_t ctl_stat_at(const DaemonFixture *daemon, const char *const *names);

/* Slabs that are committed, free and not, and the memfd's blocks, once they stay as they are. */
typedef struct CtlMemory {
        uint64_t committed, retained, blocks;
} CtlMemory;

CtlMemory ctl_memory(const DaemonFixture *daemon);
CtlMemory ctl_memory_settled(const DaemonFixture *daemon);

/* `tslabctl check` must say that all is well, with nothing in anybody's hands. */
void ctl_check(const DaemonFixture *daemon);
