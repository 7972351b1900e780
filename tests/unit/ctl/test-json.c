/* The fixed names in the JSON of tslabctl, and hints. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/ctl/advice/pool-hints.h"
#include "daemon/ctl/output/json-reply.h"
#include "daemon/ctl/output/json.h"
#include "proto/cleanup.h"

static void json_putp(json_object **object) {
        (void) json_object_put(*object);
}

static json_object *member(json_object *object, const char *name) {
        json_object *value;

        if (!json_object_object_get_ex(object, name, &value))
                fail_msg("no member '%s'", name);
        return value;
}

static void assert_members(json_object *object, json_type type, const char *const *names) {
        for (; *names; ++names)
                if (!json_object_is_type(member(object, *names), type))
                        fail_msg("'%s' is of another type", *names);
}

static void assert_u64(json_object *object, const char *name, uint64_t expected) {
        assert_true(json_object_get_uint64(member(object, name)) == expected);
}

static void assert_text(json_object *object, const char *name, const char *expected) {
        assert_string_equal(json_object_get_string(member(object, name)), expected);
}

static void assert_epoch_names(json_object *epoch) {
        assert_members(epoch, json_type_int,
                       (const char *const[]){ "id", "era", "slabs", "live_objects", "committed_bytes",
                                              "reclaimed_bytes", NULL });
        assert_members(epoch, json_type_string, (const char *const[]){ "state", "label", NULL });
        assert_members(member(epoch, "older"), json_type_int,
                       (const char *const[]){ "slabs", "live_objects", NULL });
}

/* As of a path, which is any bytes. */
static void test_json_text_is_utf8(void **state) {
        _cleanup_(json_putp) json_object *o = json_new_object(), *array = json_new_array();

        (void) state;
        json_add_string(o, "socket", "/tmp/\xff\"\x1b\xc3\xa4/\xc3");
        assert_text(o, "socket", "/tmp/?\"?\xc3\xa4/?");
        json_append_string(array, "\xed\xa0\x80");
        assert_string_equal(json_object_to_json_string_ext(array, JSON_C_TO_STRING_PLAIN), "[\"???\"]");
}

static void test_json_epoch_values(void **state) {
        Tslab__EpochInfo epoch = TSLAB__EPOCH_INFO__INIT;
        Tslab__EpochOlder older = TSLAB__EPOCH_OLDER__INIT;
        _cleanup_(json_putp) json_object *o = NULL, *bare = NULL;

        epoch.id = 3;
        epoch.era = 2;
        epoch.state = TSLAB__EPOCH_STATE__EPOCH_STATE_CLOSING;
        bare = json_epoch(&epoch);
        assert_epoch_names(bare);
        assert_text(bare, "label", "");

        epoch.label = (char *) "a \"label\"";
        epoch.committed_bytes = UINT64_MAX;
        older.live_objects = 7;
        epoch.older = &older;
        o = json_epoch(&epoch);
        assert_epoch_names(o);
        assert_u64(o, "epoch", 3 | 2 << 8);
        assert_u64(o, "committed_bytes", UINT64_MAX);
        assert_text(o, "state", "closing");
        assert_text(o, "label", "a \"label\"");
        assert_u64(member(o, "older"), "live_objects", 7);
}

static void test_json_stats_names(void **state) {
        Tslab__EpochInfo epoch = TSLAB__EPOCH_INFO__INIT, *epochs[] = { &epoch };
        Tslab__ClassInfo class = TSLAB__CLASS_INFO__INIT, *classes[] = { &class };
        Tslab__StatsReply stats = TSLAB__STATS_REPLY__INIT;
        uint8_t arena_id[16] = { 0x01, 0xff };
        _cleanup_(json_putp) json_object *o = NULL;

        epoch.state = TSLAB__EPOCH_STATE__EPOCH_STATE_OPEN;
        stats.pool = (char *) "default";
        stats.epochs = epochs;
        stats.n_epochs = 1;
        stats.classes = classes;
        stats.n_classes = 1;
        stats.arena_id = (ProtobufCBinaryData){ sizeof(arena_id), arena_id };
        /* no counters: none must be the same as all 0 */
        o = json_stats(&stats);

        assert_text(o, "pool", "default");
        assert_text(o, "arena_id", "01ff0000000000000000000000000000");
        assert_members(o, json_type_int,
                       (const char *const[]){ "size_bytes", "committed_bytes", "metadata_bytes",
                                              "retained_bytes", "live_objects", "live_bytes",
                                              "cached_objects", "clients", "threads", NULL });
        assert_epoch_names(json_object_array_get_idx(member(o, "epochs"), 0));
        assert_members(json_object_array_get_idx(member(o, "classes"), 0), json_type_int,
                       (const char *const[]){ "size", "slabs", "live_objects", NULL });
        assert_members(member(o, "counters"), json_type_int,
                       (const char *const[]){ "allocs", "frees", "alloc_hits", "frees_cached", "refills",
                                              "flushes", "alloc_bypassed", "free_bypassed", "bypass_windows",
                                              "slabs_recycled", "slabs_reclaimed", "failures", NULL });
}

static void test_json_check_names(void **state) {
        char *problems[] = { (char *) "slab 7 slot 3 is lost" };
        Tslab__CheckReply check = TSLAB__CHECK_REPLY__INIT;
        _cleanup_(json_putp) json_object *o = NULL;

        check.lost_slots = 1;
        check.problems = problems;
        check.n_problems = 1;
        o = json_check(&check);

        assert_members(o, json_type_boolean, (const char *const[]){ "ok", NULL });
        assert_members(o, json_type_int,
                       (const char *const[]){ "lost_slots", "doubled_slots", "unsettled_slots", "wrong_hints",
                                              NULL });
        assert_int_equal(json_object_array_length(member(o, "problems")), 1);
        assert_false(json_object_get_boolean(member(o, "ok")));
        assert_u64(o, "lost_slots", 1);
}

static void test_json_epoch_close_names(void **state) {
        Tslab__EpochCloseReply reply = TSLAB__EPOCH_CLOSE_REPLY__INIT;
        _cleanup_(json_putp) json_object *o = NULL;

        reply.epoch = 3 | 2 << 8;
        reply.reclaimed_bytes = 4096;
        o = json_epoch_close(&reply);

        assert_members(
                o, json_type_int,
                (const char *const[]){ "epoch", "reclaimed_bytes", "live_objects", "pending_threads", NULL });
        assert_u64(o, "epoch", 3 | 2 << 8);
        assert_u64(o, "id", 3);
        assert_u64(o, "era", 2);
        assert_u64(o, "reclaimed_bytes", 4096);
}

static void test_json_root_handle_is_text(void **state) {
        Tslab__RootInfo root = TSLAB__ROOT_INFO__INIT;
        _cleanup_(json_putp) json_object *o = NULL;

        root.name = (char *) "index";
        root.handle = UINT64_MAX - 1;
        o = json_root(&root);
        assert_text(o, "handle", "0xfffffffffffffffe");
}

static void test_json_client_role(void **state) {
        Tslab__ClientInfo client = TSLAB__CLIENT_INFO__INIT;
        _cleanup_(json_putp) json_object *o = NULL;

        client.role = PROTO_ROLE_WRITER;
        client.pid = 12;
        o = json_client(&client, NULL);
        assert_text(o, "role", "writer");
        assert_text(o, "comm", "");
        assert_u64(o, "pid", 12);
}

static bool has_hint(const Tslab__StatsReply *stats, const char *part) {
        Hints hints;

        hints_find(&hints, stats, "tslabctl --pool web");
        for (size_t i = 0; i < hints.n_hints; ++i) {
                const char *command = strstr(hints.hints[i], "tslabctl");

                /* a command names the pool */
                assert_true(!command || !strncmp(command, "tslabctl --pool web ", 20));
                if (strstr(hints.hints[i], part))
                        return true;
        }
        return false;
}

static void test_hints_find_none(void **state) {
        Tslab__StatsReply stats = TSLAB__STATS_REPLY__INIT;
        Hints hints;

        /* all 0, as of a daemon that has just begun */
        hints_find(&hints, &stats, "tslabctl --pool web");
        assert_int_equal(hints.n_hints, 0);

        stats.n_slabs = 1000;
        stats.size_bytes = 5000000;
        stats.committed_bytes = 1000 * 4096;
        stats.retained_bytes = 900 * 4096;
        stats.memfd_blocks_bytes = stats.committed_bytes;
        stats.n_records = 1024;
        stats.threads = 10;
        hints_find(&hints, &stats, "tslabctl --pool web");
        assert_int_equal(hints.n_hints, 0);
}

static void test_hints_find_each(void **state) {
        Tslab__EpochInfo epoch = TSLAB__EPOCH_INFO__INIT, *epochs[] = { &epoch };
        Tslab__EpochOlder older = TSLAB__EPOCH_OLDER__INIT;
        Tslab__Counters counters = TSLAB__COUNTERS__INIT;
        Tslab__StatsReply stats = TSLAB__STATS_REPLY__INIT;

        stats.n_records = 1024;
        stats.threads = 1000;
        assert_true(has_hint(&stats, "1000 of 1024 thread records"));
        stats.records_shared = 2;
        assert_true(has_hint(&stats, "2 threads are without a record"));

        stats.n_slabs = 1000;
        stats.committed_bytes = 950 * 4096;
        assert_true(has_hint(&stats, "3.7M of 3.9M are in use; close epochs"));
        /* Entries of maps that evict go by themselves. */
        stats.evictable_bytes = 10 * 4096;
        assert_true(has_hint(&stats, "and only 40.0K of that are entries that maps may evict; close epochs"));
        stats.evictable_bytes = 100 * 4096;
        assert_false(has_hint(&stats, "nearly full"));
        counters.failures = 1;
        stats.counters = &counters;
        assert_true(has_hint(&stats, "1 allocation failed since the pool began because it was full"));
        counters.failures_limit = 1;
        assert_false(has_hint(&stats, "full; close"));
        assert_true(has_hint(&stats, "because the memory limit of a control group was reached"));
        counters.failures_limit = 0;
        counters.failures_system = 1;
        assert_false(has_hint(&stats, "full; close"));
        assert_true(has_hint(&stats, "because the system had no memory"));
        stats.size_bytes = 1000 << 20;
        stats.limit_cgroup = (char *) "/x.slice";
        stats.limit_bytes = 100 << 20;
        stats.limit_left_bytes = 20 << 20;
        assert_false(has_hint(&stats, "/x.slice"));
        stats.limit_used_bytes = 90 << 20;
        stats.limit_left_bytes = 2 << 20;
        assert_true(has_hint(&stats, "90.0M of the memory limit of /x.slice are in use, and 2.0M are left"));
        stats.size_bytes = stats.committed_bytes; /* the pool would not grow any more */
        assert_false(has_hint(&stats, "/x.slice"));
        counters.too_large = 2;
        counters.too_large_bytes = UINT64_MAX;
        counters.values_too_large = 1;
        counters.values_too_large_bytes = 2000000;
        assert_true(has_hint(&stats, "took 18446744073709551615 bytes; no class can have so many"));
        assert_true(has_hint(&stats, "1 value of a map was refused"));
        assert_true(has_hint(
                &stats,
                "'tslabctl --pool web maps set MAP --value-max=BYTES' or '--limit=BYTES' takes them"));
        assert_true(has_hint(&stats, "the largest took 2000000 bytes with its key"));
        counters.too_large_bytes = 4096;
        assert_true(has_hint(&stats, "took 4096 bytes; 'tslabctl --pool web suggest' says"));
        stats.memfd_blocks_bytes = stats.committed_bytes + (2 << 20);
        assert_true(has_hint(&stats, "2.0M of pages belong to no slab"));

        stats.epochs = epochs;
        stats.n_epochs = 1;
        epoch.id = 3;
        epoch.era = 2;
        epoch.live_objects = 5;
        epoch.state = TSLAB__EPOCH_STATE__EPOCH_STATE_OPEN;
        assert_false(has_hint(&stats, "epoch 3:2"));
        epoch.state = TSLAB__EPOCH_STATE__EPOCH_STATE_CLOSING;
        assert_true(has_hint(&stats, "epoch 3:2 was closed"));
        /* advice never destroys data */
        assert_false(has_hint(&stats, "revoke"));
        assert_false(has_hint(&stats, "new keys"));
        epoch.maps = true;
        assert_true(has_hint(&stats, "epoch 3:2, of the indexes of all maps, is closed"));
        older.live_objects = 9;
        epoch.older = &older;
        assert_true(has_hint(&stats, "earlier eras of epoch 3 still hold 9 objects"));
}

/* Memory in use far above that of the objects: in caches, or in slabs with few objects. */
static void test_hints_find_unused(void **state) {
        Tslab__EpochInfo few = TSLAB__EPOCH_INFO__INIT, many = TSLAB__EPOCH_INFO__INIT,
                         *epochs[] = { &few, &many };
        Tslab__ClassInfo class = TSLAB__CLASS_INFO__INIT, *classes[] = { &class };
        Tslab__StatsReply stats = TSLAB__STATS_REPLY__INIT;

        stats.epochs = epochs;
        stats.n_epochs = 2;
        few.era = many.era = 1;
        many.id = 7;
        few.slabs = 100;
        many.slabs = 4000;
        many.live_bytes = stats.live_bytes = 1 << 20;
        stats.n_slabs = 100000;
        stats.committed_bytes = 4100 * 4096;
        class.slots = 32;
        class.slabs = 4100;
        stats.classes = classes;
        stats.n_classes = 1;
        assert_true(has_hint(
                &stats, "16.0M are in use for 1.0M of objects; epoch 7:1 has most of it, 15.6M for 1.0M; "
                        "each object keeps its slab: sparse slabs"));
        stats.cached_objects = 100000;
        assert_true(has_hint(&stats, "in their caches, which 'tslabctl --pool web trim' empties"));
        stats.live_bytes = 9 << 20; /* more than half of it are objects */
        assert_false(has_hint(&stats, "are in use for"));
        stats.live_bytes = 0;
        stats.committed_bytes = 1000 * 4096; /* not much */
        assert_false(has_hint(&stats, "are in use for"));
}

static void test_hints_find_bounded(void **state) {
        Tslab__EpochInfo epoch = TSLAB__EPOCH_INFO__INIT, *epochs[64];
        Tslab__StatsReply stats = TSLAB__STATS_REPLY__INIT;
        Hints hints;

        epoch.state = TSLAB__EPOCH_STATE__EPOCH_STATE_CLOSING;
        epoch.live_objects = 1;
        for (size_t i = 0; i < 64; ++i)
                epochs[i] = &epoch;
        stats.epochs = epochs;
        stats.n_epochs = 64;
        hints_find(&hints, &stats, "tslabctl --pool web");
        assert_int_equal(hints.n_hints, HINTS_MAX);
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_json_text_is_utf8),
                cmocka_unit_test(test_json_epoch_values),
                cmocka_unit_test(test_json_stats_names),
                cmocka_unit_test(test_json_check_names),
                cmocka_unit_test(test_json_epoch_close_names),
                cmocka_unit_test(test_json_root_handle_is_text),
                cmocka_unit_test(test_json_client_role),
                cmocka_unit_test(test_hints_find_none),
                cmocka_unit_test(test_hints_find_each),
                cmocka_unit_test(test_hints_find_unused),
                cmocka_unit_test(test_hints_find_bounded),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
