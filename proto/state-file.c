#include "proto/state-file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

void proto_arena_text(const uint64_t id[2], char ret_text[PROTO_ARENA_TEXT_SIZE]) {
        (void) snprintf(ret_text, PROTO_ARENA_TEXT_SIZE, "%016" PRIx64 "%016" PRIx64, id[0], id[1]);
}

int proto_lock_read(int fd, char ret_pid[PROTO_PID_SIZE], char ret_arena[PROTO_ARENA_TEXT_SIZE]) {
        char text[64] = "";
        const char *end;

        *ret_pid = *ret_arena = '\0';
        if (pread(fd, text, sizeof(text) - 1, 0) < 0)
                return -errno;
        (void) sscanf(text, "%11[0-9]", ret_pid);
        end = strchr(text, '\n');
        /* Behind the text of a daemon that was killed as it wrote, there may be more of the text before. */
        if (end && strspn(end + 1, "0123456789abcdef") == PROTO_ARENA_TEXT_SIZE - 1)
                (void) snprintf(ret_arena, PROTO_ARENA_TEXT_SIZE, "%s", end + 1);
        return 0;
}
