/*
 * The map of the slabs. A large arena takes a while: many steps, and none while the peer has parts of
 * the answer to read. One at a time for each session bounds what is held.
 */
#include <errno.h>
#include <stdlib.h>

#include "daemon/request/request.h"
#include "daemon/request/slab-cells.h"
#include "daemon/task.h"

#define BUDGET 4096U /* of a step: see shm/slab/slab-walk.h */
#define UNREAD_USEC 2000U /* until it is looked again whether the peer has read */

struct MapJob {
        Manager *manager;
        MapJob *next;
        Call call;
        Task task;
        SlabCells cells;

        /* The part of the answer in the making. */
        Tslab__SlabCell parts[PROTO_CELLS_MAX];
        Tslab__SlabCell *pointers[PROTO_CELLS_MAX];
        size_t n_parts;
};

typedef struct MapSums {
        Tslab__SlabSum sums[SHM_EPOCHS_MAX];
        Tslab__SlabSum *pointers[SHM_EPOCHS_MAX];
        size_t n;
} MapSums;

static void job_free(MapJob *job) {
        MapJob **at = &job->manager->maps;

        while (*at != job)
                at = &(*at)->next;
        *at = job->next;
        call_close(&job->call);
        task_deinit(&job->task);
        free(job);
}

void map_jobs_free(Manager *manager) {
        while (manager->maps)
                job_free(manager->maps);
}

static uint32_t largest(const uint32_t *numbers, uint32_t n) {
        uint32_t best = 0;

        for (uint32_t i = 1; i < n; i++)
                if (numbers[i] > numbers[best])
                        best = i;
        return best;
}

static void add_part(MapJob *job) {
        const SlabCell *cell = &job->cells.cell;
        uint32_t epoch = largest(cell->epochs, SHM_EPOCHS_MAX);
        uint32_t class = largest(cell->classes, SHM_CLASSES_MAX);
        Tslab__SlabCell *part = &job->parts[job->n_parts];

        tslab__slab_cell__init(part);
        part->free = cell->places[SLAB_FREE];
        part->listed = cell->places[SLAB_LISTED];
        part->held = cell->places[SLAB_HELD];
        part->full = cell->places[SLAB_FULL];
        part->draining = cell->places[SLAB_DRAINING];
        part->busy = cell->places[SLAB_BUSY];
        part->slots = cell->slots;
        part->taken = cell->taken;
        part->epoch_slabs = cell->epochs[epoch];
        part->epoch_id = part->epoch_slabs ? epoch : 0;
        part->class_slabs = cell->classes[class];
        part->class_bytes = part->class_slabs ? job->manager->pool.arena.classes[class].size : 0;
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

static void send_part(MapJob *job, bool more) {
        const ShmArena *arena = &job->manager->pool.arena;
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

static void look(MapJob *job) {
        uint32_t budget = pool_slice(&job->manager->pool, BUDGET);

        while (job->n_parts < PROTO_CELLS_MAX &&
               slab_cells_step(&job->cells, &job->manager->pool.arena, &budget)) {
                add_part(job);
                slab_cells_next(&job->cells);
        }
}

static uint64_t step(void *userdata, uint64_t now) {
        MapJob *job = userdata;
        bool done;

        if (job->call.session && job->call.session->queue)
                return now + UNREAD_USEC;
        if (job->call.session)
                look(job);
        done = !job->call.session || slab_cells_done(&job->cells);
        if (job->call.session && (done || job->n_parts == PROTO_CELLS_MAX))
                send_part(job, !done);
        if (done)
                job_free(job);
        return 0;
}

static bool has_map(const Session *session) {
        for (const MapJob *job = session->manager->maps; job; job = job->next)
                if (job->call.session == session)
                        return true;
        return false;
}

void request_slab_map(RequestContext *context, const ProtoRequest *request) {
        Session *session = context->session;
        Manager *manager = session->manager;
        uint32_t n_cells = request->slab_map->cells;
        MapJob *job;

        if (has_map(session)) {
                session_refuse(session, context->id, -EBUSY, "a map is being made for this connection");
                return;
        }
        job = calloc(1, sizeof(*job));
        if (!job) {
                session_refuse(session, context->id, -ENOMEM, "tslabd is out of memory");
                return;
        }
        task_init(&job->task, manager->pool.tasks, "map", step, job);
        task_wake(&job->task);
        job->manager = manager;
        job->next = manager->maps;
        manager->maps = job;
        slab_cells_init(&job->cells, &manager->pool.arena, n_cells ?: PROTO_MAP_CELLS_MAX);
        call_open(&job->call, session, context->id);
}
