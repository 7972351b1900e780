#pragma once
/*
 * Statistics: one walk over the arena, in slices, serves all requests that came before it began.
 */
#include "daemon/request/request.h"
#include "shm/stats/stats.h"

/* Sends the reply to one request. */
typedef void CountAnswer(const Requests *requests, Session *session, uint64_t id, const ShmStats *stats);

int counter_new(Counter **ret_counter, const Requests *requests);
/* NULL-safe, returns NULL. */
Counter *counter_free(Counter *counter);

/* -ENOMEM. */
int counter_start(Counter *counter, Session *session, uint64_t id, CountAnswer *answer);
