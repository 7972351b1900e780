#include "examples/demo/rotation.h"

#include <errno.h>
#include <string.h>

#include "examples/demo/ledger.h"
#include "examples/demo/demo-pages.h"

int rotation_init(Rotation *rotation, uint64_t pages_limit) {
        int r;

        *rotation = (Rotation){};
        r = tslab_open(&rotation->pool, NULL, NULL);
        if (r == 0)
                r = tslab_map_open(&rotation->sessions, rotation->pool, SESSIONS_NAME, NULL);
        if (r == 0)
                r = tslab_map_open(&rotation->ledger, rotation->pool, LEDGER_NAME, NULL);
        if (r == 0)
                r = pages_open(&rotation->pages, rotation->pool, pages_limit);
        if (r == 0)
                r = tslab_epoch_reserve(rotation->pool, LEDGER_NAME, &rotation->ledger_epoch);
        if (r == 0)
                r = tslab_epoch_reserve(rotation->pool, PAGES_NAME, &rotation->pages_epoch);
        return r;
}

void rotation_deinit(Rotation *rotation) {
        rotation->pages = tslab_map_close(rotation->pages);
        rotation->ledger = tslab_map_close(rotation->ledger);
        rotation->sessions = tslab_map_close(rotation->sessions);
        rotation->pool = tslab_close(rotation->pool);
}

/*
 * Adds the sessions of an epoch that has expired to the ledger. No worker writes sessions now, so the walk meets each
 * of them once, and no newer version of one comes.
 */
static int book_session(Rotation *rotation, uint32_t epoch) {
        struct tslab_map_info info = { .size = sizeof(info) };
        char entry[TSLAB_MAP_KEY_MAX + sizeof(Session)];
        struct tslab_map_cursor cursor = {};
        Session session;
        int r;

        while ((r = tslab_map_next(rotation->sessions, &cursor, entry, sizeof(entry), &info)) > 0) {
                if (info.epoch != epoch)
                        continue;
                if (info.value_size > sizeof(session))
                        return -EBADMSG;
                memcpy(&session, entry + info.key_size, info.value_size);
                if (!session_is_valid(&session, info.value_size))
                        return -EBADMSG;
                r = ledger_add(rotation->ledger, (Text){ entry, info.key_size }, &session,
                               rotation->ledger_epoch);
                if (r)
                        return r;
        }
        return r;
}

static int expire_epoch(Rotation *rotation, uint32_t epoch) {
        struct tslab_epoch_info info = { .size = sizeof(info) };
        ssize_t n;
        int r;

        r = book_session(rotation, epoch);
        if (r)
                return r;
        n = tslab_map_expire(rotation->sessions, epoch);
        if (n < 0)
                return (int) n;
        r = tslab_epoch_close(rotation->pool, epoch, 0);
        if (r)
                return r;
        r = tslab_epoch_info(rotation->pool, epoch, &info);
        if (r)
                return r;

        rotation->n_expired += (uint64_t) n;
        rotation->reclaimed_size += info.reclaimed_bytes;
        return 0;
}

static int expire_below(Rotation *rotation, uint32_t period) {
        int r;

        for (; rotation->n_closed < period; ++rotation->n_closed) {
                r = expire_epoch(rotation, rotation->epochs[rotation->n_closed]);
                if (r)
                        return r;
        }
        return 0;
}

int rotation_begin(Rotation *rotation, uint32_t *ret_epoch) {
        uint32_t epoch, n = rotation->n_begun;
        int r;

        if (n == 0)
                r = tslab_epoch_current(rotation->pool, &epoch);
        else
                r = tslab_epoch_advance(rotation->pool, &epoch);
        if (r)
                return r;
        rotation->epochs[rotation->n_begun++] = epoch;
        *ret_epoch = epoch;
        return n > ROTATION_IDLE_MAX ? expire_below(rotation, n - ROTATION_IDLE_MAX) : 0;
}

int rotation_finish(Rotation *rotation) {
        int r;

        /* The last epoch is the current one until another is. */
        r = tslab_epoch_advance(rotation->pool, NULL);
        if (r)
                return r;
        return expire_below(rotation, rotation->n_begun);
}
