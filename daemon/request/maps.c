/* The maps of the pool, with what their indexes take, and their options. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/events.h"
#include "daemon/request/map-info.h"
#include "daemon/request/request.h"
#include "daemon/request/trail.h"
#include "shm/map/evict.h"
#include "shm/map/options.h"

static_assert(PROTO_MAP_VALUE_MAX == SHM_LEAF_VALUE_MAX, "all that a map can have");

#define SIZE_SLICE 1024U /* words */

/* Bits of MapSet.set */
enum {
        SET_LIMIT = 1,
        SET_TTL = 2,
        SET_STALE = 4,
        SET_VALUE_MAX = 8,
        SET_EVICT = 16,
};

typedef struct MapsJob {
        QueueLink link;
        Call call;
        char wanted[PROTO_MAP_NAME_MAX + 1]; /* "": all */
} MapsJob;

/* One walk over the indexes serves all requests that came before it. */
struct MapSizer {
        const Requests *requests;
        Task task;
        Queue waiting; /* MapsJob: for the next walk */
        Queue served; /* MapsJob: by the walk that is under way, or has just ended */
        uint32_t root; /* index of the root whose map is measured next; SHM_ROOTS_MAX: none is left */
        ShmTrieSize size; /* the size of that map so far */
        MapInfos infos;
};

static void end_maps_job(Queue *queue) {
        MapsJob *job = queue_take(queue);

        call_close(&job->call);
        free(job);
}

static bool is_map_wanted(const MapSizer *sizer, const char *name) {
        for (const QueueLink *link = sizer->served.first; link; link = link->next) {
                const MapsJob *job = (const MapsJob *) (const void *) link;

                if (!*job->wanted || !strcmp(job->wanted, name))
                        return true;
        }
        return false;
}

static void begin_size_walk(MapSizer *sizer) {
        queue_move_all(&sizer->served, &sizer->waiting);
        sizer->root = 0;
        sizer->size = (ShmTrieSize){};
        sizer->infos.n = 0;
}

/* One slice of a map, or a root that names none. */
static void measure_map(MapSizer *sizer) {
        Pool *pool = sizer->requests->pool;
        char name[PROTO_MAP_NAME_MAX + 1];
        ShmMapTotals totals;
        ShmTrie trie;

        if (map_info_open(&pool->arena, sizer->root, name, &trie) &&
            (sizer->size.n_words != 0 || is_map_wanted(sizer, name))) {
                if (!shm_trie_size_step(&trie, &sizer->size, pool_slice(pool, SIZE_SLICE)))
                        return;
                shm_map_totals(&pool->arena, sizer->root, &totals);
                map_infos_add(&sizer->infos, &trie, name, &totals)->index_bytes = sizer->size.bytes;
        }
        sizer->size = (ShmTrieSize){};
        sizer->root++;
}

static void refuse_map(Session *session, uint64_t id, const char *name) {
        session_refuse(session, id, -ENOENT, "there is no map '%s' in this pool", name);
}

static void answer_maps(MapInfos *infos, const MapsJob *job) {
        ProtoReply reply = PROTO_REPLY_INIT;
        Tslab__MapsReply maps = TSLAB__MAPS_REPLY__INIT;
        size_t i = 0;

        while (*job->wanted && i < infos->n && strcmp(infos->names[i], job->wanted) != 0)
                i++;
        if (*job->wanted && i == infos->n) {
                refuse_map(job->call.session, job->call.id, job->wanted);
                return;
        }
        maps.maps = infos->pointers + i;
        maps.n_maps = *job->wanted ? 1 : infos->n;
        reply.body_case = TSLAB__REPLY__BODY_MAPS;
        reply.maps = &maps;
        session_send(job->call.session, job->call.id, &reply);
}

static uint64_t on_maps_slice(void *userdata, uint64_t now) {
        MapSizer *sizer = userdata;
        const MapsJob *job;

        while ((job = queue_first(&sizer->served)) && !job->call.session)
                end_maps_job(&sizer->served);
        if (!job) {
                begin_size_walk(sizer);
        } else if (sizer->root < SHM_ROOTS_MAX) {
                measure_map(sizer);
        } else {
                answer_maps(&sizer->infos, job);
                end_maps_job(&sizer->served);
        }
        return sizer->served.first || sizer->waiting.first ? 0 : TASK_IDLE;
}

int map_sizer_new(MapSizer **ret_sizer, const Requests *requests) {
        MapSizer *sizer = calloc(1, sizeof(*sizer));

        if (!sizer)
                return -ENOMEM;
        sizer->requests = requests;
        task_init(&sizer->task, requests->pool->tasks, "maps", on_maps_slice, sizer);
        *ret_sizer = sizer;
        return 0;
}

MapSizer *map_sizer_free(MapSizer *sizer) {
        if (!sizer)
                return NULL;
        queue_move_all(&sizer->served, &sizer->waiting);
        while (sizer->served.first)
                end_maps_job(&sizer->served);
        task_deinit(&sizer->task);
        free(sizer);
        return NULL;
}

void request_maps(RequestContext *context, const ProtoRequest *request) {
        MapSizer *sizer = context->requests->sizer;
        MapsJob *job = calloc(1, sizeof(*job));

        if (!job) {
                request_refuse_memory(context->session, context->id);
                return;
        }
        (void) strncpy(job->wanted, request->maps->map ?: "", sizeof(job->wanted) - 1);
        call_open(&job->call, context->session, context->id);
        queue_append(&sizer->waiting, job);
        task_wake(&sizer->task);
}

static void apply_set(ShmMapOptions *options, const Tslab__MapSet *set) {
        if (set->set & SET_LIMIT)
                options->limit_bytes = set->limit_bytes;
        if (set->set & SET_TTL)
                options->ttl_ms = set->ttl_msec;
        if (set->set & SET_STALE)
                options->stale_ms = set->stale_msec;
        if (set->set & SET_VALUE_MAX)
                options->value_max = set->value_max_bytes;
        if (set->set & SET_EVICT)
                options->evict = (uint32_t) set->evict;
}

static bool find_map(ShmArena *arena, const char *wanted, uint32_t *ret_root, ShmTrie *ret_trie) {
        char name[PROTO_MAP_NAME_MAX + 1];

        for (*ret_root = 0; *ret_root < SHM_ROOTS_MAX; ++*ret_root)
                if (map_info_open(arena, *ret_root, name, ret_trie) && !strcmp(name, wanted))
                        return true;
        return false;
}

/* The map's root stays in its slot while the daemon, which alone revokes and repairs, is in here. */
static int change_options(ShmArena *arena, const ShmTrie *trie, const Tslab__MapSet *set) {
        ShmMapOptions options = shm_map_options(trie);
        void *object;
        int r = shm_object_get(arena, trie->root, &object, NULL);

        if (r)
                return r;
        apply_set(&options, set);
        shm_map_options_store(object, &options);
        shm_evict_offer(trie, options.evict != SHM_MAP_EVICT_NEVER);
        return 0;
}

/* Whether the map could have an entry. If not, refuses. */
static bool admit_limit(RequestContext *context, const Tslab__MapSet *set) {
        uint32_t least = shm_leaf_cost_min(&context->requests->pool->arena);

        if (!(set->set & SET_LIMIT) || set->limit_bytes == 0 || set->limit_bytes >= least)
                return true;
        session_refuse(context->session, context->id, -EINVAL,
                       "a limit of %" PRIu64
                       " bytes has no room for an entry of map '%s': the smallest takes %" PRIu32,
                       set->limit_bytes, set->map ?: "", least);
        return false;
}

void request_map_set(RequestContext *context, const ProtoRequest *request) {
        ShmArena *arena = &context->requests->pool->arena;
        const Tslab__MapSet *set = request->map_set;
        ProtoReply reply = PROTO_REPLY_INIT;
        Tslab__MapSetReply body = TSLAB__MAP_SET_REPLY__INIT;
        MapInfos infos = {};
        ShmMapTotals totals;
        ShmTrie trie;
        uint32_t root;
        Trail trail;

        if (!admit_limit(context, set))
                return;
        if (!find_map(arena, set->map ?: "", &root, &trie) || change_options(arena, &trie, set) != 0) {
                refuse_map(context->session, context->id, set->map ?: "");
                return;
        }
        trail_init(&trail, context);
        trail_log(&trail, "map", NULL, "changed options of map '%s'", set->map);
        shm_map_totals(arena, root, &totals);
        body.info = map_infos_add(&infos, &trie, set->map, &totals);
        reply.body_case = TSLAB__REPLY__BODY_MAP_SET;
        reply.map_set = &body;
        session_send(context->session, context->id, &reply);
}
