/* Whether some order explains a history: see history.h. */
#include "tests/stress/history.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define STATES_MAX 4096
#define CLAIM_UNKNOWN 1 /* the version of a claim whose process died in the call */

/* A state of the key that is possible. */
typedef struct State {
        uint64_t value; /* 0: the key is absent */
        uint64_t ends_from_ns, ends_by_ns; /* its time is over at some moment between these */
        uint64_t claim; /* the version of the claim that stands; 0: none */
        uint64_t claim_free; /* the moment since which that one's process may be dead */
        uint64_t ghost; /* the value that was revoked last */
        uint32_t ghost_calls; /* under way then, by worker */
        uint32_t done; /* calls under way that have had their moment */
} State;

typedef struct Checker {
        State *states;
        size_t n;
        const Call *open[HISTORY_WORKERS]; /* calls under way */
        bool excused[HISTORY_WORKERS]; /* during them the key may have been absent for a moment */
        const World *world;
        uint64_t now, now_ns;
} Checker;

static void add_state(Checker *c, State state) {
        for (size_t i = 0; i < c->n; i++)
                if (memcmp(&c->states[i], &state, sizeof(state)) == 0)
                        return;
        if (c->n == STATES_MAX)
                abort();
        c->states[c->n++] = state;
}

static bool is_revoked(const Checker *c, uint32_t epoch, uint64_t by) {
        const World *world = c->world;

        for (size_t i = 0; i < world->n_revoked; i++)
                if (world->revoked[i].epoch == epoch && world->revoked[i].begin < by)
                        return true;
        return false;
}

static bool is_put(const Call *call) {
        return call->kind >= CALL_PUT && call->kind <= CALL_FULFIL;
}

/* Whether the call finds the value there; or it was revoked while the call was under way. */
static bool finds(const State *s, const Call *call, uint64_t value) {
        return s->value == value || (s->value == 0 && value != 0 && s->ghost == value &&
                                     call->kind != CALL_GET && (s->ghost_calls >> call->worker & 1));
}

static bool finds_any(const State *s, const Call *call) {
        return s->value != 0 || (s->ghost != 0 && finds(s, call, s->ghost));
}

static bool is_change(const Call *call) {
        return call->kind != CALL_GET;
}

/* Whether the call can succeed there. */
static bool can_succeed(const State *s, const Call *call) {
        switch (call->kind) {
        case CALL_GET:
                return s->value == call->value;
        case CALL_PUT:
                return true;
        case CALL_INSERT:
                return s->value == 0;
        case CALL_UPDATE:
                return finds_any(s, call);
        case CALL_DELETE:
                return finds_any(s, call) || (call->died && s->claim != 0);
        case CALL_FULFIL:
        case CALL_GIVE_UP:
                return s->claim == call->claim;
        case CALL_CLAIM:
                return s->value == 0 && (s->claim == 0 || s->claim_free < call->end);
        default:
                return finds(s, call, call->expected);
        }
}

/* Whether the call can fail as it did. */
static bool can_fail(const State *s, const Call *call, bool excused) {
        bool names_claim = call->kind == CALL_FULFIL || call->kind == CALL_GIVE_UP;

        switch (call->result) {
        case -ENOENT:
                return (s->value == 0 && !(names_claim && s->claim == call->claim)) || excused;
        case -EEXIST:
                return s->value != 0;
        case -EAGAIN:
                return (names_claim ? s->claim != call->claim : s->value != call->expected) || excused;
        case -EBUSY:
                return s->claim != 0 && (s->claim == call->claim || s->claim == CLAIM_UNKNOWN);
        default: /* the epoch was closed */
                return true;
        }
}

/* The time of a value is over by then for sure. */
static bool is_too_late(const State *s, const Call *call) {
        return s->value != 0 && call->begin_ns > s->ends_by_ns;
}

static void set_value(const Checker *c, State *s, const Call *call) {
        uint64_t ttl_ns = (uint64_t) call->ttl_ms * 1000000;

        s->value = call->value;
        s->ends_from_ns = ttl_ns ? call->begin_ns + ttl_ns - c->world->tick_ns : UINT64_MAX;
        s->ends_by_ns = ttl_ns ? call->end_ns + ttl_ns + c->world->tick_ns : UINT64_MAX;
}

/* The call succeeded, or it was a delete that finds no value, which also removes a claim. */
static void change(const Checker *c, const Call *call, State *s) {
        uint32_t done = s->done;

        *s = (State){ .done = done };
        if (is_put(call))
                set_value(c, s, call);
        if (call->kind == CALL_CLAIM) {
                s->claim = call->died ? CLAIM_UNKNOWN : call->claim;
                s->claim_free = call->free;
        }
}

/* The state after the call had its moment. False: it cannot have had it there. */
static bool apply(const Checker *c, const State *before, const Call *call, State *ret) {
        bool fails = !call->died && call->result != 0;

        if (is_too_late(before, call) ||
            (fails ? !can_fail(before, call, c->excused[call->worker]) : !can_succeed(before, call)))
                return false;
        *ret = *before;
        ret->done |= 1U << call->worker;
        if (is_change(call) &&
            (!fails || (call->kind == CALL_DELETE && call->result == -ENOENT && before->claim != 0)))
                change(c, call, ret);
        return true;
}

static void revoke(Checker *c, State s) {
        if (s.value == 0 || !is_revoked(c, s.value >> 40 & 0xfffff, c->now))
                return;
        s.ghost = s.value;
        s.ghost_calls = 0;
        for (uint32_t w = 0; w < HISTORY_WORKERS; w++)
                s.ghost_calls |= c->open[w] ? (1U << w) & ~s.done : 0;
        s.value = s.ends_from_ns = s.ends_by_ns = 0;
        add_state(c, s);
}

/* Evicted, or its time is over. */
static void vanish(Checker *c, State s) {
        if (s.value == 0 || !(c->world->evicts || c->now_ns >= s.ends_from_ns))
                return;
        s.value = s.ends_from_ns = s.ends_by_ns = 0;
        add_state(c, s);
}

/* All that may be so by now. The set grows while it is gone through. */
static void follow(Checker *c) {
        for (size_t i = 0; i < c->n; i++) {
                revoke(c, c->states[i]);
                vanish(c, c->states[i]);
                for (uint32_t w = 0; w < HISTORY_WORKERS; w++) {
                        State after;

                        if (c->open[w] && !(c->states[i].done >> w & 1) &&
                            apply(c, &c->states[i], c->open[w], &after))
                                add_state(c, after);
                }
        }
}

/* False: nothing is left. */
static bool end_call(Checker *c, const Call *call) {
        uint32_t bit = 1U << call->worker;
        size_t n = c->n;

        c->n = 0;
        for (size_t i = 0; i < n; i++) {
                State s = c->states[i];

                if (!(s.done & bit) && !call->died)
                        continue;
                s.done &= ~bit;
                s.ghost_calls &= ~bit;
                s.ghost = s.ghost_calls ? s.ghost : 0;
                add_state(c, s);
        }
        c->open[call->worker] = NULL;
        return c->n > 0;
}

static bool overlap(const Call *a, const Call *b) {
        return a->begin < b->end && b->begin < a->end;
}

/* Whether a put into an epoch that was revoked meanwhile was under way at some time of the call. */
static bool is_excused(const Checker *c, const Call *calls, size_t n, size_t i) {
        for (size_t k = i > 64 ? i - 64 : 0; k < n && calls[k].begin < calls[i].end; k++)
                if (is_put(&calls[k]) && k != i && overlap(&calls[k], &calls[i]) &&
                    is_revoked(c, calls[k].epoch & 0xfffff, calls[k].end))
                        return true;
        return false;
}

/* The call under way that ends first before `moment`. */
static const Call *next_end(const Checker *c, uint64_t moment) {
        const Call *next = NULL;

        for (uint32_t w = 0; w < HISTORY_WORKERS; w++)
                if (c->open[w] && c->open[w]->end < moment && (!next || c->open[w]->end < next->end))
                        next = c->open[w];
        return next;
}

const Call *history_check(const Call *calls, size_t n, const World *world) {
        Checker c = { .states = calloc(STATES_MAX, sizeof(State)), .n = 1, .world = world };
        const Call *bad = NULL, *end;

        for (size_t i = 0; i <= n && !bad; i++) {
                uint64_t moment = i < n ? calls[i].begin : UINT64_MAX;

                while (!bad && (end = next_end(&c, moment))) {
                        c.now = end->end;
                        c.now_ns = end->end_ns;
                        follow(&c);
                        bad = end_call(&c, end) ? NULL : end;
                }
                if (i == n || bad)
                        break;
                c.open[calls[i].worker] = &calls[i];
                c.excused[calls[i].worker] = is_excused(&c, calls, n, i);
        }
        free(c.states);
        return bad;
}
