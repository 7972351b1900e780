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

struct MapsJob {
        Requests *requests;
        MapsJob *next;
        Call call;
        Task task;
        char wanted[PROTO_MAP_NAME_MAX + 1]; /* "": all */
        uint32_t root; /* index of the root whose map is next, or is measured now */
        ShmTrieSize size; /* the size of that map so far */
        MapInfos infos;
};

static void maps_job_free(MapsJob *job) {
        MapsJob **at = &job->requests->sizes;

        while (*at != job)
                at = &(*at)->next;
        *at = job->next;
        call_close(&job->call);
        task_deinit(&job->task);
        free(job);
}

void maps_jobs_free(Requests *requests) {
        while (requests->sizes)
                maps_job_free(requests->sizes);
}

static bool is_wanted_map(const char *wanted, const char *name) {
        return !*wanted || !strcmp(wanted, name);
}

/* One slice of a map, or a root that names none. */
static void measure_map(MapsJob *job) {
        Pool *pool = job->requests->pool;
        char name[PROTO_MAP_NAME_MAX + 1];
        ShmMapTotals totals;
        ShmTrie trie;

        if (map_info_open(&pool->arena, job->root, name, &trie) && is_wanted_map(job->wanted, name)) {
                if (!shm_trie_size_step(&trie, &job->size, pool_slice(pool, SIZE_SLICE)))
                        return;
                shm_map_totals(&pool->arena, job->root, &totals);
                map_infos_add(&job->infos, &trie, name, &totals)->index_bytes = job->size.bytes;
        }
        job->size = (ShmTrieSize){};
        job->root++;
}

static void refuse_map(Session *session, uint64_t id, const char *name) {
        session_refuse(session, id, -ENOENT, "there is no map '%s' in this pool", name);
}

static void answer_maps(const MapsJob *job) {
        ProtoReply reply = PROTO_REPLY_INIT;
        Tslab__MapsReply maps = TSLAB__MAPS_REPLY__INIT;

        if (*job->wanted && job->infos.n == 0) {
                refuse_map(job->call.session, job->call.id, job->wanted);
                return;
        }
        maps.maps = (Tslab__MapInfo **) job->infos.pointers;
        maps.n_maps = job->infos.n;
        reply.body_case = TSLAB__REPLY__BODY_MAPS;
        reply.maps = &maps;
        session_send(job->call.session, job->call.id, &reply);
}

static uint64_t on_maps_slice(void *userdata, uint64_t now) {
        MapsJob *job = userdata;

        if (job->call.session && job->root < SHM_ROOTS_MAX) {
                measure_map(job);
                return 0;
        }
        if (job->call.session)
                answer_maps(job);
        maps_job_free(job);
        return TASK_IDLE;
}

void request_maps(RequestContext *context, const ProtoRequest *request) {
        Requests *requests = context->requests;
        const char *wanted = request->maps->map;
        MapsJob *job = calloc(1, sizeof(*job));

        if (!job) {
                request_refuse_memory(context->session, context->id);
                return;
        }
        (void) strncpy(job->wanted, wanted ?: "", sizeof(job->wanted) - 1);
        job->requests = requests;
        job->next = requests->sizes;
        requests->sizes = job;
        task_init(&job->task, requests->pool->tasks, "maps", on_maps_slice, job);
        task_wake(&job->task);
        call_open(&job->call, context->session, context->id);
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
