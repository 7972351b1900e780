#pragma once
/* Packed replies that wait until the peer of a session reads. Their size is bounded. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/queue.h"

#define OUTGOING_SIZE_MAX (256U * 1024U)
#define OUTGOING_E_FULL 1 /* the peer does not read, and the queue is full */

/* Zeros are an empty one. */
typedef struct Outgoing {
        Queue queue;
        size_t size;
} Outgoing;

/* Sends the message, or queues it. OUTGOING_E_FULL; negative errno: the connection is of no more use. */
int outgoing_send(Outgoing *outgoing, int fd, const uint8_t *data, size_t size, const int *fds, size_t n_fds);
/* Sends as many messages as the socket has room for. Negative errno: the connection is of no more use. */
int outgoing_flush(Outgoing *outgoing, int fd);
void outgoing_clear(Outgoing *outgoing);

static inline bool outgoing_is_empty(const Outgoing *outgoing) {
        return !outgoing->queue.first;
}
