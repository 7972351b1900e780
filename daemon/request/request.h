#pragma once
/* What a session asks for. One request-*.c each for those that belong together. */
#include "daemon/peer/session.h"

/* Takes what it needs of `fds`; answers, or refuses, now or later. */
void request_handle(Session *session, const ProtoRequest *request, ProtoFds *fds, const struct ucred *sender);

/* The handlers; the role was checked before. */
typedef struct RequestContext {
        Session *session;
        uint64_t id;
        ProtoFds *fds;
        const struct ucred *sender;
} RequestContext;

/* A descriptor that cannot write, and be reopened for writing by nobody but this user; or a negative errno. */
int request_reopen_for_reading(int memfd);

void request_hello(RequestContext *context, const ProtoRequest *request);
void request_attach(RequestContext *context, const ProtoRequest *request);
void request_fork_attach(RequestContext *context, const ProtoRequest *request);
void request_epoch_list(RequestContext *context, const ProtoRequest *request);
void request_epoch_advance(RequestContext *context, const ProtoRequest *request);
void request_epoch_close(RequestContext *context, const ProtoRequest *request);
/* Why what was asked of an epoch was not done. */
void request_refuse_epoch(Session *session, uint64_t id, int error, uint32_t number);
void request_epoch_reserve(RequestContext *context, const ProtoRequest *request);
void request_epoch_label(RequestContext *context, const ProtoRequest *request);
void request_stats(RequestContext *context, const ProtoRequest *request);
void request_clients(RequestContext *context, const ProtoRequest *request);
void request_trim(RequestContext *context, const ProtoRequest *request);
void request_check(RequestContext *context, const ProtoRequest *request);
void request_roots(RequestContext *context, const ProtoRequest *request);
void request_samples(RequestContext *context, const ProtoRequest *request);
void request_watch(RequestContext *context, const ProtoRequest *request);
void request_slab_map(RequestContext *context, const ProtoRequest *request);
/* Those that are under way when the daemon ends. */
void map_jobs_free(Manager *manager);
