#pragma once
/* A real tslabd in a runtime directory of its own, and clients of it that use proto and shm alone. */
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "proto/call.h"
#include "shm/cache/object.h"

#define DAEMON_TIMEOUT_USEC (60 * UINT64_C(1000000))

typedef struct DaemonFixture {
        char dir[64]; /* TSLAB_RUNTIME_DIR */
        char socket[96];
        pid_t pid; /* 0: stopped */
} DaemonFixture;

/* How many descriptors those have that are started from now on; 0: as many as we. */
extern unsigned daemon_descriptors;

/*
 * Starts tslabd with `arguments`, which NULL ends (and which may be NULL), and waits till it
 * answers. The pool is "default".
 */
void daemon_start(DaemonFixture *daemon, const char *const *arguments);
/* The same; its messages go to the file that is returned. */
int daemon_start_logged(DaemonFixture *daemon, const char *const *arguments);
/* SIGTERM; it must end well, and the socket be gone. */
void daemon_stop(DaemonFixture *daemon);
/* SIGKILL; its files stay. */
void daemon_kill(DaemonFixture *daemon);
/* SIGSTOP, from when this returns; SIGCONT. */
void daemon_hold(const DaemonFixture *daemon);
void daemon_release(const DaemonFixture *daemon);
/* Another one in the same directory, after daemon_kill(). */
void daemon_restart(DaemonFixture *daemon, const char *const *arguments);
int daemon_restart_logged(DaemonFixture *daemon, const char *const *arguments);
/* Whether it answers to a hello. */
bool daemon_answers(const DaemonFixture *daemon);

/* Runs tslabd in `dir` to its end: exit status, and its stderr in `ret_text`. */
int daemon_run(const char *dir, const char *const *arguments, const char *variable, char *ret_text,
               size_t size);

/* Connects and says hello. */
ProtoCall *daemon_connect(const DaemonFixture *daemon, uint32_t want_role);

/* Attaches, for the rights that this gives; the arena is not mapped. */
void daemon_attach(ProtoCall *call);

/* Sends the request, which must succeed. */
ProtoReply *daemon_call(ProtoCall *call, ProtoRequest *request, ProtoFds *ret_fds);

/* Common requests; all must succeed. */
ProtoReply *daemon_stats(ProtoCall *call);
ProtoReply *daemon_close(ProtoCall *call, uint32_t epoch);
uint32_t daemon_advance(ProtoCall *call);
uint64_t daemon_trim(ProtoCall *call);
uint32_t daemon_n_clients(ProtoCall *call);

/* Runs `child` in a process of its own; it must return 0, and an assertion that fails ends it. */
void daemon_child(int (*child)(const DaemonFixture *daemon, uint64_t argument), const DaemonFixture *daemon,
                  uint64_t argument);

/* A process that has attached. */
typedef struct RawClient {
        ProtoCall *call;
        ShmArena arena;
        ShmActor actor; /* only for writers */
        uint32_t client;
} RawClient;

void raw_client_open(RawClient *client, const DaemonFixture *daemon, uint32_t want_role);
/* Gives the record back, then hangs up. */
void raw_client_close(RawClient *client);
/* Attaches over `call`; `entry` is as in the message. */
void raw_client_attach(RawClient *client, ProtoCall *call, uint32_t role, uint32_t entry);

/* A daemon and an operator's process, for setup() and teardown() of a test; and room for handles. */
typedef struct RawPool {
        DaemonFixture daemon;
        RawClient client;
        uint64_t *handles;
} RawPool;

RawPool *raw_pool_open(const char *const *arguments, size_t n_handles);
int raw_pool_teardown(void **state);

/* Until the condition holds; a minute at most. */
#define WAIT_FOR(_condition)                                                                                 \
        do {                                                                                                 \
                uint64_t _deadline = proto_deadline(DAEMON_TIMEOUT_USEC);                                    \
                while (!(_condition)) {                                                                      \
                        assert_true(proto_deadline_left(_deadline) > 0);                                     \
                        usleep(2000);                                                                        \
                }                                                                                            \
        } while (0)
