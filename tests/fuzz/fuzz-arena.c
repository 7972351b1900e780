/*
 * An arena that somebody scribbles over, and a daemon that does all its work on it. The input is a
 * program of 12-byte steps:
 *
 *      what 1 | a 1 | b 2 | value 8         a write (see arena-image.h), or an operation of the daemon
 *
 * In the end everything is done once more. Nothing crashes, nothing is touched outside the arena, no
 * operation goes on for ever, and what is copied out of the arena keeps to its limits.
 */
#include <stdlib.h>
#include <string.h>

#include "daemon/epoch-count.h"
#include "shm/client.h"
#include "shm/epoch.h"
#include "shm/maintain/check.h"
#include "shm/maintain/drain.h"
#include "shm/maintain/freeze.h"
#include "shm/maintain/repair.h"
#include "shm/maintain/revoke.h"
#include "shm/map.h"
#include "shm/pages.h"
#include "shm/root.h"
#include "shm/stats.h"
#include "tests/fuzz/arena-image.h"

#define STEP 12U
#define STEPS_MAX 40U

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static ShmArena arena;
static ShmActor control;
static ShmFreeze freeze;

static bool is_text(const char *text, size_t size) {
        size_t n = strnlen(text, size);

        for (size_t i = 0; i < n; i++)
                if (text[i] < ' ' || text[i] > '~')
                        return false;
        return n < size;
}

/* Epochs */

static void drain(uint32_t epoch) {
        ShmDrain walk = { .epoch = epoch };

        while (!shm_drain_step(&control, &walk, 64))
                ;
}

static void empty_caches(uint64_t epochs) {
        (void) shm_freeze_begin(&control, &freeze, epochs);
        (void) shm_freeze_step(&control, &freeze, UINT32_MAX);
        require(shm_freeze_pending(&control, &freeze) < IMAGE_N_RECORDS);
}

static void close_epoch(uint32_t number, bool revoke) {
        ShmRevoke sweep = { .epoch = number & 0xff };
        EpochCount live = { .epoch = number & 0xff };

        if (shm_epoch_close(&arena, number, true) != 0)
                return;
        empty_caches(UINT64_C(1) << (number & 0xff));
        while (revoke && !shm_revoke_step(&control, &sweep, 16))
                ;
        drain(number & 0xff);
        while (!epoch_count_step(&live, &arena, 16))
                ;
        (void) shm_freeze_left(&freeze, number & 0xff);
}

static void advance(void) {
        uint32_t id, number;

        if (shm_epoch_next(&arena, &id) != 0)
                return;
        close_epoch(id, false);
        if (shm_epoch_advance(&arena, &number) == 0)
                drain(number & 0xff);
}

static void reserve(void) {
        uint32_t id, number;

        if (shm_epoch_spare(&arena, &id) != 0 || shm_epoch_close(&arena, id, true) != 0)
                return;
        (void) shm_freeze_begin(&control, &freeze, UINT64_C(1) << id);
        require(shm_epoch_reserve(&arena, id, "label", &number) == 0);
        drain(number & 0xff);
}

static void list_epochs(void) {
        ShmEpochInfo info;

        for (uint32_t i = 0; i < IMAGE_N_EPOCHS; i++) {
                require(shm_epoch_get(&arena, i, &info) == 0);
                require(is_text(info.label, sizeof(info.label)));
        }
}

/* Pages */

static void commit(uint32_t n) {
        uint32_t done = 0;

        shm_actor_enter(&control);
        if (shm_pages_commit(&control, n % 32 + 1, &done) == 0)
                require(done > 0 && done <= n % 32 + 1);
        shm_actor_leave(&control);
}

static void trim(uint32_t keep) {
        (void) shm_pages_trim(&control, keep % IMAGE_N_SLABS, IMAGE_N_SLABS);
        (void) shm_pages_drop_surplus(&control);
}

/* The dead */

static void repair(void) {
        ShmRepair pass = {};

        while (!shm_repair_step(&control, &pass, 8))
                ;
}

static void die(uint32_t client) {
        if (shm_client_release_records(&arena, client) > 0)
                repair();
        if (shm_client_release_records(&arena, client) == 0)
                shm_client_remove(&arena, client);
}

/* The next daemon's beginning. */
static void take_over(void) {
        ShmRepairCounts counts;
        ShmClientInfo info;
        ShmEpochInfo epoch;

        shm_actor_init_daemon(&control, &arena);
        freeze = (ShmFreeze){};
        shm_actor_enter(&control);
        shm_repair_control(&control, &counts);
        shm_actor_leave(&control);
        for (uint32_t i = 0; i < IMAGE_N_RECORDS; i++)
                if (shm_client_get(&arena, i, &info) == 0) {
                        require(is_text(info.comm, sizeof(info.comm)) && info.index == i);
                        if (info.pid != 1)
                                die(i);
                }
        if (shm_repair_frozen(&arena))
                empty_caches(UINT64_MAX);
        for (uint32_t i = 0; i < IMAGE_N_EPOCHS; i++)
                if (shm_epoch_get(&arena, i, &epoch) == 0 && epoch.state == SHM_EPOCH_CLOSING)
                        drain(i);
}

/* Reading */

static void check(bool mend) {
        ShmCheck result;

        require((mend ? shm_check_repair(&control, &result) : shm_check(&arena, &result)) == 0);
        require(result.n_texts <= SHM_CHECK_PROBLEMS_MAX && (result.n_texts > 0 || result.problems == 0));
        for (size_t i = 0; i < result.n_texts; i++)
                require(is_text(result.texts[i], sizeof(result.texts[0])));
}

static void count(void) {
        ShmStats stats;

        shm_stats(&arena, &stats);
        require(stats.committed_size <= IMAGE_N_SLABS * SHM_SLAB_SIZE);
        require(stats.live_objects <= IMAGE_N_SLABS * SHM_SLOTS_MAX);
        require(stats.live_size <= IMAGE_N_SLABS * SHM_SLAB_SIZE);
        require(stats.threads <= IMAGE_N_RECORDS && stats.clients <= IMAGE_N_RECORDS);
}

static void scan_map(uint64_t root) {
        uint8_t buffer[SHM_CLASS_SIZE_MAX];
        ShmTrieScan scan = {};
        ShmMapView view;
        ShmTrie trie;

        if (shm_trie_open(&trie, &arena, root) != 0)
                return;
        while (shm_map_next(&trie, &scan, buffer, &view) == 1)
                require(view.head.key_size <= sizeof(buffer) &&
                        view.head.value_size <= sizeof(buffer) - view.head.key_size);
        (void) shm_map_count(&trie);
        for (uint64_t hash = 1; hash != 0; hash <<= 9)
                (void) shm_trie_contains(&arena, root, hash, root ^ hash);
}

static void list_roots(void) {
        char name[SHM_ROOT_NAME_SIZE];
        uint64_t handle;
        void *object;
        size_t size;

        for (uint32_t i = 0; i < SHM_ROOTS_MAX; i++) {
                if (shm_root_at(&arena, i, name, &handle) != 0)
                        continue;
                require(is_text(name, sizeof(name)));
                if (shm_object_get(&arena, handle, &object, &size) == 0)
                        require((uint8_t *) object >= arena.slabs && size <= SHM_SLAB_SIZE &&
                                (uint8_t *) object + size <= arena.slabs + IMAGE_N_SLABS * SHM_SLAB_SIZE);
                scan_map(handle);
        }
}

/* Steps */

enum {
        ADVANCE,
        CLOSE,
        REVOKE,
        RESERVE,
        COMMIT,
        TRIM,
        REPAIR,
        DIE,
        CHECK,
        MEND,
        COUNT,
        ROOTS,
        EMPTY,
        TAKE_OVER,
        N_OPS
};

static void operate(unsigned what, const ImageStep *s) {
        image_begin_operation();
        switch (what) {
        case ADVANCE:
                advance();
                break;
        case CLOSE:
        case REVOKE:
                close_epoch(s->a | (uint32_t) s->b << 8, what == REVOKE);
                break;
        case RESERVE:
                reserve();
                list_epochs();
                break;
        case COMMIT:
                commit(s->a);
                break;
        case TRIM:
                trim(s->a);
                break;
        case REPAIR:
                (void) shm_record_mark_dead(&arena, s->a % IMAGE_N_RECORDS);
                repair();
                break;
        case DIE:
                die(s->a % IMAGE_N_RECORDS);
                break;
        case CHECK:
        case MEND:
                check(what == MEND);
                break;
        case COUNT:
                count();
                break;
        case ROOTS:
                list_roots();
                break;
        case EMPTY:
                empty_caches(s->value);
                break;
        default:
                take_over();
        }
        image_end_operation();
}

/* What is no arena is refused; it has to become one again, for the rest of the input to be of use. */
static void attach(void) {
        int r = image_attach(&arena);

        require(r == 0 || r == SHM_ARENA_E_FORMAT || r == SHM_ARENA_E_DAMAGED);
        if (r != 0) {
                image_mend_header();
                require(image_attach(&arena) == 0);
        }
        shm_actor_init_daemon(&control, &arena);
        freeze = (ShmFreeze){};
}

static void step(const uint8_t *data) {
        ImageStep s = { .what = data[0] % (_IMAGE_WRITE_N + N_OPS), .a = data[1] };

        memcpy(&s.b, data + 2, sizeof(s.b));
        memcpy(&s.value, data + 4, sizeof(s.value));
        if (s.what < _IMAGE_WRITE_N) {
                image_write(&s);
                return;
        }
        if (!arena.base)
                attach();
        operate(s.what - _IMAGE_WRITE_N, &s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        static const uint8_t rest[] = { TAKE_OVER, CHECK, COUNT, ROOTS, ADVANCE, REVOKE, MEND, TRIM, REPAIR };

        (void) image_reset();
        for (size_t i = 0; i + STEP <= size && i < STEPS_MAX * STEP; i += STEP)
                step(data + i);
        if (!arena.base)
                attach();
        for (size_t i = 0; i < sizeof(rest); i++)
                operate(rest[i], &(ImageStep){});
        image_detach(&arena);
        return 0;
}
