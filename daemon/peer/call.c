#include "daemon/peer/session.h"

void call_open(Call *call, Session *session, uint64_t id) {
        *call = (Call){ .session = session, .id = id, .next = session->calls };
        if (call->next)
                call->next->previous = call;
        session->calls = call;
        session->n_calls++;
}

void call_close(Call *call) {
        Session *session = call->session;

        if (!session)
                return;
        if (call->next)
                call->next->previous = call->previous;
        if (call->previous)
                call->previous->next = call->next;
        else
                session->calls = call->next;
        session->n_calls--;
        *call = (Call){};
        session_update(session);
}
