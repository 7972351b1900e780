#include "shm/arena/client.h"
#include "shm/arch/process.h"

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shm/owner/thread.h"
#include "tests/util/arena.h"
#include "tests/util/test.h"

static void test_start_time_self(void **state) {
        uint32_t before, after, parent;

        assert_int_equal(shm_process_start_time(getpid(), &before), 0);
        assert_int_not_equal(before, 0);
        assert_int_equal(shm_process_start_time(1, &parent), 0);
        assert_true(parent <= before);

        /* A process chooses its name freely. */
        assert_int_equal(prctl(PR_SET_NAME, "a) S 1 (b) 2 )"), 0);
        assert_int_equal(shm_process_start_time(getpid(), &after), 0);
        assert_int_equal(before, after);
}

static void test_start_time_gone(void **state) {
        uint32_t time = 7;
        pid_t pid = fork();

        if (pid == 0)
                _exit(0);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        assert_int_equal(shm_process_start_time(pid, &time), -ESRCH);
        assert_int_equal(shm_process_start_time(0, &time), -ESRCH);
        assert_int_equal(shm_process_start_time(-1, &time), -ESRCH);
        assert_int_equal(time, 7);
}

static ShmClientInfo info_of(pid_t pid) {
        return (ShmClientInfo){
                .pid = pid,
                .start_time = 0xfedcba98,
                .uid = 1000,
                .gid = 1001,
                .role = 2,
                .program = 77,
                .state = SHM_CLIENT_USED,
                .attached_usec = 123456789,
                .comm = "worker",
        };
}

static void test_notes_of_waits(void **state) {
        TestArena *t = *state;
        ShmClientInfo a = info_of(1);
        uint32_t n = 0;

        assert_int_equal(shm_client_add(&t->arena, &a), 0);
        assert_true(shm_client_note_wait(&t->arena, a.index, 1, SHM_RECORDS_MAX));
        assert_true(shm_client_note_wait(&t->arena, a.index, 1, 2));
        assert_true(shm_client_note_wait(&t->arena, a.index, 0, 3));
        assert_int_equal(shm_client_waits(&t->arena, a.index).n, 2);
        assert_int_equal(shm_client_waits(&t->arena, a.index).waits_for, 3);
        assert_true(shm_client_note_wait(&t->arena, a.index, -1, 0));
        assert_int_equal(shm_client_waits(&t->arena, a.index).waits_for, 3);
        assert_true(shm_client_note_wait(&t->arena, a.index, -1, 0));
        assert_int_equal(shm_client_waits(&t->arena, a.index).n, 0);
        assert_int_equal(shm_client_waits(&t->arena, a.index).waits_for, 0);
        assert_false(shm_client_note_wait(&t->arena, a.index, -1, 0));

        while (shm_client_note_wait(&t->arena, a.index, 1, 1))
                n++;
        assert_int_equal(n, (1 << 19) - 1);
        assert_int_equal(shm_client_waits(&t->arena, a.index).waits_for, 1);
        shm_client_remove(&t->arena, a.index);
        assert_int_equal(shm_client_add(&t->arena, &a), 0);
        assert_int_equal(shm_client_waits(&t->arena, a.index).n, 0);
}

static void test_add_get_remove(void **state) {
        TestArena *t = *state;
        ShmClientInfo a = info_of(0x3fffff), b = info_of(2), got;

        assert_int_equal(shm_client_get(&t->arena, 0, &got), -ENOENT);
        assert_int_equal(shm_client_add(&t->arena, &a), 0);
        assert_int_equal(shm_client_add(&t->arena, &b), 0);
        assert_int_not_equal(a.index, b.index);
        assert_int_equal(shm_client_get(&t->arena, a.index, &got), 0);
        assert_memory_equal(&got, &a, sizeof(got));
        shm_client_remove(&t->arena, a.index);
        assert_int_equal(shm_client_get(&t->arena, a.index, &got), -ENOENT);
        assert_int_equal(t->arena.clients[a.index].uid, 0); /* counts for nobody, until it is described */
        assert_int_equal(t->arena.clients[a.index].role, 0);
        assert_int_equal(shm_client_get(&t->arena, b.index, &got), 0);
        assert_int_equal(got.pid, 2);
        assert_int_equal(shm_client_get(&t->arena, t->arena.n_records, &got), -ENOENT);
        shm_client_remove(&t->arena, UINT32_MAX);
}

static void test_hold_era(void **state) {
        const uint32_t first = 3 | 1U << 8, second = 3 | 2U << 8, other = 2 | 1U << 8;
        ShmClientInfo a = info_of(1), b = info_of(2);
        TestArena *t = *state;

        assert_int_equal(shm_client_add(&t->arena, &a), 0);
        assert_int_equal(shm_client_add(&t->arena, &b), 0);
        shm_client_hold(&t->arena, a.index, first);
        shm_client_hold(&t->arena, b.index, first);
        shm_client_hold(&t->arena, b.index, other);
        assert_int_equal(shm_client_count_holders(&t->arena, first), 2);
        assert_int_equal(shm_client_count_holders(&t->arena, second), 0);
        shm_client_hold(&t->arena, b.index, second);
        assert_int_equal(shm_client_count_holders(&t->arena, first), 1);
        assert_int_equal(shm_client_count_holders(&t->arena, second), 1);
        shm_client_release_hold(&t->arena, b.index, 3);
        assert_int_equal(shm_client_count_holders(&t->arena, second), 0);
        assert_int_equal(shm_client_count_holders(&t->arena, other), 1);
        shm_client_end(&t->arena, b.index);
        assert_int_equal(shm_client_count_holders(&t->arena, other), 0);
        /* The next process with this entry has none. */
        shm_client_remove(&t->arena, a.index);
        assert_int_equal(shm_client_count_holders(&t->arena, first), 0);
        assert_int_equal(shm_client_add(&t->arena, &a), 0);
        assert_int_equal(shm_client_count_holders(&t->arena, first), 0);
}

static uint64_t sum_heads(const ShmArena *arena) {
        const uint64_t *words = (const uint64_t *) arena->heads;
        uint64_t sum = 0;

        for (size_t i = 0; i < arena->n_records * sizeof(*arena->heads) / sizeof(*words); i++)
                sum += words[i];
        return sum;
}

/* All entries have room, apart from each other and from the next table. A count brings no page into being for them. */
static void test_hold_all(void **state) {
        uint32_t number = (SHM_EPOCHS_MAX - 1) | 1U << 8;
        ShmGeometry geometry = test_geometry();
        ShmClientInfo info = info_of(1);
        uint64_t heads, resident;
        TestArena t;

        geometry.n_records = 1024; /* whole pages of all three tables */
        test_arena_init(&t, &geometry);
        heads = sum_heads(&t.arena);
        for (uint32_t i = 0; i < geometry.n_records; i++)
                assert_int_equal(shm_client_add(&t.arena, &info), 0);
        resident = shm_arena_resident_size(&t.arena);
        assert_int_equal(shm_client_count_holders(&t.arena, number), 0);
        assert_int_equal(shm_arena_resident_size(&t.arena), resident);
        for (uint32_t i = 0; i < geometry.n_records; i++) {
                shm_client_hold(&t.arena, i, number);
                assert_int_equal(shm_client_count_holders(&t.arena, number), i + 1);
                if (i == 0)
                        assert_int_equal(shm_arena_resident_size(&t.arena), resident + SHM_SLAB_SIZE);
        }
        assert_int_equal(sum_heads(&t.arena), heads);
        test_arena_deinit(&t);
}

static void test_add_full(void **state) {
        TestArena *t = *state;
        ShmClientInfo info = info_of(1);

        for (uint32_t i = 0; i < t->arena.n_records; i++)
                assert_int_equal(shm_client_add(&t->arena, &info), 0);
        assert_int_equal(shm_client_add(&t->arena, &info), -ENOSPC);
        shm_client_remove(&t->arena, 2);
        assert_int_equal(shm_client_add(&t->arena, &info), 0);
        assert_int_equal(info.index, 2);
}

static void do_enter(ShmArena *arena, uint32_t client) {
        (void) shm_client_enter(arena, client, info_of(0).program);
}

static void do_give_up(ShmArena *arena, uint32_t client) {
        (void) shm_client_give_up(arena, client);
}

/* Every state, one that is none included, and every operation. */
static void test_edges(void **state) {
#define FREE SHM_CLIENT_FREE
#define COMES SHM_CLIENT_COMES
#define USED SHM_CLIENT_USED
#define LEFT SHM_CLIENT_LEFT
#define DEAD SHM_CLIENT_DEAD
        static const struct {
                void (*operation)(ShmArena *arena, uint32_t client);
                ShmClientState to[6];
        } table[] = {
                { do_enter, { FREE, USED, USED, LEFT, DEAD, FREE } },
                { shm_client_leave, { FREE, COMES, LEFT, LEFT, DEAD, FREE } },
                { do_give_up, { FREE, DEAD, USED, LEFT, DEAD, FREE } },
                { shm_client_end, { FREE, DEAD, DEAD, DEAD, DEAD, FREE } },
                { shm_client_remove, { FREE, FREE, FREE, FREE, FREE, FREE } },
        };
        TestArena *t = *state;
        ShmClientInfo info = info_of(5), got;

        for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
                for (uint64_t from = 0; from < 6; from++) {
                        shm_client_remove(&t->arena, 0);
                        info.state = SHM_CLIENT_FREE;
                        assert_int_equal(shm_client_add(&t->arena, &info), 0);
                        assert_int_equal(info.index, 0);
                        assert_int_equal(info.state, SHM_CLIENT_USED);
                        t->arena.clients[0].word = t->arena.clients[0].word << 8 >> 8 | from << 56;
                        table[i].operation(&t->arena, 0);
                        if (table[i].to[from] == SHM_CLIENT_FREE) {
                                assert_int_equal(shm_client_get(&t->arena, 0, &got), -ENOENT);
                                continue;
                        }
                        assert_int_equal(shm_client_get(&t->arena, 0, &got), 0);
                        assert_int_equal(got.state, table[i].to[from]);
                        assert_int_equal(got.pid, 5);
                        assert_int_equal(got.start_time, info.start_time);
                }
        shm_client_leave(&t->arena, UINT32_MAX);
        shm_client_end(&t->arena, t->arena.n_records);
}

/* A process that was kept waiting does not enter an entry that another one has by now. */
static void test_enter_another(void **state) {
        TestArena *t = *state;
        ShmClientInfo info = info_of(5);

        info.state = SHM_CLIENT_COMES;
        assert_int_equal(shm_client_add(&t->arena, &info), 0);
        assert_false(shm_client_enter(&t->arena, info.index, info.program + 1));
        assert_false(shm_client_enter(&t->arena, t->arena.n_records, info.program));
        assert_true(shm_client_enter(&t->arena, info.index, info.program));
        assert_false(shm_client_enter(&t->arena, info.index, info.program));
        assert_false(shm_client_give_up(&t->arena, info.index));
        shm_client_remove(&t->arena, info.index);
        assert_int_equal(t->arena.clients[info.index].program, 0);
}

/* An entry in no state we know is nobody's: it neither counts nor is it lost. */
static void test_scribbled(void **state) {
        TestArena *t = *state;
        ShmClientInfo info = info_of(1), got;

        memset(t->arena.clients, 0xff, t->arena.n_records * sizeof(ShmClient));
        assert_int_equal(shm_client_get(&t->arena, 0, &got), -ENOENT);
        assert_int_equal(shm_client_add(&t->arena, &info), 0);
        memset(t->arena.clients[info.index].comm, 0x1b, 16);
        assert_int_equal(shm_client_get(&t->arena, info.index, &got), 0);
        assert_string_equal(got.comm, "???????????????");
}

static ShmRecordState state_of(TestArena *t, uint32_t record) {
        return shm_record_owner(&t->arena, record).state;
}

static void test_release_empty(void **state) {
        TestArena *t = *state;
        ShmActor other, left;
        uint64_t handle = test_alloc(t, 64, SHM_EPOCH_CURRENT);

        assert_int_equal(shm_actor_init(&other, &t->arena, 1, 2), 0);
        assert_int_equal(shm_actor_init(&left, &t->arena, 0, 3), 0);
        t->arena.heads[left.id].word = UINT64_C(4) << 56 | 3; /* LEFT */
        assert_int_equal(shm_object_free(&t->actor, handle), 0);
        assert_int_equal(shm_client_release_records(&t->arena, 0), 0);
        assert_int_equal(state_of(t, t->actor.id), SHM_RECORD_UNUSED);
        assert_int_equal(state_of(t, left.id), SHM_RECORD_UNUSED);
        assert_int_equal(state_of(t, other.id), SHM_RECORD_USED);
}

/* The process of a thread that ended while frozen, in order, is no death of that thread. */
static void test_release_left(void **state) {
        TestArena *t = *state;
        ShmActor left;

        assert_int_equal(shm_actor_init(&left, &t->arena, 0, 3), 0);
        assert_int_equal(shm_actor_note(&left, 77, 0, 0), 0); /* anything that it holds */
        shm_record_set_left(&t->arena, left.id);
        assert_int_equal(shm_client_release_records(&t->arena, 0), 1);
        assert_int_equal(state_of(t, left.id), SHM_RECORD_LEFT);

        /* It died before it had said all. */
        shm_actor_enter(&left);
        assert_int_equal(shm_client_release_records(&t->arena, 0), 1);
        assert_int_equal(state_of(t, left.id), SHM_RECORD_DEAD);
}

/* One pass for many: clients that stay keep their records, and have them counted. */
static void test_release_many(void **state) {
        uint32_t n_left[4] = { 0, SHM_CLIENT_STAYS, 0, 0 };
        TestArena *t = *state;
        ShmActor stays, holds;

        assert_int_equal(shm_actor_init(&stays, &t->arena, 1, 2), 0);
        assert_int_equal(shm_actor_init(&holds, &t->arena, 2, 3), 0);
        assert_int_equal(shm_actor_note(&holds, 77, 0, 0), 0);
        shm_clients_release_records(&t->arena, n_left);
        assert_int_equal(n_left[0], 0);
        assert_int_equal(state_of(t, t->actor.id), SHM_RECORD_UNUSED);
        assert_int_equal(n_left[1], SHM_CLIENT_STAYS + 1);
        assert_int_equal(state_of(t, stays.id), SHM_RECORD_USED);
        assert_int_equal(n_left[2], 1);
        assert_int_equal(state_of(t, holds.id), SHM_RECORD_DEAD);
        assert_int_equal(n_left[3], 0);
}

/* A step looks at no more threads than it may, and the next one goes on from there. */
static void test_threads_in_steps(void **state) {
        TestArena *t = *state;
        ShmClientInfo info = info_of(getpid());
        uint32_t position = 1;
        ShmActor gone, lives;

        assert_int_equal(shm_process_start_time(getpid(), &info.start_time), 0);
        assert_int_equal(shm_client_add(&t->arena, &info), 0);
        assert_int_equal(info.index, 0);
        assert_int_equal(shm_actor_init(&gone, &t->arena, 0, 0x3ffffe), 0); /* as t->actor, of thread 1 */
        assert_int_equal(shm_actor_init(&lives, &t->arena, 0, (uint32_t) getpid()), 0);
        for (uint32_t n = 1; n <= 2; n++) {
                assert_int_equal(shm_threads_mark_gone(&t->arena, &position, 1), 1);
                assert_int_equal(position, n + 1);
                assert_int_equal(state_of(t, n), SHM_RECORD_DEAD);
        }
        assert_int_equal(shm_threads_mark_gone(&t->arena, &position, 1), 0);
        assert_int_equal(position, t->arena.n_records);
        assert_int_equal(state_of(t, lives.id), SHM_RECORD_USED);
}

/* Another thread has the number of one that ended: it began after the record was taken. */
static void test_threads_reused(void **state) {
        TestArena *t = *state;
        ShmClientInfo info = info_of(getpid());
        uint32_t position = 1;
        ShmActor reused;

        assert_int_equal(shm_process_start_time(getpid(), &info.start_time), 0);
        assert_int_equal(shm_client_add(&t->arena, &info), 0);
        shm_actor_deinit(&t->actor);
        assert_int_equal(shm_actor_init(&reused, &t->arena, info.index, (uint32_t) getpid()), 0);
        assert_true(shm_record_since(&t->arena, reused.id) >= info.start_time);
        assert_int_equal(shm_threads_mark_gone(&t->arena, &position, UINT32_MAX), 0);
        assert_int_equal(shm_threads_mark_own_gone(&t->arena, info.index, 0), 0);

        t->arena.heads[reused.id].since = info.start_time - 1;
        position = 1;
        assert_int_equal(shm_threads_mark_gone(&t->arena, &position, UINT32_MAX), 1);
        assert_int_equal(state_of(t, reused.id), SHM_RECORD_DEAD);

        assert_int_equal(shm_actor_init(&reused, &t->arena, info.index, (uint32_t) getpid()), 0);
        t->arena.heads[reused.id].since = info.start_time - 1;
        assert_int_equal(shm_threads_mark_own_gone(&t->arena, info.index, 0), 1);
        assert_int_equal(state_of(t, reused.id), SHM_RECORD_DEAD);
}

/* A thread that takes its first record finds the record of an earlier thread of its number. */
static void test_threads_own(void **state) {
        TestArena *t = *state;
        ShmActor earlier, other;

        assert_int_equal(shm_actor_init(&earlier, &t->arena, 0, (uint32_t) getpid()), 0);
        assert_int_equal(shm_actor_init(&other, &t->arena, 1, (uint32_t) getpid()), 0);
        assert_int_equal(shm_threads_mark_own_gone(&t->arena, 0, (uint32_t) getpid()), 1);
        assert_int_equal(state_of(t, earlier.id), SHM_RECORD_DEAD);
        assert_int_equal(state_of(t, other.id), SHM_RECORD_USED);
}

/* An entry that is another process's by now stays. */
static void test_end_gone(void **state) {
        TestArena *t = *state;
        ShmClientInfo gone = info_of(12345), other = info_of(12346), info;

        gone.start_time = other.start_time = 7;
        assert_int_equal(shm_client_add(&t->arena, &gone), 0);
        assert_int_equal(shm_client_get(&t->arena, gone.index, &gone), 0);
        shm_client_remove(&t->arena, gone.index);
        assert_int_equal(shm_client_add(&t->arena, &other), 0);
        assert_int_equal(other.index, gone.index);
        assert_false(shm_client_end_gone(&t->arena, &gone));
        assert_int_equal(shm_client_get(&t->arena, gone.index, &info), 0);
        assert_int_equal(info.state, SHM_CLIENT_USED);
        assert_true(shm_client_end_gone(&t->arena, &info));
        assert_int_equal(shm_client_get(&t->arena, gone.index, &info), 0);
        assert_int_equal(info.state, SHM_CLIENT_DEAD);
}

/* It died between entering and doing something; the next owner must not find seq odd. */
static void test_release_inside(void **state) {
        TestArena *t = *state;

        shm_actor_enter(&t->actor);
        assert_int_equal(shm_client_release_records(&t->arena, 0), 0);
        assert_int_equal(shm_actor_init(&t->actor, &t->arena, 0, 1), 0);
        assert_int_equal(t->actor.record->seq & 1, 0);
}

/* Every record is kept, DEAD, until repair has been through it. */
static void test_release_holding(void **state) {
        TestArena *t = *state;
        ShmRecord *r = t->actor.record;
        ShmCache *last = test_cache(t, t->actor.id, 3, 7);

        for (int what = 0; what < 7; what++) {
                switch (what) {
                case 0:
                        r->intent_what = shm_intent_take(1, slot_id(0, 0));
                        break;
                case 1:
                        r->notes[SHM_NOTES_MAX - 1].handle = 1;
                        break;
                case 2:
                        last->count = 1;
                        break;
                case 3:
                        last->held = 1;
                        break;
                case 4:
                        /* A kind that is none is not nothing. */
                        r->intent_what = UINT64_MAX;
                        break;
                case 5:
                        r->guard = 1;
                        break;
                case 6:
                        r->map = 1; /* its counts may lack the last change */
                }
                assert_int_equal(shm_client_release_records(&t->arena, 0), 1);
                assert_int_equal(state_of(t, t->actor.id), SHM_RECORD_DEAD);
                assert_int_equal(shm_client_release_records(&t->arena, 0), 1);

                r->intent_what = r->notes[SHM_NOTES_MAX - 1].handle = last->count = last->held = 0;
                r->guard = r->map = 0;
                assert_false(shm_record_set_unused(&t->arena, t->actor.id));
                shm_record_set_rolled_back(&t->arena, t->actor.id);
                assert_true(shm_record_set_unused(&t->arena, t->actor.id));
                assert_int_equal(shm_client_release_records(&t->arena, 0), 0);
                assert_int_equal(shm_actor_init(&t->actor, &t->arena, 0, 1), 0);
        }
}

/* Looking at caches that were never used brings no pages of them into being. */
static void test_release_no_pages(void **state) {
        TestArena *t = *state;
        uint64_t before;

        shm_actor_enter(&t->actor);
        shm_actor_leave(&t->actor);
        before = shm_arena_resident_size(&t->arena);
        assert_int_equal(shm_client_release_records(&t->arena, 0), 0);
        assert_int_equal(shm_arena_resident_size(&t->arena), before);
}

/* Threads that all asked before any of them took one: each that asks again gives its record back if it must. */
static void test_share_of_records(void **state) {
        ShmGeometry geometry = test_geometry();
        ShmActor actors[192];
        uint32_t n = 0;
        TestArena t;

        geometry.n_records = 193; /* with the daemon's; 3 of them are kept */
        test_arena_init(&t, &geometry);
        while (shm_actor_init(&actors[n], &t.arena, 0, n + 2) == 0)
                n++;
        assert_int_equal(n, 191);
        assert_true(shm_client_in_share(&t.arena, 0, 1)); /* there is none: nobody has too many */
        for (; !shm_client_in_share(&t.arena, 0, 0); n--)
                shm_actor_deinit(&actors[n - 1]);
        assert_int_equal(n, 188);
        assert_false(shm_client_in_share(&t.arena, 0, 1));
        shm_actor_deinit(&actors[n - 1]);
        assert_true(shm_client_in_share(&t.arena, 0, 1));
        test_arena_deinit(&t);
        (void) state;
}

#define ON_ARENA(f) cmocka_unit_test_setup_teardown(f, test_arena_setup, test_arena_teardown)

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_start_time_self),
                cmocka_unit_test(test_start_time_gone),
                ON_ARENA(test_add_get_remove),
                ON_ARENA(test_notes_of_waits),
                ON_ARENA(test_hold_era),
                cmocka_unit_test(test_hold_all),
                ON_ARENA(test_add_full),
                ON_ARENA(test_edges),
                ON_ARENA(test_enter_another),
                ON_ARENA(test_scribbled),
                ON_ARENA(test_release_empty),
                ON_ARENA(test_release_left),
                ON_ARENA(test_release_many),
                ON_ARENA(test_threads_in_steps),
                ON_ARENA(test_threads_reused),
                ON_ARENA(test_threads_own),
                ON_ARENA(test_end_gone),
                ON_ARENA(test_release_inside),
                ON_ARENA(test_release_holding),
                ON_ARENA(test_release_no_pages),
                cmocka_unit_test(test_share_of_records),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
