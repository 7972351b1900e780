#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/cleanup.h"
#include "proto/path.h"

#define SYSTEM_DIR "/run/tslab"

bool proto_pool_name_is_valid(const char *name) {
        size_t n;

        if (!name || name[0] == '_')
                return false;

        n = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_");
        return n > 0 && n <= PROTO_POOL_NAME_MAX && name[n] == '\0';
}

static int copy_path(const char *path, char **ret_path) {
        char *copy = strdup(path);

        if (!copy)
                return -ENOMEM;

        *ret_path = copy;
        return 0;
}

/*
 * A directory that is given by an environment variable, or NULL. Relative ones would depend on
 * where we stand.
 */
static const char *environment_dir(const char *variable) {
        const char *dir = secure_getenv(variable);

        return dir && dir[0] == '/' ? dir : NULL;
}

int proto_runtime_dir(char **ret_path) {
        const char *dir;
        char *path;

        dir = environment_dir("TSLAB_RUNTIME_DIR");
        if (dir)
                return copy_path(dir, ret_path);

        if (geteuid() == 0)
                return copy_path(SYSTEM_DIR, ret_path);

        dir = environment_dir("XDG_RUNTIME_DIR");
        if (!dir)
                return -ENXIO;

        if (asprintf(&path, "%s/tslab", dir) < 0)
                return -ENOMEM;

        *ret_path = path;
        return 0;
}

static int socket_in(const char *dir, const char *name, char **ret_path) {
        char *path;

        if (asprintf(&path, "%s/%s.sock", dir, name) < 0)
                return -ENOMEM;

        *ret_path = path;
        return 0;
}

int proto_socket_path(const char *pool_or_path, char **ret_path) {
        _cleanup_(proto_freep) char *dir = NULL, *path = NULL;
        int r;

        if (!pool_or_path) {
                pool_or_path = secure_getenv("TSLAB_POOL");
                if (!pool_or_path || !pool_or_path[0])
                        pool_or_path = "default";
        }

        if (strchr(pool_or_path, '/'))
                return copy_path(pool_or_path, ret_path);
        if (!proto_pool_name_is_valid(pool_or_path))
                return -EINVAL;

        r = proto_runtime_dir(&dir);
        if (r < 0 && r != -ENXIO)
                return r;

        if (!environment_dir("TSLAB_RUNTIME_DIR")) {
                r = socket_in(SYSTEM_DIR, pool_or_path, &path);
                if (r < 0)
                        return r;
                if (!dir || access(path, F_OK) >= 0) {
                        *ret_path = proto_steal(&path);
                        return 0;
                }
        }

        return socket_in(dir, pool_or_path, ret_path);
}
