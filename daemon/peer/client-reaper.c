#include "daemon/peer/client-reaper.h"

#include <errno.h>
#include <stdlib.h>

#include "daemon/log.h"
#include "shm/maintain/repair.h"
#include "shm/owner/thread.h"

/* In one slice: */
#define ENDS 16U /* clients */
#define THREADS 8U /* threads to check: /proc is slow */

#define RECORDS_SHORT 8U /* records run short when at most one in so many is free */

struct ClientReaper {
        Clients *clients;
        Task task;
        bool ending; /* the next slice removes clients */
        uint32_t position; /* the next record to check; n_records: no pass is under way */
        uint32_t n_gone; /* threads that this pass found to have ended */
        uint32_t n_left[]; /* records, by client */
};

static uint32_t count_unused(const ShmArena *arena) {
        uint32_t n = arena->n_records - 1;

        for (uint32_t i = 1; i < shm_arena_n_records_ever(arena); i++)
                n -= shm_record_owner(arena, i).state != SHM_RECORD_UNUSED;
        return n;
}

/* One pass over the records counts for all clients. Each slice repeats it, since records and clients come and go. */
static void count_client_records(ClientReaper *reaper) {
        ShmArena *arena = &reaper->clients->pool->arena;

        for (uint32_t i = 0; i < arena->n_records; i++)
                reaper->n_left[i] = SHM_CLIENT_STAYS;
        for (const ClientWatch *c = reaper->clients->first; c; c = c->next)
                if (c->dead)
                        reaper->n_left[c->index] = 0;
        shm_clients_release_records(arena, reaper->n_left);
}

static void remove_clients(ClientReaper *reaper) {
        uint32_t n = pool_slice(reaper->clients->pool, ENDS);
        ClientWatch *next;

        count_client_records(reaper);
        for (ClientWatch *client = reaper->clients->first; client && n > 0; client = next) {
                next = client->next;
                n -= client_watch_remove(client, reaper->n_left[client->index] & ~SHM_CLIENT_STAYS);
        }
        reaper->ending = n == 0;
}

static void find_gone_threads(ClientReaper *reaper) {
        ShmArena *arena = &reaper->clients->pool->arena;

        reaper->n_gone += shm_threads_mark_gone(arena, &reaper->position, THREADS);
        if (reaper->position < arena->n_records || reaper->n_gone == 0)
                return;
        log_line(LOG_INFO, "%u threads ended without releasing their records", reaper->n_gone);
        maintainer_repair(reaper->clients->maintainer);
}

static uint64_t on_reaper_slice(void *userdata, uint64_t now) {
        ClientReaper *reaper = userdata;
        uint32_t n_records = reaper->clients->pool->arena.n_records;

        if (reaper->ending)
                remove_clients(reaper);
        else if (reaper->position < n_records)
                find_gone_threads(reaper);
        return reaper->ending || reaper->position < n_records ? 0 : TASK_IDLE;
}

void client_reaper_repaired(ClientReaper *reaper) {
        reaper->ending = true;
        task_wake(&reaper->task);
}

void client_reaper_tick(ClientReaper *reaper) {
        const Clients *clients = reaper->clients;
        const ShmArena *arena = &clients->pool->arena;

        if (reaper->position == arena->n_records && count_unused(arena) <= arena->n_records / RECORDS_SHORT) {
                reaper->position = 1;
                reaper->n_gone = 0;
        }
        /* Repairs again while slots are in flight. A dead client may also wait for a record of the drainer. */
        if (clients->n_unrepaired > 0 || shm_repair_wanted(arena))
                maintainer_repair(clients->maintainer);
        client_reaper_repaired(reaper);
}

int client_reaper_new(ClientReaper **ret_reaper, Clients *clients) {
        uint32_t n_records = clients->pool->arena.n_records;
        ClientReaper *reaper = calloc(1, sizeof(*reaper) + n_records * sizeof(reaper->n_left[0]));

        if (!reaper)
                return -ENOMEM;
        reaper->clients = clients;
        reaper->position = n_records;
        task_init(&reaper->task, clients->pool->tasks, "client reaper", on_reaper_slice, reaper);
        *ret_reaper = reaper;
        return 0;
}

ClientReaper *client_reaper_free(ClientReaper *reaper) {
        if (!reaper)
                return NULL;
        task_deinit(&reaper->task);
        free(reaper);
        return NULL;
}
