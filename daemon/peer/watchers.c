#include "daemon/peer/watchers.h"

#include "shm/arena/clock.h"

void watchers_send(Sessions *sessions, const EventInfo *info, const char *text) {
        ProtoReply reply = PROTO_REPLY_INIT;
        Tslab__WatchReply watch = TSLAB__WATCH_REPLY__INIT;
        Tslab__Event event = TSLAB__EVENT__INIT;

        event.usec = shm_now_usec();
        event.kind = (char *) info->kind;
        event.text = (char *) text;
        event.client = info->client;
        event.pid = info->pid;
        event.epoch = info->epoch;
        event.bytes = info->size;
        watch.event = &event;
        reply.more = true;
        reply.body_case = TSLAB__REPLY__BODY_WATCH;
        reply.watch = &watch;
        for (Session *session = sessions->first; session; session = session->next)
                if (session->watch_id != 0)
                        session_send(session, session->watch_id, &reply);
}
