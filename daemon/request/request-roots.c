#include "daemon/request/request.h"
#include "proto/text.h"
#include "shm/cache/object.h"
#include "shm/arena/root.h"

static size_t fill_roots(const ShmArena *arena, Tslab__RootInfo *infos, Tslab__RootInfo **pointers,
                         char (*names)[SHM_ROOT_NAME_SIZE]) {
        size_t n = 0;

        for (uint32_t i = 0; shm_root_was_used(arena, i); i++) {
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
        roots.n_roots = fill_roots(&context->requests->pool->arena, infos, pointers, names);
        reply.body_case = TSLAB__REPLY__BODY_ROOTS;
        reply.roots = &roots;
        session_send(context->session, context->id, &reply);
}
