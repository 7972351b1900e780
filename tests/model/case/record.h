/*
 * Owners of records: threads that begin and end, that take over another one's record, and that are found to be
 * gone. A record has one owner at a time, even if actors die.
 */
#include "tests/model/world.h"

#define CLIENT 1
#define OLD_TID 7 /* the owner of record 1, where it is gone */
#define NEW_TID 10 /* actor 0's; those of the other actors follow */

static ShmActor mine[MODEL_ACTORS_MAX]; /* each actor's own */

/* The last n records are free; nobody has used them yet. */
static void begin(uint32_t n) {
        world_init(1, 1, 0);
        for (uint32_t i = MODEL_ACTORS_MAX; i > MODEL_ACTORS_MAX - n; i--)
                shm_record_set_unused(&world_arena, i);
        world_arena.header->n_records_ever.value = 1 + MODEL_ACTORS_MAX - n;
        for (unsigned i = 0; i < MODEL_ACTORS_MAX; i++) {
                mine[i] = (ShmActor){};
                model_own(i, &mine[i], WORLD_ACTOR_SIZE);
        }
}

static void pre_none(void) {
        begin(0);
}

static void pre_one(void) {
        begin(1);
}

static void pre_two(void) {
        begin(2);
}

/* Its last owner died inside an operation. */
static void pre_one_odd(void) {
        begin(1);
        world_actors[3].record->seq = 5;
}

/* Record 1's owner is gone; so it is where world.notes[0] is set, else it is about to end. */
static void pre_gone(void) {
        begin(0);
        shm_record_set_unused(&world_arena, 1);
        if (shm_actor_init(&world_actors[1], &world_arena, CLIENT, OLD_TID) != 0)
                model_fail("no record");
        world.notes[0] = 1;
}

/* In the middle of an operation. */
static void pre_gone_odd(void) {
        pre_gone();
        world_actors[1].record->seq |= 1;
}

static void pre_ending(void) {
        pre_gone();
        world.notes[0] = 0;
        mine[0] = world_actors[1];
}

/* An operation, during which nobody else writes the record. */
static void use(ShmActor *actor, uint32_t tid) {
        ShmRecord *r = actor->record;

        shm_actor_enter(actor);
        if (!(shm_load_acq(&r->seq) & 1))
                model_fail("seq is even inside an operation");
        shm_actor_intend_mask(actor, tid);
        if (shm_load_acq(&r->intent_mask) != tid)
                model_fail("record %u has two owners", actor->id);
        shm_actor_leave(actor);
}

static void birth(unsigned i) {
        if (shm_actor_init(&mine[i], &world_arena, CLIENT, NEW_TID + i) == 0)
                use(&mine[i], NEW_TID + i);
        else
                world.results[i] = -1;
}

static void end(unsigned i) {
        uint32_t id = mine[i].id;

        if (!mine[i].record)
                return;
        shm_actor_deinit(&mine[i]);
        world.results[i] = (int32_t) id; /* which it had */
}

/* Control, or a thread of the process, looks for the owner, and does not find it. */
static void find_gone(unsigned i) {
        ShmRecordOwner owner = shm_record_owner(&world_arena, 1);

        if (owner.state == SHM_RECORD_USED && owner.tid == OLD_TID && shm_load_acq(&world.notes[0]) != 0)
                world.results[i] = shm_record_mark_gone(&world_arena, 1, owner);
}

/* A thread of the process gives the owner's slots and record back. */
static void inherit(unsigned i) {
        if (!shm_record_inherit(&world_arena, 1, CLIENT, NEW_TID + i))
                return;
        world.results[i] = 1;
        shm_actor_take_over(&mine[i], &world_arena, 1);
        use(&mine[i], NEW_TID + i);
        shm_actor_deinit(&mine[i]);
}

static void t_birth_0(void) {
        birth(0);
}

static void t_birth_1(void) {
        birth(1);
}

static void t_birth_2(void) {
        birth(2);
}

static void t_birth_end_0(void) {
        birth(0);
        end(0);
}

static void t_birth_end_1(void) {
        birth(1);
        end(1);
}

/* The old owner uses its record once more, ends, and is then not to be found. */
static void t_end(void) {
        use(&mine[0], OLD_TID);
        shm_actor_deinit(&mine[0]);
        shm_store_rel(&world.notes[0], 1);
}

static void t_inherit(void) {
        inherit(0);
}

static void t_find_gone(void) {
        find_gone(1);
}

static void t_find_gone_0(void) {
        find_gone(0);
}

static void t_nothing(void) {
}

/* A record that is used will be found, and is of the thread that its head names. */
static void check_owner(uint32_t record) {
        ShmRecordOwner owner = shm_record_owner(&world_arena, record);
        const ShmActor *a;

        if (owner.state == SHM_RECORD_UNUSED)
                return;
        if (record >= shm_arena_n_records_ever(&world_arena))
                model_fail("record %u is used, and not found", record);
        if (owner.state != SHM_RECORD_USED || owner.tid < NEW_TID || owner.tid >= NEW_TID + MODEL_ACTORS_MAX)
                return;
        a = &mine[owner.tid - NEW_TID];
        if (a->record && a->id != record)
                model_fail("record %u says it is of a thread that has record %u", record, a->id);
}

static void check_records(unsigned dead) {
        for (uint32_t i = 1; i <= MODEL_ACTORS_MAX; i++)
                check_owner(i);
        for (unsigned i = 0; i < MODEL_ACTORS_MAX; i++) {
                ShmRecordOwner owner;

                if (!mine[i].record || (dead >> i & 1))
                        continue;
                owner = shm_record_owner(&world_arena, mine[i].id);
                if (owner.state != SHM_RECORD_USED || owner.tid != NEW_TID + i || owner.client != CLIENT)
                        model_fail("record %u is not its owner's", mine[i].id);
                if (mine[i].record->seq & 1)
                        model_fail("record %u stays inside an operation", mine[i].id);
        }
}

static uint32_t n_births_refused(void) {
        uint32_t n = 0;

        for (unsigned i = 0; i < MODEL_ACTORS_MAX; i++)
                n += world.results[i] < 0;
        return n;
}

static void post_enough(unsigned dead) {
        check_records(dead);
        if (dead == 0 && n_births_refused() > 0)
                model_fail("no record, though there was");
}

static void post_one_refused(unsigned dead) {
        check_records(dead);
        if (dead == 0 && n_births_refused() != 1)
                model_fail("%u threads got no record", n_births_refused());
}

/* The record went to one of them, and is free, or dead. */
static void post_gone(unsigned dead) {
        ShmRecordOwner owner = shm_record_owner(&world_arena, 1);

        check_records(dead);
        if (world.results[0] > 0 && world.results[1] > 0)
                model_fail("two found the thread to be gone");
        if (dead == 0 && owner.state != (world.results[0] > 0 ? SHM_RECORD_UNUSED : SHM_RECORD_DEAD) &&
            owner.tid < NEW_TID)
                model_fail("the record is left as it was: state %u", (unsigned) owner.state);
}

static void post_found(unsigned dead) {
        check_records(dead);
        if (dead == 0 && (world.results[0] > 0) + (world.results[1] > 0) != 1)
                model_fail("the thread was not found to be gone by one");
        if (dead == 0 && shm_record_owner(&world_arena, 1).state != SHM_RECORD_DEAD)
                model_fail("the record of a thread that is gone is not DEAD");
}

#define RECORD(_name, _pre, _t0, _t1, _t2, _post, _deaths, _more...)                                         \
        { .name = _name, .pre = _pre, .actors = { _t0, _t1, _t2 }, .post = _post, .deaths = _deaths, _more }

/* clang-format off */
static const ModelCase model_cases[] = {
        RECORD("birth-birth", pre_two, t_birth_0, t_birth_1, t_nothing, post_enough, 2),
        RECORD("birth-birth-one", pre_one, t_birth_0, t_birth_1, t_nothing, post_one_refused, 2, .weak = true),
        RECORD("birth-birth-birth", pre_two, t_birth_0, t_birth_1, t_birth_2, post_one_refused, 2),
        RECORD("birth-odd", pre_one_odd, t_birth_0, t_birth_1, t_nothing, post_one_refused, 2, .weak = true),
        RECORD("birth-end", pre_one, t_birth_end_0, t_birth_1, t_nothing, check_records, 2, .weak = true),
        RECORD("birth-end-two", pre_one, t_birth_end_0, t_birth_end_1, t_birth_2, check_records, 1, .weak = true),
        RECORD("end-gone-birth", pre_ending, t_end, t_find_gone, t_birth_2, check_records, 2, .weak = true),
        RECORD("inherit-gone", pre_gone, t_inherit, t_find_gone, t_nothing, post_gone, 2, .weak = true),
        RECORD("inherit-gone-odd", pre_gone_odd, t_inherit, t_find_gone, t_nothing, post_gone, 2, .weak = true),
        RECORD("inherit-gone-birth", pre_gone, t_inherit, t_find_gone, t_birth_2, post_gone, 2, .weak = true),
        RECORD("gone-gone", pre_gone, t_find_gone_0, t_find_gone, t_birth_2, post_found, 2, .weak = true),
        RECORD("birth-none", pre_none, t_birth_0, t_nothing, t_nothing, post_one_refused, 0, .weak = true),
};
/* clang-format on */
