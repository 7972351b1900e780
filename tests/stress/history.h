#pragma once
/*
 * Histories of calls on one key of a map, and a check whether some order explains their answers.
 *
 * A history is linearizable if each call can be given one moment between its beginning and its end, so that the calls,
 * in the order of these moments, have the answers that they had. The checker goes through beginnings and ends in the
 * order of time. It keeps the set of all states that are possible by then: the value, and which of the calls under way
 * have had their moment. At the end of a call it drops the states in which that call has not had its moment. If no
 * state is left, no order explains the answers. Otherwise some order does, since each state stands for an order that
 * was followed.
 *
 * A call whose process died has had its moment before that, or never has it. Each value is put only once, so a value
 * tells which put it came from.
 *
 * Three things change a key though no call does:
 *
 *   - Revoking: a value of an epoch that is being revoked is absent from some moment on. As tslab_map.h says, (1) a
 *     change may have been decided on before the value that it replaces was revoked, and come after that; (2) a put
 *     into such an epoch may replace a value, and put it back: the key is absent for a moment.
 *   - Eviction: in a map that evicts, a value is absent from some moment on. It never comes back.
 *   - Time: a value with a lifetime is absent once that is over, by the clock that also gives the times of the calls.
 *
 * A claim makes no value. It stands until a put or a delete of its key, or the death of its process; only then does
 * another claim succeed.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HISTORY_WORKERS 8

typedef enum CallKind {
        CALL_GET,
        CALL_PUT,
        CALL_INSERT,
        CALL_UPDATE,
        CALL_REPLACE,
        CALL_FULFIL, /* a replace, with a claim's version */
        CALL_DELETE,
        CALL_DELETE_VERSION,
        CALL_GIVE_UP, /* a delete, with a claim's version */
        CALL_CLAIM,
        _CALL_N,
} CallKind;

typedef struct Call {
        uint8_t kind;
        uint8_t worker;
        uint8_t died;
        uint8_t unused;
        uint32_t key;
        uint32_t epoch; /* for the value that is put */
        int32_t result; /* 0 or an error; of a get 0, where it got something */
        uint64_t ttl_ms; /* the put value's lifetime; 0: no end */
        uint32_t process; /* the worker's, by number */
        uint64_t begin, end; /* moments; end 0: not yet */
        uint64_t begin_ns, end_ns; /* not after, and not before these */
        uint64_t value; /* put, or got */
        uint64_t expected; /* the value that goes with the version named; 0: none */
        uint64_t claim; /* the version that is made, named, or in the way */
        uint64_t free; /* the moment since which a claim's process may be dead */
} Call;

/* An epoch that is revoked, from `begin` on. */
typedef struct Revocation {
        uint32_t epoch;
        uint64_t begin;
} Revocation;

/* Changes that nobody calls for. */
typedef struct World {
        const Revocation *revoked;
        size_t n_revoked;
        bool evicts;
        uint64_t tick_ns; /* lifetimes are exact to that, by the clock of the calls' times */
} World;

/* The epoch of a value is part of it. */
static inline uint64_t history_value(uint32_t worker, uint32_t epoch, uint64_t n) {
        return (uint64_t) worker << 60 | (uint64_t) (epoch & 0xfffff) << 40 | n;
}

/* Calls on one key, which was absent before, by `begin`. NULL: there is an order; else the call that none explains. */
const Call *history_check(const Call *calls, size_t n, const World *world);
