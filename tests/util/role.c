#include "tests/util/parent.h"
#include "tests/util/role.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/util/test.h"

static bool read_all(int fd, void *data, size_t size) {
        for (size_t n = 0; n < size;) {
                ssize_t got = read(fd, (char *) data + n, size - n);

                if (got < 0 && errno == EINTR)
                        continue;
                if (got <= 0)
                        return false;
                n += (size_t) got;
        }
        return true;
}

static bool write_all(int fd, const void *data, size_t size) {
        for (size_t n = 0; n < size;) {
                ssize_t done = write(fd, (const char *) data + n, size - n);

                if (done < 0 && errno == EINTR)
                        continue;
                if (done <= 0)
                        return false;
                n += (size_t) done;
        }
        return true;
}

static void execute(int in, int out, const char *const *argv) {
        end_with_parent();
        if (dup2(in, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0)
                _exit(126);
        (void) close_range(3, UINT32_MAX, CLOSE_RANGE_CLOEXEC);
        execv("/proc/self/exe", (char *const *) argv);
        _exit(127);
}

void role_start_argv(Role *role, const char *const *argv) {
        int to[2], from[2];

        assert_int_equal(pipe2(to, O_CLOEXEC), 0);
        assert_int_equal(pipe2(from, O_CLOEXEC), 0);
        role->pid = fork();
        assert_true(role->pid >= 0);
        if (role->pid == 0)
                execute(to[0], from[1], argv);
        close(to[0]);
        close(from[1]);
        role->to = to[1];
        role->from = from[0];
        (void) signal(SIGPIPE, SIG_IGN);
}

void role_tell(Role *role, const void *data, size_t size) {
        assert_true(write_all(role->to, data, size));
}

void role_hear(Role *role, void *ret_data, size_t size) {
        assert_true(read_all(role->from, ret_data, size));
}

int role_wait(Role *role) {
        int status;

        close(role->to);
        close(role->from);
        assert_int_equal(waitpid(role->pid, &status, 0), role->pid);
        role->pid = 0;
        return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

bool role_read(void *ret_data, size_t size) {
        return read_all(STDIN_FILENO, ret_data, size);
}

void role_write(const void *data, size_t size) {
        if (!write_all(STDOUT_FILENO, data, size))
                exit(125);
}

uint64_t role_memfd_size(pid_t pid) {
        char path[64], target[64];
        struct dirent *entry;
        uint64_t size = 0;
        struct stat st;
        ssize_t n;
        DIR *dir;

        snprintf(path, sizeof(path), "/proc/%d/fd", (int) pid);
        dir = opendir(path);
        assert_non_null(dir);
        while (size == 0 && (entry = readdir(dir))) {
                n = readlinkat(dirfd(dir), entry->d_name, target, sizeof(target));
                if (n > 7 && memcmp(target, "/memfd:", 7) == 0 &&
                    fstatat(dirfd(dir), entry->d_name, &st, 0) == 0)
                        size = (uint64_t) st.st_blocks * 512;
        }
        closedir(dir);
        assert_true(size > 0);
        return size;
}

typedef struct Pattern {
        uint64_t owner, seed;
        uint8_t bytes[];
} Pattern;

static uint8_t pattern_byte(uint64_t seed, size_t i) {
        return (uint8_t) (seed >> i % 8 * 8) ^ (uint8_t) (i * 31 + 7);
}

void pattern_fill(void *object, size_t size, uint64_t owner, uint64_t seed) {
        Pattern *p = object;

        p->owner = owner;
        p->seed = seed ^ owner * UINT64_C(0x9e3779b97f4a7c15);
        for (size_t i = 0; i < size - sizeof(*p); i++)
                p->bytes[i] = pattern_byte(p->seed, i);
}

bool pattern_check(const void *object, size_t size, uint64_t owner) {
        const Pattern *p = object;

        if (p->owner != owner)
                return false;
        for (size_t i = 0; i < size - sizeof(*p); i++)
                if (p->bytes[i] != pattern_byte(p->seed, i))
                        return false;
        return true;
}
