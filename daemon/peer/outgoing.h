#pragma once
/* What waits until the peer of a session reads. */
#include "daemon/peer/session.h"

/* Sends, or queues, a packed reply. Drops a session that lets too much pile up. */
void outgoing_send(Session *session, const uint8_t *data, size_t size, const int *fds, size_t n_fds);
/* As much as there is room for. */
void outgoing_flush(Session *session);
void outgoing_clear(Session *session);
