/*
 * LMDB on a file in memory, without syncs: 1000 puts are a transaction, and each get is one, since it is to see the
 * puts of others.
 */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <lmdb.h>

#include "bench/harness/harness.h"
#include "bench/keys/keys.h"

#define BYTES_A_KEY 512
#define BYTES_LEAST (UINT64_C(64) << 20)
#define PUTS_A_TRANSACTION 1000

static char path[64];
static MDB_env *env;
static MDB_dbi dbi;
static MDB_txn *writing, *reading;
static uint32_t n_puts;

static void lmdb_check(int r) {
        if (r != 0)
                bench_fail("LMDB: %s", mdb_strerror(r));
}

static void lmdb_settle(void) {
        if (writing)
                lmdb_check(mdb_txn_commit(writing));
        writing = NULL;
        n_puts = 0;
}

static void lmdb_unlink(void) {
        char lock[sizeof(path) + 8];

        (void) snprintf(lock, sizeof(lock), "%s-lock", path);
        (void) unlink(lock);
        (void) unlink(path);
}

static void lmdb_open(uint64_t n_max) {
        (void) snprintf(path, sizeof(path), "/dev/shm/bench-keys-%d", (int) getpid());
        lmdb_unlink();
        lmdb_check(mdb_env_create(&env));
        lmdb_check(mdb_env_set_mapsize(env, BYTES_LEAST + n_max * BYTES_A_KEY));
        lmdb_check(mdb_env_open(env, path, MDB_NOSUBDIR | MDB_NOSYNC | MDB_WRITEMAP, 0600));
        lmdb_check(mdb_txn_begin(env, NULL, 0, &writing));
        lmdb_check(mdb_dbi_open(writing, NULL, 0, &dbi));
        lmdb_settle();
        lmdb_check(mdb_txn_begin(env, NULL, MDB_RDONLY, &reading));
        mdb_txn_reset(reading);
        lmdb_unlink(); /* the mapping keeps it; so nothing is left if the program is killed */
}

static void lmdb_close(void) {
        mdb_txn_abort(reading);
        mdb_env_close(env);
}

static void lmdb_put(uint64_t key, const void *value) {
        MDB_val k = { sizeof(key), &key }, v = { KEYS_VALUE_SIZE, (void *) value };

        if (!writing)
                lmdb_check(mdb_txn_begin(env, NULL, 0, &writing));
        lmdb_check(mdb_put(writing, dbi, &k, &v, 0));
        if (++n_puts == PUTS_A_TRANSACTION)
                lmdb_settle();
}

static void lmdb_get(uint64_t key, void *value) {
        MDB_val k = { sizeof(key), &key }, v;

        lmdb_check(mdb_txn_renew(reading));
        lmdb_check(mdb_get(reading, dbi, &k, &v));
        memcpy(value, v.mv_data, KEYS_VALUE_SIZE);
        mdb_txn_reset(reading);
}

const KeyStore keys_lmdb = {
        .name = "lmdb",
        .n_max = 10000000,
        .open = lmdb_open,
        .close = lmdb_close,
        .put = lmdb_put,
        .settle = lmdb_settle,
        .get = lmdb_get,
};
