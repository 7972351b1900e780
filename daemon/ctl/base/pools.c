#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon/ctl/base/connect.h"
#include "daemon/ctl/base/pools.h"
#include "proto/path.h"

#define SYSTEM_DIR "/run/tslab" /* as in proto/path.h */

void pools_deinit(Pools *pools) {
        for (size_t i = 0; i < pools->n_paths; ++i)
                free(pools->paths[i]);
        free(pools->paths);
        *pools = (Pools) POOLS_INIT;
}

static void add_path(Pools *pools, char *path) {
        pools->paths = must(realloc(pools->paths, (pools->n_paths + 1) * sizeof(pools->paths[0])));
        pools->paths[pools->n_paths++] = path;
}

static bool is_socket(const char *path) {
        struct stat status;

        return stat(path, &status) == 0 && S_ISSOCK(status.st_mode);
}

static int compare_paths(const void *a, const void *b) {
        return strcmp(*(char *const *) a, *(char *const *) b);
}

static void dir_closep(DIR **dir) {
        if (*dir)
                (void) closedir(*dir);
}

int pools_add_dir(Pools *pools, const char *path) {
        _cleanup_(dir_closep) DIR *dir = opendir(path);
        size_t n_before = pools->n_paths;
        const struct dirent *entry;

        if (!dir)
                return errno == ENOENT || errno == ENOTDIR ? 0 : -errno;

        while ((entry = readdir(dir))) {
                char pool[PROTO_POOL_NAME_MAX + 1], *socket;

                connection_pool_name(pool, sizeof(pool), entry->d_name);
                if (!pool[0])
                        continue;

                if (asprintf(&socket, "%s/%s", path, entry->d_name) < 0)
                        (void) must(NULL);
                if (is_socket(socket))
                        add_path(pools, socket);
                else
                        free(socket);
        }

        if (pools->n_paths > n_before)
                qsort(pools->paths + n_before, pools->n_paths - n_before, sizeof(pools->paths[0]),
                      compare_paths);
        return 0;
}

static CtlExit add_or_complain(Pools *pools, const char *dir) {
        int r;

        r = pools_add_dir(pools, dir);
        return r < 0 ? complain("cannot look for pools in %s: %s; use sudo?", dir, strerror(-r)) : CTL_DONE;
}

CtlExit pools_find(Pools *pools) {
        _cleanup_(proto_freep) char *own = NULL;
        const char *variable = secure_getenv("TSLAB_RUNTIME_DIR");
        bool replaced = variable && variable[0] == '/';
        CtlExit r = CTL_DONE, r_own = CTL_DONE;

        /* -ENXIO: this user has none */
        if (proto_runtime_dir(&own) == -ENOMEM)
                (void) must(NULL);

        if (!replaced)
                r = add_or_complain(pools, SYSTEM_DIR);
        if (own && (replaced || strcmp(own, SYSTEM_DIR)))
                r_own = add_or_complain(pools, own);

        return r ?: r_own;
}
