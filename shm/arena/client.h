#pragma once
/*
 * The client table: which processes use the arena. In a daemon's pool the daemon alone writes it;
 * in a private pool every process writes its own entry.
 */
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "shm/arena/arena.h"

/*
 * The states of an entry. A number that is none of these counts as FREE.
 *
 *      edge             function                who may take it                         order
 *      FREE  -> COMES   shm_client_add()        daemon, for a writer                    acqrel
 *      FREE  -> USED    shm_client_add()        daemon, for a reader; in a private      acqrel
 *                                               pool, the process
 *      COMES -> USED    shm_client_enter()      the process, once it has mapped the     acqrel
 *                                               arena, before its first record
 *      USED  -> LEFT    shm_client_leave()      the process, as it closes the pool      acqrel
 *      COMES -> DEAD    shm_client_give_up()    the next daemon                         acqrel
 *      COMES, USED, LEFT -> DEAD
 *                       shm_client_end()        daemon                                  acqrel
 *      any   -> FREE    shm_client_remove()     daemon; in a private pool, control      rel
 *
 * COMES: nobody relies on it yet. The daemon may have been killed before it answered, so the next one gives
 * the entry up. A process that got the answer finds that out as it enters, and attaches again.
 * LEFT: the process has given its records back, and never names the entry again. An entry that is USED
 * and has no record is no sign of that: its process may be about to take its first one.
 * DEAD: the records are to be released, whether the process lives or not; the next daemon goes on with it.
 */
typedef enum ShmClientState {
        SHM_CLIENT_FREE,
        SHM_CLIENT_COMES,
        SHM_CLIENT_USED,
        SHM_CLIENT_LEFT,
        SHM_CLIENT_DEAD,
        _SHM_CLIENT_STATE_N,
} ShmClientState;

typedef struct ShmClientInfo {
        uint32_t index;
        ShmClientState state;
        pid_t pid;
        uint32_t start_time; /* clock ticks since boot, low 32 bits */
        uint32_t uid, gid;
        uint32_t role; /* for people: the entry's bytes are no ground to grant anything */
        uint64_t program;
        uint64_t attached_usec;
        char comm[16];
} ShmClientInfo;

/* Start time of a process, from /proc. -ESRCH. */
int shm_process_start_time(pid_t pid, uint32_t *ret);

/*
 * Takes an entry for info's process, which is to enter if info->state is COMES, and is USED if not; fills
 * in info->index and info->state. -ENOSPC: all are taken.
 */
int shm_client_add(ShmArena *arena, ShmClientInfo *info);
/* False: the entry is not, or no longer, what this program was given. */
bool shm_client_enter(ShmArena *arena, uint32_t client, uint64_t program);
void shm_client_leave(ShmArena *arena, uint32_t client);
/* Whether it was COMES. */
bool shm_client_give_up(ShmArena *arena, uint32_t client);
void shm_client_end(ShmArena *arena, uint32_t client);
void shm_client_set_role(ShmArena *arena, uint32_t client, uint32_t role);
/* Frees the entry. The client's records must be free. */
void shm_client_remove(ShmArena *arena, uint32_t client);
/* The client has references to the epoch; it has none any more. How many clients have. */
void shm_client_hold(ShmArena *arena, uint32_t client, uint32_t epoch);
void shm_client_release_hold(ShmArena *arena, uint32_t client, uint32_t epoch);
uint32_t shm_client_count_holders(const ShmArena *arena, uint32_t epoch);
/* -ENOENT: the entry is not in use. */
int shm_client_get(const ShmArena *arena, uint32_t client, ShmClientInfo *ret);
/*
 * Whether the client's user may have one more record, as others want some too: see shm/arena/share.h. True
 * also where none is left at all: taking one then fails, which says why.
 */
bool shm_client_in_share(const ShmArena *arena, uint32_t client);
/*
 * Of a client that is gone: frees each of its records that holds nothing, marks the others DEAD.
 * Returns how many remain; the entry may be removed when there is none.
 */
uint32_t shm_client_release_records(ShmArena *arena, uint32_t client);
/*
 * The same for many clients at once: those for which n_left has 0, which becomes how many remain. n_left has an entry
 * for each of the table; SHM_CLIENT_STAYS: its records are counted only, in the lower bits.
 */
#define SHM_CLIENT_STAYS (UINT32_C(1) << 31)
void shm_clients_release_records(ShmArena *arena, uint32_t *n_left);
