#include "daemon/events.h"

#include <stdarg.h>
#include <stdio.h>

#include "proto/text.h"
#include "shm/arena/clock.h"

static bool anyone_watches(const Manager *manager) {
        for (const Session *session = manager->sessions; session; session = session->next)
                if (session->watch_id != 0 && !session->dropped)
                        return true;
        return false;
}

void events_send(Manager *manager, const EventInfo *info, const char *format, ...) {
        char text[PROTO_TEXT_MAX + 1], clean[PROTO_TEXT_MAX + 1];
        ProtoReply reply = PROTO_REPLY_INIT;
        Tslab__WatchReply watch = TSLAB__WATCH_REPLY__INIT;
        Tslab__Event event = TSLAB__EVENT__INIT;
        va_list ap;

        if (!anyone_watches(manager))
                return;
        va_start(ap, format);
        (void) vsnprintf(text, sizeof(text), format, ap);
        va_end(ap);
        proto_text_clean(clean, sizeof(clean), text);

        event.usec = shm_now_usec();
        event.kind = (char *) info->kind;
        event.text = clean;
        event.client = info->client;
        event.pid = info->pid;
        event.epoch = info->epoch;
        event.bytes = info->size;
        watch.event = &event;
        reply.more = true;
        reply.body_case = TSLAB__REPLY__BODY_WATCH;
        reply.watch = &watch;
        for (Session *session = manager->sessions; session; session = session->next)
                if (session->watch_id != 0)
                        session_send(session, session->watch_id, &reply);
}
