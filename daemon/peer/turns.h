#pragma once
/*
 * Which session is read from next. Users take turns, one request each, and so do the sessions of a user: a request
 * waits for one request of each other user, however many connections those have.
 */
#include <stdbool.h>
#include <sys/types.h>
#include <systemd/sd-event.h>

#include "daemon/queue.h"

typedef struct TurnUser TurnUser;

/* Embedded in each session. */
typedef struct Turn {
        TurnUser *user;
        struct Turn *previous, *next; /* the same user's */
        bool waits;
} Turn;

typedef struct Turns {
        Queue waiting; /* TurnUser: those with a session to be read from */
        TurnUser *users;
        sd_event_source *source;
        void (*serve)(Turn *turn);
} Turns;

/* `serve` reads one request. 0 or a negative errno. */
int turns_init(Turns *turns, sd_event *event, void (*serve)(Turn *turn));
void turns_deinit(Turns *turns);

/* Makes the session one of the user's. 0 or -ENOMEM. */
int turns_join(Turns *turns, Turn *turn, uid_t uid);
void turns_leave(Turns *turns, Turn *turn);
/* The session has a request. It is not watched until its turn. */
void turns_wait(Turns *turns, Turn *turn);
/* The session is not to be read from any more. */
void turns_cancel(Turn *turn);
