#include "daemon/ctl/leaks/leaks.h"

#include <stdlib.h>
#include <string.h>

#include "proto/cleanup.h"
#include "shm/epoch/epoch.h"
#include "shm/stats/stats.h"

void leaks_deinit(Leaks *leaks) {
        for (size_t i = 0; i < leaks->stacks.n_modules && leaks->symbols; ++i)
                (void) symbols_close(leaks->symbols[i]);
        free(leaks->symbols);
        free(leaks->holdings);
        stacks_deinit(&leaks->stacks);
}

const char *leaks_symbol(Leaks *leaks, const StackFrame *frame, Symbol *ret) {
        const StackModule *module;
        SymbolsFile **file;

        *ret = (Symbol){};
        if (frame->module >= leaks->stacks.n_modules)
                return NULL;
        module = &leaks->stacks.modules[frame->module];
        if (!leaks->symbols)
                leaks->symbols = must(calloc(leaks->stacks.n_modules, sizeof(leaks->symbols[0])));
        file = &leaks->symbols[frame->module];
        if (!*file)
                *file = symbols_open(module->path, module->build_id, module->build_id_size);
        symbols_find(*file, frame->offset, ret);
        return module->path;
}

/* -1 in *ret_fd: no descriptor came. */
static CtlExit ask_samples(Connection *connection, uint32_t index, ProtoReply **ret_reply, int *ret_fd) {
        _cleanup_(proto_fds_deinit) ProtoFds fds = PROTO_FDS_INIT;
        _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;
        ProtoRequest request = PROTO_REQUEST_INIT;
        Tslab__Samples samples = TSLAB__SAMPLES__INIT;
        CtlExit r;

        samples.index = index;
        request.body_case = TSLAB__REQUEST__BODY_SAMPLES;
        request.samples = &samples;
        r = connection_call_fds(connection, &request, CONNECTION_USEC, &reply, &fds);
        if (r)
                return r;
        *ret_fd = reply->samples->attached_fd ? proto_fds_take(&fds, 0) : -1;
        *ret_reply = proto_steal(&reply);
        return CTL_DONE;
}

static CtlExit map_arena(Connection *connection, ShmArena *ret) {
        _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;
        _cleanup_(proto_closep) int fd = -1;
        CtlExit exit_code;
        int r;

        exit_code = ask_samples(connection, 0, &reply, &fd);
        if (exit_code)
                return exit_code;
        if (fd < 0)
                return complain("the daemon did not give its arena away");
        r = shm_arena_map(ret, fd, true);
        if (r == SHM_ARENA_E_FORMAT)
                return complain(
                        "the pool's memory has another format than tslabctl %s knows: use the tslabctl "
                        "that came with its daemon",
                        TSLAB_VERSION);
        if (r)
                return complain("cannot look into the pool's memory: %s",
                                r > 0 ? "it is damaged" : strerror(-r));
        (void) proto_steal_fd(&fd);
        return CTL_DONE;
}

static const char *state_name(ShmEpochState state) {
        return state == SHM_EPOCH_OPEN ? "open" : state == SHM_EPOCH_CLOSING ? "closing" : "drained";
}

static int compare_holdings(const void *a, const void *b) {
        const LeaksHolding *x = a, *y = b;

        if (x->older != y->older)
                return x->older ? -1 : 1;
        if (x->opened_usec != y->opened_usec)
                return x->opened_usec < y->opened_usec ? -1 : 1;
        return x->n_objects * x->size > y->n_objects * y->size ? -1 : 1;
}

static void find_held(Leaks *leaks, const ShmArena *arena) {
        _cleanup_(proto_freep) ShmStats *stats = must(malloc(sizeof(*stats)));
        ShmEpochInfo epoch;

        shm_stats(arena, stats);
        leaks->holdings = must(calloc(arena->n_epochs * arena->n_classes, sizeof(leaks->holdings[0])));
        for (uint32_t id = 0; id < arena->n_epochs; ++id)
                for (uint32_t class = 0; class < arena->n_classes && shm_epoch_get(arena, id, &epoch) == 0;
                     ++class)
                        if (stats->epoch_classes[id][class].live_objects > 0)
                                leaks->holdings[leaks->n_holdings++] = (LeaksHolding){
                                        .epoch = shm_epoch_number(id, epoch.era),
                                        .state = state_name(epoch.state),
                                        .opened_usec = epoch.opened_usec,
                                        .older = stats->older[id].live_objects > 0,
                                        .size = arena->classes[class].size,
                                        .n_objects = stats->epoch_classes[id][class].live_objects,
                                };
        qsort(leaks->holdings, leaks->n_holdings, sizeof(leaks->holdings[0]), compare_holdings);
}

static void add_source_client(Leaks *leaks, const ShmArena *arena, const Tslab__SamplesReply *reply, int fd) {
        LeaksClient *c = &leaks->clients[leaks->n_clients];

        *c = (LeaksClient){
                .client = reply->client,
                .pid = reply->pid,
                .uid = reply->uid,
                .every = reply->every,
                .gone = reply->gone,
        };
        (void) snprintf(c->comm, sizeof(c->comm), "%s", reply->comm ?: "");
        c->unreadable = stacks_add(&leaks->stacks, arena, fd, (uint32_t) leaks->n_clients, reply->every,
                                   &c->samples) != 0;
        leaks->n_clients++;
}

static CtlExit find_samples(Leaks *leaks, Connection *connection, const ShmArena *arena) {
        while (leaks->n_clients < LEAKS_CLIENTS_MAX) {
                _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;
                _cleanup_(proto_closep) int fd = -1;
                CtlExit r = ask_samples(connection, (uint32_t) leaks->n_clients + 1, &reply, &fd);

                if (r)
                        return r;
                if (fd < 0)
                        break;
                add_source_client(leaks, arena, reply->samples, fd);
        }
        stacks_group(&leaks->stacks);
        return CTL_DONE;
}

CtlExit leaks_find(Leaks *ret, Connection *connection) {
        ShmArena arena;
        CtlExit r;

        *ret = (Leaks){};
        r = map_arena(connection, &arena);
        if (r)
                return r;
        find_held(ret, &arena);
        r = find_samples(ret, connection, &arena);
        shm_arena_deinit(&arena);
        return r;
}
