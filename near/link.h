#pragma once
/*
 * A connection to a server, on an event loop: commands go out, and each reply comes to a callback, in order. The
 * protocol and its parser are hiredis'.
 */
#include <hiredis/hiredis.h>
#include <systemd/sd-event.h>

#include "near/stream.h"

typedef struct Link Link;

typedef struct LinkOps {
        void (*on_up)(void *userdata); /* connected and logged in */
        /* The reply is freed after the call. The callback may free the link. */
        void (*on_reply)(void *userdata, const redisReply *reply);
        /* The connection is no more. The callback is to free the link. */
        void (*on_gone)(void *userdata, const char *why);
} LinkOps;

typedef struct LinkLogin {
        const char *user, *password; /* NULL: none; a password without a user is the default user's */
        Tls *tls; /* NULL: none */
} LinkLogin;

/*
 * on_gone() is not called for a failure of this call; `ret_why` has NEAR_WHY_SIZE bytes. `login` is not copied.
 * -ETIMEDOUT: as lookup_begin() has it.
 */
int link_open(Link **ret, sd_event *event, const char *host, int port, const LinkLogin *login,
              const LinkOps *ops, void *userdata, char *ret_why);
Link *link_free(Link *link);

int link_send(Link *link, size_t n, const char *const *arguments);
