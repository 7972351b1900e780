#include "tests/crash/crash-claims.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/util/test.h"

#define SIZE_LARGE 9000 /* a chain */

static const char value[SIZE_LARGE];

void claims_begin(struct tslab *pool) {
        struct tslab_map_options o = { .size = sizeof(o), .ttl_ms = 5, .stale_ms = 20 };
        struct tslab_map *map;

        assert_int_equal(tslab_map_open(&map, pool, "claims", &o), 0);
        tslab_map_close(map);
}

struct tslab_map *claims_open(struct tslab *pool) {
        struct tslab_map *map;

        return tslab_map_open(&map, pool, "claims", NULL) == 0 ? map : NULL;
}

/* A process that its parent has not waited for yet is dead. */
static bool is_alive(pid_t pid) {
        struct pollfd p = { .fd = (int) syscall(SYS_pidfd_open, pid, 0), .events = POLLIN };
        bool alive;

        if (p.fd < 0)
                return errno != ESRCH;
        alive = poll(&p, 1, 0) == 0;
        close(p.fd);
        return alive;
}

/* Other errors are want of memory. */
static void end_claim(Claims *claims, struct tslab_map *map, unsigned key, tslab_handle claim, uint32_t epoch,
                      uint64_t random) {
        size_t size = random & 1 ? 100 : SIZE_LARGE;
        int r = -ENOMEM;

        claims->holders[key] = 0;
        if (random & 6)
                r = tslab_map_replace(map, &key, sizeof(key), claim, value, size, epoch);
        if (r == -ENOMEM)
                r = tslab_map_delete_version(map, &key, sizeof(key), claim);
        if (r == -EAGAIN || r == -ENOENT)
                claims->n_lost++;
}

static void hold_claim(Claims *claims, unsigned key) {
        pid_t before = atomic_exchange(&claims->holders[key], getpid());

        claims->n_claims++;
        if (before == 0)
                return;
        claims->n_taken_over++;
        if (is_alive(before))
                claims->n_doubled++;
}

static void delete_value(struct tslab_map *map, unsigned key) {
        struct tslab_map_info info = { .size = sizeof(info) };

        if (tslab_map_find(map, &key, sizeof(key), &info) == 0)
                (void) tslab_map_delete_version(map, &key, sizeof(key), info.version);
}

void claims_once(Claims *claims, struct tslab_map *map, uint32_t epoch, uint64_t random) {
        struct tslab_map_info info = { .size = sizeof(info), .accept = TSLAB_MAP_STALE };
        unsigned key = random % CLAIMS_KEYS;
        static char buffer[SIZE_LARGE];
        tslab_handle claim;
        int r;

        (void) tslab_map_get_with(map, &key, sizeof(key), buffer, sizeof(buffer), &info);
        r = tslab_map_claim(map, &key, sizeof(key), epoch, &claim);
        if (r == 0) {
                hold_claim(claims, key);
                if ((random >> 24 & 63) == 0)
                        usleep((random >> 32) % 1000); /* it computes */
                end_claim(claims, map, key, claim, epoch, random >> 8);
        } else if (r == -EBUSY && (random >> 16 & 3) == 0) {
                claims->n_waits++;
                (void) tslab_map_wait(map, &key, sizeof(key), claim, (uint32_t) (random >> 20) % 3);
        } else if (r == -EEXIST) {
                delete_value(map, key);
        }
}

int claims_end(Claims *claims, struct tslab *pool, uint32_t epoch) {
        struct tslab_map *map = claims_open(pool);
        tslab_handle claim;
        int r = map ? 0 : -EIDRM;

        for (unsigned key = 0; r == 0 && key < CLAIMS_KEYS; key++) {
                r = tslab_map_claim(map, &key, sizeof(key), epoch, &claim);
                (void) tslab_map_delete(map, &key, sizeof(key));
                r = r == -EEXIST ? 0 : r;
        }
        map = tslab_map_close(map);
        print_message("%llu claims, %llu of them after a death, %llu waits\n",
                      (unsigned long long) claims->n_claims, (unsigned long long) claims->n_taken_over,
                      (unsigned long long) claims->n_waits);
        return r;
}
