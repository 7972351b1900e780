#include "daemon/ctl/verb/close-confirm.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "daemon/ctl/base/format.h"
#include "daemon/ctl/base/options.h"
#include "daemon/ctl/base/terminal.h"

#define SENTENCE_SIZE 400

typedef struct Question {
        char command[CONNECTION_COMMAND_SIZE];
        char epoch[FORMAT_SIZE],
                mistake[SENTENCE_SIZE]; /* the first epoch whose close is surely one; "": none */
        bool asks; /* something was told that the user has to agree to */
        bool loses; /* objects */
} Question;

/*
 * *ret_look stays NULL where the daemon refuses the epoch, as it will when it is to close it. *ret_unknown: it is too
 * old to look. A daemon that gives no answer may go on later, and must not find a request to close then.
 */
static CtlExit look_at_epoch(Connection *connection, uint32_t epoch, ProtoReply **ret_look,
                             bool *ret_unknown) {
        _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;
        Tslab__EpochClose close = TSLAB__EPOCH_CLOSE__INIT;
        ProtoRequest request = PROTO_REQUEST_INIT;
        int r;

        request.body_case = TSLAB__REQUEST__BODY_EPOCH_CLOSE;
        request.epoch_close = &close;
        close.epoch = epoch;
        close.revoke = arg_revoke;
        close.older = arg_older;
        close.look = true;
        r = connection_call_quietly(connection, &request, CONNECTION_LONG, NULL, NULL, &reply, NULL);
        if (r != 0 && (r != PROTO_E_REFUSED || reply->error == -ENOMEM))
                return connection_complain(connection->path, r, reply);
        *ret_unknown = r != 0 && reply->error == -EOPNOTSUPP;
        if (r == 0)
                *ret_look = proto_steal(&reply);
        return CTL_DONE;
}

/* " 'reports', leased by process 12 (worker), which 3 processes refer to" */
static void print_use(const Tslab__EpochCloseReply *look) {
        if (look->label && look->label[0])
                (void) fprintf(stderr, " '%s'", look->label);
        if (look->owner_pid > 0)
                (void) fprintf(stderr, ", leased by process %d (%s)", look->owner_pid, look->comm ?: "");
        else if (look->owner_pid < 0)
                (void) fprintf(stderr, ", leased by a process of another pid namespace (%s)",
                               look->comm ?: "");
        if (look->refs > 0)
                (void) fprintf(stderr, ", to which %s references",
                               format_count(FORMAT_BUFFER, look->refs, "process has", "processes have"));
}

static void print_objects(const Tslab__EpochCloseReply *look) {
        if (look->live_objects == 0) {
                (void) fprintf(stderr, "holds no objects");
                return;
        }
        (void) fprintf(stderr, "%s, %s, ",
                       format_count(FORMAT_BUFFER, look->live_objects, "object", "objects"),
                       format_bytes(FORMAT_BUFFER, look->live_bytes));
        if (look->oldest_era != look->newest_era)
                (void) fprintf(stderr, "of eras %u to %u ", look->oldest_era, look->newest_era);
        (void) fprintf(stderr, "%s freed", look->live_objects == 1 ? "is" : "are");
}

/* The reason not to close the epoch, as a sentence whose subject is the epoch; or "". */
static void describe_mistake(char ret[SENTENCE_SIZE], const Tslab__EpochCloseReply *look,
                             const char *command) {
        ret[0] = '\0';
        if (look->current)
                (void) snprintf(ret, SENTENCE_SIZE,
                                "is the current one: programs that name no epoch cannot allocate any more, "
                                "until '%s epoch advance'",
                                command);
        else if (look->maps)
                (void) snprintf(ret, SENTENCE_SIZE, "holds the indexes of all maps of the pool: %s",
                                arg_revoke ? "all maps are gone, for every program"
                                           : "no program can put new keys into them any more");
}

static void tell_epoch(Question *question, const Tslab__EpochCloseReply *look) {
        char mistake[SENTENCE_SIZE];

        describe_mistake(mistake, look, question->command);
        if (mistake[0] && !question->mistake[0]) {
                (void) format_epoch(question->epoch, look->epoch);
                memcpy(question->mistake, mistake, sizeof(mistake));
        }
        question->asks |= arg_revoke || mistake[0] || look->owner_pid != 0;
        question->loses |= look->live_objects > 0;
}

static void print_look(const Question *question, const Tslab__EpochCloseReply *look) {
        char mistake[SENTENCE_SIZE];

        (void) fprintf(stderr, "  epoch %s", format_epoch(FORMAT_BUFFER, look->epoch));
        print_use(look);
        (void) fprintf(stderr, ": ");
        if (arg_revoke)
                print_objects(look);
        else
                (void) fprintf(stderr, "closed to allocation; its objects stay until they are freed");
        (void) fputc('\n', stderr);
        describe_mistake(mistake, look, question->command);
        if (mistake[0])
                (void) fprintf(stderr, "    It %s.\n", mistake);
        if (look->owner_pid > 0)
                (void) fprintf(stderr, "    Process %d cannot allocate in it any more.\n", look->owner_pid);
        else if (look->owner_pid < 0)
                (void) fprintf(stderr, "    That process cannot allocate in it any more.\n");
}

static CtlExit ask_user(const Question *question, const Connection *connection, ProtoReply *const *looks,
                        size_t n_looks) {
        (void) fprintf(stderr, "In pool '%s':\n", connection->hello->hello->pool ?: "");
        for (size_t i = 0; i < n_looks; ++i)
                if (looks[i])
                        print_look(question, looks[i]->epoch_close);
        if (question->loses)
                (void) fprintf(
                        stderr,
                        "Every handle to these objects becomes stale, in every process. This cannot be undone.\n");
        (void) fprintf(stderr, "Go on? [y/N] ");
        return terminal_answers_yes() ? CTL_DONE : complain("nothing was closed");
}

/* An older daemon cannot tell what it would free. */
static CtlExit ask_blindly(const Connection *connection) {
        (void) fprintf(
                stderr,
                "The daemon of pool '%s' is too old to tell which objects that frees. Every handle to them "
                "becomes stale, in every process. This cannot be undone.\nGo on? [y/N] ",
                connection->hello->hello->pool ?: "");
        return terminal_answers_yes() ? CTL_DONE : complain("nothing was closed");
}

CtlExit close_confirm(Connection *connection, uint32_t *epochs, size_t n_epochs) {
        bool terminal = isatty(STDIN_FILENO) && isatty(STDERR_FILENO), unknown = false;
        ProtoReply **looks = must(calloc(n_epochs, sizeof(*looks)));
        Question question = {};
        CtlExit r = CTL_DONE;

        connection_command(question.command, connection->path);
        for (size_t i = 0; i < n_epochs && !unknown && r == CTL_DONE; ++i) {
                r = look_at_epoch(connection, epochs[i], &looks[i], &unknown);
                if (!looks[i])
                        continue;
                epochs[i] = looks[i]->epoch_close->epoch;
                tell_epoch(&question, looks[i]->epoch_close);
        }
        if (r == CTL_DONE && terminal && unknown && arg_revoke)
                r = ask_blindly(connection);
        else if (r == CTL_DONE && terminal && question.asks)
                r = ask_user(&question, connection, looks, n_epochs);
        else if (r == CTL_DONE && !terminal && question.mistake[0])
                r = complain(
                        "epoch %s %s; nothing was closed: repeat the command with --yes if that is meant",
                        question.epoch, question.mistake);

        for (size_t i = 0; i < n_epochs; ++i)
                (void) proto_reply_free(looks[i]);
        free(looks);
        return r;
}
