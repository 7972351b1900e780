/*
 * The client table
 *
 * Purpose: lists the processes that use the arena, so that the next daemon can find out which of them live.
 *
 * Invariants
 *   1. An entry's word is its whole identity, pid and start time together: one compare-and-set takes
 *      the entry, and no reader sees one process's pid with another's start time.
 *   2. The rest of an entry is for people. It is written after the word and may lag behind it.
 *   3. An entry is freed only when no record refers to it.
 *   4. A process enters (USED) before its first record refers to the entry, and leaves (LEFT) after its last use of
 *      the entry. The daemon stores DEAD before it releases the first record. So the state alone tells the next
 *      daemon which steps remain.
 *   5. A process that enters reads the word, then `program`, then changes the word by compare-and-set. If the entry
 *      was freed and given to another process in between, its word is another, and the compare-and-set fails.
 *   6. A reference counts for its own era alone. The process stores the era, then sets the bit; others read the bit,
 *      then the era. A process has references to one era of an id at most, and one lock around its changes. So no
 *      reference has to be taken back when the id is opened anew, wherever the process is stopped.
 *
 * Who may do what: in a daemon's pool the process takes the edges COMES -> USED -> LEFT of its entry, and writes
 *   its references; the daemon writes all else. In a private pool each process writes its own entry, and the owner of
 *   control work (shm/owner/owner.h) writes the entries of dead processes.
 *
 * Crash: once the word is written, the entry has its identity, which is enough to see that its process died. An
 *   entry with an unknown state counts as free.
 */
#include "shm/arena/client.h"

#include <errno.h>
#include <string.h>

#include "shm/arch/probe.h"
#include "shm/arena/cache-walk.h"
#include "shm/arch/process.h"
#include "shm/arena/record.h"
#include "shm/arena/share.h"
#include "shm/arena/text.h"
#include "shm/clock/time-namespace.h"
#include "shm/format/edge.h"

#define STATE_SHIFT 56
#define PID_SHIFT 32
#define PID_MAX_BITS UINT32_C(0xffffff)
#define WORD_MAX ((UINT64_C(1) << STATE_SHIFT) - 1)
#define WAITS_SHIFT 13
#define WAITS_MAX (UINT32_MAX >> WAITS_SHIFT)
#define WAITS_FOR_MASK ((UINT32_C(1) << WAITS_SHIFT) - 1)
static_assert(SHM_RECORDS_MAX <= WAITS_FOR_MASK, "a client, and none");
#define ATTACHED_MIX UINT64_C(0x9e3779b97f4a7c15)

static uint64_t word_make(const ShmClientInfo *info) {
        return (uint64_t) info->state << STATE_SHIFT |
               (uint64_t) ((uint32_t) info->pid & PID_MAX_BITS) << PID_SHIFT | info->start_time;
}

static ShmClientState word_state(uint64_t word) {
        uint64_t state = word >> STATE_SHIFT;

        return state < _SHM_CLIENT_STATE_N ? (ShmClientState) state : SHM_CLIENT_FREE;
}

typedef enum ClientEvent {
        CLIENT_EV_ENTER,
        CLIENT_EV_LEAVE,
        CLIENT_EV_GIVE_UP,
        CLIENT_EV_END,
} ClientEvent;

static const ShmEdge client_edges[] = {
        { SHM_CLIENT_COMES, CLIENT_EV_ENTER, SHM_CLIENT_USED },
        { SHM_CLIENT_USED, CLIENT_EV_LEAVE, SHM_CLIENT_LEFT },
        { SHM_CLIENT_COMES, CLIENT_EV_GIVE_UP, SHM_CLIENT_DEAD },
        { SHM_CLIENT_COMES, CLIENT_EV_END, SHM_CLIENT_DEAD },
        { SHM_CLIENT_USED, CLIENT_EV_END, SHM_CLIENT_DEAD },
        { SHM_CLIENT_LEFT, CLIENT_EV_END, SHM_CLIENT_DEAD },
};

static bool word_used(uint64_t word) {
        return word_state(word) != SHM_CLIENT_FREE;
}

static void client_describe(ShmClient *client, const ShmClientInfo *info) {
        uint64_t comm[2];

        memcpy(comm, info->comm, sizeof(comm));
        shm_hint_store(&client->uid, info->uid);
        shm_hint_store(&client->gid, info->gid);
        shm_hint_store(&client->role, info->role);
        shm_hint_store(&client->waits, 0);
        /* ORDER: rlx; the process reads it after the daemon's answer, which is sent later. */
        shm_store_rlx(&client->program, info->program);
        shm_store_rlx(&client->attached_usec, info->attached_usec); /* ORDER: rlx; as the program. */
        for (int i = 0; i < 2; i++)
                shm_hint_store((uint64_t *) client->comm + i, comm[i]);
}

int shm_client_add(ShmArena *arena, ShmClientInfo *info) {
        info->state = info->state == SHM_CLIENT_COMES ? SHM_CLIENT_COMES : SHM_CLIENT_USED;
        for (uint32_t i = 0; i < arena->n_records; i++) {
                ShmClient *client = &arena->clients[i];
                /* ORDER: rlx; the compare-and-set decides. */
                uint64_t old = shm_load_rlx(&client->word);

                /* ORDER: acqrel, pairs with shm_client_remove(); the records of its last client are free. */
                if (word_used(old) || !shm_cas_acqrel(&client->word, &old, word_make(info)))
                        continue;
                client_describe(client, info);
                info->index = i;
                shm_probe(attach, i, info->pid, info->uid);
                return 0;
        }
        return -ENOSPC;
}

/* Returns the word after the event in *ret. False: there is no such edge. */
static bool client_word_apply(uint64_t word, ClientEvent event, uint64_t *ret) {
        int to = shm_edge_to((ShmEdges) SHM_EDGES(client_edges), word_state(word), event);

        *ret = (word & WORD_MAX) | (uint64_t) (unsigned) to << STATE_SHIFT;
        return to >= 0;
}

static bool client_take_edge(ShmArena *arena, uint32_t client, ClientEvent event) {
        uint64_t *word, old, new;

        if (client >= arena->n_records)
                return false;
        word = &arena->clients[client].word;
        old = shm_load_rlx(word); /* ORDER: rlx; the compare-and-set decides. */
        while (client_word_apply(old, event, &new))
                /* ORDER: acqrel, pairs with shm_client_get(); the process gave its records back before it leaves. */
                if (shm_cas_acqrel(word, &old, new))
                        return true;
        return false;
}

bool shm_client_enter(ShmArena *arena, uint32_t client, uint64_t program) {
        ShmClient *c;
        uint64_t word, entered;

        if (client >= arena->n_records)
                return false;
        c = &arena->clients[client];
        word = shm_load_acq(&c->word); /* ORDER: acq, pairs with shm_client_remove(); before `program`. */
        if (!client_word_apply(word, CLIENT_EV_ENTER, &entered) ||
            shm_load_rlx(&c->program) != program) /* ORDER: rlx; it was written before the daemon answered. */
                return false;
        /* ORDER: acqrel, pairs with shm_client_give_up(); one of the two wins. No retry: see invariant 5. */
        return shm_cas_acqrel(&c->word, &word, entered);
}

void shm_client_leave(ShmArena *arena, uint32_t client) {
        (void) client_take_edge(arena, client, CLIENT_EV_LEAVE);
}

bool shm_client_give_up(ShmArena *arena, uint32_t client) {
        return client_take_edge(arena, client, CLIENT_EV_GIVE_UP);
}

void shm_client_end(ShmArena *arena, uint32_t client) {
        (void) client_take_edge(arena, client, CLIENT_EV_END);
}

bool shm_client_is_gone(const ShmClientInfo *info) {
        return shm_process_is_gone(info->pid,
                                   &(ShmProcess){ .start_time = info->start_time, .program = info->program });
}

bool shm_client_end_gone(ShmArena *arena, const ShmClientInfo *info) {
        uint64_t word = word_make(info), ended;

        if (info->index >= arena->n_records || !client_word_apply(word, CLIENT_EV_END, &ended))
                return false;
        /* ORDER: acqrel, pairs with shm_client_get(); as shm_client_end(). */
        return shm_cas_acqrel(&arena->clients[info->index].word, &word, ended);
}

void shm_client_set_role(ShmArena *arena, uint32_t client, uint32_t role) {
        if (client < arena->n_records)
                shm_hint_store(&arena->clients[client].role, role);
}

void shm_client_remove(ShmArena *arena, uint32_t client) {
        if (client >= arena->n_records)
                return;
        shm_store_rlx(&arena->clients[client].holds, 0); /* ORDER: rlx; ordered by the word below. */
        /* Until the next process is described, its records do not count as this user's. */
        shm_hint_store(&arena->clients[client].uid, 0);
        shm_hint_store(&arena->clients[client].role, 0);
        shm_store_rlx(&arena->clients[client].program, 0); /* ORDER: rlx; ordered by the word below. */
        /* ORDER: rel, pairs with shm_client_add(); the records are freed before the entry. */
        shm_store_rel(&arena->clients[client].word, 0);
}

static uint32_t *client_era(const ShmArena *arena, uint32_t client, uint32_t id) {
        return &((ShmHolds *) (arena->clients + arena->n_records))[client].era[id];
}

void shm_client_hold(ShmArena *arena, uint32_t client, uint32_t number) {
        uint32_t id = number & 0xff;

        /* ORDER: rlx; ordered by the bit below. */
        shm_store_rlx(client_era(arena, client, id), number >> 8);
        /* ORDER: sc, pairs with shm_client_count_holders(); if two clients leave at once, one of them counts 0. */
        (void) shm_or_sc(&arena->clients[client].holds, UINT64_C(1) << id);
}

void shm_client_release_hold(ShmArena *arena, uint32_t client, uint32_t id) {
        /* ORDER: sc, pairs with shm_client_count_holders(); as above. */
        (void) shm_and_sc(&arena->clients[client].holds, ~(UINT64_C(1) << id));
}

static bool client_holds(const ShmArena *arena, uint32_t client, uint32_t number) {
        uint32_t id = number & 0xff;

        /* ORDER: sc, pairs with shm_client_hold(); read after our own bit was cleared, and before the era. */
        return shm_load_sc(&arena->clients[client].holds) >> id & 1 &&
               /* ORDER: rlx; after the bit. Another one is of a reference to another era. */
               shm_load_rlx(client_era(arena, client, id)) == number >> 8;
}

uint32_t shm_client_count_holders(const ShmArena *arena, uint32_t number) {
        uint32_t n = 0;

        for (uint32_t i = 0; i < arena->n_records; i++)
                /* ORDER: acq, pairs with shm_client_add(); `holds` of the entry's last owner was cleared. */
                n += word_state(shm_load_acq(&arena->clients[i].word)) == SHM_CLIENT_USED &&
                     client_holds(arena, i, number);
        return n;
}

static ShmClientWaits waits_decode(uint32_t word) {
        return (ShmClientWaits){ .n = word >> WAITS_SHIFT, .waits_for = word & WAITS_FOR_MASK };
}

/* False: the count would pass its end. */
static bool waits_apply(uint32_t word, int more, uint32_t waits_for, uint32_t *ret) {
        ShmClientWaits waits = waits_decode(word);

        if ((more > 0 && waits.n == WAITS_MAX) || (more < 0 && waits.n == 0))
                return false;
        waits.n += (uint32_t) more;
        *ret = waits.n == 0 ? 0 : waits.n << WAITS_SHIFT | (waits_for ?: waits.waits_for);
        return true;
}

bool shm_client_note_wait(ShmArena *arena, uint32_t client, int more, uint32_t waits_for) {
        uint32_t *word = &arena->clients[client].waits, new;
        uint32_t old = shm_load_rlx(word); /* ORDER: rlx; the compare-and-set decides. */

        do
                if (!waits_apply(old, more, waits_for, &new))
                        return false;
        /* ORDER: acqrel; a figure for people, which orders nothing. */
        while (!shm_cas_acqrel(word, &old, new));
        return true;
}

ShmClientWaits shm_client_waits(const ShmArena *arena, uint32_t client) {
        return waits_decode(shm_hint_load(&arena->clients[client].waits));
}

uint64_t shm_client_identity(const ShmArena *arena, uint32_t client) {
        uint64_t word;

        if (client >= arena->n_records)
                return 0;
        /* ORDER: acq, pairs with shm_client_add(); as it is now. */
        word = shm_load_acq(&arena->clients[client].word);
        if (word_state(word) != SHM_CLIENT_USED)
                return 0;
        /* ORDER: rlx; written before the process that it describes goes on. */
        return (word & WORD_MAX) ^ shm_load_rlx(&arena->clients[client].attached_usec) * ATTACHED_MIX;
}

int shm_client_get(const ShmArena *arena, uint32_t client, ShmClientInfo *ret) {
        const ShmClient *c;
        uint64_t word;

        if (client >= arena->n_records)
                return -ENOENT;
        c = &arena->clients[client];
        /* ORDER: acq, pairs with shm_client_add(); one load, so pid and start time are of one process. */
        word = shm_load_acq(&c->word);
        if (!word_used(word))
                return -ENOENT;

        *ret = (ShmClientInfo){
                .index = client,
                .state = word_state(word),
                .pid = (pid_t) ((word >> PID_SHIFT) & PID_MAX_BITS),
                .start_time = (uint32_t) word,
                .uid = shm_hint_load(&c->uid),
                .gid = shm_hint_load(&c->gid),
                .role = shm_hint_load(&c->role),
                .program = shm_load_rlx(&c->program), /* ORDER: rlx; only the daemon writes it. */
                .attached_usec = shm_load_rlx(&c->attached_usec), /* ORDER: rlx; as the program. */
        };
        shm_text_copy(ret->comm, c->comm, sizeof(ret->comm));
        return 0;
}

static uint32_t load_uid(const ShmArena *arena, uint32_t client) {
        if (client >= arena->n_records)
                return UINT32_MAX;
        return shm_load_rlx(&arena->clients[client].uid); /* ORDER: rlx; a share need not be exact. */
}

bool shm_client_in_share(const ShmArena *arena, uint32_t client, uint32_t n) {
        uint32_t n_ever = shm_arena_n_records_ever(arena), n_kept = shm_share_kept(arena->n_records),
                 n_left = arena->n_records - n_ever + 1 - n, n_held = 0, uid;

        if (n_left > n_kept)
                return true;
        uid = load_uid(arena, client);
        for (uint32_t i = 1; i < n_ever; i++) {
                ShmRecordOwner owner = shm_record_owner(arena, i);

                n_left += owner.state == SHM_RECORD_UNUSED;
                n_held += owner.state != SHM_RECORD_UNUSED && load_uid(arena, owner.client) == uid;
        }
        return n_left == 0 || shm_share_allows(n_held + n - 1, n_left, n_kept);
}

static bool has_notes(const ShmRecord *record) {
        for (uint32_t i = 0; i < SHM_NOTES_MAX; i++)
                /* ORDER: rlx; the owner is dead, and was seen to be: all its stores are visible. */
                if (shm_load_rlx(&record->notes[i].handle) != 0)
                        return true;
        return false;
}

static bool holds_nothing(const ShmArena *arena, uint32_t record) {
        const ShmRecord *r = shm_arena_record(arena, record);

        /* ORDER: rlx; the owner is dead. */
        if (shm_load_rlx(&r->intent_what) != 0 || shm_load_rlx(&r->guard) != 0 ||
            shm_load_rlx(&r->map) != 0 || has_notes(r)) /* ORDER: rlx; the map is to be counted. */
                return false;
        for (ShmCacheWalk walk = {}; shm_cache_walk_next(&walk, arena, record);)
                /* ORDER: rlx; the owner is dead. */
                if (shm_load_rlx(&walk.cache->count) != 0 || shm_load_rlx(&walk.cache->held) != 0)
                        return false;
        return true;
}

/*
 * Whether the thread ended in order while its record was frozen, and was not killed before the last step. Then the
 * maintainer, which froze the record, empties and frees it.
 */
static bool was_left(const ShmArena *arena, uint32_t record) {
        return shm_record_owner(arena, record).state == SHM_RECORD_LEFT &&
               /* ORDER: acq, pairs with shm_actor_leave(); even: its last operation is over. */
               !(shm_load_acq(&shm_arena_record(arena, record)->seq) & 1);
}

/* If `seq` is odd, the thread died inside an operation; without an intent, it had not changed anything yet. */
static void client_release_record(ShmArena *arena, uint32_t record) {
        if (holds_nothing(arena, record))
                shm_record_set_unused(arena, record);
        else if (!was_left(arena, record))
                shm_record_mark_dead(arena, record);
}

/* Releases a record of a client that is gone. Returns whether the record still belongs to the client. */
static bool client_release_record_of(ShmArena *arena, uint32_t record, uint32_t client) {
        ShmRecordOwner owner = shm_record_owner(arena, record);

        if (owner.client == client && (owner.state == SHM_RECORD_USED || owner.state == SHM_RECORD_LEFT))
                client_release_record(arena, record);
        owner = shm_record_owner(arena, record);
        return owner.client == client && owner.state > SHM_RECORD_UNUSED && owner.state <= SHM_RECORD_LEFT;
}

uint32_t shm_client_release_records(ShmArena *arena, uint32_t client) {
        uint32_t n_ever = shm_arena_n_records_ever(arena), n_left = 0;

        for (uint32_t i = 1; i < n_ever; i++)
                if (shm_record_owner(arena, i).client == client)
                        n_left += client_release_record_of(arena, i, client);
        return n_left;
}

void shm_clients_release_records(ShmArena *arena, uint32_t *n_left) {
        uint32_t n_ever = shm_arena_n_records_ever(arena);

        for (uint32_t i = 1; i < n_ever; i++) {
                ShmRecordOwner owner = shm_record_owner(arena, i);

                if (owner.state == SHM_RECORD_UNUSED || owner.client >= arena->n_records)
                        continue;
                if (n_left[owner.client] & SHM_CLIENT_STAYS)
                        n_left[owner.client]++;
                else
                        n_left[owner.client] += client_release_record_of(arena, i, owner.client);
        }
}
