#include <stdio.h>
#include <string.h>

#include "daemon/ctl/base/ask.h"
#include "daemon/ctl/base/complain.h"
#include "daemon/ctl/top/sample.h"
#include "proto/deadline.h"

static void add_sample_client(TopSample *sample, const Tslab__ClientInfo *from) {
        TopClient *client;

        if (from->control_only)
                return;
        sample->clients = must(realloc(sample->clients, (sample->n_clients + 1) * sizeof(*sample->clients)));
        client = &sample->clients[sample->n_clients++];
        *client = (TopClient){
                .client = from->client,
                .pid = from->pid,
                .uid = from->uid,
                .role = from->role,
                .threads = from->threads,
                .allocs = from->allocs,
                .frees = from->frees,
                .cached = from->cached_objects,
                .pending = from->pending_objects,
                .held = from->held_slabs,
                .attached_usec = from->attached_usec,
        };
        (void) snprintf(client->comm, sizeof(client->comm), "%s", from->comm ?: "");
}

static int on_sample_part(void *userdata, const ProtoReply *reply) {
        if (reply->body_case == TSLAB__REPLY__BODY_CLIENTS)
                for (size_t i = 0; i < reply->clients->n_clients; ++i)
                        add_sample_client(userdata, reply->clients->clients[i]);
        return 0;
}

static int ask_clients(TopSample *sample, ProtoCall *call, uint64_t timeout_usec) {
        _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;
        Tslab__Clients clients = TSLAB__CLIENTS__INIT;
        ProtoRequest request = PROTO_REQUEST_INIT;
        int r;

        request.body_case = TSLAB__REQUEST__BODY_CLIENTS;
        request.clients = &clients;
        r = proto_call(call, &request, timeout_usec, on_sample_part, sample, &reply, NULL);
        if (r == 0)
                (void) on_sample_part(sample, reply);
        return r;
}

int top_sample_take(TopSample *ret, ProtoCall *call, bool with_clients, uint64_t timeout_usec) {
        TopSample sample = {};
        int r;

        r = ask_stats_quietly(call, timeout_usec, &sample.reply);
        sample.usec = proto_now_usec();
        if (r == 0 && with_clients)
                r = ask_clients(&sample, call, timeout_usec);
        if (r) {
                top_sample_deinit(&sample);
                return r;
        }
        *ret = sample;
        return 0;
}

void top_sample_deinit(TopSample *sample) {
        (void) proto_reply_free(sample->reply);
        free(sample->clients);
        *sample = (TopSample){};
}

bool top_comparable(const TopSample *before, const TopSample *now) {
        const ProtobufCBinaryData *a, *b;

        if (!before->reply || !now->reply || before->usec >= now->usec)
                return false;
        a = &top_stats(before)->arena_id;
        b = &top_stats(now)->arena_id;
        return a->len == b->len && (a->len == 0 || !memcmp(a->data, b->data, a->len));
}

double top_change(const TopSample *before, const TopSample *now, uint64_t from, uint64_t to) {
        double seconds;

        if (!top_comparable(before, now))
                return 0;
        seconds = (double) (now->usec - before->usec) / 1e6;
        return to >= from ? (double) (to - from) / seconds : -((double) (from - to) / seconds);
}

double top_rate(const TopSample *before, const TopSample *now, uint64_t from, uint64_t to) {
        return to >= from ? top_change(before, now, from, to) : 0;
}

const unsigned top_spans[TOP_SPANS] = { 10, 60, 600 };
const char *const top_averaged_names[_TOP_AVERAGED_N] = { "allocs", "frees", "hits", "misses" };

static uint64_t averaged_number(const TopSample *sample, TopAveraged what) {
        const Tslab__StatsReply *stats = top_stats(sample);
        uint64_t sum = 0;

        if (what == TOP_ALLOCS || what == TOP_FREES)
                return !stats->counters     ? 0
                       : what == TOP_ALLOCS ? stats->counters->allocs
                                            : stats->counters->frees;
        for (size_t i = 0; i < stats->n_maps; ++i)
                sum += what == TOP_HITS ? stats->maps[i]->hits : stats->maps[i]->misses;
        return sum;
}

void top_averages_add(TopAverages *averages, const TopSample *before, const TopSample *now) {
        double seconds;

        if (!top_comparable(before, now)) {
                *averages = (TopAverages){};
                return;
        }
        seconds = (double) (now->usec - before->usec) / 1e6;
        averages->seconds += seconds;
        for (TopAveraged what = 0; what < _TOP_AVERAGED_N; ++what) {
                double rate =
                        top_rate(before, now, averaged_number(before, what), averaged_number(now, what));

                for (size_t i = 0; i < TOP_SPANS; ++i) {
                        double span = averages->seconds < top_spans[i] ? averages->seconds : top_spans[i];
                        double weight = seconds < span ? seconds / span : 1;

                        averages->rates[what][i] += weight * (rate - averages->rates[what][i]);
                }
        }
}
