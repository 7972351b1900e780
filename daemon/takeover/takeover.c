#include "daemon/takeover/takeover.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/takeover/adopt.h"
#include "daemon/takeover/keep.h"
#include "daemon/peer/client-resume.h"
#include "daemon/log.h"
#include "daemon/message-id.h"
#include "daemon/work/holder.h"
#include "proto/state-file.h"
#include "shm/arena/client.h"
#include "shm/epoch/epoch.h"
#include "shm/maintain/freeze.h"

#define LIST_SIZE (16 + 13 * (ADOPT_PIDS_MAX + 2))

static void log_format(const Pool *pool, int fd) {
        struct {
                uint64_t magic;
                uint32_t format_version;
        } __attribute__((packed))
        begin; /* alike in all formats; the rest of a header may be shorter than ours */
        uint32_t version = 0;
        char differs[80];

        static_assert(offsetof(ShmHeader, format_version) == sizeof(begin.magic), "arena format");
        if (pread(fd, &begin, sizeof(begin), 0) == sizeof(begin) && begin.magic == SHM_MAGIC)
                version = begin.format_version;
        if (version == SHM_FORMAT_VERSION)
                (void) snprintf(differs, sizeof(differs),
                                "was made by another build, whose format %u differs", version);
        else
                (void) snprintf(differs, sizeof(differs),
                                "has format %u, and tslabd " TSLAB_VERSION " knows format %u only", version,
                                SHM_FORMAT_VERSION);
        log_fields(
                LOG_ERR, (LogFields){ .message = MESSAGE_FORMAT, .name = PASSED_ARENA },
                "the memory that systemd kept for pool %s %s: a new, empty pool is made. Restart the programs "
                "that use it, with the libtslab of the same build as tslabd; before the next such upgrade "
                "stop tslabd@%s.service",
                pool->options->pool, differs, pool->options->pool);
}

static void log_damaged(const Pool *pool) {
        log_fields(
                LOG_ERR, (LogFields){ .message = MESSAGE_CORRUPTION, .name = PASSED_ARENA },
                "the memory that systemd kept for pool %s is damaged: a new, empty pool is made. Restart the "
                "programs that use the pool, and search them for stray writes",
                pool->options->pool);
}

/* The last daemon may have ended inside an operation, and have left the sequence number odd. */
static void even_record_seq(ShmArena *arena) {
        uint64_t *seq = &shm_arena_record(arena, 0)->seq;
        uint64_t value = shm_load_rlx(seq); /* ORDER: rlx; the daemon's alone. */

        shm_store_rlx(seq, value + (value & 1)); /* ORDER: rlx; the daemon's alone. */
}

static int take_kept_arena(Pool *pool, int fd, bool *ret_taken) {
        int r = shm_arena_map(&pool->arena, fd, false);

        *ret_taken = r == 0;
        if (r == 0)
                return 0;
        if (r == SHM_ARENA_E_FORMAT)
                log_format(pool, fd);
        else if (r == SHM_ARENA_E_DAMAGED)
                log_damaged(pool);
        else
                log_error(LOG_ERR, r, "could not map the memory that systemd kept for pool %s",
                          pool->options->pool);
        (void) proto_close(fd);
        if (r < 0)
                return r; /* the memory may be sound: the next daemon tries again */
        (void) passed_remove(PASSED_ARENA);
        return 0;
}

static void print_classes(const uint32_t *sizes, uint32_t n, char *text, size_t size) {
        size_t at = 0;

        for (uint32_t i = 0; i < n && at < size; i++)
                at += (size_t) snprintf(text + at, size - at, "%s%u", i > 0 ? "," : "", sizes[i]);
}

static void log_difference(const char *what, const char *is, const char *set) {
        log_fields(LOG_WARNING, (LogFields){ .message = MESSAGE_GEOMETRY },
                   "the pool was made with %s %s and keeps this, though %s is set now: to apply the new "
                   "setting, stop the service, which gives the pool up, and start it again",
                   what, is, set);
}

static void compare_figures(const char *what, uint64_t is, uint64_t set) {
        char is_text[24], set_text[24];

        if (is == set)
                return;
        (void) snprintf(is_text, sizeof(is_text), "%llu", (unsigned long long) is);
        (void) snprintf(set_text, sizeof(set_text), "%llu", (unsigned long long) set);
        log_difference(what, is_text, set_text);
}

static void compare_options(const ShmArena *arena, const Options *options) {
        const ShmGeometry *g = &options->geometry;
        char is[SHM_CLASSES_MAX * 6], set[SHM_CLASSES_MAX * 6];
        uint32_t sizes[SHM_CLASSES_MAX];

        compare_figures("size", (uint64_t) arena->n_slabs * SHM_SLAB_SIZE, g->slabs_size);
        compare_figures("epochs", arena->n_epochs, g->n_epochs);
        compare_figures("threads", arena->n_records - 1, g->n_records - 1);
        for (uint32_t i = 0; i < arena->n_classes; i++)
                sizes[i] = arena->classes[i].size;
        if (arena->n_classes == g->n_classes && !memcmp(sizes, g->class_size, g->n_classes * sizeof(*sizes)))
                return;
        print_classes(sizes, arena->n_classes, is, sizeof(is));
        print_classes(g->class_size, g->n_classes, set, sizeof(set));
        log_difference("classes", is, set);
}

/* The settings are bad: they say nothing of the pool. */
static void take_geometry(const ShmArena *arena, ShmGeometry *ret) {
        ShmGeometry g = { .slabs_size = (uint64_t) arena->n_slabs * SHM_SLAB_SIZE,
                          .n_records = arena->n_records,
                          .n_epochs = arena->n_epochs,
                          .n_classes = arena->n_classes };

        for (uint32_t i = 0; i < arena->n_classes; i++)
                g.class_size[i] = arena->classes[i].size;
        *ret = g;
}

static int take_arena(ArenaOrigin *origin, Pool *pool, Passed *passed) {
        int fd = proto_steal_fd(&passed->arena);

        if (pool->options->adopt != 0) {
                if (fd >= 0)
                        log_line(LOG_ERR, "there is nothing to adopt: systemd kept the memory of pool %s",
                                 pool->options->pool);
                (void) proto_close(fd);
                origin->taken_up = true;
                return fd >= 0 ? -EEXIST
                               : adopt_arena(&pool->arena, pool->options->pool, pool->options->adopt);
        }
        return fd < 0 ? 0 : take_kept_arena(pool, fd, &origin->taken_up);
}

/* "2 processes: 12, 34". */
static void list_processes(const AdoptFrom *from, char ret[LIST_SIZE]) {
        size_t at = (size_t) snprintf(ret, LIST_SIZE, "%u process%s:", from->n, from->n == 1 ? "" : "es");

        for (unsigned i = 0; i < from->n && i < ADOPT_PIDS_MAX; i++)
                at += (size_t) snprintf(ret + at, LIST_SIZE - at, "%s %d", i > 0 ? "," : "",
                                        (int) from->pids[i]);
        if (from->n > ADOPT_PIDS_MAX)
                (void) snprintf(ret + at, LIST_SIZE - at, " and %u more", from->n - ADOPT_PIDS_MAX);
}

/* The last daemon has ended, and its clients hold the objects of the pool. -EEXIST: --fresh does not give them up. */
static int check_nothing_lost(const Pool *pool, const char *left) {
        const Options *options = pool->options;
        char processes[LIST_SIZE];
        AdoptFrom from = {};
        bool known = true;
        int r = adopt_find(options->pool, left, &from, &known);

        if (r < 0 && from.n == 0 && !options->fresh) {
                log_error(LOG_ERR, r,
                          "could not find out whether processes still use the memory of the last daemon of "
                          "pool %s",
                          options->pool);
                return r;
        }
        if (from.n == 0)
                return 0;
        list_processes(&from, processes);
        if (options->fresh)
                log_fields(
                        LOG_WARNING, (LogFields){ .message = MESSAGE_ABANDONED, .pid = from.pids[0] },
                        "pool %s begins empty, as --fresh says; the memory of its last daemon is still in use by "
                        "%s, which have to open the pool again",
                        options->pool, processes);
        else if (!known)
                log_fields(
                        LOG_ERR, (LogFields){ .message = MESSAGE_ABANDONED, .pid = from.pids[0] },
                        "the last daemon of pool %s has ended, and its memory, of a format that this "
                        "tslabd, " TSLAB_VERSION
                        ", does not know, is still open in %s. To go on with it, start a tslabd of the "
                        "build that made it, with --adopt=PID of one of the pool's programs; to give it up and begin "
                        "with an empty pool, end these processes, or start this one with --fresh",
                        options->pool, processes);
        else
                log_fields(
                        LOG_ERR, (LogFields){ .message = MESSAGE_ABANDONED, .pid = from.pids[0] },
                        "the last daemon of pool %s has ended, and its memory is still in use by %s: start with "
                        "--adopt=%d to go on with it, or with --fresh to give it up and begin with an empty pool",
                        options->pool, processes, (int) from.pids[0]);
        return options->fresh ? 0 : -EEXIST;
}

/* `left`: the id of the last daemon's arena, or NULL. */
static int make_arena(Pool *pool, const char *left) {
        int r = left ? check_nothing_lost(pool, left) : 0;

        if (r)
                return r;
        r = shm_arena_create(&pool->arena, &pool->options->geometry, pool->options->pool);
        if (r == -EOPNOTSUPP)
                log_line(LOG_ERR, "no pool can be here: %s", shm_machine_lacks());
        else if (r)
                log_error(LOG_ERR, r, "could not make the arena of pool %s", pool->options->pool);
        if (r == 0) {
                keep_claim(pool);
                passed_check_store();
                passed_store_arena(pool->arena.fd);
        }
        return r;
}

static void log_not_kept(const Pool *pool) {
        log_fields(
                LOG_NOTICE, (LogFields){ .message = MESSAGE_NOT_KEPT },
                "pool %s begins empty: systemd kept no memory of its last daemon, as after 'systemctl stop'. "
                "Programs that still use that memory have to open the pool again",
                pool->options->pool);
}

/*
 * Keeps other daemons from serving the arena, and tells the next daemon of it. Without a claim, an arena that was
 * passed or made is served nevertheless; one that is adopted may have another daemon.
 */
static int claim_and_name(ArenaOrigin *origin, const Pool *pool, Listener *listener) {
        bool must_claim = pool->options->adopt != 0;
        int r = claim_arena(&origin->claim, &pool->arena);
        char id[PROTO_ARENA_TEXT_SIZE];

        if (r == -EBUSY)
                log_line(LOG_ERR, "the memory of pool %s is served by another tslabd already",
                         pool->options->pool);
        else if (r < 0)
                log_error(must_claim ? LOG_ERR : LOG_WARNING, r,
                          "could not claim the memory of pool %s for this daemon alone", pool->options->pool);
        if (r == -EBUSY || (r < 0 && must_claim))
                return r;
        proto_arena_text(pool->arena.arena_id, id);
        listener_name_arena(listener, id);
        return 0;
}

int takeover_open_arena(ArenaOrigin *origin, Pool *pool, Passed *passed, Listener *listener) {
        bool was_kept = passed->arena >= 0; /* by systemd, which may have it open a moment longer */
        int r = take_arena(origin, pool, passed);

        if (r == 0 && !origin->taken_up)
                r = make_arena(pool, was_kept ? NULL : listener_left_arena(listener));
        if (r == 0 && !origin->taken_up && !was_kept && listener_had_arena(listener))
                log_not_kept(pool);
        if (r == 0)
                r = claim_and_name(origin, pool, listener);
        if (r)
                return r;
        even_record_seq(&pool->arena);
        if (origin->taken_up) {
                passed_store_arena(
                        pool->arena.fd); /* again: removing another arena by its name removed this one, too */
                if (*pool->options->trouble)
                        take_geometry(&pool->arena, &pool->options->geometry);
                else
                        compare_options(&pool->arena, pool->options);
        }
        pool->arena.populate = true;
        shm_actor_init_daemon(&pool->actor, &pool->arena);
        return 0;
}

void arena_origin_deinit(ArenaOrigin *origin) {
        claim_deinit(&origin->claim);
}

/*
 * The last daemon may have been killed while it made or dropped pages. To undo that takes the lock of the arena's file,
 * before anybody is answered: the log tells who keeps it.
 */
static void tell_holder(const ShmArena *arena) {
        if (shm_record_intent(arena, 0).kind == SHM_INTENT_RUN)
                (void) holder_leaves_lock(
                        arena, "the daemon cannot begin before it has the lock of the pool's memory");
}

int takeover_resume(Clients *clients, Maintainer *maintainer, Trimmer *trimmer, Passed *passed) {
        Pool *pool = clients->pool;
        unsigned n_clients = 0, n_epochs;
        bool frozen = !shm_freeze_is_over(&pool->arena);
        ShmClientInfo info;
        int r;

        tell_holder(&pool->arena);
        n_epochs = maintainer_take_over(maintainer);
        trimmer_begin(trimmer);
        for (uint32_t i = 0; i < pool->arena.n_records; i++) {
                if (shm_client_get(&pool->arena, i, &info))
                        continue;
                r = client_resume(clients, &info,
                                  info.pid == 0 ? passed_take_client(passed, info.start_time) : -1);
                if (r < 0)
                        return r;
                n_clients += r > 0;
        }
        maintainer_rescan(maintainer);
        log_fields(LOG_NOTICE, (LogFields){ .message = MESSAGE_TAKEN_UP },
                   "pool %s was taken up: %u clients live%s, %u epochs drain%s", pool->options->pool,
                   n_clients, clients->n_unwatched > 0 ? ", as far as can be told" : "", n_epochs,
                   frozen ? ", threads were frozen" : "");
        return 0;
}
