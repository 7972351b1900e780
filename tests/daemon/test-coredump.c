/* A client that dumps core: the arena is not in it, nor does the dump commit anything; unless it is asked for. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <tslab.h>
#include <unistd.h>

#include "proto/deadline.h"
#include "tests/util/ctl.h"
#include "tests/util/role.h"
#include "tests/util/test.h"

#define ARENA_SIZE (UINT64_C(64) << 20)
#define CORE_SMALL (UINT64_C(16) << 20) /* the program's own memory */
#define N_OBJECTS 1000
#define FEW_PAGES (8 * 4096)

/* Does not stand in the program as it does in objects. */
static void marker(char *ret) {
        static const char turned[] = "U!UI@C l!sjds";

        for (size_t i = 0; i < sizeof(turned) - 1; i++)
                ret[i] = turned[i] ^ 1;
}
#define MARKER_SIZE 13

static int crash(const char *socket, const char *dir) {
        struct rlimit unlimited = { RLIM_INFINITY, RLIM_INFINITY };
        struct tslab *pool;
        tslab_handle handle;
        char go;

        if (chdir(dir) < 0 || setrlimit(RLIMIT_CORE, &unlimited) < 0)
                return 1;
        if (tslab_open(&pool, socket, NULL) < 0)
                return 2;
        for (int i = 0; i < N_OBJECTS; i++) {
                void *object;

                if (tslab_alloc(pool, 512, TSLAB_EPOCH_CURRENT, &handle, &object) < 0)
                        return 3;
                marker(object);
        }
        role_write("r", 1);
        (void) role_read(&go, 1);
        (void) signal(SIGSEGV, SIG_DFL);
        raise(SIGSEGV);
        return 4;
}

/* Core files go where the kernel was told; only where that is the process's folder we can look at them. */
static bool cores_are_files(void) {
        char pattern[256] = "";
        int fd = open("/proc/sys/kernel/core_pattern", O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? -1 : read(fd, pattern, sizeof(pattern) - 1);

        if (fd >= 0)
                close(fd);
        return n > 0 && pattern[0] != '|' && !strchr(pattern, '/');
}

typedef struct Core {
        uint64_t size;
        bool has_objects;
} Core;

static Core look_at(const char *path) {
        char text[MARKER_SIZE];
        struct stat st;
        Core core;
        void *data;
        int fd;

        marker(text);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        assert_true(fd >= 0);
        assert_int_equal(fstat(fd, &st), 0);
        assert_true(st.st_size > 0);
        data = mmap(NULL, (size_t) st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        assert_ptr_not_equal(data, MAP_FAILED);
        core.size = (uint64_t) st.st_size;
        core.has_objects = memmem(data, (size_t) st.st_size, text, sizeof(text)) != NULL;
        munmap(data, (size_t) st.st_size);
        close(fd);
        return core;
}

/* The one core file in the folder, which is removed with it. */
static Core take_core(const char *dir) {
        char command[128], path[128] = "";
        FILE *names;
        Core core;

        snprintf(command, sizeof(command), "ls -d %s/*core* 2>/dev/null", dir);
        names = popen(command, "r");
        assert_non_null(names);
        assert_non_null(fgets(path, sizeof(path), names));
        assert_int_equal(pclose(names), 0);
        path[strcspn(path, "\n")] = 0;
        core = look_at(path);
        assert_int_equal(unlink(path), 0);
        return core;
}

static Core dump(const DaemonFixture *daemon, CtlMemory *ret_before, CtlMemory *ret_after) {
        char dir[] = "/tmp/tslab-core-XXXXXX", ready;
        Core core;
        Role p;

        assert_non_null(mkdtemp(dir));
        role_start(&p, "crash", daemon->socket, dir);
        role_hear(&p, &ready, 1);
        *ret_before = ctl_memory_settled(daemon);
        role_tell(&p, "g", 1);
        assert_int_equal(role_wait(&p), -SIGSEGV);
        *ret_after = ctl_memory_settled(daemon);
        core = take_core(dir);
        assert_int_equal(rmdir(dir), 0);
        return core;
}

static void start(DaemonFixture *daemon) {
        if (!cores_are_files())
                skip();
        daemon_start(daemon, (const char *[]){ "--size=64M", "--log-level=err", NULL });
}

static void test_core_leaves_memory_alone(void **state) {
        CtlMemory before, after;
        DaemonFixture daemon;
        Core core;

        start(&daemon);
        core = dump(&daemon, &before, &after);
        /* Repair may look at a page of tables, and the daemon commit some of its reserve; the dump takes no page. */
        assert_in_range(after.committed, before.committed, before.committed + FEW_PAGES);
        assert_in_range(after.blocks - after.committed, before.blocks - before.committed,
                        before.blocks - before.committed + FEW_PAGES);
        assert_in_range(core.size, 1, CORE_SMALL);
        assert_false(core.has_objects);
        assert_int_equal(ctl_stat(&daemon, "live_objects"), N_OBJECTS);
        assert_int_equal(ctl_run(&daemon, NULL, "check"), 0); /* slots of its caches may be in flight */
        daemon_stop(&daemon);
}

static void test_core_with_the_arena(void **state) {
        CtlMemory before, after;
        DaemonFixture daemon;
        Core core;

        start(&daemon);
        assert_int_equal(setenv("TSLAB_DUMP", "1", 1), 0);
        core = dump(&daemon, &before, &after);
        assert_int_equal(unsetenv("TSLAB_DUMP"), 0);
        assert_true(core.size >= ARENA_SIZE);
        assert_true(core.has_objects);
        daemon_stop(&daemon);
}

int main(int argc, char **argv) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_core_leaves_memory_alone),
                cmocka_unit_test(test_core_with_the_arena),
        };

        if (argc == 4)
                return crash(argv[2], argv[3]);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
