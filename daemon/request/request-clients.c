#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/request/request.h"
#include "proto/text.h"
#include "shm/arena/cache-walk.h"
#include "shm/arena/client.h"

/* The sums over the records of a client. */
typedef struct ClientSums {
        uint32_t threads;
        uint64_t allocs, frees, cached, pending, held;
        uint32_t waiting, waits_for;
} ClientSums;

/* One reply. Clients that do not fit into it go into further replies. */
typedef struct ClientPart {
        Tslab__ClientInfo infos[PROTO_CLIENTS_MAX];
        Tslab__ClientInfo *pointers[PROTO_CLIENTS_MAX];
        char comms[PROTO_CLIENTS_MAX][PROTO_COMM_MAX + 1];
        size_t n;
} ClientPart;

/* The counters of a record go on from owner to owner: the difference belongs to this owner. */
static uint64_t record_counter(const ShmRecord *record, ShmCounter which) {
        return shm_hint_load(&record->counters[which]) - shm_hint_load(&record->base_counters[which]);
}

static void add_record(const ShmArena *arena, uint32_t i, ClientSums *sums) {
        const ShmRecord *record = shm_arena_record(arena, i);

        uint32_t waits_for = shm_hint_load(&arena->heads[i].waits_for);

        sums->threads++;
        /* Bytes of the arena may be garbage. */
        if (waits_for != 0 && waits_for <= arena->n_records) {
                sums->waiting++;
                sums->waits_for = waits_for;
        }
        sums->allocs += record_counter(record, SHM_COUNT_ALLOC_HITS) +
                        record_counter(record, SHM_COUNT_ALLOCS_UNCACHED);
        sums->frees += record_counter(record, SHM_COUNT_FREES_CACHED) +
                       record_counter(record, SHM_COUNT_FREES_UNCACHED);
        for (uint32_t n = 0; n < SHM_NOTES_MAX; n++)
                sums->pending += shm_hint_load(&record->notes[n].handle) != 0;
        for (ShmCacheWalk walk = {}; shm_cache_walk_next(&walk, arena, i);) {
                sums->cached += shm_cache_walk_count(&walk);
                sums->held += shm_hint_load(&walk.cache->held) != 0;
        }
}

/* By client index. */
static ClientSums *client_sums_new(const ShmArena *arena) {
        ClientSums *sums = calloc(arena->n_records, sizeof(*sums));

        for (uint32_t i = 1; sums && i < shm_arena_n_records_ever(arena); i++) {
                ShmRecordOwner owner = shm_record_owner(arena, i);

                if (owner.state != SHM_RECORD_UNUSED && owner.client < arena->n_records)
                        add_record(arena, i, &sums[owner.client]);
        }
        return sums;
}

static void send_client_part(const RequestContext *context, ClientPart *part, bool more) {
        ProtoReply reply = PROTO_REPLY_INIT;
        Tslab__ClientsReply clients = TSLAB__CLIENTS_REPLY__INIT;

        clients.clients = part->pointers;
        clients.n_clients = part->n;
        reply.more = more;
        reply.body_case = TSLAB__REPLY__BODY_CLIENTS;
        reply.clients = &clients;
        session_send(context->session, context->id, &reply);
        part->n = 0;
}

static Tslab__ClientInfo *next_client_info(const RequestContext *context, ClientPart *part,
                                           const char *comm) {
        Tslab__ClientInfo *info;

        if (part->n == PROTO_CLIENTS_MAX)
                send_client_part(context, part, true);
        info = &part->infos[part->n];
        tslab__client_info__init(info);
        proto_text_clean(part->comms[part->n], sizeof(part->comms[0]), comm);
        info->comm = part->comms[part->n];
        part->pointers[part->n] = info;
        part->n++;
        return info;
}

/* Waits of threads, and of tasks, of which the records know nothing. */
static void add_waits(const ShmArena *arena, Tslab__ClientInfo *info, const ClientSums *sums) {
        ShmClientWaits tasks = shm_client_waits(arena, info->client);

        info->waiting = sums->waiting + tasks.n;
        info->waits_for = tasks.waits_for != 0 && tasks.waits_for <= arena->n_records ? tasks.waits_for
                                                                                      : sums->waits_for;
}

static void add_client(const RequestContext *context, ClientPart *part, const ClientWatch *client,
                       const ClientSums *sums) {
        ShmClientInfo known = {};
        Tslab__ClientInfo *info;

        (void) shm_client_get(&client->clients->pool->arena, client->index, &known);
        info = next_client_info(context, part, known.comm);
        info->client = client->index;
        info->pid = (int32_t) client->pid;
        info->uid = known.uid;
        info->gid = known.gid;
        info->role = client->role;
        info->attached_usec = known.attached_usec;
        info->threads = sums->threads;
        info->allocs = sums->allocs;
        info->frees = sums->frees;
        info->cached_objects = sums->cached;
        info->pending_objects = sums->pending;
        info->held_slabs = sums->held;
        add_waits(&client->clients->pool->arena, info, sums);
}

static void add_session(const RequestContext *context, ClientPart *part, const Session *session) {
        Tslab__ClientInfo *info = next_client_info(context, part, session->comm);

        info->control_only = true;
        info->pid = (int32_t) session->peer.pid;
        info->uid = session->peer.uid;
        info->gid = session->peer.gid;
        info->role = session->role;
        info->attached_usec = session->since_realtime_usec;
}

/*
 * One client, with its pidfd: the number of a process means another one in another pid namespace. The pidfd gives the
 * peer no right over the process that it does not have by itself.
 */
static void send_client_process(const RequestContext *context, pid_t pid) {
        Tslab__ClientsReply clients = TSLAB__CLIENTS_REPLY__INIT;
        Tslab__ClientInfo info = TSLAB__CLIENT_INFO__INIT, *pointer = &info;
        const ClientWatch *client = context->requests->clients->first;
        ProtoReply reply = PROTO_REPLY_INIT;
        char comm[PROTO_COMM_MAX + 1];
        ShmClientInfo known = {};

        while (client && (client->pid != pid || client->pidfd < 0 || client->dead))
                client = client->next;
        if (client) {
                (void) shm_client_get(&client->clients->pool->arena, client->index, &known);
                proto_text_clean(comm, sizeof(comm), known.comm);
                info.client = client->index;
                info.pid = (int32_t) pid;
                info.role = client->role;
                info.comm = comm;
                clients.clients = &pointer;
                clients.n_clients = 1;
                clients.has_pidfd = true;
        }
        reply.body_case = TSLAB__REPLY__BODY_CLIENTS;
        reply.clients = &clients;
        session_send_fds(context->session, context->id, &reply, client ? &client->pidfd : NULL,
                         client != NULL);
}

static void send_clients(const RequestContext *context) {
        const Requests *requests = context->requests;
        _cleanup_(proto_freep) ClientSums *sums = client_sums_new(&requests->pool->arena);
        _cleanup_(proto_freep) ClientPart *part = malloc(sizeof(*part));

        if (!sums || !part) {
                request_refuse_memory(context->session, context->id);
                return;
        }
        part->n = 0;
        for (const ClientWatch *c = requests->clients->first; c; c = c->next)
                add_client(context, part, c, &sums[c->index]);
        for (const Session *s = requests->sessions->first; s; s = s->next)
                if (!s->client && s->role != 0 && !s->dropped)
                        add_session(context, part, s);
        send_client_part(context, part, false);
}

void request_clients(RequestContext *context, const ProtoRequest *request) {
        if (request->clients->pid > 0)
                send_client_process(context, request->clients->pid);
        else
                send_clients(context);
}
