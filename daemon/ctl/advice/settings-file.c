#include "daemon/ctl/advice/settings-file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "proto/cleanup.h"

#define FILE_SIZE_MAX (1 << 20)
#define TRIES_MAX 10000
#define ACCESS_LIST_SIZE 65536 /* the kernel's limit of an attribute */
#define MODE_NEW 0644 /* the daemon reads it as a user of its own */

/* The file, and the directory that all of its names are in. */
typedef struct SettingsFile {
        const char *path; /* for complaints */
        const char *name; /* in the directory */
        char new_name[NAME_MAX + 1];
        int dir, fd; /* fd -1: there is no such file so far */
        struct stat st;
        char *text;
        size_t size;
} SettingsFile;

static void settings_file_deinit(SettingsFile *file) {
        (void) proto_close(file->dir);
        (void) proto_close(file->fd);
        free(file->text);
}

static int complain_file(const SettingsFile *file, int error) {
        return complain("cannot write %s: %s", file->path, strerror(error));
}

/* ---- Reading */

/* In many systems each user has a group alone, which may then change the user's directories. */
static bool others_can_change(const struct stat *st) {
        mode_t shared = S_IWOTH;

        if (st->st_gid != 0 && st->st_gid != getegid())
                shared |= S_IWGRP;
        return (st->st_uid != 0 && st->st_uid != geteuid()) ||
               ((st->st_mode & shared) && !(st->st_mode & S_ISVTX));
}

/* A user who can rename files in there could have root change another file than the one that is named. */
static CtlExit check_directory(const SettingsFile *file) {
        struct stat st;

        if (fstat(file->dir, &st) < 0)
                return complain_file(file, errno);
        if (others_can_change(&st))
                return complain("%s is in a directory that other users can change; nothing was written",
                                file->path);
        return CTL_DONE;
}

static CtlExit open_directory(SettingsFile *file) {
        const char *slash = strrchr(file->path, '/');
        _cleanup_(proto_freep) char *dir = NULL;

        file->name = slash ? slash + 1 : file->path;
        if (!*file->name || !strcmp(file->name, ".") || !strcmp(file->name, ".."))
                return complain_usage("--write needs the name of a file, like /etc/tslab/default.conf");
        dir = must(slash ? strndup(file->path, (size_t) (slash - file->path) + 1) : strdup("."));
        file->dir = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        return file->dir < 0 ? (CtlExit) complain_file(file, errno) : check_directory(file);
}

static CtlExit read_whole(SettingsFile *file) {
        ssize_t n;

        file->text = must(malloc(FILE_SIZE_MAX + 1));
        while ((n = read(file->fd, file->text + file->size, FILE_SIZE_MAX + 1 - file->size)) > 0)
                file->size += (size_t) n;
        if (n < 0)
                return complain("cannot read %s: %s", file->path, strerror(errno));
        if (file->size > FILE_SIZE_MAX || memchr(file->text, 0, file->size))
                return complain("%s is no file of settings; nothing was written", file->path);
        return CTL_DONE;
}

static CtlExit read_old(SettingsFile *file) {
        /* O_NONBLOCK: a FIFO must not hang the command. */
        file->fd = openat(file->dir, file->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        if (file->fd < 0 && errno == ENOENT) {
                file->text = must(strdup(""));
                return CTL_DONE;
        }
        if (file->fd < 0 && errno == ELOOP)
                return complain("%s is a symbolic link; give the name of the file itself", file->path);
        if (file->fd < 0 || fstat(file->fd, &file->st) < 0)
                return complain("cannot read %s: %s", file->path, strerror(errno));
        if (!S_ISREG(file->st.st_mode))
                return complain("%s is not a regular file; nothing was written", file->path);
        return read_whole(file);
}

/* ---- Merging */

static const char *skip_blanks(const char *from, const char *end) {
        while (from < end && strchr(" \t", *from))
                from++;
        return from;
}

/* The value of a line that sets `name`, quoted or not; NULL: the line is another. */
static const char *find_value(const char *line, const char *end, const char *name) {
        size_t n = strlen(name);

        line = skip_blanks(line, end);
        if ((size_t) (end - line) < n || memcmp(line, name, n) != 0)
                return NULL;
        line = skip_blanks(line + n, end);
        return line < end && *line == '=' ? skip_blanks(line + 1, end) : NULL;
}

static void take_value(SettingsChange *change, const char *value, const char *end) {
        while (end > value && strchr(" \t\r", end[-1]))
                end--;
        if (end - value >= 2 && (*value == '"' || *value == '\'') && end[-1] == *value) {
                value++;
                end--;
        }
        (void) snprintf(change->was, sizeof(change->was), "%.*s", (int) (end - value), value);
}

/* The end of a line, without its newline. */
static const char *line_end(const SettingsFile *file, const char *line) {
        const char *end = file->text + file->size;

        return memchr(line, '\n', (size_t) (end - line)) ?: end;
}

/* The last of several lines that set one name counts. */
static void find_lines(const SettingsFile *file, SettingsChange *changes, size_t n) {
        size_t number = 1;

        for (const char *line = file->text, *end; line < file->text + file->size; line = end + 1, number++) {
                end = line_end(file, line);
                for (size_t i = 0; i < n; ++i) {
                        const char *value = find_value(line, end, changes[i].name);

                        if (!value)
                                continue;
                        changes[i].line = number;
                        take_value(&changes[i], value, end);
                }
        }
}

static const SettingsChange *find_change(const SettingsChange *changes, size_t n, size_t line) {
        for (size_t i = 0; i < n; ++i)
                if (changes[i].line == line)
                        return &changes[i];
        return NULL;
}

static int print_setting(FILE *out, const SettingsChange *change) {
        return fprintf(out, "%s=%s\n", change->name, change->value);
}

/* A part that could not be written would be missing, even if there is room for the rest. */
static int print_merged(FILE *out, const SettingsFile *file, const SettingsChange *changes, size_t n) {
        size_t number = 1;
        int r = 0;

        for (const char *line = file->text, *end; r >= 0 && line < file->text + file->size;
             line = end + 1, number++) {
                const SettingsChange *change = find_change(changes, n, number);

                end = line_end(file, line);
                r = change ? print_setting(out, change) : fprintf(out, "%.*s\n", (int) (end - line), line);
        }
        for (size_t i = 0; r >= 0 && i < n; ++i)
                if (changes[i].line == 0)
                        r = print_setting(out, &changes[i]);
        return r < 0 ? -errno : 0;
}

/* ---- Writing */

static int open_new(SettingsFile *file) {
        int fd = -1;

        for (int i = 0; i < TRIES_MAX && fd < 0; ++i) {
                int n = snprintf(file->new_name, sizeof(file->new_name), "%s.new%d", file->name, i);

                if ((size_t) n >= sizeof(file->new_name))
                        return -ENAMETOOLONG;
                fd = openat(file->dir, file->new_name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                            0600);
                if (fd < 0 && errno != EEXIST)
                        return -errno;
        }
        return fd < 0 ? -EEXIST : fd;
}

/*
 * With a list, the bits of the group in the mode are a mask for the list, and do not mean the group. Without one, the
 * new file may have a list by default, from its directory.
 */
static int copy_access_list(int from, int to) {
        static const char name[] = "system.posix_acl_access";
        char list[ACCESS_LIST_SIZE];
        ssize_t n = fgetxattr(from, name, list, sizeof(list));

        if (n >= 0)
                return fsetxattr(to, name, list, (size_t) n, 0) < 0 ? -errno : 0;
        if (errno == ENODATA && fremovexattr(to, name) == 0)
                return 0;
        return errno == ENODATA || errno == EOPNOTSUPP ? 0 : -errno;
}

/* Owner and mode come before the text: it is never readable by more users than the old file. */
static int write_new(const SettingsFile *file, int fd, const SettingsChange *changes, size_t n) {
        bool old = file->fd >= 0;
        FILE *out;
        int r = 0;

        if (old && fchown(fd, file->st.st_uid, file->st.st_gid) < 0)
                r = -errno;
        if (r == 0 && fchmod(fd, old ? file->st.st_mode & 0777 : MODE_NEW) < 0)
                r = -errno;
        if (r == 0 && old)
                r = copy_access_list(file->fd, fd);
        out = must(fdopen(fd, "w"));
        if (r == 0)
                r = print_merged(out, file, changes, n);
        if (r == 0 && (fflush(out) != 0 || fsync(fd) < 0))
                r = -errno;
        return fclose(out) != 0 && r == 0 ? -errno : r;
}

/* Whether the file that has the new name now, after the exchange, is the one that was read. */
static bool is_what_was_read(const SettingsFile *file) {
        struct stat now;

        return fstatat(file->dir, file->new_name, &now, AT_SYMLINK_NOFOLLOW) == 0 &&
               now.st_ino == file->st.st_ino && now.st_dev == file->st.st_dev &&
               now.st_size == file->st.st_size && now.st_mtim.tv_sec == file->st.st_mtim.tv_sec &&
               now.st_mtim.tv_nsec == file->st.st_mtim.tv_nsec;
}

static int keep_backup(const SettingsFile *file, char *ret_backup) {
        char name[NAME_MAX + 1];
        int n;

        for (int i = 1; i < TRIES_MAX; ++i) {
                if ((size_t) snprintf(name, sizeof(name), "%s.~%d~", file->name, i) >= sizeof(name))
                        return -ENAMETOOLONG;
                if (renameat2(file->dir, file->new_name, file->dir, name, RENAME_NOREPLACE) < 0) {
                        if (errno != EEXIST)
                                return -errno;
                        continue;
                }
                n = (int) (file->name - file->path);
                (void) snprintf(ret_backup, SETTINGS_BACKUP_SIZE, "%.*s%s", n, file->path, name);
                return 0;
        }
        return -EEXIST;
}

static int rename_new(const SettingsFile *file, unsigned how) {
        return renameat2(file->dir, file->new_name, file->dir, file->name, how) < 0 ? -errno : 0;
}

static int remove_new(const SettingsFile *file, int error) {
        (void) unlinkat(file->dir, file->new_name, 0);
        return error;
}

/* The two files change places; if the old one is not the one that was read, they change back. */
static int put_in_place(const SettingsFile *file, char *ret_backup) {
        int r = rename_new(file, file->fd < 0 ? RENAME_NOREPLACE : RENAME_EXCHANGE);

        if (r < 0)
                return remove_new(file, r);
        if (file->fd < 0)
                return 0;
        r = is_what_was_read(file) ? keep_backup(file, ret_backup) : -EEXIST;
        /* Where they cannot change back, neither is removed. */
        return r < 0 && rename_new(file, RENAME_EXCHANGE) == 0 ? remove_new(file, r) : r;
}

static CtlExit replace_file(SettingsFile *file, const SettingsChange *changes, size_t n, char *ret_backup) {
        int fd = open_new(file), r;

        if (fd < 0)
                return (CtlExit) complain_file(file, -fd);
        r = write_new(file, fd, changes, n);
        r = r < 0 ? remove_new(file, r) : put_in_place(file, ret_backup);
        if (r == 0 && fsync(file->dir) < 0)
                r = -errno;
        if (r == -EEXIST)
                return complain("%s was changed meanwhile; look at it, then try again", file->path);
        return r < 0 ? (CtlExit) complain_file(file, -r) : CTL_DONE;
}

/* Moves the changes that the file does not have yet to the front, and returns how many they are. */
static size_t find_new_values(SettingsChange *changes, size_t n) {
        size_t n_new = 0;

        for (size_t i = 0; i < n; ++i)
                if (changes[i].line == 0 || strcmp(changes[i].was, changes[i].value)) {
                        SettingsChange change = changes[i];

                        changes[i] = changes[n_new];
                        changes[n_new++] = change;
                }
        return n_new;
}

CtlExit settings_file_merge(const char *path, SettingsChange *changes, size_t *n, char *ret_backup) {
        _cleanup_(settings_file_deinit) SettingsFile file = { .path = path, .dir = -1, .fd = -1 };
        CtlExit r;

        *ret_backup = 0;
        r = open_directory(&file);
        if (r == CTL_DONE)
                r = read_old(&file);
        if (r != CTL_DONE)
                return r;
        find_lines(&file, changes, *n);
        *n = find_new_values(changes, *n);
        return *n > 0 ? replace_file(&file, changes, *n, ret_backup) : CTL_DONE;
}
