#include "proto/state-file.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#include "proto/cleanup.h"

/* 1: there is one, 0: none. Where it cannot be told, two daemons might lock different files. */
static int has_lock_dir(const char *dir) {
        _cleanup_(proto_freep) char *path = NULL;
        struct stat st;

        if (asprintf(&path, "%s/lock", dir) < 0) {
                path = NULL;
                return -ENOMEM;
        }
        if (lstat(path, &st) < 0)
                return errno == ENOENT ? 0 : -errno;
        return S_ISDIR(st.st_mode);
}

int proto_state_file(const char *dir, const char *pool, const char *suffix, char **ret_path) {
        int r = has_lock_dir(dir);
        char *path;

        if (r < 0)
                return r;
        if (asprintf(&path, "%s/%s%s.%s", dir, r > 0 ? "lock/" : "", pool, suffix) < 0)
                return -ENOMEM;
        *ret_path = path;
        return 0;
}
