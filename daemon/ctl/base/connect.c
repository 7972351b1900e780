#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/ctl/base/connect.h"
#include "daemon/ctl/base/lost.h"
#include "daemon/ctl/base/options.h"
#include "proto/deadline.h"
#include "proto/path.h"
#include "proto/served.h"
#include "proto/state-file.h"

#define HOW_TO_START_SIZE 240
#define GROUP_SIZE 64

#define SYSTEM_DIR "/run/tslab" /* as in proto/path.h */

/*
 * A daemon answers a hello at once. If it does not answer a request for as long, it may have much to do, or hang: a
 * second hello tells.
 */
#define HELLO_USEC UINT64_C(5000000)
#define PATIENCE_USEC UINT64_C(2000000)
#define START_POLL_USEC 20000U
#define START_USEC UINT64_C(90000000) /* systemd gives a service so long to start */
#define START_TOLD_USEC UINT64_C(1000000)

void connection_deinit(Connection *connection) {
        connection->call = proto_call_free(connection->call);
        connection->hello = proto_reply_free(connection->hello);
        free(proto_steal(&connection->path));
}

void connection_pool_name(char *ret, size_t size, const char *path) {
        const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
        size_t n = strlen(base);
        char name[PROTO_POOL_NAME_MAX + 1] = "";

        if (n > 5 && n - 5 <= PROTO_POOL_NAME_MAX && !strcmp(base + n - 5, ".sock"))
                (void) memcpy(name, base, n - 5);

        (void) snprintf(ret, size, "%s", proto_pool_name_is_valid(name) ? name : "");
}

void connection_command(char ret[CONNECTION_COMMAND_SIZE], const char *path) {
        _cleanup_(proto_freep) char *of_pool = NULL, *clean = must_clean(path);
        char pool[PROTO_POOL_NAME_MAX + 1];

        connection_pool_name(pool, sizeof(pool), path);
        if (pool[0] && proto_socket_path(pool, &of_pool) == 0 && !strcmp(of_pool, path))
                (void) snprintf(ret, CONNECTION_COMMAND_SIZE, "tslabctl --pool %s", pool);
        else
                (void) snprintf(ret, CONNECTION_COMMAND_SIZE, "tslabctl --socket %s", clean);
}

static CtlExit find_path(char **ret_path) {
        const char *variable = getenv("TSLAB_POOL");
        int r;

        if (arg_socket) {
                *ret_path = must(strdup(arg_socket));
                return CTL_DONE;
        }

        r = proto_socket_path(arg_pool, ret_path);
        if (r == -ENOMEM)
                (void) must(NULL);
        if (r == -EINVAL)
                return complain_usage(
                        "$TSLAB_POOL, '%s', is neither the name of a pool (1 to %d characters of "
                        "a-z, 0-9 and '_', the first no '_') nor a path; set it right, or give --pool",
                        variable ?: "", PROTO_POOL_NAME_MAX);
        if (r < 0)
                return complain("cannot tell where sockets are: %s", strerror(-r));

        return CTL_DONE;
}

/*
 * The lock of a daemon stays while programs have its memory, and names its arena. Where there is none, memory of that
 * name is a pool's of another runtime directory.
 */
static bool had_daemon(const char *path, const char *pool, char ret_id[PROTO_ARENA_TEXT_SIZE]) {
        _cleanup_(proto_freep) char *usual = NULL, *dir = NULL, *lock = NULL;
        _cleanup_(proto_closep) int fd = -1;
        char pid[PROTO_PID_SIZE];

        *ret_id = '\0';
        if (proto_socket_path(pool, &usual) < 0 || strcmp(usual, path) != 0)
                return true;
        dir = must(strndup(path, (size_t) (strrchr(path, '/') - path)));
        if (proto_state_file(dir, pool, PROTO_LOCK_SUFFIX, &lock) < 0)
                return true;
        fd = open(lock, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK);
        if (fd < 0)
                return errno != ENOENT;
        (void) proto_lock_read(fd, pid, ret_id);
        return true;
}

static bool is_of_systemd(const char *path) {
        return !strncmp(path, SYSTEM_DIR "/", sizeof(SYSTEM_DIR));
}

static void how_to_start(char *ret, const char *path) {
        char pool[PROTO_POOL_NAME_MAX + 1], id[PROTO_ARENA_TEXT_SIZE];
        pid_t client;

        connection_pool_name(pool, sizeof(pool), path);
        client = pool[0] && had_daemon(path, pool, id) ? lost_client_find(pool, id) : 0;
        if (client > 0)
                (void) snprintf(
                        ret, HOW_TO_START_SIZE,
                        "process %d still has its memory, and 'tslabd --pool %s --adopt %d', as the user of "
                        "the last daemon, goes on with it",
                        (int) client, pool, (int) client);
        else if (pool[0])
                /* The unit may be active, and its socket removed. */
                (void) snprintf(ret, HOW_TO_START_SIZE,
                                "start it with 'systemctl %s tslabd@%s.socket' or 'tslabd --pool %s'",
                                is_of_systemd(path) ? "restart" : "start", pool, pool);
        else
                (void) snprintf(ret, HOW_TO_START_SIZE, "is that the path of a pool's socket, NAME.sock?");
}

static void group_name(char *ret, gid_t gid) {
        const struct group *group = getgrgid(gid);

        if (group)
                (void) snprintf(ret, GROUP_SIZE, "%s", group->gr_name);
        else
                (void) snprintf(ret, GROUP_SIZE, "%u", (unsigned) gid);
}

/* Names the group that may open the socket, or its directory if that keeps the user out. */
static CtlExit complain_access(const char *path) {
        const char *slash = strrchr(path, '/');
        char group[GROUP_SIZE], what[256];
        struct stat status;
        mode_t needed = S_IWGRP;

        (void) snprintf(what, sizeof(what), "%s", path);
        if (stat(what, &status) < 0) {
                (void) snprintf(what, sizeof(what), "%.*s", slash ? (int) (slash - path) : 1,
                                slash ? path : ".");
                needed = S_IXGRP;
                if (stat(what, &status) < 0)
                        return complain("you may not connect to %s: ask its operator, or use sudo", path);
        }

        group_name(group, status.st_gid);
        if (status.st_mode & needed)
                return complain(
                        "you may not connect to %s: %s is for group '%s'; join it (and log in anew), or use sudo",
                        path, what, group);
        return complain("you may not connect to %s: %s is for its owner, user %u, alone; use sudo", path,
                        what, (unsigned) status.st_uid);
}

/* "T" of a process that was stopped; '?': not known. */
static char process_state(pid_t pid) {
        char path[32], text[512], *end;
        FILE *file;
        size_t n;

        (void) snprintf(path, sizeof(path), "/proc/%d/stat", (int) pid);
        file = fopen(path, "re");
        n = file ? fread(text, 1, sizeof(text) - 1, file) : 0;
        text[n] = '\0';
        if (file)
                (void) fclose(file);
        end = strrchr(text, ')'); /* the name before it may have any characters */
        return end && end[1] == ' ' && end[2] ? end[2] : '?';
}

static CtlExit complain_silence(const char *path) {
        char pool[PROTO_POOL_NAME_MAX + 1], process[48] = "";
        pid_t pid = 0;

        connection_pool_name(pool, sizeof(pool), path);
        (void) proto_served(path, &pid);
        if (pid > 0)
                (void) snprintf(process, sizeof(process), ", process %d,", (int) pid);
        if (pid > 0 && strchr("Tt", process_state(pid)))
                return complain(
                        "the daemon at %s, process %d, does not answer: it was stopped, and 'kill -CONT %d' lets it "
                        "go on; programs use the pool meanwhile",
                        path, (int) pid, (int) pid);
        if (is_of_systemd(path))
                return complain(
                        "the daemon at %s%s does not answer; programs use the pool meanwhile. 'journalctl "
                        "TSLAB_POOL=%s' may tell why, and 'systemctl restart tslabd@%s.service' keeps the objects",
                        path, process, pool, pool);
        return complain(
                "the daemon at %s%s does not answer: is it hung, or the machine very busy? programs use the pool "
                "meanwhile, and a daemon that follows with --adopt keeps the objects",
                path, process);
}

static CtlExit complain_refused(const char *path, const ProtoReply *reply) {
        char command[CONNECTION_COMMAND_SIZE];

        if (reply->error == -EOPNOTSUPP)
                return complain(
                        "the daemon does not know how to do that: is it older than this tslabctl, %s? restart it "
                        "after an upgrade",
                        TSLAB_VERSION);
        if (reply->message && reply->message[0])
                return complain("%s", reply->message);

        connection_command(command, path);
        switch (reply->error) {
        case -EPERM:
        case -EACCES:
                return complain(
                        "the daemon refused: your role in this pool does not allow that; ask its operator");
        case -ESTALE:
                return complain(
                        "the epoch has no such era open; '%s epoch list' shows the newest era of each",
                        command);
        default:
                return complain("the daemon refused: %s", strerror(-reply->error));
        }
}

#define IN_THE_LOG "its log says why: 'journalctl -t tslabd'"

CtlExit connection_complain(const char *path, int r, const ProtoReply *reply) {
        switch (r) {
        case PROTO_E_REFUSED:
                return complain_refused(path, reply);
        case PROTO_E_CLOSED:
                return complain("the daemon at %s hung up; " IN_THE_LOG, path);
        case -ETIMEDOUT:
                return complain_silence(path);
        case -EPROTO:
                return complain(
                        "the program at %s does not speak tslab's protocol: is that the socket of a pool?",
                        path);
        case -EPROTONOSUPPORT:
                return complain(
                        "the daemon at %s speaks another version of the protocol than tslabctl %s: use "
                        "programs of one version, and restart a daemon after an upgrade",
                        path, TSLAB_VERSION);
        case -ENOMEM:
                return complain("out of memory");
        default:
                return complain("%s: %s", path, strerror(-r));
        }
}

/* The socket was removed, or is another's by now; or a daemon of an earlier build, which does not mark that, starts. */
static CtlExit complain_hidden(const char *path, const char *trouble, pid_t pid) {
        char pool[PROTO_POOL_NAME_MAX + 1];

        connection_pool_name(pool, sizeof(pool), path);
        if (is_of_systemd(path))
                return complain(
                        "%s %s, though the daemon, process %d, lives. If it has just been started, try again in a "
                        "moment; if not, 'systemctl restart tslabd@%s.socket' keeps the objects. Programs go on with "
                        "the pool",
                        trouble, path, (int) pid, pool);
        return complain(
                "%s %s, though the daemon, process %d, lives. If it has just been started, try again in a moment; if "
                "not, programs go on with the pool. While one of the daemon's user has it open, end that daemon, "
                "and go on with 'tslabd --pool %s --adopt PID' of that program",
                trouble, path, (int) pid, pool);
}

/* 0: none runs, or this user cannot see it. */
static pid_t find_daemon(const char *path) {
        char pool[PROTO_POOL_NAME_MAX + 1];
        pid_t pid;

        if (proto_served(path, &pid) == PROTO_SERVED_YES && pid > 0)
                return pid;
        connection_pool_name(pool, sizeof(pool), path);
        return pool[0] && is_of_systemd(path) ? lost_daemon_find(pool) : 0;
}

static CtlExit complain_absence(const char *path, const char *trouble) {
        char start[HOW_TO_START_SIZE];
        pid_t pid = find_daemon(path);

        if (pid > 0)
                return complain_hidden(path, trouble, pid);
        how_to_start(start, path);
        return complain("no daemon: %s %s; %s", trouble, path, start);
}

/* systemd holds the socket, and each daemon that it starts for a connection ends at once. */
static bool is_unstartable(const char *path) {
        pid_t pid;

        return is_of_systemd(path) && proto_served(path, &pid) == PROTO_SERVED_NO;
}

static CtlExit complain_start(const char *path) {
        char pool[PROTO_POOL_NAME_MAX + 1];

        connection_pool_name(pool, sizeof(pool), path);
        return complain("the daemon at %s does not start; 'systemctl status tslabd@%s.service' says why",
                        path, pool);
}

static CtlExit complain_open(const char *path, int r, const ProtoReply *reply) {
        if ((r == PROTO_E_CLOSED || r == -ETIMEDOUT) && is_unstartable(path))
                return complain_start(path);
        switch (r) {
        case -ENOENT:
        case -ENOTDIR:
                return complain_absence(path, "there is no");
        case -ECONNREFUSED:
                return complain_absence(path, "nobody listens at");
        case -EACCES:
        case -EPERM:
                return complain_access(path);
        case -ENAMETOOLONG:
                return complain_usage("the path of a socket has at most 107 bytes, %s has more", path);
        case -EPROTOTYPE:
                return complain("%s is a socket, but not that of a pool", path);
        default:
                return connection_complain(path, r, reply);
        }
}

int connection_try(const char *path, uint64_t timeout_usec, ProtoCall **ret_call, ProtoReply **ret_hello) {
        ProtoHello hello = PROTO_HELLO_INIT;

        hello.software = (char *) CONNECTION_SOFTWARE;
        hello.comm = (char *) "tslabctl";
        return proto_call_open(ret_call, path, &hello, timeout_usec, ret_hello);
}

int connection_try_running(const char *path, uint64_t timeout_usec, ProtoCall **ret_call,
                           ProtoReply **ret_hello) {
        pid_t pid;

        return proto_served(path, &pid) == PROTO_SERVED_NO
                       ? -ECONNREFUSED
                       : connection_try(path, timeout_usec, ret_call, ret_hello);
}

CtlExit connection_find(Connection *connection) {
        return connection->path ? CTL_DONE : find_path(&connection->path);
}

static bool is_absent(int r) {
        return r == -ENOENT || r == -ECONNREFUSED;
}

/* A stand-in of the daemon's loop may hang up before it says hello, as the loop goes on. */
static int try_twice(Connection *connection) {
        int r = connection_try(connection->path, HELLO_USEC, &connection->call, &connection->hello);

        if (r == PROTO_E_CLOSED && !is_unstartable(connection->path))
                r = connection_try(connection->path, HELLO_USEC, &connection->call, &connection->hello);
        return r;
}

/*
 * A daemon that takes a large pool over, on a loaded machine, may take seconds before it listens, or answers those that
 * connected to the socket that systemd holds. It says by its marks how far it is.
 */
static int try_while_it_starts(Connection *connection) {
        uint64_t deadline = proto_deadline(START_USEC);
        bool starts, is_told = false;
        int r;

        for (;;) {
                starts = proto_served_starts(connection->path);
                r = try_twice(connection);
                if (!(is_absent(r) || r == -ETIMEDOUT) || proto_deadline_left(deadline) == 0 ||
                    !(starts || proto_served_starts(connection->path)))
                        return r;
                if (!is_told && proto_deadline_left(deadline) < START_USEC - START_TOLD_USEC) {
                        (void) complain("the daemon at %s is starting: waiting for it", connection->path);
                        is_told = true;
                }
                (void) usleep(START_POLL_USEC);
        }
}

static bool waits_for_pages(const Connection *connection) {
        return connection->hello->hello->page_wait_seconds > 0;
}

CtlExit connection_open(Connection *connection) {
        CtlExit exit_code;
        int r;

        exit_code = connection_find(connection);
        if (exit_code)
                return exit_code;

        r = try_while_it_starts(connection);
        if (r)
                return complain_open(connection->path, r, connection->hello);
        connection->stands_in = waits_for_pages(connection);
        return CTL_DONE;
}

static void replace_hello(Connection *connection, ProtoReply **hello) {
        (void) proto_reply_free(connection->hello);
        connection->hello = proto_steal(hello);
}

/* If that fails, keeps the old hello, which complaints use. */
static int reopen_connection(Connection *connection) {
        _cleanup_(proto_call_freep) ProtoCall *call = NULL;
        _cleanup_(proto_reply_freep) ProtoReply *hello = NULL;
        int r = connection_try_running(connection->path, HELLO_USEC, &call, &hello);

        if (r)
                return r;
        (void) proto_call_free(connection->call);
        connection->call = proto_steal(&call);
        replace_hello(connection, &hello);
        connection->stands_in = waits_for_pages(connection);
        return 0;
}

/* Whether the daemon says hello beside a request that takes it long, and can go on with that request. */
static bool is_daemon_at_work(Connection *connection) {
        _cleanup_(proto_call_freep) ProtoCall *call = NULL;
        _cleanup_(proto_reply_freep) ProtoReply *hello = NULL;
        int r;

        r = connection_try_running(connection->path, PATIENCE_USEC, &call, &hello);
        if (r == 0)
                replace_hello(connection, &hello);
        return r != -ETIMEDOUT && !waits_for_pages(connection);
}

/* The verb that shows whether a request was done; NULL: it changes nothing; "": to repeat it does no harm. */
static const char *verb_that_shows(const ProtoRequest *request) {
        switch (request->body_case) {
        case TSLAB__REQUEST__BODY_EPOCH_CLOSE:
                return request->epoch_close->look ? NULL : "epoch list";
        case TSLAB__REQUEST__BODY_EPOCH_ADVANCE:
        case TSLAB__REQUEST__BODY_EPOCH_RESERVE:
        case TSLAB__REQUEST__BODY_EPOCH_LABEL:
                return "epoch list";
        case TSLAB__REQUEST__BODY_MAP_SET:
                return "maps";
        case TSLAB__REQUEST__BODY_CHECK:
                return request->check->repair ? "" : NULL;
        case TSLAB__REQUEST__BODY_TRIM:
                return "";
        default:
                return NULL;
        }
}

static CtlExit complain_lost_answer(const Connection *connection, const char *verb) {
        char command[CONNECTION_COMMAND_SIZE];

        if (!*verb)
                return complain("the daemon at %s hung up before it was done; to repeat the command does no "
                                "harm, and " IN_THE_LOG,
                                connection->path);
        connection_command(command, connection->path);
        return complain(
                "the daemon at %s hung up before it answered: whether it did what it was told, '%s %s' "
                "shows; " IN_THE_LOG,
                connection->path, command, verb);
}

static CtlExit complain_call(const Connection *connection, const ProtoRequest *request, int r,
                             const ProtoReply *reply) {
        const Tslab__HelloReply *hello = connection->hello->hello;
        const char *verb = verb_that_shows(request);

        if (r == PROTO_E_CLOSED && verb && !connection->stands_in)
                return complain_lost_answer(connection, verb);
        if (r != -ETIMEDOUT || !waits_for_pages(connection))
                return connection_complain(connection->path, r, reply);
        return complain(
                "the daemon at %s has waited for %llu s for the lock of the pool's memory, and does what it was "
                "told when it has it: %s",
                connection->path, (unsigned long long) hello->page_wait_seconds, hello->page_wait_cause);
}

/* The parts of an answer: a second one would hand them out again. */
typedef struct Parts {
        ProtoCallMore more;
        void *userdata;
        bool begun;
} Parts;

static int on_part(void *userdata, const ProtoReply *reply) {
        Parts *parts = userdata;

        parts->begun |= reply->body_case != TSLAB__REPLY__BODY__NOT_SET;
        return parts->more ? parts->more(parts->userdata, reply) : 0;
}

static int call_patiently(Connection *connection, ProtoRequest *request, uint64_t deadline, Parts *parts,
                          ProtoReply **ret_reply, ProtoFds *ret_fds) {
        int r;

        r = proto_call(connection->call, request, PATIENCE_USEC, on_part, parts, ret_reply, ret_fds);
        while (r == -ETIMEDOUT && proto_deadline_left(deadline) > 0 && is_daemon_at_work(connection))
                r = proto_call_again(connection->call, request, PATIENCE_USEC, on_part, parts, ret_reply,
                                     ret_fds);
        return r;
}

int connection_call_quietly(Connection *connection, ProtoRequest *request, uint64_t timeout_usec,
                            ProtoCallMore more, void *userdata, ProtoReply **ret_reply, ProtoFds *ret_fds) {
        bool is_sent = proto_call_fd(connection->call) >= 0;
        Parts parts = { .more = more, .userdata = userdata };
        uint64_t deadline = proto_deadline(timeout_usec);
        int r;

        r = call_patiently(connection, request, deadline, &parts, ret_reply, ret_fds);
        if (r != PROTO_E_CLOSED || parts.begun ||
            (is_sent && verb_that_shows(request) && !connection->stands_in) ||
            reopen_connection(connection) != 0)
                return r;
        return call_patiently(connection, request, deadline, &parts, ret_reply, ret_fds);
}

CtlExit connection_call(Connection *connection, ProtoRequest *request, uint64_t timeout_usec,
                        ProtoCallMore more, void *userdata, ProtoReply **ret_reply) {
        int r = connection_call_quietly(connection, request, timeout_usec, more, userdata, ret_reply, NULL);

        return r ? complain_call(connection, request, r, *ret_reply) : CTL_DONE;
}

CtlExit connection_call_fds(Connection *connection, ProtoRequest *request, uint64_t timeout_usec,
                            ProtoReply **ret_reply, ProtoFds *ret_fds) {
        int r = connection_call_quietly(connection, request, timeout_usec, NULL, NULL, ret_reply, ret_fds);

        return r ? complain_call(connection, request, r, *ret_reply) : CTL_DONE;
}
