/*
 * Sets: adders and removers work at once, and a slab that should be found still has its bits up to the root.
 * Three levels, so that a leaf word, and a word of the middle, can run empty.
 *
 * The set of a map: its slab has an entry for each bit of the slab's word. A thread takes the slab out that has none,
 * while others make entries, and add it. An entry that is made stays in the set.
 */
#include "shm/map/evict/evict.h"
#include "tests/model/world.h"

#define N_SLABS (64 * 64 + 64)

/*
 * A and B are in one leaf word; the leaf word of NEXT is beside theirs; that of FAR is under another word of the middle
 * level.
 */
#define SLAB_A 3
#define SLAB_B 5
#define SLAB_NEXT 64
#define SLAB_FAR (64 * 64 + 1)

static const uint32_t slabs[] = { SLAB_A, SLAB_B, SLAB_NEXT, SLAB_FAR };

static void pre_none(void) {
        world_init(N_SLABS, 0, 0);
}

/* FREE, with its bits. */
static void make_free(uint32_t slab) {
        world_arena.lines[slab].word = (ShmPair){ 0, SLAB_FREE };
        shm_set_add(&world_arena, SHM_SET_FREE, slab);
}

static void pre_a(void) {
        pre_none();
        make_free(SLAB_A);
}

/* The bit of A is set, though A does not belong in the set. */
static void pre_a_stale(void) {
        pre_a();
        world_arena.lines[SLAB_A].word = (ShmPair){ 0, SLAB_UNCOMMITTED };
}

static void pre_b(void) {
        pre_none();
        make_free(SLAB_B);
}

static void pre_a_b(void) {
        pre_a();
        make_free(SLAB_B);
}

static void pre_next(void) {
        pre_none();
        make_free(SLAB_NEXT);
}

static void pre_far(void) {
        pre_none();
        make_free(SLAB_FAR);
}

static void pre_next_far(void) {
        pre_next();
        make_free(SLAB_FAR);
}

/* Changes the slab's word, then the free set, as a claim of all slots does, or giving them back. */
static bool change(unsigned actor, uint32_t slab, SlabState from, SlabState to) {
        ShmActor *a = world_actor(actor);
        SlabWord old = shm_slab_word(&world_arena, slab), new;

        shm_actor_intend(a, shm_intent_other(SHM_INTENT_SLAB, slab, 0));
        do {
                if (slab_word_state(old) != from)
                        return false;
                new = (SlabWord){ old.low, ((old.high & ~SLAB_STATE_MASK) | to) + SLAB_GEN_ONE };
        } while (!shm_pair_cas_acqrel(&world_arena.lines[slab].word, &old, new));
        return true;
}

static void give(unsigned actor, uint32_t slab) {
        if (change(actor, slab, SLAB_UNCOMMITTED, SLAB_FREE))
                shm_set_add(&world_arena, SHM_SET_FREE, slab);
        shm_actor_intend(world_actor(actor), 0);
}

static void take(unsigned actor, uint32_t slab) {
        (void) change(actor, slab, SLAB_FREE, SLAB_UNCOMMITTED);
        /* This is right even if another actor took the slab: its bit may be stale. */
        shm_set_remove(&world_arena, SHM_SET_FREE, slab);
        shm_actor_intend(world_actor(actor), 0);
}

static void give_a(void) {
        give(0, SLAB_A);
}

static void take_a(void) {
        take(1, SLAB_A);
}

static void take_a_2(void) {
        take(2, SLAB_A);
}

static void give_back_a(void) {
        take(1, SLAB_A);
        give(1, SLAB_A);
}

static void take_a_0(void) {
        take(0, SLAB_A);
}

static void take_b(void) {
        take(1, SLAB_B);
}

static void take_next(void) {
        take(1, SLAB_NEXT);
}

static void take_next_2(void) {
        take(2, SLAB_NEXT);
}

static void take_far(void) {
        take(1, SLAB_FAR);
}

static void take_far_2(void) {
        take(2, SLAB_FAR);
}

static void give_far_2(void) {
        give(2, SLAB_FAR);
}

static void give_b_2(void) {
        give(2, SLAB_B);
}

/* Like give_back_a(), but leaves a stale bit: it removes nothing. */
static void give_again_a(void) {
        (void) change(1, SLAB_A, SLAB_FREE, SLAB_UNCOMMITTED);
        world.results[1] = change(1, SLAB_A, SLAB_UNCOMMITTED, SLAB_FREE);
        if (world.results[1])
                shm_set_add(&world_arena, SHM_SET_FREE, SLAB_A);
        shm_actor_intend(world_actor(1), 0);
}

/*
 * An actor that has added its slab does not depend on actors that began an add and were stopped: nobody repairs after
 * those, and nobody waits for them.
 */
static void post_stopped(unsigned dead) {
        if ((dead & 2) || !world.results[1])
                return;
        if (!shm_set_has(&world_arena, SHM_SET_FREE, SLAB_A))
                model_fail("slab %u was added and is not in the set", SLAB_A);
}

/* The set has the slabs that want it, after a repair of each slab that a dead actor's intent names. */
static void post(unsigned dead) {
        for (size_t i = 0; i < sizeof(slabs) / sizeof(slabs[0]); i++)
                world_repair_hints(dead, slabs[i]);
        for (size_t i = 0; i < sizeof(slabs) / sizeof(slabs[0]); i++) {
                bool wanted =
                        shm_set_wants(&world_arena, SHM_SET_FREE, shm_slab_word(&world_arena, slabs[i]));
                uint32_t slab = 0;

                if (wanted && !shm_set_has(&world_arena, SHM_SET_FREE, slabs[i]))
                        model_fail("slab %u is free and not in the set", slabs[i]);
                if (wanted &&
                    (!shm_set_find(&world_arena, SHM_SET_FREE, slabs[i], &slab) || slab != slabs[i]))
                        model_fail("slab %u is in the set and not found", slabs[i]);
        }
}

/*
 * The set of a map
 */
#define MAP_FIRST 1U
#define MAP_LATE (SHM_SET_OWN_BITS + 1) /* its bit in a slab's line is never cleared */

static uint32_t map_number;

static void pre_map(uint32_t map, bool has) {
        map_number = map;
        world_init(64 + SLAB_A + 1, 0, 0);
        if (has)
                shm_set_add_for_map(&world_arena, map, SLAB_A);
}

static void pre_map_has(void) {
        pre_map(MAP_FIRST, true);
}

static void pre_map_has_not(void) {
        pre_map(MAP_FIRST, false);
}

static void pre_map_late(void) {
        pre_map(MAP_LATE, true);
}

static void change_entries(uint64_t from, uint64_t to) {
        SlabWord old = shm_slab_word(&world_arena, SLAB_A);

        while (!shm_pair_cas_acqrel(&world_arena.lines[SLAB_A].word, &old,
                                    (SlabWord){ (old.low & ~from) | to, old.high + SLAB_GEN_ONE }))
                ;
}

/* As a put links its leaf, and says whose slab it is. */
static void make_entry(unsigned actor) {
        const ShmTrie trie = { .arena = &world_arena, .map = map_number };

        change_entries(0, UINT64_C(1) << actor);
        shm_evict_mark_slab(&trie, shm_handle_make(world_arena.key, slot_id(SLAB_A, actor), 1));
}

static void make_0(void) {
        make_entry(0);
}

static void make_2(void) {
        make_entry(2);
}

/* As an eviction does, beside a slab without entries: see forget_slab(). */
static void forget_1(void) {
        if (shm_slab_word(&world_arena, SLAB_A).low != 0)
                return;
        shm_set_forget(&world_arena, map_number, SLAB_A);
        if (shm_slab_word(&world_arena, SLAB_A).low != 0)
                shm_set_add_for_map(&world_arena, map_number, SLAB_A);
}

static void make_drop_make_0(void) {
        make_entry(0);
        change_entries(1, 0);
        make_entry(0);
}

static void post_map(unsigned dead) {
        uint32_t set = shm_set_of_map(&world_arena, map_number);
        ShmSlabLine *line = &world_arena.lines[SLAB_A];

        (void) dead;
        if (line->word.low == 0)
                return;
        if (!shm_set_has(&world_arena, set, SLAB_A))
                model_fail("slab %u has an entry and is not in the map's set", SLAB_A);
        if (!(line->maps & shm_set_line_bit(map_number)))
                model_fail("slab %u is in the map's set, and its line does not say so", SLAB_A);
}

/* clang-format off */
static const ModelCase model_cases[] = {
        { .name = "add-add-stopped", .pre = pre_none, .actors = { give_a, give_again_a },
          .post = post_stopped, .deaths = 1, .weak = true },
        { .name = "add-remove", .pre = pre_none, .actors = { give_a, take_a }, .post = post, .deaths = 2,
          .weak = true },
        { .name = "add-remove-stale", .pre = pre_a_stale, .actors = { give_a, take_a, take_a_2 },
          .post = post, .deaths = 2 },
        { .name = "remove-remove-add", .pre = pre_a, .actors = { take_a_0, give_back_a },
          .post = post, .deaths = 2, .weak = true },
        { .name = "add-remove-leaf", .pre = pre_b, .actors = { give_a, take_b }, .post = post, .deaths = 2,
          .weak = true },
        { .name = "add-remove-middle", .pre = pre_next, .actors = { give_a, take_next }, .post = post,
          .deaths = 2, .weak = true },
        { .name = "add-remove-root", .pre = pre_far, .actors = { give_a, take_far }, .post = post,
          .deaths = 2, .weak = true },
        { .name = "remove-add-remove", .pre = pre_a_b, .actors = { take_a_0, take_b, give_far_2 },
          .post = post, .deaths = 2, .weak = true },
        { .name = "add-remove-remove", .pre = pre_b, .actors = { give_a, take_b, take_a_2 },
          .post = post, .deaths = 2 },
        { .name = "add-remove-remove-middle", .pre = pre_next_far,
          .actors = { give_a, take_far, take_next_2 },
          .post = post, .deaths = 2, .weak = true },
        { .name = "add-add-remove", .pre = pre_next, .actors = { give_a, take_next, give_b_2 }, .post = post,
          .deaths = 2 },
        { .name = "remove-add-remove-leaf", .pre = pre_a_b, .actors = { take_a_0, give_back_a, take_far_2 },
          .post = post, .deaths = 2, .weak = true },
        { .name = "map-make-forget", .pre = pre_map_has, .actors = { make_0, forget_1 }, .post = post_map,
          .weak = true },
        { .name = "map-make-forget-anew", .pre = pre_map_has_not, .actors = { make_0, forget_1 }, .post = post_map,
          .weak = true },
        { .name = "map-make-forget-late", .pre = pre_map_late, .actors = { make_0, forget_1 }, .post = post_map,
          .weak = true },
        { .name = "map-make-forget-again", .pre = pre_map_has_not, .actors = { make_drop_make_0, forget_1 },
          .post = post_map, .weak = true },
        { .name = "map-make-forget-make", .pre = pre_map_has, .actors = { make_0, forget_1, make_2 },
          .post = post_map, .weak_full = true },
        { .name = "map-make-forget-make-anew", .pre = pre_map_has_not, .actors = { make_0, forget_1, make_2 },
          .post = post_map },
};
/* clang-format on */
