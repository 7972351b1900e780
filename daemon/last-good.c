#include "daemon/last-good.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/config.h"
#include "daemon/log.h"
#include "proto/state-file.h"
#include "proto/cleanup.h"
#include "proto/path.h"

static int find_path(const char *pool, char **ret_path) {
        _cleanup_(proto_freep) char *dir = NULL;
        int r = proto_runtime_dir(&dir);

        if (r < 0)
                return r;
        return proto_state_file(dir, pool, "settings", ret_path);
}

static void put_role(FILE *file, const char *name, const RoleList *list) {
        const char *comma = "";

        (void) fprintf(file, "%s=", name);
        for (uint32_t i = 0; i < list->n_users; i++, comma = ",")
                (void) fprintf(file, "%s%u", comma, (unsigned) list->users[i]);
        for (uint32_t i = 0; i < list->n_groups; i++, comma = ",")
                (void) fprintf(file, "%s@%u", comma, (unsigned) list->groups[i]);
        (void) fputc('\n', file);
}

static void put_geometry(FILE *file, const ShmGeometry *g) {
        (void) fprintf(file, "TSLAB_SIZE=%llu\nTSLAB_EPOCHS=%u\nTSLAB_THREADS=%u\nTSLAB_CLASSES=",
                       (unsigned long long) g->slabs_size, g->n_epochs, g->n_records - 1);
        for (uint32_t i = 0; i < g->n_classes; i++)
                (void) fprintf(file, "%s%u", i > 0 ? "," : "", g->class_size[i]);
        (void) fputc('\n', file);
}

static void put_options(FILE *file, const Options *options) {
        put_geometry(file, &options->geometry);
        (void) fprintf(file,
                       "TSLAB_RETAIN=%llu\nTSLAB_HUGE=%s\nTSLAB_LOG_LEVEL=%s\nTSLAB_OPERATORS_ONLY=%s\n",
                       (unsigned long long) options->retain_size, options->huge ? "yes" : "no",
                       log_level_to_string(options->log_level), options->operators_only ? "yes" : "no");
        put_role(file, "TSLAB_OPERATORS", &options->roles.operators);
        put_role(file, "TSLAB_WRITERS", &options->roles.writers);
        put_role(file, "TSLAB_READERS", &options->roles.readers);
        if (options->listen)
                (void) fprintf(file, "TSLAB_LISTEN=%s\n", options->listen);
        if (options->keep)
                (void) fprintf(file, "TSLAB_KEEP=%s\n", options->keep);
}

/* A daemon that is killed in here leaves the old file whole. */
static int write_file(const char *path, const char *new_path, const Options *options) {
        _cleanup_(proto_closep) int fd = -1;
        FILE *file;
        int r;

        (void) unlink(new_path);
        fd = open(new_path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0)
                return -errno;
        file = fdopen(fd, "w");
        if (!file)
                return -errno;
        (void) proto_steal_fd(&fd);
        put_options(file, options);
        r = ferror(file) ? -EIO : fflush(file) != 0 ? -errno : 0;
        if (fclose(file) != 0 && r == 0)
                r = -errno;
        if (r < 0)
                return r;
        return rename(new_path, path) < 0 ? -errno : 0;
}

void last_good_save(const Options *options) {
        _cleanup_(proto_freep) char *path = NULL, *new_path = NULL;
        int r;

        if (*options->trouble)
                return;
        r = find_path(options->pool, &path);

        if (r == 0 && asprintf(&new_path, "%s.new", path) < 0)
                r = -ENOMEM;
        if (r == 0)
                r = write_file(path, new_path, options);
        if (r < 0)
                log_error(LOG_WARNING, r, "could not save the settings of pool %s for the next daemon",
                          options->pool);
}

int last_good_read(Options *options) {
        _cleanup_(proto_freep) char *path = NULL;
        char why[OPTIONS_WHY_SIZE];
        int r = find_path(options->pool, &path);

        if (r == 0 && access(path, F_OK) < 0)
                r = -errno;
        return r ?: config_read_saved(options, path, why);
}

void last_good_remove(const Options *options) {
        _cleanup_(proto_freep) char *path = NULL;

        if (find_path(options->pool, &path) == 0)
                (void) unlink(path);
}
