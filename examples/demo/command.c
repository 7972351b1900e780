#include "examples/demo/command.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "examples/demo/util.h"

_Noreturn void command_exec(const char *path, char *const argv[]) {
        sigset_t none;

        (void) sigemptyset(&none);
        (void) sigprocmask(SIG_SETMASK, &none, NULL);
        (void) execv(path, argv);
        if (errno == ENOENT)
                (void) execvp(argv[0], argv);
        (void) dprintf(STDERR_FILENO, "%s: %s\n", path, strerror(errno));
        _exit(127);
}

/* Reads to the end, and drops the bytes beyond `size`: the child must not wait for us. */
static void read_output(int fd, char *output, size_t size) {
        char rest[4096];
        size_t n_read = 0;

        for (;;) {
                bool full = n_read + 1 >= size;
                ssize_t n =
                        full ? read(fd, rest, sizeof(rest)) : read(fd, output + n_read, size - 1 - n_read);

                if (n == 0 || (n < 0 && errno != EINTR))
                        break;
                n_read += n > 0 && !full ? (size_t) n : 0;
        }
        output[n_read] = 0;
}

int command_wait(pid_t pid) {
        int status;

        while (waitpid(pid, &status, 0) < 0)
                if (errno != EINTR)
                        return -errno;
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int command_run(const char *path, char *const argv[], char *ret_output, size_t size) {
        int fds[2];
        pid_t pid;

        if (pipe2(fds, O_CLOEXEC) < 0)
                return -errno;
        pid = fork();
        if (pid == 0) {
                (void) dup2(fds[1], STDOUT_FILENO);
                command_exec(path, argv);
        }
        (void) close(fds[1]);
        if (pid > 0)
                read_output(fds[0], ret_output, size);
        (void) close(fds[0]);
        return pid < 0 ? -EAGAIN : command_wait(pid);
}
