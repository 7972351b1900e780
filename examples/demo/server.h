#pragma once
/*
 * A daemon of the demo's own: tslabd of the same build, with a runtime directory that nobody else
 * knows. And tslabctl, to ask it.
 */
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define SERVER_POOL "demo"

typedef struct Server {
        char dir[80]; /* runtime directory; "": none yet */
        char bin[4096]; /* the folder of the build; "": programs in $PATH */
        pid_t pid; /* the daemon; 0: none */
        bool keep;
} Server;

/* Slabs, in bytes. */
typedef struct ServerMemory {
        uint64_t committed_size; /* memory that the system has given */
        uint64_t retained_size; /* the part of it that is free and kept for later allocations */
} ServerMemory;

/*
 * Starts the daemon, sets TSLAB_RUNTIME_DIR and TSLAB_POOL for this process and its children, so that
 * tslab_open() finds it, and waits until it answers. Prints a message on failure. Negative errno.
 */
int server_start(Server *ret, bool keep);
/* Stops the daemon and removes its directory, or says how to look at it where it is to be kept. */
void server_stop(Server *server);

/* After a failure: tells if the daemon is no more, which may be why. */
void server_explain(Server *server, int error);

/* By `tslabctl stats --json`. */
int server_memory(const Server *server, ServerMemory *ret);
/* `tslabctl check`: its exit code, 0 for a clean pool; negative errno if it could not be run. */
int server_check(const Server *server);
