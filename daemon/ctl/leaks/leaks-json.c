#include "daemon/ctl/leaks/leaks.h"
#include "daemon/ctl/output/json-reply.h"
#include "daemon/ctl/output/json.h"

static json_object *holding_to_json(const LeaksHolding *h) {
        json_object *o = json_epoch_number(h->epoch);

        json_add_string(o, "state", h->state);
        json_add_u64(o, "opened_usec", h->opened_usec);
        json_add_bool(o, "older", h->older);
        json_add_u64(o, "size", h->size);
        json_add_u64(o, "live_objects", h->n_objects);
        json_add_u64(o, "live_bytes", h->n_objects * h->size);
        return o;
}

static json_object *client_to_json(const LeaksClient *c) {
        json_object *o = json_new_object();

        json_add_u64(o, "client", c->client);
        json_add_u64(o, "pid", (uint64_t) c->pid);
        json_add_u64(o, "uid", c->uid);
        json_add_string(o, "comm", c->comm);
        json_add_u64(o, "every", c->every);
        json_add_bool(o, "gone", c->gone);
        json_add_bool(o, "unreadable", c->unreadable);
        json_add_u64(o, "samples", c->samples.n_taken);
        json_add_u64(o, "live_samples", c->samples.n_live);
        json_add_u64(o, "lost_samples", c->samples.n_lost);
        return o;
}

static json_object *frame_to_json(Leaks *leaks, const StackFrame *frame) {
        json_object *o = json_new_object();
        Symbol symbol;
        const char *path = leaks_symbol(leaks, frame, &symbol);

        json_add_string(o, "module", path);
        json_add_u64(o, "offset", frame->offset);
        json_add_string(o, "symbol", symbol.name);
        json_add_u64_or_null(o, "symbol_offset", symbol.name[0], symbol.offset);
        json_add_string(o, "file", symbol.file);
        json_add_u64_or_null(o, "line", symbol.file[0], (uint64_t) symbol.line);
        return o;
}

static json_object *pids_to_json(const Leaks *leaks, const StackGroup *group) {
        json_object *array = json_new_array();
        bool seen[LEAKS_CLIENTS_MAX] = {};

        for (size_t i = 0; i < group->n_samples; ++i) {
                uint32_t source = group->samples[i].source;

                if (!seen[source])
                        json_append(array, json_object_new_int(leaks->clients[source].pid));
                seen[source] = true;
        }
        return array;
}

static json_object *group_to_json(Leaks *leaks, const StackGroup *group) {
        json_object *o = json_new_object(), *frames = json_new_array();

        for (uint32_t i = 0; i < group->samples->n_frames; ++i)
                json_append(frames, frame_to_json(leaks, &group->samples->frames[i]));
        json_add_u64(o, "samples", group->n_samples);
        json_add_u64(o, "objects", group->n_objects);
        json_add_u64(o, "bytes", group->n_bytes);
        json_add_u64(o, "oldest_usec", group->oldest_usec);
        json_add_u64(o, "newest_usec", group->newest_usec);
        json_add(o, "pids", pids_to_json(leaks, group));
        json_add(o, "frames", frames);
        return o;
}

json_object *leaks_to_json(Leaks *leaks) {
        json_object *o = json_new_object(), *held = json_new_array(), *clients = json_new_array(),
                    *stacks = json_new_array();

        for (size_t i = 0; i < leaks->n_holdings; ++i)
                json_append(held, holding_to_json(&leaks->holdings[i]));
        for (size_t i = 0; i < leaks->n_clients; ++i)
                json_append(clients, client_to_json(&leaks->clients[i]));
        for (size_t i = 0; i < leaks->stacks.n_groups; ++i)
                json_append(stacks, group_to_json(leaks, &leaks->stacks.groups[i]));
        json_add(o, "held", held);
        json_add(o, "clients", clients);
        json_add(o, "stacks", stacks);
        return o;
}
