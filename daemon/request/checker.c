#include "daemon/request/checker.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "daemon/log.h"
#include "daemon/message-id.h"
#include "daemon/request/trail.h"
#include "proto/deadline.h"
#include "proto/text.h"
#include "shm/maintain/check.h"

#define CHECK_SLICE 4096U /* slabs */
#define PROGRESS_USEC (PROTO_USEC_PER_SEC / 10)

typedef struct CheckJob {
        QueueLink link;
        Call call;
        bool repair;
        uint64_t progress_usec;
} CheckJob;

struct Checker {
        Pool *pool;
        Task task;
        Queue jobs; /* CheckJob: the first is under way */
        ShmCheckRun *run; /* the first job's run; NULL: it has yet to begin */
        ShmCheck result;
};

static void answer_check(Session *session, uint64_t id, const ShmCheck *c) {
        char texts[SHM_CHECK_PROBLEMS_MAX][PROTO_TEXT_MAX + 1];
        char *pointers[SHM_CHECK_PROBLEMS_MAX];
        ProtoReply reply = PROTO_REPLY_INIT;
        Tslab__CheckReply check = TSLAB__CHECK_REPLY__INIT;

        for (size_t i = 0; i < c->n_texts; i++) {
                proto_text_clean(texts[i], sizeof(texts[i]), c->texts[i]);
                pointers[i] = texts[i];
        }
        check.ok = c->problems == 0;
        check.lost_slots = c->lost_slots;
        check.doubled_slots = c->doubled_slots;
        check.unsettled_slots = c->in_flight_slots;
        check.wrong_hints = c->wrong_hints;
        check.repaired = c->repaired;
        check.slabs = c->slabs;
        check.slots = c->slots;
        check.problems = pointers;
        check.n_problems = c->n_texts;
        reply.body_case = TSLAB__REPLY__BODY_CHECK;
        reply.check = &check;
        session_send(session, id, &reply);
}

static void log_problems(const ShmCheck *c) {
        if (c->problems == 0)
                return;
        log_fields(LOG_ERR, (LogFields){ .message = MESSAGE_CORRUPTION },
                   "a check found %llu lost and %llu doubled slots, %llu wrong hints; first: %s",
                   (unsigned long long) c->lost_slots, (unsigned long long) c->doubled_slots,
                   (unsigned long long) c->wrong_hints, c->n_texts > 0 ? c->texts[0] : "-");
}

static void end_check_job(Checker *checker) {
        CheckJob *job = queue_take(&checker->jobs);

        free(checker->run);
        checker->run = NULL;
        call_close(&job->call);
        free(job);
}

static void report_check(const Checker *checker, CheckJob *job, uint64_t now) {
        ProtoReply reply = PROTO_REPLY_INIT;
        Tslab__Progress progress = TSLAB__PROGRESS__INIT;
        uint32_t done, total;

        if (!job->call.session || now < job->progress_usec)
                return;
        job->progress_usec = now + PROGRESS_USEC;
        shm_check_progress(checker->run, &done, &total);
        progress.done = done;
        progress.total = total;
        progress.text = (char *) "slabs checked";
        reply.more = true;
        reply.progress = &progress;
        session_send(job->call.session, job->call.id, &reply);
}

static int begin_check(Checker *checker, const CheckJob *job) {
        Pool *pool = checker->pool;
        uint32_t n_slabs = shm_arena_n_slabs_ever(&pool->arena);
        void *memory = calloc(1, shm_check_size(&pool->arena, n_slabs));

        if (!memory)
                return -ENOMEM;
        checker->run = shm_check_begin(memory, &pool->arena, n_slabs, job->repair ? &pool->actor : NULL,
                                       &checker->result);
        return 0;
}

/* 1: the check goes on; 0: it is complete; or a negative errno. */
static int advance_check(Checker *checker, const CheckJob *job) {
        int r = checker->run ? 0 : begin_check(checker, job);

        return r ?: shm_check_step(checker->run, pool_slice(checker->pool, CHECK_SLICE));
}

/* If the session is gone, the check ends early. Its repairs so far stay. */
static bool is_check_wanted(const CheckJob *job) {
        return job->call.session != NULL;
}

static uint64_t on_check_slice(void *userdata, uint64_t now) {
        Checker *checker = userdata;
        CheckJob *job = queue_first(&checker->jobs);
        int r = is_check_wanted(job) ? advance_check(checker, job) : 0;

        if (r > 0) {
                report_check(checker, job, now);
                return 0;
        }
        if (is_check_wanted(job) && r < 0)
                request_refuse_memory(job->call.session, job->call.id);
        if (is_check_wanted(job) && r == 0) {
                log_problems(&checker->result);
                answer_check(job->call.session, job->call.id, &checker->result);
        }
        end_check_job(checker);
        return checker->jobs.first ? 0 : TASK_IDLE;
}

void request_check(RequestContext *context, const ProtoRequest *request) {
        Checker *checker = context->requests->checker;
        CheckJob *job = calloc(1, sizeof(*job));
        Trail trail;

        if (!job) {
                request_refuse_memory(context->session, context->id);
                return;
        }
        job->repair = request->check->repair;
        if (job->repair) {
                trail_init(&trail, context);
                trail_log(&trail, "repair", NULL, "repairs the pool");
        }
        job->progress_usec = proto_now_usec() + PROGRESS_USEC;
        call_open(&job->call, context->session, context->id);
        queue_append(&checker->jobs, job);
        task_wake(&checker->task);
}

int checker_new(Checker **ret_checker, Pool *pool) {
        Checker *checker = calloc(1, sizeof(*checker));

        if (!checker)
                return -ENOMEM;
        checker->pool = pool;
        task_init(&checker->task, pool->tasks, "checker", on_check_slice, checker);
        *ret_checker = checker;
        return 0;
}

Checker *checker_free(Checker *checker) {
        if (!checker)
                return NULL;
        while (checker->jobs.first)
                end_check_job(checker);
        task_deinit(&checker->task);
        free(checker);
        return NULL;
}
