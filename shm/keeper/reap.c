/*
 * Reaping processes
 *
 * Purpose: gives back all that ended processes held.
 *
 * Invariants
 *   1. An entry becomes DEAD by one compare-and-set from the identity of a process that was seen to be gone. So it is
 *      not another process's by then.
 *   2. The order to revoke its leases is in the arena before the entry goes: a death in between loses none.
 *
 * Who may do what: the maintainer.
 *
 * Crash: the next maintainer finds entries that are DEAD, and records.
 */
#include "shm/keeper/reap.h"

#include "shm/epoch/epoch-open.h"
#include "shm/map/state/wait.h"

uint32_t shm_reap_process(ShmArena *arena, uint32_t client, uint32_t *ret_leases) {
        uint32_t n_left;

        shm_wait_wake_all(arena); /* its claims are free */
        n_left = shm_client_release_records(arena, client);
        *ret_leases = shm_epoch_end_leases(arena, client);
        return n_left;
}

uint32_t shm_reap_gone(ShmArena *arena, uint32_t own) {
        uint32_t n_dead = 0, n_leases;
        ShmClientInfo info;

        for (uint32_t i = 0; i < arena->n_records; i++) {
                if (shm_client_get(arena, i, &info) || i == own ||
                    (info.state != SHM_CLIENT_DEAD &&
                     (!shm_client_is_gone(&info) || !shm_client_end_gone(arena, &info))))
                        continue;
                (void) shm_reap_process(arena, i, &n_leases);
                n_dead++;
        }
        return n_dead;
}

uint32_t shm_reap_remove(ShmArena *arena) {
        ShmClientInfo info;
        uint32_t n = 0;

        for (uint32_t i = 0; i < arena->n_records; i++) {
                if (shm_client_get(arena, i, &info) || info.state != SHM_CLIENT_DEAD ||
                    shm_client_release_records(arena, i) > 0)
                        continue;
                shm_client_remove(arena, i);
                n++;
        }
        return n;
}
