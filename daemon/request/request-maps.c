/* The maps of the pool, with what their indexes take, and their options. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/events.h"
#include "daemon/request/map-info.h"
#include "daemon/request/request.h"
#include "daemon/request/trail.h"
#include "shm/arena/root.h"
#include "shm/map/entry/expiry.h"
#include "shm/map/state/options.h"

static_assert(PROTO_MAP_VALUE_MAX == SHM_LEAF_VALUE_MAX, "all that a map can have");
static_assert(PROTO_MAP_TTL_MSEC_MAX == SHM_MAP_TTL_MAX_MS, "all that an entry can have");

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

/* A walk over the index of one map, or of all, serves all requests that came before it. */
typedef struct Walk {
        Queue waiting; /* MapsJob: for the next walk */
        Queue served; /* MapsJob: by the walk that is under way, or has just ended */
        ShmTrieSize size; /* so far, of the map that is measured */
        bool done;
} Walk;

struct MapSizer {
        const Requests *requests;
        Task all_task, one_task;
        Walk all;
        uint32_t root; /* the map that `all` measures next; SHM_ROOTS_MAX: none is left */
        MapInfos infos; /* that `all` has measured */
        Walk one[SHM_ROOTS_MAX]; /* each for a map alone: no request waits for the index of another map */
        uint32_t turn; /* the root in `one` whose slice is next */
};

static void end_maps_job(Queue *queue) {
        MapsJob *job = queue_take(queue);

        call_close(&job->call);
        free(job);
}

static bool is_walk_idle(const Walk *walk) {
        return !walk->served.first && !walk->waiting.first;
}

/* The request that is answered next; NULL: all have hung up, or are answered. */
static const MapsJob *first_maps_job(Walk *walk) {
        const MapsJob *job;

        while ((job = queue_first(&walk->served)) && !job->call.session)
                end_maps_job(&walk->served);
        return job;
}

static void begin_walk(Walk *walk) {
        queue_move_all(&walk->served, &walk->waiting);
        walk->size = (ShmTrieSize){};
        walk->done = false;
}

static void free_walk(Walk *walk) {
        queue_move_all(&walk->served, &walk->waiting);
        while (walk->served.first)
                end_maps_job(&walk->served);
}

/* One slice of a map. True: it is measured, or the root names none. */
static bool measure_map(Pool *pool, uint32_t root, ShmTrieSize *size) {
        char name[PROTO_MAP_NAME_MAX + 1];
        ShmTrie trie;

        return !map_info_open(&pool->arena, root, name, &trie) ||
               shm_trie_size_step(&trie, size, pool_slice(pool, SIZE_SLICE));
}

static void add_map(MapInfos *infos, Pool *pool, uint32_t root, const ShmTrieSize *size) {
        char name[PROTO_MAP_NAME_MAX + 1];
        ShmMapTotals totals;
        ShmTrie trie;

        if (!map_info_open(&pool->arena, root, name, &trie))
                return;
        shm_map_totals(&pool->arena, root, &totals);
        map_infos_add(infos, &trie, name, &totals)->index_bytes = size->bytes;
}

static void refuse_map(Session *session, uint64_t id, const char *name) {
        session_refuse(session, id, -ENOENT, "there is no map '%s' in this pool", name);
}

static void answer_maps(MapInfos *infos, const MapsJob *job) {
        ProtoReply reply = PROTO_REPLY_INIT;
        Tslab__MapsReply maps = TSLAB__MAPS_REPLY__INIT;

        if (*job->wanted && (infos->n == 0 || strcmp(infos->names[0], job->wanted) != 0)) {
                refuse_map(job->call.session, job->call.id, job->wanted);
                return;
        }
        maps.maps = infos->pointers;
        maps.n_maps = infos->n;
        reply.body_case = TSLAB__REPLY__BODY_MAPS;
        reply.maps = &maps;
        session_send(job->call.session, job->call.id, &reply);
}

static void measure_next_map(MapSizer *sizer) {
        Walk *walk = &sizer->all;

        if (!measure_map(sizer->requests->pool, sizer->root, &walk->size))
                return;
        add_map(&sizer->infos, sizer->requests->pool, sizer->root, &walk->size);
        walk->size = (ShmTrieSize){};
        walk->done = !shm_root_was_used(&sizer->requests->pool->arena, ++sizer->root);
}

static uint64_t on_all_slice(void *userdata, uint64_t now) {
        MapSizer *sizer = userdata;
        Walk *walk = &sizer->all;
        const MapsJob *job = first_maps_job(walk);

        if (!job) {
                begin_walk(walk);
                sizer->root = 0;
                sizer->infos.n = 0;
        } else if (!walk->done) {
                measure_next_map(sizer);
        } else {
                answer_maps(&sizer->infos, job);
                end_maps_job(&walk->served);
        }
        return is_walk_idle(walk) ? TASK_IDLE : 0;
}

static void walk_one(MapSizer *sizer, uint32_t root) {
        Pool *pool = sizer->requests->pool;
        Walk *walk = &sizer->one[root];
        const MapsJob *job = first_maps_job(walk);
        MapInfos infos = {};

        if (!job) {
                begin_walk(walk);
        } else if (!walk->done) {
                walk->done = measure_map(pool, root, &walk->size);
        } else {
                add_map(&infos, pool, root, &walk->size);
                answer_maps(&infos, job);
                end_maps_job(&walk->served);
        }
}

static uint64_t on_one_slice(void *userdata, uint64_t now) {
        MapSizer *sizer = userdata;

        for (uint32_t i = 0; i < SHM_ROOTS_MAX; i++) {
                uint32_t root = sizer->turn++ % SHM_ROOTS_MAX;

                if (is_walk_idle(&sizer->one[root]))
                        continue;
                walk_one(sizer, root);
                return 0;
        }
        return TASK_IDLE;
}

int map_sizer_new(MapSizer **ret_sizer, const Requests *requests) {
        MapSizer *sizer = calloc(1, sizeof(*sizer));

        if (!sizer)
                return -ENOMEM;
        sizer->requests = requests;
        task_init(&sizer->all_task, requests->pool->tasks, "maps", on_all_slice, sizer);
        task_init(&sizer->one_task, requests->pool->tasks, "one map", on_one_slice, sizer);
        *ret_sizer = sizer;
        return 0;
}

MapSizer *map_sizer_free(MapSizer *sizer) {
        if (!sizer)
                return NULL;
        free_walk(&sizer->all);
        for (uint32_t i = 0; i < SHM_ROOTS_MAX; i++)
                free_walk(&sizer->one[i]);
        task_deinit(&sizer->all_task);
        task_deinit(&sizer->one_task);
        free(sizer);
        return NULL;
}

static bool find_map(ShmArena *arena, const char *wanted, uint32_t *ret_root, ShmTrie *ret_trie) {
        char name[PROTO_MAP_NAME_MAX + 1];

        for (*ret_root = 0; shm_root_was_used(arena, *ret_root); ++*ret_root)
                if (map_info_open(arena, *ret_root, name, ret_trie) && !strcmp(name, wanted))
                        return true;
        return false;
}

void request_maps(RequestContext *context, const ProtoRequest *request) {
        MapSizer *sizer = context->requests->sizer;
        const char *wanted = request->maps->map ?: "";
        uint32_t root = 0;
        MapsJob *job;
        ShmTrie trie;

        if (*wanted && !find_map(&context->requests->pool->arena, wanted, &root, &trie)) {
                refuse_map(context->session, context->id, wanted);
                return;
        }
        job = calloc(1, sizeof(*job));
        if (!job) {
                request_refuse_memory(context->session, context->id);
                return;
        }
        (void) strncpy(job->wanted, wanted, sizeof(job->wanted) - 1);
        call_open(&job->call, context->session, context->id);
        queue_append(*wanted ? &sizer->one[root].waiting : &sizer->all.waiting, job);
        task_wake(*wanted ? &sizer->one_task : &sizer->all_task);
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

static int change_options(ShmArena *arena, const ShmTrie *trie, const Tslab__MapSet *set) {
        ShmMapOptions options = shm_map_options(trie);

        apply_set(&options, set);
        return shm_map_options_change(arena, trie, &options);
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
