/*
 * Threads that ended silently
 *
 * Purpose: finds records whose thread has ended while its process lives on.
 *
 * Invariants
 *   1. A thread that does not exist owns no record. The head is read first, then the thread is looked for, then one
 *      compare-and-set of the whole head marks the record: it fails if the record has got another owner.
 *   2. Nor does a thread that began after its record was taken: it has the number of the thread that took it. The time
 *      is read after the thread was looked for. If the record had been given back by then, the time would be gone, or
 *      that of a later owner.
 *   3. A record with thread number 0 belongs to a process as a whole, and is left alone.
 *   4. Where thread numbers may belong to another namespace, no record is marked.
 *
 * Who may do what: the maintainer marks records. The process itself may take one over (shm_record_inherit()).
 *
 * Crash: a record that is marked DEAD is found by the next repair.
 */
#include "shm/owner/thread.h"

#include <unistd.h>

#include "shm/arch/process.h"
#include "shm/arena/record.h"

/* The process whose /proc directory is open. It is kept open since records of one process are often neighbours. */
typedef struct OpenProcess {
        pid_t pid; /* 0: none */
        uint32_t start_time;
        int fd; /* negative: the process cannot be seen */
} OpenProcess;

static void close_process(OpenProcess *process) {
        if (process->pid != 0 && process->fd >= 0)
                close(process->fd);
        *process = (OpenProcess){};
}

static void change_process(OpenProcess *process, const ShmClientInfo *client) {
        if (process->pid == client->pid && process->start_time == client->start_time)
                return;
        close_process(process);
        *process = (OpenProcess){
                client->pid,
                client->start_time,
                shm_process_open(client->pid, client->start_time),
        };
}

static bool is_gone(const ShmArena *arena, int proc_fd, uint32_t record, uint32_t tid) {
        uint64_t started, since;

        if (shm_thread_has_ended(proc_fd, tid, &started))
                return true;
        since = shm_record_since(arena, record);
        return since != 0 && started > since;
}

uint32_t shm_threads_mark_gone(ShmArena *arena, uint32_t *position, uint32_t budget) {
        uint32_t n = 0, n_ever = shm_arena_n_records_ever(arena), i = *position;
        OpenProcess process = {};
        ShmClientInfo client;

        for (; i < n_ever && budget > 0; i++) {
                ShmRecordOwner owner = shm_record_owner(arena, i);

                if (owner.state != SHM_RECORD_USED || owner.tid == 0 ||
                    shm_client_get(arena, owner.client, &client) || client.state == SHM_CLIENT_DEAD)
                        continue;
                budget--;
                change_process(&process, &client);
                if (process.fd >= 0 && is_gone(arena, process.fd, i, owner.tid))
                        n += shm_record_mark_gone(arena, i, owner);
        }
        close_process(&process);
        *position = i < n_ever ? i : arena->n_records;
        return n;
}

uint32_t shm_threads_mark_own_gone(ShmArena *arena, uint32_t client, uint32_t own_tid) {
        OpenProcess process = {};
        ShmClientInfo info;
        uint32_t n = 0;

        if (own_tid == 0 && shm_client_get(arena, client, &info) == 0)
                change_process(&process, &info);
        for (uint32_t i = 1; i < shm_arena_n_records_ever(arena); i++) {
                ShmRecordOwner owner = shm_record_owner(arena, i);

                if (owner.state == SHM_RECORD_USED && owner.client == client && owner.tid != 0 &&
                    (own_tid != 0 ? owner.tid == own_tid
                                  : shm_own_thread_has_ended(owner.tid) ||
                                            (process.pid != 0 && process.fd >= 0 &&
                                             is_gone(arena, process.fd, i, owner.tid))))
                        n += shm_record_mark_gone(arena, i, owner);
        }
        close_process(&process);
        return n;
}
