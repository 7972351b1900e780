/* The daemon makes memory ahead of demand, and gives free memory back to the system. */
#include <stdlib.h>
#include <unistd.h>

#include "proto/deadline.h"
#include "shm/slab/set.h"
#include "shm/slab/slab.h"
#include "tests/util/daemon-fixture.h"
#include "tests/util/test.h"

#define SLABS(_n) ((_n) * (uint64_t) SHM_SLAB_SIZE)

static DaemonFixture fixture;

static int teardown(void **state) {
        daemon_stop(&fixture);
        return 0;
}

static uint64_t committed(ProtoCall *call, uint64_t *ret_retained) {
        _cleanup_(proto_reply_freep) ProtoReply *reply = daemon_stats(call);

        if (ret_retained)
                *ret_retained = reply->stats->retained_bytes;
        return reply->stats->committed_bytes;
}

static void fill(RawClient *client, uint64_t *handles, size_t n) {
        void *object;

        for (size_t i = 0; i < n; i++)
                assert_int_equal(
                        shm_object_alloc(&client->actor, 768, SHM_EPOCH_CURRENT, NULL, &handles[i], &object),
                        0);
}

static void test_reserve(void **state) {
        static uint64_t handles[5 * 2000];
        RawClient client;
        uint64_t n, by_client;

        daemon_start(&fixture, (const char *[]){ "--size=64M", "--log-level=err", NULL });
        raw_client_open(&client, &fixture, 0);
        WAIT_FOR(committed(client.call, NULL) == SLABS(256));

        /* Slowly enough for the daemon to keep ahead: the client commits nothing. */
        for (size_t i = 0; i < 50; i++) {
                fill(&client, handles + i * 200, 200);
                WAIT_FOR(committed(client.call, &n) - n == SLABS((i + 1) * 40) && n >= SLABS(64));
        }
        by_client = client.actor.record->counters[SHM_COUNT_SLABS_COMMITTED];
        assert_int_equal(by_client, 0);
        raw_client_close(&client);
}

/* The count that clients keep goes wrong when they die at the wrong time; it is put right, by slab words. */
static void test_recount(void **state) {
        RawClient client;
        uint64_t handle;

        daemon_start(&fixture, (const char *[]){ "--size=64M", "--log-level=err", NULL });
        raw_client_open(&client, &fixture, 0);
        WAIT_FOR(committed(client.call, NULL) == SLABS(256));
        fill(&client, &handle, 1);
        shm_set_add(&client.arena, SHM_SET_FREE, slot_id_slab(shm_handle_slot(handle)));
        client.arena.header->n_free.value = 100000;
        WAIT_FOR(client.arena.header->n_free.value == 255);
        client.arena.header->n_free.value = (uint64_t) -5;
        WAIT_FOR(client.arena.header->n_free.value >= 255 && client.arena.header->n_free.value < 1024);
        raw_client_close(&client);
}

/* Free slabs beyond the retained ones go in the background, but slabs of the reserve stay. */
static void test_retain(void **state) {
        static uint64_t handles[5 * 4000];
        uint64_t retained;
        RawClient client;

        daemon_start(&fixture, (const char *[]){ "--size=64M", "--retain=4M", "--log-level=err", NULL });
        raw_client_open(&client, &fixture, 0);
        fill(&client, handles, 5 * 4000);
        for (size_t i = 0; i < 5 * 4000; i++)
                assert_int_equal(shm_object_free(&client.actor, handles[i]), 0);
        WAIT_FOR(committed(client.call, &retained) <= SLABS(1024) * 9 / 8);
        assert_true(retained >= SLABS(1000));
        raw_client_close(&client);
}

static void test_trim(void **state) {
        static uint64_t handles[5 * 2000];
        uint64_t n;
        RawClient client;

        daemon_start(&fixture, (const char *[]){ "--size=64M", "--retain=64M", "--log-level=err", NULL });
        raw_client_open(&client, &fixture, 0);
        fill(&client, handles, 5 * 2000);
        for (size_t i = 0; i < 5 * 2000; i++)
                assert_int_equal(shm_object_free(&client.actor, handles[i]), 0);
        assert_true(committed(client.call, NULL) >= SLABS(2000));

        /* A page that a stale pointer brought into being goes, too. */
        n = daemon_trim(client.call);
        assert_true(n >= SLABS(2000));
        assert_int_equal(committed(client.call, NULL), 0);
        *(volatile uint8_t *) shm_arena_slab(&client.arena, 7) = 1;
        assert_int_equal(daemon_trim(client.call), SLABS(1));
        usleep(1200000); /* a tick: trimmed memory does not come back by itself */
        assert_int_equal(committed(client.call, NULL), 0);

        /* Nor is the reserve gone for good. */
        fill(&client, handles, 5 * 40);
        WAIT_FOR(committed(client.call, &n) - n == SLABS(40) && n >= SLABS(64));
        raw_client_close(&client);
}

static void test_tiny(void **state) {
        uint64_t handles[5 * 3];
        RawClient client;
        void *object;

        daemon_start(&fixture, (const char *[]){ "--size=12K", "--log-level=err", NULL });
        raw_client_open(&client, &fixture, 0);
        fill(&client, handles, 5 * 3);
        assert_int_not_equal(shm_object_alloc(&client.actor, 768, SHM_EPOCH_CURRENT, NULL, handles, &object),
                             0);
        assert_int_equal(committed(client.call, NULL), SLABS(3));
        raw_client_close(&client);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_teardown(test_reserve, teardown),
                cmocka_unit_test_teardown(test_recount, teardown),
                cmocka_unit_test_teardown(test_retain, teardown),
                cmocka_unit_test_teardown(test_trim, teardown),
                cmocka_unit_test_teardown(test_tiny, teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
