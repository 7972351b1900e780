#include "daemon/takeover.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/adopt.h"
#include "daemon/peer/client-resume.h"
#include "daemon/log.h"
#include "daemon/work/maintainer.h"
#include "daemon/message-id.h"
#include "daemon/passed.h"
#include "daemon/request/request.h"
#include "shm/arena/client.h"
#include "shm/epoch/epoch.h"
#include "shm/maintain/freeze.h"

static void say_format(const Manager *manager, int fd) {
        ShmHeader *header = malloc(sizeof(*header));
        uint32_t version = 0;

        if (header && pread(fd, header, sizeof(*header), 0) == sizeof(*header) && header->magic == SHM_MAGIC)
                version = header->format_version;
        free(header);
        log_fields(LOG_ERR, (LogFields){ .message = MESSAGE_FORMAT, .name = PASSED_ARENA },
                   "the memory of pool %s that was kept has format %u, and tslabd " TSLAB_VERSION
                   " knows format %u only: a new, empty pool is made. Restart the programs that use it, or "
                   "have them close and open it; before the next such upgrade stop tslabd@%s.service",
                   manager->pool.options->pool, version, SHM_FORMAT_VERSION, manager->pool.options->pool);
}

static void say_damaged(const Manager *manager) {
        log_fields(LOG_ERR, (LogFields){ .message = MESSAGE_CORRUPTION, .name = PASSED_ARENA },
                   "the memory of pool %s that was kept contradicts itself: a new, empty pool is made. "
                   "Restart the programs that use it, and look there for stray writes",
                   manager->pool.options->pool);
}

/* Its last daemon may have ended inside an operation. */
static void even_seq(ShmArena *arena) {
        uint64_t *seq = &shm_arena_record(arena, 0)->seq;
        uint64_t value = shm_load_rlx(seq); /* ORDER: rlx; the daemon's alone. */

        shm_store_rlx(seq, value + (value & 1)); /* ORDER: rlx; the daemon's alone. */
}

int takeover_arena(Manager *manager, int fd, bool *ret_taken) {
        int r = shm_arena_map(&manager->pool.arena, fd, false);

        *ret_taken = r == 0;
        if (r == 0) {
                even_seq(&manager->pool.arena);
                return 0;
        }
        if (r == SHM_ARENA_E_FORMAT)
                say_format(manager, fd);
        else if (r == SHM_ARENA_E_DAMAGED)
                say_damaged(manager);
        else
                log_error(LOG_ERR, r, "could not map the memory of pool %s that was kept",
                          manager->pool.options->pool);
        (void) proto_close(fd);
        if (r < 0)
                return r; /* it may be well: the next daemon tries again */
        passed_remove(PASSED_ARENA);
        return 0;
}

int takeover_adopt(Manager *manager, pid_t pid) {
        int r = adopt_arena(&manager->pool.arena, manager->pool.options->pool, pid);

        if (r)
                return r;
        manager->arena_lock = adopt_lock(&manager->pool.arena);
        if (manager->arena_lock < 0) {
                log_line(LOG_ERR, "cannot adopt pool %s: %s", manager->pool.options->pool,
                         manager->arena_lock == -EBUSY ? "its memory is served by another tslabd already"
                                                       : strerror(-manager->arena_lock));
                return manager->arena_lock;
        }
        even_seq(&manager->pool.arena);
        return 0;
}

static void list_classes(const uint32_t *sizes, uint32_t n, char *text, size_t size) {
        size_t at = 0;

        for (uint32_t i = 0; i < n && at < size; i++)
                at += (size_t) snprintf(text + at, size - at, "%s%u", i > 0 ? "," : "", sizes[i]);
}

static void say_difference(const char *what, const char *is, const char *set) {
        log_fields(LOG_WARNING, (LogFields){ .message = MESSAGE_GEOMETRY },
                   "the pool was made with %s %s and stays so, though %s is set: stop the service, which "
                   "gives the pool up, and start it for a new one",
                   what, is, set);
}

static void compare(const char *what, uint64_t is, uint64_t set) {
        char is_text[24], set_text[24];

        if (is == set)
                return;
        (void) snprintf(is_text, sizeof(is_text), "%llu", (unsigned long long) is);
        (void) snprintf(set_text, sizeof(set_text), "%llu", (unsigned long long) set);
        say_difference(what, is_text, set_text);
}

void takeover_compare(const ShmArena *arena, const Options *options) {
        const ShmGeometry *g = &options->geometry;
        char is[SHM_CLASSES_MAX * 6], set[SHM_CLASSES_MAX * 6];
        uint32_t sizes[SHM_CLASSES_MAX];

        compare("size", (uint64_t) arena->n_slabs * SHM_SLAB_SIZE, g->slabs_size);
        compare("epochs", arena->n_epochs, g->n_epochs);
        compare("threads", arena->n_records - 1, g->n_records - 1);
        for (uint32_t i = 0; i < arena->n_classes; i++)
                sizes[i] = arena->classes[i].size;
        if (arena->n_classes == g->n_classes && !memcmp(sizes, g->class_size, g->n_classes * sizeof(*sizes)))
                return;
        list_classes(sizes, arena->n_classes, is, sizeof(is));
        list_classes(g->class_size, g->n_classes, set, sizeof(set));
        say_difference("classes", is, set);
}

int takeover_resume(Manager *manager) {
        unsigned n_clients = 0, n_epochs;
        bool frozen = !shm_freeze_is_over(&manager->pool.arena);
        ShmClientInfo info;
        int r;

        n_epochs = maintainer_take_over(manager->maintainer);
        for (uint32_t i = 0; i < manager->pool.arena.n_records; i++) {
                if (shm_client_get(&manager->pool.arena, i, &info))
                        continue;
                r = client_resume(manager, &info);
                if (r < 0)
                        return r;
                n_clients += r > 0;
        }
        maintainer_look(manager->maintainer);
        log_fields(LOG_NOTICE, (LogFields){ .message = MESSAGE_TAKEN_UP },
                   "pool %s was taken up: %u clients live%s, %u epochs drain%s", manager->pool.options->pool,
                   n_clients, manager->n_unwatched > 0 ? ", as far as can be told" : "", n_epochs,
                   frozen ? ", threads were frozen" : "");
        return 0;
}
