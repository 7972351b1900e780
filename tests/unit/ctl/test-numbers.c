/*
 * The table of numbers: each number that the daemon sends has a row, and each row is in text, JSON,
 * metrics and the manual page, whose source is the argument.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <json-c/json.h>

#include "daemon/ctl/base/numbers.h"
#include "daemon/ctl/output/json-reply.h"
#include "daemon/ctl/output/metrics.h"
#include "daemon/ctl/view/stats-text.h"
#include "proto/cleanup.h"

#define PAGE_SIZE_MAX 65536

static char manual_page[PAGE_SIZE_MAX];

/* A reply in which every number has a value of its own, all in one message of each scope. */
typedef struct Reply {
        Tslab__StatsReply stats;
        Tslab__Counters counters;
        Tslab__EpochInfo epoch, *epochs[1];
        Tslab__ClassInfo class, *classes[1];
        Tslab__MapInfo map, *maps[1];
        uint8_t arena_id[16];
        void *messages[_NUMBER_SCOPE_N];
} Reply;

static uint64_t expected_value(NumberScope scope, size_t i) {
        return 1000 * (scope + 1) + i;
}

static void set_value(const Number *number, void *message, uint64_t value) {
        uint32_t narrow = (uint32_t) value;

        if (number->size == sizeof(value))
                memcpy((char *) message + number->offset, &value, sizeof(value));
        else
                memcpy((char *) message + number->offset, &narrow, sizeof(narrow));
}

static void reply_init(Reply *reply) {
        *reply = (Reply){ .stats = TSLAB__STATS_REPLY__INIT,
                          .counters = TSLAB__COUNTERS__INIT,
                          .epoch = TSLAB__EPOCH_INFO__INIT,
                          .class = TSLAB__CLASS_INFO__INIT,
                          .map = TSLAB__MAP_INFO__INIT };
        reply->epoch.state = TSLAB__EPOCH_STATE__EPOCH_STATE_OPEN;
        reply->epochs[0] = &reply->epoch;
        reply->classes[0] = &reply->class;
        reply->maps[0] = &reply->map;
        reply->map.map = (char *) "m";
        reply->stats.pool = (char *) "p";
        reply->stats.counters = &reply->counters;
        reply->stats.epochs = reply->epochs;
        reply->stats.classes = reply->classes;
        reply->stats.maps = reply->maps;
        reply->stats.n_epochs = reply->stats.n_classes = reply->stats.n_maps = 1;
        reply->stats.arena_id = (ProtobufCBinaryData){ sizeof(reply->arena_id), reply->arena_id };
        reply->messages[NUMBER_OF_POOL] = &reply->stats;
        reply->messages[NUMBER_OF_COUNTERS] = &reply->counters;
        reply->messages[NUMBER_OF_EPOCH] = &reply->epoch;
        reply->messages[NUMBER_OF_CLASS] = &reply->class;
        reply->messages[NUMBER_OF_MAP] = &reply->map;
        for (NumberScope scope = 0; scope < _NUMBER_SCOPE_N; ++scope) {
                size_t n;
                const Number *numbers = numbers_of(scope, &n);

                for (size_t i = 0; i < n; ++i)
                        set_value(&numbers[i], reply->messages[scope], expected_value(scope, i));
        }
}

typedef void (*CheckRow)(const char *where, NumberScope scope, const Number *number, uint64_t value);

static void for_each_row(const char *where, CheckRow check) {
        for (NumberScope scope = 0; scope < _NUMBER_SCOPE_N; ++scope) {
                size_t n;
                const Number *numbers = numbers_of(scope, &n);

                for (size_t i = 0; i < n; ++i)
                        check(where, scope, &numbers[i], expected_value(scope, i));
        }
}

static void assert_has(const char *where, const char *part) {
        if (!strstr(where, part))
                fail_msg("no '%s' in:\n%s", part, where);
}

static void assert_all_have_rows(const ProtobufCMessageDescriptor *message, NumberScope scope) {
        size_t n;
        const Number *numbers = numbers_of(scope, &n);

        for (unsigned f = 0; f < message->n_fields; ++f) {
                const ProtobufCFieldDescriptor *field = &message->fields[f];
                size_t i = 0;

                if (field->type != PROTOBUF_C_TYPE_UINT32 && field->type != PROTOBUF_C_TYPE_UINT64)
                        continue;
                while (i < n && strcmp(numbers[i].name, field->name))
                        i++;
                if (i == n)
                        fail_msg("'%s' of %s has no row", field->name, message->name);
                assert_int_equal(numbers[i].offset, field->offset);
        }
}

static void test_numbers_of_every_member(void **state) {
        assert_all_have_rows(&tslab__stats_reply__descriptor, NUMBER_OF_POOL);
        assert_all_have_rows(&tslab__counters__descriptor, NUMBER_OF_COUNTERS);
}

static void check_json(const char *where, NumberScope scope, const Number *number, uint64_t value) {
        char part[128];

        (void) snprintf(part, sizeof(part), "\"%s\":%llu", number->name, (unsigned long long) value);
        assert_has(where, part);
}

static void test_numbers_in_json(void **state) {
        json_object *o;
        Reply reply;

        reply_init(&reply);
        o = json_stats(&reply.stats);
        for_each_row(json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN), check_json);
        (void) json_object_put(o);
}

static void check_metric(const char *where, NumberScope scope, const Number *number, uint64_t value) {
        static const char *const labels[_NUMBER_SCOPE_N] = { "", "", ",epoch=\"0\"", ",size=\"0\"",
                                                             ",map=\"m\"" };
        const char *total = number->kind == NUMBER_COUNTER ? "_total" : "";
        char part[256];

        (void) snprintf(part, sizeof(part), "# HELP tslab_%s %s.\n", number->metric, number->help);
        assert_has(where, part);
        (void) snprintf(part, sizeof(part), "\ntslab_%s%s{pool=\"p\"%s} ", number->metric, total,
                        labels[scope]);
        /* an uptime becomes the time of the start */
        if (number->unit != NUMBER_UPTIME)
                (void) snprintf(part + strlen(part), sizeof(part) - strlen(part), "%llu\n",
                                (unsigned long long) value);
        assert_has(where, part);
}

static char *metrics_of(Reply *reply) {
        ProtoReply proto = PROTO_REPLY_INIT;
        MetricsPool pool = { .name = "p", .reply = &proto };
        char *text = NULL;
        size_t size;
        FILE *out = open_memstream(&text, &size);

        proto.stats = &reply->stats;
        metrics_print(out, &pool, 1, true);
        assert_int_equal(fclose(out), 0);
        return text;
}

static void test_numbers_in_metrics(void **state) {
        _cleanup_(proto_freep) char *text = NULL;
        Reply reply;

        reply_init(&reply);
        text = metrics_of(&reply);
        for_each_row(text, check_metric);
}

/* However the clock was set since: the alert of a restart fires when this changes. */
static void test_start_time_stands_still(void **state) {
        for (uint64_t uptime = 1; uptime < UINT64_C(1) << 50; uptime *= 1000) {
                _cleanup_(proto_freep) char *text = NULL;
                Reply reply;

                reply_init(&reply);
                reply.stats.born_usec = UINT64_C(1700000000123456);
                reply.stats.uptime_usec = uptime;
                text = metrics_of(&reply);
                assert_has(text, "\ntslab_daemon_start_time_seconds{pool=\"p\"} 1700000000\n");
        }
}

/* Names of rows begin a line; titles of columns stand in a line with others. */
static void check_text(const char *where, NumberScope scope, const Number *number, uint64_t value) {
        bool column = scope == NUMBER_OF_EPOCH || scope == NUMBER_OF_CLASS || scope == NUMBER_OF_MAP;
        char part[128];

        (void) snprintf(part, sizeof(part), column ? "%s" : "\n%s  ", number->text);
        assert_has(where, part);
        if (number->unit == NUMBER_COUNT && number->size == sizeof(uint64_t)) {
                (void) snprintf(part, sizeof(part), " %llu", (unsigned long long) value);
                assert_has(where, part);
        }
}

static void test_numbers_in_text(void **state) {
        _cleanup_(proto_freep) char *text = NULL;
        size_t size;
        FILE *out = open_memstream(&text, &size);
        Reply reply;

        reply_init(&reply);
        stats_print(out, &reply.stats, true);
        assert_int_equal(fclose(out), 0);
        for_each_row(text, check_text);
}

static void check_manual(const char *where, NumberScope scope, const Number *number, uint64_t value) {
        char part[512];

        (void) snprintf(part, sizeof(part), "*%s*\n\t%s.", number->name, number->help);
        assert_has(where, part);
        (void) snprintf(part, sizeof(part), "*%s*, as a metric *tslab_%s%s*", number->text, number->metric,
                        number->kind == NUMBER_COUNTER ? "_total" : "");
        assert_has(where, part);
}

static void test_numbers_in_manual(void **state) {
        for_each_row(manual_page, check_manual);
}

/* As of a daemon that is older than the counters. */
static void test_number_value_no_message(void **state) {
        size_t n;
        const Number *numbers = numbers_of(NUMBER_OF_COUNTERS, &n);

        for (size_t i = 0; i < n; ++i)
                assert_true(number_value(&numbers[i], NULL) == 0);
}

int main(int argc, char **argv) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_numbers_of_every_member),
                cmocka_unit_test(test_numbers_in_json),
                cmocka_unit_test(test_numbers_in_metrics),
                cmocka_unit_test(test_start_time_stands_still),
                cmocka_unit_test(test_numbers_in_text),
                cmocka_unit_test(test_numbers_in_manual),
                cmocka_unit_test(test_number_value_no_message),
        };
        FILE *page = argc > 1 ? fopen(argv[1], "re") : NULL;

        if (!page || fread(manual_page, 1, sizeof(manual_page) - 1, page) == 0) {
                (void) fprintf(stderr, "usage: test-ctl-numbers PAGE\n");
                return 2;
        }
        (void) fclose(page);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
