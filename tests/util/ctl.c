#include "tests/util/ctl.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/deadline.h"
#include "tests/util/role.h"
#include "tests/util/test.h"

#define OUTPUT_MAX (1U << 20)

static void execute(const DaemonFixture *daemon, int out, const char *const *arguments) {
        const char *argv[24] = { "tslabctl", "--json", "--socket", daemon->socket };

        for (size_t i = 0; arguments[i] && i < 16; i++)
                argv[4 + i] = arguments[i];
        (void) dup2(out, STDOUT_FILENO);
        execv(getenv("TSLABCTL") ?: TSLABCTL_PATH, (char *const *) argv);
        _exit(127);
}

int ctl_run_argv(const DaemonFixture *daemon, json_object **ret_reply, const char *const *arguments) {
        char *text = calloc(1, OUTPUT_MAX);
        int pipe_fds[2], status;
        size_t n = 0;
        ssize_t got;
        pid_t pid;

        assert_non_null(text);
        assert_int_equal(pipe2(pipe_fds, O_CLOEXEC), 0);
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0)
                execute(daemon, pipe_fds[1], arguments);
        close(pipe_fds[1]);
        while (n < OUTPUT_MAX - 1 && (got = read(pipe_fds[0], text + n, OUTPUT_MAX - 1 - n)) > 0)
                n += (size_t) got;
        close(pipe_fds[0]);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        if (ret_reply) {
                *ret_reply = json_tokener_parse(text);
                if (!*ret_reply)
                        print_error("tslabctl %s: %d\n%s\n", arguments[0], WEXITSTATUS(status), text);
                assert_non_null(*ret_reply);
        }
        free(text);
        return WEXITSTATUS(status);
}

uint64_t ctl_number_at(json_object *reply, const char *const *names) {
        json_object *o = reply, *member;

        for (; *names; names++) {
                if (json_object_is_type(o, json_type_array))
                        member = json_object_array_get_idx(o, strtoul(*names, NULL, 10));
                else if (!json_object_object_get_ex(o, *names, &member))
                        member = NULL;
                if (!member)
                        print_error("tslabctl prints no %s\n", *names);
                assert_non_null(member);
                o = member;
        }
        return json_object_get_uint64(o);
}

uint64_t ctl_stat_at(const DaemonFixture *daemon, const char *const *names) {
        json_object *reply;
        uint64_t number;

        assert_int_equal(ctl_run(daemon, &reply, "stats"), 0);
        number = ctl_number_at(reply, names);
        json_object_put(reply);
        return number;
}

CtlMemory ctl_memory(const DaemonFixture *daemon) {
        CtlMemory memory = { .blocks = role_memfd_size(daemon->pid) };
        json_object *reply;

        assert_int_equal(ctl_run(daemon, &reply, "stats"), 0);
        memory.committed = ctl_number(reply, "committed_bytes");
        memory.retained = ctl_number(reply, "retained_bytes");
        json_object_put(reply);
        return memory;
}

/* The daemon may still be making its reserve, and does not say when it is done: waits until readings stay equal. */
CtlMemory ctl_memory_settled(const DaemonFixture *daemon) {
        CtlMemory memory = ctl_memory(daemon), last;
        unsigned same = 0;

        WAIT_FOR((last = memory, memory = ctl_memory(daemon),
                  same = memcmp(&last, &memory, sizeof(last)) == 0 ? same + 1 : 0, same >= 5));
        return memory;
}

void ctl_check(const DaemonFixture *daemon) {
        json_object *reply;
        int status = ctl_run(daemon, &reply, "check");

        if (status != 0 || ctl_number(reply, "unsettled_slots") != 0)
                print_error("check: %s\n", json_object_to_json_string_ext(reply, JSON_C_TO_STRING_PRETTY));
        assert_int_equal(status, 0);
        assert_int_equal(ctl_number(reply, "ok"), 1);
        assert_int_equal(ctl_number(reply, "lost_slots"), 0);
        assert_int_equal(ctl_number(reply, "doubled_slots"), 0);
        assert_int_equal(ctl_number(reply, "unsettled_slots"), 0);
        assert_int_equal(ctl_number(reply, "wrong_hints"), 0);
        json_object_put(reply);
}
