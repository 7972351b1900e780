/*
 * An arena that somebody scribbles over, and a daemon that does all its work on it. The input is a
 * program of 12-byte steps:
 *
 *      op 1 | a 1 | b 2 | value 8           a write (see arena-image.h), or an operation of the daemon
 *
 * In the end everything is done once more. Nothing crashes, nothing is touched outside the arena, no
 * operation goes on for ever, and values copied out of the arena keep to their limits.
 */
#include <stdlib.h>
#include <string.h>

#include "daemon/work/epoch-count.h"
#include "shm/arena/client.h"
#include "shm/epoch/epoch-close.h"
#include "shm/epoch/epoch-open.h"
#include "shm/epoch/epoch.h"
#include "shm/maintain/check.h"
#include "shm/maintain/maintain.h"
#include "shm/map/entry/map-sweep.h"
#include "shm/slab/pages.h"
#include "shm/arena/root.h"
#include "shm/stats/stats.h"
#include "shm/arena/text.h"
#include "tests/fuzz/arena-image.h"
#include "tests/fuzz/arena-map.h"

#define STEP 12U
#define STEPS_MAX 40U
#define WORK_MAX 100000U /* steps of the engine at one time; a scribbler may keep it from any end */
#define WAITS_MAX 8U /* for threads that say they are inside an operation */
#define EXPIRY_USEC 1000000U /* the engine looks for entries whose time is over more often than that */
#define OLDER UINT64_C(1)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static ShmArena arena;
static ShmActor control;
static ShmMaintain engine;
static uint64_t now_usec;

static bool is_text(const char *text, size_t size) {
        size_t n = strnlen(text, size), length;

        if (n == size)
                return false;
        for (; *text && (length = shm_text_character(text)) > 0; text += length)
                ;
        return *text == 0;
}

/* The engine */

/* True: nothing is left to be done now. */
static bool work(void) {
        uint64_t next = shm_maintain_step(&engine, now_usec);

        require(next == 0 || next > now_usec);
        now_usec = next == 0 || next == SHM_MAINTAIN_IDLE ? now_usec + 1 : next;
        return next != 0;
}

/* Until it is idle, or waits only. */
static void settle(void) {
        uint32_t n = 0;

        for (uint32_t n_waits = 0; n_waits < WAITS_MAX; n_waits += work())
                require(n++ < WORK_MAX);
}

static void begin_engine(void) {
        shm_actor_init_daemon(&control, &arena);
        memset(&engine, 0, sizeof(engine));
        shm_maintain_init(&engine, &control);
        engine.expires = true;
}

/* Epochs */

static void empty_caches(void) {
        uint64_t number = shm_maintain_empty_caches(&engine, now_usec);

        settle();
        require(engine.n_given <= number);
        require(shm_freeze_pending(&control, &engine.freeze) < IMAGE_N_RECORDS);
}

static void close_id(uint32_t id) {
        uint64_t number = shm_maintain_close(&engine, id, now_usec);

        settle();
        require(shm_maintain_is_walked(&engine, id, number) || !shm_maintain_is_settled(&engine, id, number));
}

static void close_epoch(uint32_t number) {
        EpochCount live = { .epoch = number & 0xff };

        if (shm_epoch_close(&arena, number, true) != 0)
                return;
        close_id(number & 0xff);
        while (!epoch_count_step(&live, &arena, 16))
                ;
}

static void revoke_epoch(uint32_t number, bool older) {
        if (shm_epoch_revoke(&arena, number, older) == 0)
                close_id(number & 0xff);
}

static void advance(void) {
        uint32_t id, number;

        if (shm_epoch_next(&arena, &id) != 0)
                return;
        close_epoch(id);
        if (shm_epoch_advance(&arena, &number) == 0)
                require((number & 0xff) < IMAGE_N_EPOCHS);
}

/* For client b, if there is one. */
static void reserve(uint32_t client) {
        uint32_t id, number;

        if (shm_epoch_spare(&arena, &id) != 0 || shm_epoch_close(&arena, id, true) != 0)
                return;
        close_id(id);
        (void) (client < IMAGE_N_RECORDS ? shm_epoch_lease(&arena, id, "label", client, &number)
                                         : shm_epoch_reserve(&arena, id, "label", &number));
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
        shm_maintain_repair(&engine);
        settle();
}

static void die(uint32_t client) {
        if (shm_client_release_records(&arena, client) > 0)
                repair();
        if (shm_epoch_end_leases(&arena, client) > 0)
                shm_maintain_look(&engine, true, now_usec);
        if (shm_client_release_records(&arena, client) == 0)
                shm_client_remove(&arena, client);
}

/* The next daemon's beginning. */
static void take_over(void) {
        ShmRepairCounts counts;
        ShmClientInfo info;

        begin_engine();
        shm_actor_enter(&control);
        require(shm_maintain_take_over(&engine, now_usec, &counts) <= IMAGE_N_EPOCHS);
        shm_actor_leave(&control);
        for (uint32_t i = 0; i < IMAGE_N_RECORDS; i++)
                if (shm_client_get(&arena, i, &info) == 0) {
                        require(is_text(info.comm, sizeof(info.comm)) && info.index == i);
                        if (info.pid != 1)
                                die(i);
                }
        shm_maintain_look(&engine, true, now_usec);
        settle();
}

/* Reading */

/* Beside the engine, as in the daemon. */
static void check(bool repairs) {
        uint32_t n_slabs = shm_arena_n_slabs_ever(&arena);
        void *memory = calloc(1, shm_check_size(&arena, n_slabs));
        ShmCheckRun *run;
        ShmCheck result;

        require(memory);
        run = shm_check_begin(memory, &arena, n_slabs, repairs ? &control : NULL, &result);
        while (shm_check_step(run, 16))
                (void) work();
        free(memory);
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
        }
}

/* Entries whose time is over, and stale ones of all maps. */
static void sweep(uint64_t ms) {
        ShmMapSweep all = {};

        image_pass((uint32_t) ms & 0xffff);
        while (!shm_map_sweep_step(&control, &all, 16))
                ;
        now_usec += EXPIRY_USEC;
        settle();
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
        CHECK_REPAIR,
        COUNT,
        ROOTS,
        EMPTY,
        TAKE_OVER,
        LOOK,
        MAP,
        SWEEP,
        N_OPS
};

static void operate(unsigned what, const ImageStep *s) {
        image_begin_operation();
        switch (what) {
        case ADVANCE:
                advance();
                break;
        case CLOSE:
                close_epoch(s->a | (uint32_t) s->b << 8);
                break;
        case REVOKE:
                revoke_epoch(s->a | (uint32_t) s->b << 8, s->value & OLDER);
                break;
        case RESERVE:
                reserve(s->b);
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
        case CHECK_REPAIR:
                check(what == CHECK_REPAIR);
                break;
        case COUNT:
                count();
                break;
        case ROOTS:
                list_roots();
                break;
        case EMPTY:
                empty_caches();
                break;
        case LOOK:
                shm_maintain_look(&engine, s->a & 1, now_usec);
                settle();
                break;
        case MAP:
                image_map_call(s);
                break;
        case SWEEP:
                sweep(s->value);
                break;
        default:
                take_over();
        }
        image_end_operation();
}

/* Memory that is no arena is refused; it has to become one again, for the rest of the input to be of use. */
static void attach(void) {
        int r = image_attach(&arena);

        require(r == 0 || r == SHM_ARENA_E_FORMAT || r == SHM_ARENA_E_DAMAGED);
        if (r != 0) {
                image_repair_header();
                require(image_attach(&arena) == 0);
        }
        begin_engine();
        image_map_begin(&arena);
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
        static const uint8_t rest[] = { TAKE_OVER, CHECK,        COUNT, ROOTS,  ADVANCE, REVOKE,
                                        EMPTY,     CHECK_REPAIR, TRIM,  REPAIR, LOOK };

        (void) image_reset();
        for (size_t i = 0; i + STEP <= size && i < STEPS_MAX * STEP; i += STEP)
                step(data + i);
        if (!arena.base)
                attach();
        for (size_t i = 0; i < sizeof(rest); i++)
                operate(rest[i], &(ImageStep){});
        image_begin_operation();
        image_map_call_all();
        image_end_operation();
        image_detach(&arena);
        return 0;
}
