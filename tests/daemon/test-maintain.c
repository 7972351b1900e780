/* The maintainer's work in a real daemon: threads that stand still inside an operation, and daemons that take over. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "proto/deadline.h"
#include "shm/cache/cache-hit.h"
#include "shm/epoch/epoch.h"
#include "shm/slab/slab.h"
#include "tests/util/daemon-fixture.h"
#include "tests/util/test.h"

#define N_SLABS 32U /* each full of objects */

static int setup(void **state) {
        *state = raw_pool_open((const char *[]){ "--size=8M", "--retain=0", "--epochs=4", "--classes=64,4096",
                                                 "--log-level=err", NULL },
                               N_SLABS);
        return 0;
}

static bool is_frozen(RawPool *pool) {
        ShmActor *actor = &pool->client.actor;

        /* ORDER: acq, pairs with the daemon's thaw. */
        return shm_load_acq(&shm_arena_record(&pool->client.arena, actor->id)->attention) &
               SHM_ATTENTION_FREEZE;
}

/* Once it is outside, it is thawed, though no epoch closes: the daemon looks again. */
static void test_trim_beside_call(void **state) {
        RawPool *pool = *state;

        shm_actor_enter(&pool->client.actor);
        (void) daemon_trim(pool->client.call);
        assert_true(is_frozen(pool));
        shm_actor_leave(&pool->client.actor);
        WAIT_FOR(!is_frozen(pool));
}

/* The same, of a freeze that an earlier daemon began. */
static void test_trim_beside_call_restart(void **state) {
        RawPool *pool = *state;
        char adopt[32];

        (void) snprintf(adopt, sizeof(adopt), "--adopt=%d", (int) getpid());
        shm_actor_enter(&pool->client.actor);
        (void) daemon_trim(pool->client.call);
        daemon_kill(&pool->daemon);
        assert_true(is_frozen(pool));
        shm_actor_leave(&pool->client.actor);
        daemon_restart(&pool->daemon, (const char *[]){ adopt, "--log-level=err", NULL });
        WAIT_FOR(!is_frozen(pool));
}

static unsigned n_used(RawPool *pool) {
        unsigned n = 0;

        for (size_t i = 0; i < N_SLABS; i++) {
                SlabWord w =
                        shm_slab_word(&pool->client.arena, slot_id_slab(shm_handle_slot(pool->handles[i])));

                n += slab_word_state(w) != SLAB_UNCOMMITTED;
        }
        return n;
}

/* Slabs of an era that is over go back as they drain, also under a later daemon and with another era open. */
static void test_older_era_restart(void **state) {
        RawPool *pool = *state;
        char adopt[32];

        (void) snprintf(adopt, sizeof(adopt), "--adopt=%d", (int) getpid());
        for (size_t i = 0; i < N_SLABS; i++)
                assert_int_equal(
                        shm_object_alloc(&pool->client.actor, 4096, 0, NULL, &pool->handles[i], NULL), 0);
        {
                _cleanup_(proto_reply_freep) ProtoReply *reply = daemon_close(pool->client.call, 0);

                assert_int_equal(reply->epoch_close->live_objects, N_SLABS);
        }
        for (int i = 0; i < 4; i++)
                (void) daemon_advance(pool->client.call);
        assert_int_equal(n_used(pool), N_SLABS);
        daemon_kill(&pool->daemon);
        daemon_restart(&pool->daemon, (const char *[]){ adopt, "--retain=0", "--log-level=err", NULL });
        for (size_t i = 0; i < N_SLABS; i++)
                assert_int_equal(shm_object_free(&pool->client.actor, pool->handles[i]), 0);
        WAIT_FOR(n_used(pool) == 0);
}

#define TEST(_test) cmocka_unit_test_setup_teardown(_test, setup, raw_pool_teardown)

int main(void) {
        const struct CMUnitTest tests[] = {
                TEST(test_trim_beside_call),
                TEST(test_trim_beside_call_restart),
                TEST(test_older_era_restart),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
