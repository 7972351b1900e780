#pragma once
/*
 * The owner of control work in a private pool, which has no daemon: one thread of one of its processes, with record 0.
 *
 *     word = shm_owner_load(arena)
 *     ... unless shm_owner_state(word) is HELD, and !shm_owner_is_gone(arena, word, client, tid):
 *     shm_owner_take(arena, word, client, tid)
 *     ... unless the state was FREE, it first goes on from there: shm_maintain_take_over() ...
 *     shm_owner_release(arena, false)
 */
#include "shm/arena/arena.h"

/*
 * The states of control work.
 *
 *     edge            event       taken by                                         function
 *     FREE -> HELD    TAKE        any thread                                       shm_owner_take()
 *     LEFT -> HELD    TAKE        any thread, which goes on where the last left    shm_owner_take()
 *     HELD -> HELD    TAKE        the same, if the owner is gone                   shm_owner_take()
 *     HELD -> FREE    RELEASE     the owner                                        shm_owner_release()
 *     HELD -> LEFT    LEAVE       the owner, which cannot go on                    shm_owner_release()
 */
typedef enum ShmOwnerState {
        SHM_OWNER_FREE,
        SHM_OWNER_LEFT, /* record 0 may name a step that is to be ended before any other begins */
        SHM_OWNER_HELD,
} ShmOwnerState;

uint64_t shm_owner_load(const ShmArena *arena);
ShmOwnerState shm_owner_state(uint64_t word);
/* The owner's entry in the client table, if the state is HELD. */
uint32_t shm_owner_client(uint64_t word);
/* Whether this process and thread own the control work. */
bool shm_owner_is(uint64_t word, uint32_t client, uint32_t tid);

/*
 * Whether the owner of the word is gone: its process has ended or executes another program, or its thread has ended.
 * `client` and `tid` are the caller's: it may not do control work while it does so.
 */
bool shm_owner_is_gone(const ShmArena *arena, uint64_t word, uint32_t client, uint32_t tid);
/* Whether the thread that does control work is stopped, by a signal or a debugger: nobody need wait for it. */
bool shm_owner_stands_still(const ShmArena *arena);

/* One attempt to take control work as the word describes it: free, or of an owner that is gone. */
bool shm_owner_take(ShmArena *arena, uint64_t word, uint32_t client, uint32_t tid);
/* Gives it up. `left`: work is undone, as if the owner had died. */
void shm_owner_release(ShmArena *arena, bool left);
/* Sleeps until the word changes, or for `usec`. */
void shm_owner_wait(const ShmArena *arena, uint64_t word, uint64_t usec);
