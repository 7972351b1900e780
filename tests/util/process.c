#include "tests/util/process.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

pid_t test_child_start(TestFork how, TestChild child, void *userdata) {
        pid_t pid;
        int line;

        if (how == TEST_FORK)
                pid = fork();
        else if (how == TEST_FORK_BARE)
                pid = _Fork();
        else
                pid = (pid_t) syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
        if (pid != 0)
                return pid;
        line = child(userdata);
        if (line != 0)
                dprintf(2, "child %d failed at line %d\n", (int) getpid(), line);
        _exit(line != 0);
}

int test_child_wait(pid_t pid) {
        int status;

        if (pid < 0 || waitpid(pid, &status, 0) != pid)
                return -1;
        return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

int test_child_run(TestFork how, TestChild child, void *userdata) {
        return test_child_wait(test_child_start(how, child, userdata));
}

static uint64_t memory_of(const char *fd) {
        char path[64], target[64] = "";
        struct stat st;

        snprintf(path, sizeof(path), "/proc/self/fd/%.16s", fd);
        if (readlink(path, target, sizeof(target) - 1) < 0 || strncmp(target, "/memfd:tslab", 12) != 0)
                return 0;
        return fstat(atoi(fd), &st) < 0 ? 0 : (uint64_t) st.st_blocks * 512;
}

uint64_t test_pool_memory(void) {
        DIR *dir = opendir("/proc/self/fd");
        uint64_t sum = 0;

        for (struct dirent *e; dir && (e = readdir(dir));)
                sum += memory_of(e->d_name);
        if (dir)
                closedir(dir);
        return sum;
}
