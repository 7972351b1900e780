#include "daemon/peer/outgoing.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "proto/message.h"
#include "proto/socket.h"

#define OVERHEAD 256U /* the cost of a message beside its bytes */

typedef struct OutgoingMessage {
        QueueLink link;
        ProtoFds fds;
        size_t size;
        uint8_t data[];
} OutgoingMessage;

/* PROTO_E_CLOSED is no error: the session sees the hang-up when it has read all that the peer sent before. */
static int error_of_send(int r) {
        return r == PROTO_E_OVERSIZED ? -EMSGSIZE : r < 0 ? r : 0;
}

static OutgoingMessage *message_new(const uint8_t *data, size_t size, const int *fds, size_t n_fds) {
        OutgoingMessage *message = malloc(sizeof(*message) + size);

        if (!message)
                return NULL;
        *message = (OutgoingMessage){ .fds = PROTO_FDS_INIT, .size = size };
        memcpy(message->data, data, size);
        for (size_t i = 0; i < n_fds; i++) {
                message->fds.fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 3);
                if (message->fds.fds[i] < 0) {
                        proto_fds_deinit(&message->fds);
                        free(message);
                        return NULL;
                }
                message->fds.n_fds++;
        }
        return message;
}

static int append_message(Outgoing *outgoing, const uint8_t *data, size_t size, const int *fds,
                          size_t n_fds) {
        OutgoingMessage *message;

        if (outgoing->size + size + OVERHEAD > OUTGOING_SIZE_MAX)
                return OUTGOING_E_FULL;
        message = message_new(data, size, fds, n_fds);
        if (!message)
                return -ENOMEM;
        queue_append(&outgoing->queue, message);
        outgoing->size += size + OVERHEAD;
        return 0;
}

int outgoing_send(Outgoing *outgoing, int fd, const uint8_t *data, size_t size, const int *fds,
                  size_t n_fds) {
        int r = PROTO_E_AGAIN;

        if (outgoing_is_empty(outgoing))
                r = proto_send(fd, data, size, fds, n_fds, NULL);
        return r == PROTO_E_AGAIN ? append_message(outgoing, data, size, fds, n_fds) : error_of_send(r);
}

static void remove_message(Outgoing *outgoing) {
        OutgoingMessage *message = queue_take(&outgoing->queue);

        outgoing->size -= message->size + OVERHEAD;
        proto_fds_deinit(&message->fds);
        free(message);
}

int outgoing_flush(Outgoing *outgoing, int fd) {
        const OutgoingMessage *message;
        int r = 0;

        while (r == 0 && (message = queue_first(&outgoing->queue))) {
                r = proto_send(fd, message->data, message->size, message->fds.fds, message->fds.n_fds, NULL);
                if (r == PROTO_E_AGAIN)
                        return 0;
                remove_message(outgoing);
                r = error_of_send(r);
        }
        return r;
}

void outgoing_clear(Outgoing *outgoing) {
        while (!outgoing_is_empty(outgoing))
                remove_message(outgoing);
}
