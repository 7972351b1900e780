#include "daemon/reload.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/last-good.h"
#include "daemon/log.h"
#include "daemon/message-id.h"
#include "proto/cleanup.h"
#include "proto/notify.h"
#include "proto/deadline.h"

static void log_kept(const char *what) {
        log_fields(LOG_WARNING, (LogFields){ .message = MESSAGE_RELOAD },
                   "%s cannot change while the daemon runs, and stay as they are", what);
}

static bool is_same_text(const char *a, const char *b) {
        return a == b || (a && b && !strcmp(a, b));
}

/* Compares settings with settings: the pool itself may have been made with still other ones. */
static void log_kept_settings(const Options *old, const Options *new) {
        const ShmGeometry *a = &old->geometry, *b = &new->geometry;

        if (a->slabs_size != b->slabs_size || a->n_records != b->n_records || a->n_epochs != b->n_epochs ||
            a->n_classes != b->n_classes || memcmp(a->class_size, b->class_size, sizeof(a->class_size)) != 0)
                log_kept("size, classes, epochs and threads of the pool");
        if (strcmp(old->pool, new->pool) != 0 || !is_same_text(old->listen, new->listen) ||
            old->group != new->group || old->mode != new->mode)
                log_kept("the pool's name and its socket");
}

static void apply_options(Pool *pool, Options *new) {
        Options *options = pool->options;

        log_kept_settings(options, new);
        options->retain_size = new->retain_size;
        options->huge = new->huge;
        options->roles = new->roles;
        options->operators_only = new->operators_only;
        options->log_level = new->log_level;
        options->trouble[0] = 0;
        free(options->keep);
        options->keep = proto_steal(&new->keep);
        last_good_save(options);
        log_fields(LOG_NOTICE, (LogFields){ .message = MESSAGE_RELOAD },
                   "settings were read again: %llu KiB retained, epochs are for %s, the log level is %s; the "
                   "roles apply to new connections",
                   (unsigned long long) options->retain_size >> 10,
                   options->operators_only ? "operators" : "writers",
                   log_level_to_string(options->log_level));
        log_set_level(options->log_level);
}

void reload(Pool *pool) {
        char why[OPTIONS_WHY_SIZE] = "";
        Options options;
        int r;

        (void) notify_send("RELOADING=1\nMONOTONIC_USEC=%llu", (unsigned long long) proto_now_usec());
        r = pool->options->load(&options, why);
        if (r == 0) {
                apply_options(pool, &options);
        } else {
                options_set_trouble(pool->options, *why ? why : strerror(-r));
                log_fields(LOG_ERR, (LogFields){ .message = MESSAGE_RELOAD },
                           "the settings could not be read, and stay as they are: %s",
                           pool->options->trouble);
        }
        options_deinit(&options);
}
