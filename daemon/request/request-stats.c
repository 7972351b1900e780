#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "daemon/request/counter.h"
#include "daemon/request/epoch-info.h"
#include "daemon/request/high-water-info.h"
#include "daemon/request/map-info.h"
#include "proto/cgroup.h"
#include "proto/deadline.h"
#include "shm/arena/root.h"

typedef struct StatsParts {
        EpochInfos epochs;
        Tslab__ClassInfo classes[SHM_CLASSES_MAX];
        Tslab__ClassInfo *class_pointers[SHM_CLASSES_MAX];
        Tslab__Counters counters;
        HighWaterInfo high_water;
        CgroupRoom room;
        MapInfos maps;
        Tslab__CallTimes calls[CALL_TIMES_MAX];
        Tslab__CallTimes *call_pointers[CALL_TIMES_MAX];
} StatsParts;

static void fill_class_infos(StatsParts *parts, const ShmArena *arena, const ShmStats *stats) {
        for (uint32_t i = 0; i < arena->n_classes; i++) {
                Tslab__ClassInfo *info = &parts->classes[i];

                tslab__class_info__init(info);
                info->size = arena->classes[i].size;
                info->slots = arena->classes[i].n_slots;
                info->slabs = stats->classes[i].slabs;
                info->live_objects = stats->classes[i].live_objects;
                parts->class_pointers[i] = info;
        }
}

static void fill_counters(StatsParts *parts, const ShmStats *stats) {
        Tslab__Counters *c = &parts->counters;

        tslab__counters__init(c);
#define FILL_COUNTER(_name, _field, _whole, _help) c->_field = shm_stats_counter(stats, SHM_COUNT_##_name);
        SHM_COUNTERS(FILL_COUNTER)
#undef FILL_COUNTER
        c->slabs_reclaimed = stats->reclaimed_slabs;
}

static size_t fill_calls(StatsParts *parts, const CallTimes *times) {
        size_t n = 0;

        while (n < CALL_TIMES_MAX && times->of[n].kind != 0) {
                const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field(
                        &tslab__request__descriptor, times->of[n].kind);
                Tslab__CallTimes *call = &parts->calls[n];

                tslab__call_times__init(call);
                call->call = (char *) field->name;
                call->counts = (uint64_t *) times->of[n].counts;
                call->n_counts = CALL_TIMES_BUCKETS;
                call->total_usec = times->of[n].total_usec;
                call->longest_usec = times->of[n].longest_usec;
                parts->call_pointers[n++] = call;
        }
        return n;
}

/* Records of dead threads. Each tick repairs them again while a live thread may still take their slots. */
static uint32_t count_records_in_flight(const ShmArena *arena) {
        uint32_t n = 0;

        for (uint32_t i = 1; i < shm_arena_n_records_ever(arena); i++) {
                ShmRecordState state = shm_record_owner(arena, i).state;

                n += state == SHM_RECORD_DEAD || state == SHM_RECORD_ROLLED_BACK;
        }
        return n;
}

static void fill_pool(Tslab__StatsReply *reply, const Pool *pool, const ShmStats *stats) {
        const ShmArena *arena = &pool->arena;

        reply->pool = (char *) pool->options->pool;
        reply->size_bytes = stats->size;
        reply->committed_bytes = stats->committed_size;
        reply->metadata_bytes = stats->metadata_size;
        reply->retained_bytes = stats->retained_size;
        reply->live_objects = stats->live_objects;
        reply->live_bytes = stats->live_size;
        reply->cached_objects = stats->cached_objects;
        reply->clients = stats->clients;
        reply->threads = stats->threads;
        reply->settings_error = (char *) pool->options->trouble;
        reply->keep_file = pool->options->keep ?: (char *) "";
        reply->daemon_version = (char *) TSLAB_VERSION;
        reply->daemon_pid = (int32_t) getpid();
        reply->uptime_usec = proto_now_usec() - pool->started_usec;
        reply->born_usec = pool->born_usec;
        reply->arena_id = (ProtobufCBinaryData){ .len = 16, .data = (uint8_t *) arena->arena_id };
        reply->n_records = arena->n_records;
        reply->records_shared =
                stats->n_unrecorded > UINT32_MAX ? UINT32_MAX : (uint32_t) stats->n_unrecorded;
        reply->n_slabs = arena->n_slabs;
        reply->n_slabs_ever = stats->n_slabs_ever;
        reply->memfd_blocks_bytes = shm_arena_resident_size(arena);
        reply->records_unsettled = count_records_in_flight(arena);
}

static void fill_limit(Tslab__StatsReply *reply, StatsParts *parts) {
        const CgroupRoom *room = &parts->room;

        if (cgroup_find_room(&parts->room, "") < 0 || room->limit == INT64_MAX)
                return;
        reply->limit_cgroup = parts->room.path;
        reply->limit_bytes = (uint64_t) room->limit;
        reply->limit_used_bytes = (uint64_t) room->used;
        reply->limit_left_bytes = (uint64_t) cgroup_room_left(room);
}

static Tslab__Huge huge_refused(ShmHugeObstacle obstacle) {
        switch (obstacle) {
        case SHM_HUGE_DENIED:
                return TSLAB__HUGE__HUGE_DENIED;
        case SHM_HUGE_SIZE_NEVER:
                return TSLAB__HUGE__HUGE_SIZE_NEVER;
        default:
                return TSLAB__HUGE__HUGE_REFUSED;
        }
}

static void fill_huge(Tslab__StatsReply *reply, const Requests *requests) {
        ShmHugeObstacle obstacle;
        bool refused;

        reply->huge_bytes = collapser_size(requests->collapser, &refused, &obstacle);
        reply->huge = !requests->pool->options->huge ? TSLAB__HUGE__HUGE_NO
                      : refused                      ? huge_refused(obstacle)
                                                     : TSLAB__HUGE__HUGE_YES;
}

/*
 * Entries count with the tables of their slabs, too. These are no part of the pool's size, nor of the memory in use,
 * with which this is compared.
 */
static uint64_t evictable_bytes(const MapInfos *maps) {
        uint64_t bytes = 0;

        for (size_t i = 0; i < maps->n; i++)
                if (maps->infos[i].evict != TSLAB__MAP_EVICT__MAP_EVICT_NEVER)
                        bytes += maps->infos[i].bytes;
        return bytes * SHM_SLAB_SIZE / SHM_SLAB_COST;
}

static StatsParts *stats_parts_new(const Requests *requests, Session *session, uint64_t id,
                                   const ShmStats *stats) {
        StatsParts *parts = calloc(1, sizeof(*parts));

        if (parts)
                epoch_infos_init(&parts->epochs, &requests->pool->arena, stats);
        else
                request_refuse_memory(session, id);
        return parts;
}

static void answer_stats(const Requests *requests, Session *session, uint64_t id, const ShmStats *counted) {
        const Pool *pool = requests->pool;
        _cleanup_(proto_freep) StatsParts *parts = stats_parts_new(requests, session, id, counted);
        ProtoReply reply = PROTO_REPLY_INIT;
        Tslab__StatsReply stats = TSLAB__STATS_REPLY__INIT;

        if (!parts)
                return;
        fill_pool(&stats, pool, counted);
        fill_limit(&stats, parts);
        fill_class_infos(parts, &pool->arena, counted);
        fill_counters(parts, counted);
        stats.epochs = parts->epochs.pointers;
        stats.n_epochs = parts->epochs.n;
        stats.classes = parts->class_pointers;
        stats.n_classes = pool->arena.n_classes;
        stats.counters = &parts->counters;
        map_infos_init(&parts->maps, &requests->pool->arena, counted);
        stats.maps = parts->maps.pointers;
        stats.n_maps = parts->maps.n;
        stats.evictable_bytes = evictable_bytes(&parts->maps);
        stats.roots = SHM_ROOTS_MAX - shm_root_n_free(&requests->pool->arena);
        high_water_info_init(&parts->high_water, requests->high_water, &pool->arena);
        stats.peaks = &parts->high_water.info;
        stats.calls = parts->call_pointers;
        stats.n_calls = fill_calls(parts, &requests->sessions->call_times);
        stats.retain_bytes = pool->options->retain_size;
        fill_huge(&stats, requests);
        stats.huge_splits = counted->huge_splits;
        if (requests->page_wait) {
                stats.page_wait_seconds = requests->page_wait->seconds;
                stats.page_wait_cause = (char *) requests->page_wait->cause;
        }
        reply.body_case = TSLAB__REPLY__BODY_STATS;
        reply.stats = &stats;
        session_send(session, id, &reply);
}

static void answer_epoch_list(const Requests *requests, Session *session, uint64_t id,
                              const ShmStats *counted) {
        _cleanup_(proto_freep) StatsParts *parts = stats_parts_new(requests, session, id, counted);
        ProtoReply reply = PROTO_REPLY_INIT;
        Tslab__EpochListReply list = TSLAB__EPOCH_LIST_REPLY__INIT;

        if (!parts)
                return;
        list.epochs = parts->epochs.pointers;
        list.n_epochs = parts->epochs.n;
        reply.body_case = TSLAB__REPLY__BODY_EPOCH_LIST;
        reply.epoch_list = &list;
        session_send(session, id, &reply);
}

static void start_count(RequestContext *context, CountAnswer *answer) {
        Session *session = context->session;

        if (counter_start(context->requests->counter, session, context->id, answer) < 0)
                request_refuse_memory(session, context->id);
}

void request_stats(RequestContext *context, const ProtoRequest *request) {
        start_count(context, answer_stats);
}

void request_epoch_list(RequestContext *context, const ProtoRequest *request) {
        start_count(context, answer_epoch_list);
}
