#include "daemon/peer/turns.h"

#include <errno.h>
#include <stdlib.h>

#include "daemon/task.h"
#include "proto/deadline.h"

struct TurnUser {
        QueueLink link; /* in Turns.waiting, if is_queued */
        TurnUser *next;
        uid_t uid;
        unsigned n_sessions;
        bool is_queued;
        Turn *first, *last; /* sessions to be read from */
};

/* A user without sessions goes when its turn comes. */
static TurnUser *find_user(const Turns *turns, uid_t uid) {
        TurnUser *user = turns->users;

        while (user && user->uid != uid)
                user = user->next;
        return user;
}

static void user_free(Turns *turns, TurnUser *user) {
        TurnUser **link = &turns->users;

        while (*link != user)
                link = &(*link)->next;
        *link = user->next;
        free(user);
}

int turns_join(Turns *turns, Turn *turn, uid_t uid) {
        TurnUser *user = find_user(turns, uid);

        if (!user) {
                user = calloc(1, sizeof(*user));
                if (!user)
                        return -ENOMEM;
                user->uid = uid;
                user->next = turns->users;
                turns->users = user;
        }
        user->n_sessions++;
        turn->user = user;
        return 0;
}

void turns_leave(Turns *turns, Turn *turn) {
        TurnUser *user = turn->user;

        turns_cancel(turn);
        turn->user = NULL;
        if (--user->n_sessions == 0 && !user->is_queued)
                user_free(turns, user);
}

void turns_cancel(Turn *turn) {
        TurnUser *user = turn->user;

        if (!turn->waits)
                return;
        turn->waits = false;
        if (turn->next)
                turn->next->previous = turn->previous;
        else
                user->last = turn->previous;
        if (turn->previous)
                turn->previous->next = turn->next;
        else
                user->first = turn->next;
}

static void queue_user(Turns *turns, TurnUser *user) {
        if (user->is_queued)
                return;
        user->is_queued = true;
        queue_append(&turns->waiting, user);
}

void turns_wait(Turns *turns, Turn *turn) {
        TurnUser *user = turn->user;

        if (turn->waits)
                return;
        turn->waits = true;
        turn->next = NULL;
        turn->previous = user->last;
        if (user->last)
                user->last->next = turn;
        else
                user->first = turn;
        user->last = turn;
        queue_user(turns, user);
        (void) sd_event_source_set_enabled(turns->source, SD_EVENT_ONESHOT);
}

/* The first session of the user that has waited longest. NULL: that user has none any more. */
static Turn *take_session(Turns *turns) {
        TurnUser *user = queue_take(&turns->waiting);
        Turn *turn = user->first;

        user->is_queued = false;
        if (turn)
                turns_cancel(turn);
        if (user->first)
                queue_user(turns, user);
        else if (user->n_sessions == 0)
                user_free(turns, user);
        return turn;
}

/* Serves sessions for as long as a turn of the tasks may take. Then the loop looks for other events. */
static int on_turn(sd_event_source *source, void *userdata) {
        uint64_t end = proto_now_usec() + TASK_TURN_USEC;
        Turns *turns = userdata;

        while (queue_first(&turns->waiting)) {
                Turn *turn = take_session(turns);

                if (turn)
                        turns->serve(turn);
                if (proto_now_usec() >= end)
                        break;
        }
        return sd_event_source_set_enabled(source,
                                           queue_first(&turns->waiting) ? SD_EVENT_ONESHOT : SD_EVENT_OFF);
}

int turns_init(Turns *turns, sd_event *event, void (*serve)(Turn *turn)) {
        int r;

        *turns = (Turns){ .serve = serve };
        r = sd_event_add_defer(event, &turns->source, on_turn, turns);
        return r < 0 ? r : sd_event_source_set_enabled(turns->source, SD_EVENT_OFF);
}

void turns_deinit(Turns *turns) {
        while (queue_first(&turns->waiting))
                (void) take_session(turns);
        turns->source = sd_event_source_disable_unref(turns->source);
}
