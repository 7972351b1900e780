#pragma once
/*
 * The process at the other end of a connection.
 *
 * A process that /proc shows is identified by its number and its start time. /proc shows no process of another pid
 * namespace that is not below the daemon's own, and with hidepid= none of another user. Such a process is identified by
 * its pidfd, which comes from the socket: see daemon/peer/kept.h for restarts of the daemon.
 *
 * Kernel facts: SO_PEERPIDFD (since 6.5) gives the pidfd of a process whatever its pid namespace. Since 6.9 the inode
 * number of a pidfd is the process's alone as long as the system runs.
 */
#include "daemon/peer/session.h"

typedef struct Identity {
        int pidfd;
        pid_t pid; /* 0: /proc does not show the process */
        uint32_t mark; /* the start time; with pid 0 a number of the pidfd, not 0 */
        bool is_lasting; /* any pidfd of the process gives the same mark */
} Identity;

#define IDENTITY_NONE ((Identity){ .pidfd = -1 })

/* -ESRCH: the process has ended; -EREMOTE: nothing would tell of its death; ... */
int identity_find(Identity *ret, const Session *session);
void identity_deinit(Identity *identity);
/* The mark of a pidfd; 0: the kernel is older than 6.9. */
uint32_t identity_mark_of(int pidfd);
