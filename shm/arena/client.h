#pragma once
/*
 * The client table lists the processes that use the arena. In a daemon's pool the daemon writes it, except for the
 * edges of the process below; in a private pool every process writes its own entry.
 */
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "shm/arena/arena.h"

/*
 * The states of an entry. Any other number counts as FREE.
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
 *      USED, LEFT -> DEAD
 *                       shm_client_end_gone()   in a private pool, maintainer           acqrel
 *      any   -> FREE    shm_client_remove()     daemon; in a private pool, maintainer   rel
 *
 * COMES: no process relies on the entry yet. A daemon may have been killed before it answered the process, so the
 * next daemon gives the entry up. A process that did get the answer notices this as it enters, and attaches again.
 * LEFT: the process has given its records back, and never uses the entry again. This needs a state of its own: an
 * entry that is USED and has no record may belong to a process that is about to take its first record.
 * DEAD: the records are to be released, even if the process lives; the next daemon goes on with that.
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
        uint32_t role; /* for people to read: any writer of the arena can change it, so it grants no right */
        uint64_t
                program; /* in a daemon's pool the client's own number, in a private one that of ShmProcess */
        uint64_t attached_usec;
        char comm[16];
} ShmClientInfo;

/*
 * Takes an entry for the process of `info`. If info->state is COMES the entry becomes COMES, else USED. Fills in
 * info->index and info->state. -ENOSPC: all entries are taken.
 */
int shm_client_add(ShmArena *arena, ShmClientInfo *info);
/* COMES -> USED. False: the entry is no longer the one that this program was given. */
bool shm_client_enter(ShmArena *arena, uint32_t client, uint64_t program);
void shm_client_leave(ShmArena *arena, uint32_t client);
/* COMES -> DEAD. False: the entry was not COMES. */
bool shm_client_give_up(ShmArena *arena, uint32_t client);
void shm_client_end(ShmArena *arena, uint32_t client);
/*
 * Private pools: whether the process has ended, or executes another program by now. False if that is not known. And
 * that its entry is DEAD from now on; false: the entry has changed since shm_client_get(), and may be another
 * process's.
 */
bool shm_client_is_gone(const ShmClientInfo *info);
bool shm_client_end_gone(ShmArena *arena, const ShmClientInfo *info);
void shm_client_set_role(ShmArena *arena, uint32_t client, uint32_t role);
/* Frees the entry. The client's records must be free. */
void shm_client_remove(ShmArena *arena, uint32_t client);
/*
 * shm_client_hold() notes that the client has references to this era of an epoch, and to no other era of that id.
 * shm_client_release_hold() notes that it has none to any era of the id. One thread of the client at a time calls them.
 * shm_client_count_holders() counts the clients with references to that era. Clients that left or died have none,
 * though their entries may not be free yet.
 */
void shm_client_hold(ShmArena *arena, uint32_t client, uint32_t number);
void shm_client_release_hold(ShmArena *arena, uint32_t client, uint32_t id);
uint32_t shm_client_count_holders(const ShmArena *arena, uint32_t number);
/*
 * Waits of tasks. Many tasks may wait in one thread, so they are noted here and not in a record. `more` is 1 as a wait
 * begins, -1 as it ends, and 0 where it goes on for another claim. `waits_for` is the client with the claim, plus 1, or
 * 0 as a wait ends. False: too many are noted, and this one is not.
 */
typedef struct ShmClientWaits {
        uint32_t n;
        uint32_t waits_for; /* as it was noted last; 0: nothing waits */
} ShmClientWaits;

bool shm_client_note_wait(ShmArena *arena, uint32_t client, int more, uint32_t waits_for);
ShmClientWaits shm_client_waits(const ShmArena *arena, uint32_t client);
/* A number for the process that uses the entry, another each time that it opens the pool; 0: no process does. */
uint64_t shm_client_identity(const ShmArena *arena, uint32_t client);
/* -ENOENT: the entry is not in use. */
int shm_client_get(const ShmArena *arena, uint32_t client, ShmClientInfo *ret);
/*
 * Whether the client's user may have `n` more records, 0 or 1: see shm/arena/share.h. It is also true if no record is
 * left at all: pool_take_record() then fails with the error that says so. If several threads take records at once, all
 * may be told that they may. So a thread that has taken a record asks again with 0, and gives it back if it was one too
 * many.
 */
bool shm_client_in_share(const ShmArena *arena, uint32_t client, uint32_t n);
/*
 * Releases the records of a client that is gone: records that hold nothing become UNUSED, the others DEAD.
 * Returns how many still belong to the client; its entry may be removed when there are none.
 */
uint32_t shm_client_release_records(ShmArena *arena, uint32_t client);
/*
 * As shm_client_release_records() for many clients at once. n_left has an element for each entry of the table. If it
 * is 0, the client is gone: its records are released, and the element becomes the number of those that remain. If it
 * is SHM_CLIENT_STAYS, the client's records are only counted, in the lower bits.
 */
#define SHM_CLIENT_STAYS (UINT32_C(1) << 31)
void shm_clients_release_records(ShmArena *arena, uint32_t *n_left);
