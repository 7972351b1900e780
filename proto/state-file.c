#include "proto/state-file.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>

#include "proto/cleanup.h"

static bool has_lock_dir(const char *dir) {
        _cleanup_(proto_freep) char *path = NULL;
        struct stat st;

        if (asprintf(&path, "%s/lock", dir) < 0) {
                path = NULL;
                return false;
        }
        return lstat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

int proto_state_file(const char *dir, const char *pool, const char *suffix, char **ret_path) {
        char *path;

        if (asprintf(&path, "%s/%s%s.%s", dir, has_lock_dir(dir) ? "lock/" : "", pool, suffix) < 0)
                return -ENOMEM;
        *ret_path = path;
        return 0;
}
