/* Trim, check, roots, watch. */
#include <errno.h>
#include <stdlib.h>

#include "daemon/log.h"
#include "daemon/message-id.h"
#include "daemon/request.h"
#include "daemon/trimmer.h"
#include "proto/text.h"
#include "shm/check.h"
#include "shm/object.h"
#include "shm/root.h"

void request_trim(RequestContext *context, const ProtoRequest *request) {
        Session *session = context->session;

        if (trimmer_start(session->manager->trimmer, session, context->id) < 0)
                session_refuse(session, context->id, -ENOMEM, "tslabd is out of memory");
}

typedef struct CheckParts {
        ShmCheck check;
        char texts[SHM_CHECK_PROBLEMS_MAX][PROTO_TEXT_MAX + 1];
        char *pointers[SHM_CHECK_PROBLEMS_MAX];
} CheckParts;

static void answer_check(RequestContext *context, CheckParts *parts) {
        const ShmCheck *c = &parts->check;
        ProtoReply reply = PROTO_REPLY_INIT;
        Tslab__CheckReply check = TSLAB__CHECK_REPLY__INIT;

        for (size_t i = 0; i < c->n_texts; i++) {
                proto_text_clean(parts->texts[i], sizeof(parts->texts[i]), c->texts[i]);
                parts->pointers[i] = parts->texts[i];
        }
        check.ok = c->problems == 0;
        check.lost_slots = c->lost_slots;
        check.doubled_slots = c->doubled_slots;
        check.unsettled_slots = c->unsettled_slots;
        check.wrong_hints = c->wrong_hints;
        check.repaired = c->repaired;
        check.slabs = c->slabs;
        check.slots = c->slots;
        check.problems = parts->pointers;
        check.n_problems = c->n_texts;
        reply.body_case = TSLAB__REPLY__BODY_CHECK;
        reply.check = &check;
        session_send(context->session, context->id, &reply);
}

void request_check(RequestContext *context, const ProtoRequest *request) {
        Session *session = context->session;
        _cleanup_(proto_freep) CheckParts *parts = NULL;

        int r = -ENOMEM;

        parts = calloc(1, sizeof(*parts));
        if (parts && request->check->repair)
                r = shm_check_repair(&session->manager->control, &parts->check);
        else if (parts)
                r = shm_check(&session->manager->arena, &parts->check);
        if (r < 0) {
                session_refuse(session, context->id, -ENOMEM, "tslabd is out of memory");
                return;
        }
        if (parts->check.problems != 0)
                log_fields(LOG_ERR, (LogFields){ .message = MESSAGE_CORRUPTION },
                           "a check found %llu lost and %llu doubled slots, %llu wrong hints; first: %s",
                           (unsigned long long) parts->check.lost_slots,
                           (unsigned long long) parts->check.doubled_slots,
                           (unsigned long long) parts->check.wrong_hints,
                           parts->check.n_texts > 0 ? parts->check.texts[0] : "-");
        answer_check(context, parts);
}

static size_t fill_roots(const ShmArena *arena, Tslab__RootInfo *infos, Tslab__RootInfo **pointers,
                         char (*names)[SHM_ROOT_NAME_SIZE]) {
        size_t n = 0;

        for (uint32_t i = 0; i < SHM_ROOTS_MAX; i++) {
                char name[SHM_ROOT_NAME_SIZE];
                uint64_t handle;
                size_t size;
                void *object;

                if (shm_root_at(arena, i, name, &handle))
                        continue;
                tslab__root_info__init(&infos[n]);
                proto_text_clean(names[n], sizeof(names[n]), name);
                infos[n].name = names[n];
                infos[n].handle = handle;
                infos[n].stale = shm_object_get(arena, handle, &object, &size) != 0;
                infos[n].size = infos[n].stale ? 0 : (uint32_t) size;
                pointers[n] = &infos[n];
                n++;
        }
        return n;
}

void request_roots(RequestContext *context, const ProtoRequest *request) {
        Tslab__RootInfo infos[SHM_ROOTS_MAX], *pointers[SHM_ROOTS_MAX];
        char names[SHM_ROOTS_MAX][SHM_ROOT_NAME_SIZE];
        ProtoReply reply = PROTO_REPLY_INIT;
        Tslab__RootsReply roots = TSLAB__ROOTS_REPLY__INIT;

        roots.roots = pointers;
        roots.n_roots = fill_roots(&context->session->manager->arena, infos, pointers, names);
        reply.body_case = TSLAB__REPLY__BODY_ROOTS;
        reply.roots = &roots;
        session_send(context->session, context->id, &reply);
}

/* Events follow from here on; the peer ends it by hanging up. */
void request_watch(RequestContext *context, const ProtoRequest *request) {
        context->session->watch_id = context->id;
}
