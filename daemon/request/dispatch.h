#pragma once
/* Takes each request to its handler, if the role of the session allows it. */
#include "daemon/request/request.h"

/* Makes the parts that the handlers own. The caller has filled in the other members. 0 or -ENOMEM. */
int requests_init(Requests *requests);
/* All sessions must be gone before. */
void requests_deinit(Requests *requests);

/* Takes the descriptors that it needs; answers, or refuses, now or later. */
void request_dispatch(Requests *requests, Session *session, const ProtoRequest *request, ProtoFds *fds,
                      const struct ucred *sender);
