#pragma once
/* Clients that an earlier daemon let in, and connections that take up such a client again. */
#include "daemon/peer/client-watch.h"

/*
 * Takes up a client that an earlier daemon let in; it has no session until its process connects. 1; 0: the process has
 * ended, and the client was ended, too. A client that cannot be watched, because descriptors run out, counts as alive
 * and is counted in clients->n_unwatched. The same holds for a client that /proc does not show and whose pidfd was not
 * kept, until its process connects. Takes `pidfd` if the entry has no pid; -1: none was kept.
 */
int client_resume(Clients *clients, const ShmClientInfo *info, int pidfd);
/* A process that attaches: its own words, and the daemon's knowledge. */
typedef struct Resumption {
        Identity *identity;
        uint64_t program; /* 0: not known */
        uint32_t entry; /* 0: none */
        pid_t sender; /* the process that sent the message */
} Resumption;

/* Tries again to watch the unwatched clients of this process; 0: of all. May free some. 0 or a negative errno. */
int client_resume_rewatch(Clients *clients, pid_t pid);
/*
 * 1: the client with index `entry` - 1 has this session from now on. 0: the connection is for a new client.
 * -EUCLEAN: a writer names an entry that is not, or no longer, its own, or `sender`, of the message, is not the
 * process of the connection. May take the pidfd of the identity.
 */
int client_resume_session(ClientWatch **ret, Clients *clients, Session *session, const Resumption *from);
