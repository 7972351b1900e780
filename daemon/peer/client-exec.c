/*
 * Clients whose process has executed another program
 *
 * A process keeps its number and its start time when it executes a program, and its pidfd stays silent. Its
 * mappings are gone, so nobody uses its records any more, and they have to be released. The daemon learns of it in
 * one of two ways:
 *
 *   1. A program that attaches sends a number that differs after each exec (libclient/host/connection.c). Clients of
 *      the same process with another number belong to an earlier program. The message counts only if its sender is
 *      the process of the connection: a forked child may write to that and execute a program itself.
 *   2. A program that never attaches is found by /proc/PID/maps, where the daemon may read that, and so never in
 *      another pid namespace. The exec closed the connection, so only clients without one are candidates. A client is
 *      ended when two scans in a row, the second begun after the first one ended, did not find the arena.
 *
 * Way 2 never ends a client whose process uses the arena:
 *
 *   - A process that is about to map the arena has not entered, so its entry is COMES; see shm/arena/client.h. A
 *     reader does not enter, but holds nothing, and loses no more than its line among the clients.
 *   - A process that closes the pool maps the arena at another address before it blanks the old one; its records are
 *     back, and its entry is LEFT, when it unmaps the last. A single scan, which goes from low addresses to high
 *     ones, can miss both addresses; the second scan finds the new one.
 *   - A forked child has the mappings, and an entry of its own.
 *   - /proc/PID/maps is empty when the first thread of a process has ended, even if other threads go on. The scan
 *     therefore tells nothing from an empty list, nor from a list that it cannot read.
 *   - The number may be another process's by now: the pidfd tells, after the scan.
 */
#include "daemon/peer/client-exec.h"

#include "proto/deadline.h"

#define SCANS_MAX 4U /* at a time, and begun each second */
#define SCAN_USEC_MAX (5 * PROTO_USEC_PER_SEC)
#define SCAN_PAUSE_USEC (30 * PROTO_USEC_PER_SEC) /* after a scan that found the arena, or could not tell */

void client_exec_end_others(Clients *clients, const Identity *identity, uint64_t program) {
        ClientWatch *next;

        for (ClientWatch *client = clients->first; client; client = next) {
                next = client->next;
                if (client_watch_is_of(client, identity) && client->program != 0 &&
                    client->program != program && !client->dead && !client->unwatched &&
                    client_watch_lives(client))
                        client_watch_end(client, "executed another program");
        }
}

static bool is_client_away(const ClientWatch *client) {
        return !client->session && !client->dead && !client->unwatched && !client->is_hidden;
}

static bool has_client_mapped(const ClientWatch *client) {
        ShmClientInfo info;

        return shm_client_get(&client->clients->pool->arena, client->index, &info) == 0 &&
               info.state == SHM_CLIENT_USED;
}

static void apply_scan(ClientWatch *client, MapsFound found) {
        bool again = client->unmapped;

        client->scan_usec = proto_now_usec();
        client->unmapped = found == MAPS_UNMAPPED && is_client_away(client) && client_watch_lives(client);
        if (client->unmapped && again)
                client_watch_end(client, "does not map the pool any more");
        else if (!client->unmapped)
                client->scan_usec += SCAN_PAUSE_USEC;
}

static void on_scanned(MapsScan *scan, MapsFound found) {
        apply_scan(scan->userdata, found);
}

static void start_client_scan(ClientWatch *client) {
        const Pool *pool = client->clients->pool;

        client->scan_usec = proto_now_usec();
        if (!has_client_mapped(client)) {
                apply_scan(client, MAPS_UNKNOWN);
                return;
        }
        client->scan.on_done = on_scanned;
        client->scan.userdata = client;
        maps_scan_start(&client->scan, pool->event, client->pid, pool->arena.fd);
}

static bool is_process_among(const pid_t *pids, unsigned n, pid_t pid) {
        for (unsigned i = 0; i < n; i++)
                if (pids[i] == pid)
                        return true;
        return false;
}

/* The candidate with the oldest scan, if one is due, of none of these processes. */
static ClientWatch *next_candidate(const Clients *clients, uint64_t now, const pid_t *pids, unsigned n) {
        ClientWatch *found = NULL;

        for (ClientWatch *client = clients->first; client; client = client->next)
                if (client->scan_usec < (found ? found->scan_usec : now) && is_client_away(client) &&
                    !is_process_among(pids, n, client->pid))
                        found = client;
        return found;
}

void client_exec_tick(Clients *clients) {
        uint64_t now = proto_now_usec();
        pid_t pids[SCANS_MAX]; /* processes that are scanned; see daemon/peer/maps-scan.h */
        ClientWatch *client;
        unsigned n = 0;

        for (client = clients->first; client; client = client->next) {
                if (client->scan.child == 0)
                        continue;
                if (now - client->scan_usec > SCAN_USEC_MAX)
                        maps_scan_kill(&client->scan);
                pids[n++] = client->pid;
        }
        while (n < SCANS_MAX && (client = next_candidate(clients, now, pids, n))) {
                pids[n++] = client->pid;
                start_client_scan(client);
        }
}
