/*
 * The picture of the slabs. A large arena takes many slices, and none of them runs while the peer has parts of the
 * reply to read. Each session may have one picture at a time, which bounds the memory of the daemon.
 */
#include <errno.h>
#include <stdlib.h>

#include "daemon/request/request.h"
#include "daemon/request/slab-cells.h"

#define MAP_SLICE 4096U /* budget of a slice: see shm/slab/slab-walk.h */
#define UNREAD_USEC 2000U /* until the job checks again whether the peer has read */

struct MapJob {
        Requests *requests;
        MapJob *next;
        Call call;
        Task task;
        SlabCells cells;

        /* The part of the reply that is being made. */
        Tslab__SlabCell parts[PROTO_CELLS_MAX];
        Tslab__SlabCell *pointers[PROTO_CELLS_MAX];
        size_t n_parts;
};

typedef struct MapSums {
        Tslab__SlabSum sums[SHM_EPOCHS_MAX];
        Tslab__SlabSum *pointers[SHM_EPOCHS_MAX];
        size_t n;
} MapSums;

static void map_job_free(MapJob *job) {
        MapJob **at = &job->requests->maps;

        while (*at != job)
                at = &(*at)->next;
        *at = job->next;
        call_close(&job->call);
        task_deinit(&job->task);
        free(job);
}

void map_jobs_free(Requests *requests) {
        while (requests->maps)
                map_job_free(requests->maps);
}

static uint32_t index_of_largest(const uint32_t *numbers, uint32_t n) {
        uint32_t best = 0;

        for (uint32_t i = 1; i < n; i++)
                if (numbers[i] > numbers[best])
                        best = i;
        return best;
}

static void add_cell(MapJob *job) {
        const SlabCell *cell = &job->cells.cell;
        uint32_t epoch = index_of_largest(cell->epochs, SHM_EPOCHS_MAX);
        uint32_t class = index_of_largest(cell->classes, SHM_CLASSES_MAX);
        Tslab__SlabCell *part = &job->parts[job->n_parts];

        tslab__slab_cell__init(part);
        part->free = cell->places[SLAB_FREE];
        part->listed = cell->places[SLAB_PARTIAL];
        part->held = cell->places[SLAB_ACTIVE];
        part->full = cell->places[SLAB_FULL];
        part->draining = cell->places[SLAB_DRAINING];
        part->busy = cell->places[SLAB_BUSY];
        part->slots = cell->slots;
        part->taken = cell->taken;
        part->epoch_slabs = cell->epochs[epoch];
        part->epoch_id = part->epoch_slabs ? epoch : 0;
        part->class_slabs = cell->classes[class];
        part->class_bytes = part->class_slabs ? job->requests->pool->arena.classes[class].size : 0;
        job->pointers[job->n_parts++] = part;
}

static void add_sum(MapSums *sums, uint32_t key, const SlabSum *from) {
        Tslab__SlabSum *sum = &sums->sums[sums->n];

        if (from->slabs == 0)
                return;
        tslab__slab_sum__init(sum);
        sum->key = key;
        sum->slabs = from->slabs;
        sum->slots = from->slots;
        sum->taken = from->taken;
        sums->pointers[sums->n++] = sum;
}

static void send_cells(MapJob *job, bool more) {
        const ShmArena *arena = &job->requests->pool->arena;
        ProtoReply reply = PROTO_REPLY_INIT;
        Tslab__SlabMapReply map = TSLAB__SLAB_MAP_REPLY__INIT;
        MapSums epochs = {}, classes = {};

        for (uint32_t i = 0; !more && i < arena->n_epochs; i++)
                add_sum(&epochs, i, &job->cells.epochs[i]);
        for (uint32_t i = 0; !more && i < arena->n_classes; i++)
                add_sum(&classes, arena->classes[i].size, &job->cells.classes[i]);

        map.cells = job->pointers;
        map.n_cells = job->n_parts;
        map.n_slabs = arena->n_slabs;
        map.n_slabs_ever = job->cells.n_slabs;
        map.slabs_per_cell = job->cells.slabs_per_cell;
        map.epochs = epochs.pointers;
        map.n_epochs = epochs.n;
        map.classes = classes.pointers;
        map.n_classes = classes.n;
        reply.more = more;
        reply.body_case = TSLAB__REPLY__BODY_SLAB_MAP;
        reply.slab_map = &map;
        session_send(job->call.session, job->call.id, &reply);
        job->n_parts = 0;
}

static void count_cells(MapJob *job) {
        uint32_t budget = pool_slice(job->requests->pool, MAP_SLICE);

        while (job->n_parts < PROTO_CELLS_MAX &&
               slab_cells_step(&job->cells, &job->requests->pool->arena, &budget)) {
                add_cell(job);
                slab_cells_next(&job->cells);
        }
}

static uint64_t on_map_slice(void *userdata, uint64_t now) {
        MapJob *job = userdata;
        bool done;

        if (job->call.session && !outgoing_is_empty(&job->call.session->outgoing))
                return now + UNREAD_USEC;
        if (job->call.session)
                count_cells(job);
        done = !job->call.session || slab_cells_done(&job->cells);
        if (job->call.session && (done || job->n_parts == PROTO_CELLS_MAX))
                send_cells(job, !done);
        if (done)
                map_job_free(job);
        return 0;
}

static bool has_map(const Requests *requests, const Session *session) {
        for (const MapJob *job = requests->maps; job; job = job->next)
                if (job->call.session == session)
                        return true;
        return false;
}

void request_slab_map(RequestContext *context, const ProtoRequest *request) {
        Session *session = context->session;
        Requests *requests = context->requests;
        uint32_t n_cells = request->slab_map->cells;
        MapJob *job;

        if (has_map(requests, session)) {
                session_refuse(session, context->id, -EBUSY,
                               "the slabs are being counted for this connection");
                return;
        }
        job = calloc(1, sizeof(*job));
        if (!job) {
                request_refuse_memory(session, context->id);
                return;
        }
        task_init(&job->task, requests->pool->tasks, "map", on_map_slice, job);
        task_wake(&job->task);
        job->requests = requests;
        job->next = requests->maps;
        requests->maps = job;
        slab_cells_init(&job->cells, &requests->pool->arena, n_cells ?: PROTO_MAP_CELLS_MAX);
        call_open(&job->call, session, context->id);
}
