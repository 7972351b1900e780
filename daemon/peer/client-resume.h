#pragma once
/* Clients that an earlier daemon let in, and connections that take up a client again. */
#include "daemon/peer/client-watch.h"

/*
 * A process that an earlier daemon let in: 1, or 0 where it is gone, which then is its death. It has
 * no session till it connects. What cannot be told, for want of descriptors, is told later: it counts
 * as alive, and as one of manager->n_unwatched.
 */
int client_resume(Clients *clients, const ShmClientInfo *info);
/* Looks at those of this process, or 0, that are not watched; some may go. 0, or why it cannot be told. */
int client_resume_rewatch(Clients *clients, pid_t pid);
/*
 * The client with index `entry` - 1 has this session from now on, and 1 is returned. 0: the connection is
 * for a new client; -EUCLEAN: a writer names an entry that is not, or no longer, its own,
 * or `sender`, of the message, is not the process of the connection.
 */
int client_resume_session(ClientWatch **ret, Clients *clients, Session *session, uint32_t entry,
                          pid_t sender);
