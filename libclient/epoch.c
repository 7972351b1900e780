/* Control calls: the arena has all that they look up; the pool's host makes changes. */

#include <errno.h>
#include <string.h>

#include "libclient/pool/enter.h"
#include "libclient/pool/host.h"
#include "proto/text.h"
#include "shm/epoch/epoch.h"

static_assert(TSLAB_EPOCH_CURRENT == SHM_EPOCH_CURRENT, "one number for both");
static_assert(TSLAB_LABEL_SIZE == SHM_LABEL_SIZE && TSLAB_LABEL_SIZE == PROTO_LABEL_MAX + 1,
              "one limit for all");
static_assert((int) TSLAB_EPOCH_OPEN == (int) SHM_EPOCH_OPEN &&
                      (int) TSLAB_EPOCH_CLOSING == (int) SHM_EPOCH_CLOSING &&
                      (int) TSLAB_EPOCH_DRAINED == (int) SHM_EPOCH_DRAINED,
              "one number for both");

_public_ int tslab_epoch_current(struct tslab *pool, uint32_t *ret_epoch) {
        *ret_epoch = shm_epoch_current(&pool->arena);
        return 0;
}

_public_ int tslab_epoch_info(struct tslab *pool, uint32_t epoch, struct tslab_epoch_info *info) {
        struct tslab_epoch_info full = {};
        ShmEpochInfo shm;
        size_t size = info->size;
        int r;

        if (size < sizeof(info->size) + sizeof(info->epoch))
                return -EINVAL;
        if (epoch == TSLAB_EPOCH_CURRENT)
                epoch = shm_epoch_current(&pool->arena);
        r = shm_epoch_get(&pool->arena, epoch & 0xff, &shm);
        if (r)
                return r;
        if (epoch >> 8 != 0 && epoch >> 8 != shm.era)
                return -ESTALE;
        full.epoch = shm_epoch_number(shm.id, shm.era);
        full.state = shm.state;
        full.current = shm.current;
        full.reserved = shm.flags & SHM_EPOCH_RESERVED;
        memcpy(full.label, shm.label, sizeof(full.label));
        full.opened_usec = shm.opened_usec;
        full.closed_usec = shm.closed_usec;
        full.reclaimed_bytes = shm.reclaimed_size;
        full.size = size;
        if (size > sizeof(full)) /* fields of a later version are 0 */
                memset((uint8_t *) info + sizeof(full), 0, size - sizeof(full));
        memcpy(info, &full, size < sizeof(full) ? size : sizeof(full));
        return 0;
}

static int epoch_advance(struct tslab *pool, uint32_t expected, uint32_t *ret_epoch) {
        uint32_t epoch;
        int r;

        r = pool_begin(pool);
        if (r)
                return r;
        r = pool->host->advance(pool, expected, &epoch);
        pool_end(pool);
        if (r >= 0 && ret_epoch)
                *ret_epoch = epoch;
        return r;
}

_public_ int tslab_epoch_advance(struct tslab *pool, uint32_t *ret_epoch) {
        int r;

        r = epoch_advance(pool, 0, ret_epoch);
        return r < 0 ? r : 0;
}

_public_ int tslab_epoch_advance_from(struct tslab *pool, uint32_t expected, uint32_t *ret_epoch) {
        if (expected == TSLAB_EPOCH_CURRENT || expected >> 8 == 0 ||
            (expected & 0xff) >= pool->arena.n_epochs)
                return -EINVAL;
        return epoch_advance(pool, expected, ret_epoch);
}

static int epoch_reserve(struct tslab *pool, const char *label, bool lease, uint32_t *ret_epoch) {
        int r;

        if (!proto_text_is_clean(label, PROTO_LABEL_MAX))
                return -EINVAL;
        r = pool_begin(pool);
        if (r)
                return r;
        r = pool->host->reserve(pool, label, lease, ret_epoch);
        pool_end(pool);
        return r;
}

_public_ int tslab_epoch_reserve(struct tslab *pool, const char *label, uint32_t *ret_epoch) {
        return epoch_reserve(pool, label, false, ret_epoch);
}

_public_ int tslab_epoch_lease(struct tslab *pool, const char *label, uint32_t *ret_epoch) {
        return epoch_reserve(pool, label, true, ret_epoch);
}

_public_ int tslab_epoch_label(struct tslab *pool, uint32_t epoch, const char *label) {
        int r;

        if (!proto_text_is_clean(label, PROTO_LABEL_MAX))
                return -EINVAL;
        r = pool_begin(pool);
        if (r)
                return r;
        if (epoch == TSLAB_EPOCH_CURRENT)
                epoch = shm_epoch_current(&pool->arena);
        r = pool->host->label(pool, epoch, label);
        pool_end(pool);
        return r;
}

_public_ int tslab_epoch_close(struct tslab *pool, uint32_t epoch, uint32_t flags) {
        int r;

        if ((flags & ~(TSLAB_CLOSE_REVOKE | TSLAB_CLOSE_OLDER)) || flags == TSLAB_CLOSE_OLDER)
                return -EINVAL;
        r = pool_begin(pool);
        if (r)
                return r;
        if (epoch == TSLAB_EPOCH_CURRENT)
                epoch = shm_epoch_current(&pool->arena);
        r = pool->host->close(pool, epoch, flags);
        pool_end(pool);
        return r;
}

_public_ int tslab_reap(struct tslab *pool) {
        int r = pool_begin(pool);

        if (r)
                return r;
        r = pool->host->reap(pool);
        pool_end(pool);
        return r;
}

_public_ int tslab_control_owner(struct tslab *pool) {
        return pool->host->control_owner(pool);
}
