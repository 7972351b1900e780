/*
 * The consequences of a close, for a question to the user before it is done: the objects that a revocation would free,
 * and the programs that depend on the epoch.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/request/epoch-info.h"
#include "daemon/request/request.h"
#include "proto/text.h"
#include "shm/arena/client.h"
#include "shm/epoch/epoch-close.h"
#include "shm/map/entry/map.h"

#define LOOK_SLICE 1024U /* slabs */

struct LookJob {
        Requests *requests;
        LookJob *next;
        Call call;
        Task task;
        uint32_t number; /* the epoch, with its era */
        bool revoke;
        ShmRevoking eras; /* that would be freed */
        EpochCount count;
};

static void look_job_free(LookJob *job) {
        LookJob **at = &job->requests->looks;

        while (*at != job)
                at = &(*at)->next;
        *at = job->next;
        call_close(&job->call);
        task_deinit(&job->task);
        free(job);
}

void close_looks_free(Requests *requests) {
        while (requests->looks)
                look_job_free(requests->looks);
}

static void fill_counts(const LookJob *job, Tslab__EpochCloseReply *close, Tslab__ClassCount *counts,
                        Tslab__ClassCount **pointers) {
        const EpochCount *count = &job->count;

        close->classes = pointers;
        close->n_classes = request_class_counts(&job->requests->pool->arena, count, counts, pointers);
        for (size_t i = 0; i < close->n_classes; i++)
                close->live_bytes += counts[i].live_objects * counts[i].size;
        close->live_objects = count->live_objects;
        close->oldest_era = count->oldest;
        close->newest_era = count->newest;
}

typedef struct LookTexts {
        char label[PROTO_LABEL_MAX + 1], comm[PROTO_COMM_MAX + 1];
} LookTexts;

static void fill_owner(const ShmArena *arena, uint32_t owner, Tslab__EpochCloseReply *close,
                       LookTexts *texts) {
        ShmClientInfo client;

        if (owner == 0 || shm_client_get(arena, owner - 1, &client))
                return;
        close->owner_pid = client.pid ?: -1;
        proto_text_clean(texts->comm, sizeof(texts->comm), client.comm);
        close->comm = texts->comm;
}

/* Lease, references and label are those of the newest era. To close it a second time stops nobody. */
static void fill_users(const LookJob *job, Tslab__EpochCloseReply *close, LookTexts *texts) {
        const ShmArena *arena = &job->requests->pool->arena;
        ShmEpochInfo info;
        uint64_t root;
        bool open;

        if (shm_epoch_get(arena, job->eras.id, &info))
                return;
        close->over = info.era != job->number >> 8;
        open = !close->over && info.state == SHM_EPOCH_OPEN;
        close->current = info.current && open;
        close->maps = (open || job->revoke) && shm_maps_epoch(arena, &root) == job->number;
        if (close->over)
                return;
        proto_text_clean(texts->label, sizeof(texts->label), info.label);
        close->label = texts->label;
        close->refs = shm_client_count_holders(arena, shm_epoch_number(info.id, info.era));
        if (open || job->revoke)
                fill_owner(arena, info.owner, close, texts);
}

static void answer_look(const LookJob *job) {
        Tslab__ClassCount counts[SHM_CLASSES_MAX], *pointers[SHM_CLASSES_MAX];
        ProtoReply reply = PROTO_REPLY_INIT;
        Tslab__EpochCloseReply close = TSLAB__EPOCH_CLOSE_REPLY__INIT;
        LookTexts texts;

        close.epoch = job->number;
        fill_counts(job, &close, counts, pointers);
        fill_users(job, &close, &texts);
        reply.body_case = TSLAB__REPLY__BODY_EPOCH_CLOSE;
        reply.epoch_close = &close;
        session_send(job->call.session, job->call.id, &reply);
}

static uint64_t on_look_slice(void *userdata, uint64_t now) {
        LookJob *job = userdata;
        const Pool *pool = job->requests->pool;

        if (job->call.session && job->revoke &&
            !epoch_count_step(&job->count, &pool->arena, pool_slice(pool, LOOK_SLICE)))
                return 0;
        if (job->call.session)
                answer_look(job);
        look_job_free(job);
        return TASK_IDLE;
}

void close_look_start(RequestContext *context, const Tslab__EpochClose *close) {
        Requests *requests = context->requests;
        const ShmArena *arena = &requests->pool->arena;
        LookJob *job = calloc(1, sizeof(*job));
        int r;

        if (!job) {
                request_refuse_memory(context->session, context->id);
                return;
        }
        r = shm_epoch_to_revoke(arena, close->epoch, close->older, &job->eras);
        if (r == 0 && !close->revoke && job->eras.older != 0)
                r = -ESTALE;
        if (r < 0) {
                request_refuse_epoch(requests, context->session, context->id, r, close->epoch);
                free(job);
                return;
        }
        job->number = close->epoch >> 8 ? close->epoch : shm_epoch_number(job->eras.id, job->eras.newest);
        job->revoke = close->revoke;
        job->count = (EpochCount){ .epoch = job->eras.id, .eras = &job->eras };
        job->requests = requests;
        job->next = requests->looks;
        requests->looks = job;
        task_init(&job->task, requests->pool->tasks, "look at a close", on_look_slice, job);
        task_wake(&job->task);
        call_open(&job->call, context->session, context->id);
}
