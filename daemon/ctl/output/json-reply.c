#include <inttypes.h>
#include <stdio.h>

#include "daemon/ctl/base/ask.h"
#include "daemon/ctl/base/numbers.h"
#include "daemon/ctl/output/json-reply.h"
#include "daemon/ctl/output/json.h"

/* Copies a member of a message to the member of the same name of an object. */
#define ADD_U64(_object, _message, _name) json_add_u64((_object), #_name, (_message)->_name)
#define ADD_BOOL(_object, _message, _name) json_add_bool((_object), #_name, (_message)->_name)
#define ADD_STRING(_object, _message, _name) json_add_string((_object), #_name, (_message)->_name)

static void add_numbers(json_object *object, NumberScope scope, const void *message) {
        size_t n;
        const Number *numbers = numbers_of(scope, &n);

        for (size_t i = 0; i < n; ++i)
                json_add_u64(object, numbers[i].name, number_value(&numbers[i], message));
}

static json_object *json_older(const Tslab__EpochOlder *older) {
        json_object *o = json_new_object();

        json_add_u64(o, "slabs", older ? older->slabs : 0);
        json_add_u64(o, "live_objects", older ? older->live_objects : 0);
        return o;
}

json_object *json_epoch(const Tslab__EpochInfo *epoch) {
        json_object *o = json_new_object();

        ADD_U64(o, epoch, id);
        json_add_u64(o, "epoch", epoch_number(epoch));
        json_add_string(o, "state", proto_epoch_state_to_string((int) epoch->state));
        ADD_STRING(o, epoch, label);
        ADD_BOOL(o, epoch, current);
        ADD_BOOL(o, epoch, reserved);
        json_add_u64_or_null(o, "owner_pid", epoch->owner_pid >= 0, (uint64_t) epoch->owner_pid);
        add_numbers(o, NUMBER_OF_EPOCH, epoch);
        ADD_U64(o, epoch, opened_usec);
        ADD_U64(o, epoch, closed_usec);
        ADD_U64(o, epoch, refs);
        json_add(o, "older", json_older(epoch->older));
        return o;
}

static json_object *json_class(const Tslab__ClassInfo *class) {
        json_object *o = json_new_object();

        ADD_U64(o, class, size);
        add_numbers(o, NUMBER_OF_CLASS, class);
        return o;
}

static const char *map_near_to_string(Tslab__MapNear near) {
        switch (near) {
        case TSLAB__MAP_NEAR__MAP_NEAR_COVERED:
                return "covered";
        case TSLAB__MAP_NEAR__MAP_NEAR_NOT_COVERED:
                return "not covered";
        default:
                return "none";
        }
}

static const char *huge_to_string(Tslab__Huge huge) {
        switch (huge) {
        case TSLAB__HUGE__HUGE_YES:
                return "yes";
        case TSLAB__HUGE__HUGE_REFUSED:
        case TSLAB__HUGE__HUGE_DENIED:
        case TSLAB__HUGE__HUGE_SIZE_NEVER:
                return "refused";
        default:
                return "no";
        }
}

json_object *json_map(const Tslab__MapInfo *map) {
        json_object *o = json_new_object();

        ADD_STRING(o, map, map);
        add_numbers(o, NUMBER_OF_MAP, map);
        ADD_U64(o, map, ttl_msec);
        ADD_U64(o, map, stale_msec);
        ADD_U64(o, map, value_max_bytes);
        json_add_string(o, "evict", map->evict == TSLAB__MAP_EVICT__MAP_EVICT_SIEVE ? "sieve" : "never");
        json_add_string(o, "near", map_near_to_string(map->near));
        return o;
}

static json_object *json_counters(const Tslab__Counters *counters) {
        json_object *o = json_new_object();

        add_numbers(o, NUMBER_OF_COUNTERS, counters);
        return o;
}

static void add_hex(json_object *object, const char *name, const ProtobufCBinaryData *bytes) {
        char text[2 * PROTO_ARENA_ID_SIZE + 1] = "";

        for (size_t i = 0; i < bytes->len && i < PROTO_ARENA_ID_SIZE; ++i)
                (void) snprintf(text + 2 * i, 3, "%02x", bytes->data[i]);
        json_add_string(object, name, text);
}

static void add_daemon(json_object *o, const Tslab__StatsReply *stats) {
        ADD_STRING(o, stats, daemon_version);
        ADD_STRING(o, stats, settings_error);
        ADD_STRING(o, stats, keep_file);
        ADD_STRING(o, stats, limit_cgroup);
        ADD_STRING(o, stats, page_wait_cause);
        json_add_u64(o, "daemon_pid", (uint64_t) stats->daemon_pid);
        add_hex(o, "arena_id", &stats->arena_id);
}

static json_object *json_class_peak(const Tslab__ClassPeak *class) {
        json_object *o = json_new_object();

        ADD_U64(o, class, size);
        ADD_U64(o, class, slabs);
        ADD_U64(o, class, objects);
        return o;
}

static json_object *json_asked(const Tslab__AskedSize *asked) {
        json_object *o = json_new_object();

        ADD_U64(o, asked, size);
        ADD_U64(o, asked, n);
        return o;
}

static json_object *json_peaks(const Tslab__Peaks *peaks) {
        json_object *o, *classes, *asked;

        if (!peaks)
                return NULL;
        o = json_new_object();
        classes = json_new_array();
        asked = json_new_array();
        ADD_U64(o, peaks, since_usec);
        ADD_U64(o, peaks, looks);
        ADD_U64(o, peaks, committed_bytes);
        ADD_U64(o, peaks, used_bytes);
        ADD_U64(o, peaks, retained_bytes);
        ADD_U64(o, peaks, swing_bytes);
        ADD_U64(o, peaks, clients);
        ADD_U64(o, peaks, threads);
        for (size_t i = 0; i < peaks->n_classes; ++i)
                json_append(classes, json_class_peak(peaks->classes[i]));
        for (size_t i = 0; i < peaks->n_asked; ++i)
                json_append(asked, json_asked(peaks->asked[i]));
        json_add(o, "classes", classes);
        json_add(o, "asked", asked);
        return o;
}

static json_object *json_call(const Tslab__CallTimes *call) {
        json_object *o = json_new_object(), *counts = json_new_array();
        CallSummary summary = call_summary(call);

        ADD_STRING(o, call, call);
        json_add_u64(o, "count", summary.n);
        ADD_U64(o, call, total_usec);
        ADD_U64(o, call, longest_usec);
        for (size_t i = 0; i < call->n_counts; ++i) {
                json_object *bucket = json_new_object();

                json_add_u64_or_null(bucket, "below_usec", i + 1 < call->n_counts, call_below_usec(i));
                json_add_u64(bucket, "count", call->counts[i]);
                json_append(counts, bucket);
        }
        json_add(o, "counts", counts);
        return o;
}

json_object *json_stats(const Tslab__StatsReply *stats) {
        json_object *o = json_new_object(), *epochs = json_new_array(), *classes = json_new_array(),
                    *maps = json_new_array(), *calls = json_new_array();

        for (size_t i = 0; i < stats->n_epochs; ++i)
                json_append(epochs, json_epoch(stats->epochs[i]));
        for (size_t i = 0; i < stats->n_classes; ++i)
                json_append(classes, json_class(stats->classes[i]));
        for (size_t i = 0; i < stats->n_maps; ++i)
                json_append(maps, json_map(stats->maps[i]));
        for (size_t i = 0; i < stats->n_calls; ++i)
                json_append(calls, json_call(stats->calls[i]));

        ADD_STRING(o, stats, pool);
        add_numbers(o, NUMBER_OF_POOL, stats);
        json_add_string(o, "huge", huge_to_string(stats->huge));
        json_add(o, "epochs", epochs);
        json_add(o, "classes", classes);
        json_add(o, "maps", maps);
        json_add(o, "calls", calls);
        json_add(o, "counters", json_counters(stats->counters));
        add_daemon(o, stats);
        json_add(o, "peaks", json_peaks(stats->peaks));
        return o;
}

json_object *json_epoch_number(uint32_t epoch) {
        json_object *o = json_new_object();

        json_add_u64(o, "epoch", epoch);
        json_add_u64(o, "id", epoch & 0xff);
        json_add_u64(o, "era", epoch >> 8);
        return o;
}

json_object *json_epoch_close(const Tslab__EpochCloseReply *reply) {
        json_object *o = json_epoch_number(reply->epoch), *classes = json_new_array();

        for (size_t i = 0; i < reply->n_classes; ++i) {
                json_object *class = json_new_object();

                ADD_U64(class, reply->classes[i], size);
                ADD_U64(class, reply->classes[i], live_objects);
                json_append(classes, class);
        }

        ADD_U64(o, reply, reclaimed_bytes);
        ADD_U64(o, reply, huge_splits);
        ADD_U64(o, reply, live_objects);
        ADD_U64(o, reply, pending_threads);
        json_add(o, "classes", classes);
        return o;
}

json_object *json_client(const Tslab__ClientInfo *client, const Tslab__ClientInfo *waited) {
        json_object *o = json_new_object();

        ADD_U64(o, client, client);
        json_add_u64(o, "pid", (uint64_t) client->pid);
        ADD_U64(o, client, uid);
        ADD_U64(o, client, gid);
        ADD_STRING(o, client, comm);
        json_add_string(o, "role", proto_role_to_string(client->role));
        ADD_U64(o, client, threads);
        ADD_U64(o, client, allocs);
        ADD_U64(o, client, frees);
        ADD_U64(o, client, cached_objects);
        ADD_U64(o, client, pending_objects);
        ADD_U64(o, client, held_slabs);
        ADD_U64(o, client, attached_usec);
        ADD_BOOL(o, client, control_only);
        ADD_U64(o, client, waiting);
        json_add_u64_or_null(o, "waits_for_pid", waited && waited->pid, waited ? (uint64_t) waited->pid : 0);
        return o;
}

json_object *json_root(const Tslab__RootInfo *root) {
        json_object *o = json_new_object();
        char handle[2 + 16 + 1];

        /* as text: many readers of JSON keep numbers in doubles, which would change a handle */
        (void) snprintf(handle, sizeof(handle), "0x%016" PRIx64, root->handle);
        ADD_STRING(o, root, name);
        json_add_string(o, "handle", handle);
        ADD_U64(o, root, size);
        ADD_BOOL(o, root, stale);
        return o;
}

json_object *json_trim(const Tslab__TrimReply *reply) {
        json_object *o = json_new_object();

        ADD_U64(o, reply, reclaimed_bytes);
        ADD_U64(o, reply, surplus_bytes);
        ADD_U64(o, reply, huge_splits);
        return o;
}

json_object *json_check(const Tslab__CheckReply *reply) {
        json_object *o = json_new_object(), *problems = json_new_array();

        for (size_t i = 0; i < reply->n_problems; ++i)
                json_append_string(problems, reply->problems[i]);

        ADD_BOOL(o, reply, ok);
        ADD_U64(o, reply, lost_slots);
        ADD_U64(o, reply, doubled_slots);
        ADD_U64(o, reply, unsettled_slots);
        ADD_U64(o, reply, wrong_hints);
        ADD_U64(o, reply, repaired);
        ADD_U64(o, reply, slabs);
        ADD_U64(o, reply, slots);
        json_add(o, "problems", problems);
        return o;
}
