#include "daemon/ctl/base/complain.h"
#include "daemon/ctl/base/numbers.h"
#include "daemon/ctl/output/json-reply.h"
#include "daemon/ctl/output/json.h"
#include "daemon/ctl/top/top-json.h"

static json_object *rates_to_json(const TopSample *before, const TopSample *now) {
        const Tslab__Counters *a = before->reply ? top_stats(before)->counters : NULL;
        const Tslab__Counters *b = top_stats(now)->counters;
        json_object *o = json_new_object();
        size_t n;
        const Number *numbers = numbers_of(NUMBER_OF_COUNTERS, &n);

        for (size_t i = 0; i < n; ++i) {
                double rate =
                        top_rate(before, now, number_value(&numbers[i], a), number_value(&numbers[i], b));

                if (numbers[i].kind != NUMBER_COUNTER)
                        continue;
                json_add(o, numbers[i].name, must(json_object_new_double(rate)));
        }
        return o;
}

static json_object *top_client_to_json(const TopClient *c) {
        json_object *o = json_new_object();

        json_add_u64(o, "client", c->client);
        json_add_u64(o, "pid", (uint64_t) c->pid);
        json_add_string(o, "comm", c->comm);
        json_add_u64(o, "threads", c->threads);
        json_add_u64(o, "allocs", c->allocs);
        json_add_u64(o, "frees", c->frees);
        json_add_u64(o, "cached_objects", c->cached);
        json_add_u64(o, "pending_objects", c->pending);
        json_add_u64(o, "held_slabs", c->held);
        return o;
}

static json_object *averages_to_json(const TopAverages *averages) {
        json_object *o = json_new_object();

        for (TopAveraged what = 0; what < _TOP_AVERAGED_N; ++what) {
                json_object *spans = json_new_array();

                for (size_t i = 0; i < TOP_SPANS; ++i)
                        json_append(spans, must(json_object_new_double(averages->rates[what][i])));
                json_add(o, top_averaged_names[what], spans);
        }
        return o;
}

json_object *top_json(const TopSample *before, const TopSample *now, const TopAverages *averages,
                      uint64_t now_usec) {
        json_object *o = json_new_object(), *clients = json_new_array();

        for (size_t i = 0; i < now->n_clients; ++i)
                json_append(clients, top_client_to_json(&now->clients[i]));
        json_add_u64(o, "usec", now_usec);
        json_add_u64_or_null(o, "interval_usec", top_comparable(before, now), now->usec - before->usec);
        json_add(o, "rates", rates_to_json(before, now));
        json_add(o, "averages", averages_to_json(averages));
        json_add(o, "stats", json_stats(top_stats(now)));
        json_add(o, "clients", clients);
        return o;
}
