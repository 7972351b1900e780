/*
 * Pages of the table of shortcuts come and go, beside each other, and beside a get and a put of a key whose shortcut
 * moves from page to page. A page in use has memory, and no page has any that nobody would give back.
 */
#include "shm/map/entry/shortcut.h"
#include "tests/model/cell-world.h"

#define TURN (UINT64_MAX << 56) /* a put of this hash looks at the number of pages */
#define N_SLABS (4U * SHM_SLAB_SIZE / sizeof(ShmShortcuts)) /* the table has at most 4 pages */
#define N_LEFT 3U /* a thread that died has left so many: they are to go */

static void set_entries(uint64_t n) {
        shm_store_rlx(&world_arena.header->maps[0].counts[SHM_MAP_INSERTS], n);
}

static void init_pages(uint32_t n_pages, uint32_t n_made, uint64_t n_entries) {
        ShmHeader *header = world_arena.header;

        header->n_shortcut_pages = n_pages;
        header->n_shortcut_pages_made = n_made;
        world.shortcut_pages = (UINT64_C(1) << n_made) - 1;
        header->commit_allowance.value = SHM_ALLOWANCE_MAX;
        set_entries(n_entries);
}

static void pre_left(void) {
        world_init(N_SLABS, 1, 0);
        map_must(shm_root_set(&world_arena, "map", 0, 1));
        init_pages(0, N_LEFT, 300);
}

/* Entries need a page: the table grows. */
static void t0_adapt(void) {
        ShmTrie trie = { .arena = &world_arena };

        shm_shortcut_put(world_actor(0), &trie, TURN, 0, NULL);
}

/* Entries went meanwhile. */
static void t1_trim(void) {
        set_entries(0);
        shm_shortcut_trim(world_actor(1));
}

/* Two threads grow at once, or one grows, and the other gives back what it does not need. */
static void t1_adapt(void) {
        ShmTrie trie = { .arena = &world_arena };

        shm_shortcut_put(world_actor(1), &trie, TURN, 0, NULL);
}

/*
 * The entry of a has a shortcut in the first page, which goes to the second one when that comes
 */
#define TAGS 512U /* uses of a slot after which a word has the same bits of the tag */

static uint64_t leaf_of_a;

static void pre_moves(void) {
        unsigned put = MODEL_ACTORS_MAX - 1;

        map_init(N_SLABS, 0, MAP_HASH, MAP_HASH_FAR, 0);
        map_hashes[0] ^= ~(map_hashes[0] ^ map_tries[0].shortcut_mix) & 1;
        map_must(shm_root_set(&world_arena, "map", 0, map_root));
        for (unsigned i = 0; i <= MODEL_ACTORS_MAX; i++)
                note_map(i);
        world_arena.header->maps[0].counts[SHM_MAP_BYTES] = SHM_SHORTCUT_MAP_BYTES;
        init_pages(1, 1, 0);
        shm_shortcut_begin(world_actor(put), &map_tries[put]);
        map_put(put, 0, 'o', SHM_MAP_PUT, 0);
        map_must(world.results[put]);
        leaf_of_a = view_of(0).handle;
        if (shm_shortcut_find(&map_tries[put], map_hashes[0]) != leaf_of_a)
                model_fail("no shortcut");
        set_entries(300);
        map_ready(1);
}

/* It is deleted, and its slot, the only one for leaves, is used so often that the word has the next leaf's tag. */
static void pre_old_word(void) {
        unsigned put = MODEL_ACTORS_MAX - 1;
        uint32_t *tag;

        pre_moves();
        (void) world_objects(2, WORLD_SIZE_4, 0);
        map_delete(put, 0);
        tag = shm_slot_tag(&world_arena, shm_handle_slot(leaf_of_a));
        *tag += 2 * (TAGS - 1);
        map_ready(1);
}

static ssize_t get(unsigned actor, char *ret) {
        ShmMapKey key = map_key(0);

        return shm_map_get(&map_tries[actor], &key, ret, 1, NULL);
}

static void t1_get_o(void) {
        char value;

        if (get(1, &value) != 1 || value != 'o')
                model_fail("a is absent");
}

static void t1_put(void) {
        char value;

        map_put(1, 0, 'n', SHM_MAP_PUT, 0);
        if (world.results[1] != 0 || get(1, &value) != 1 || value != 'n')
                model_fail("put: %d", world.results[1]);
}

static void t1_insert(void) {
        map_put(1, 0, 'n', SHM_MAP_INSERT, 0);
}

static void t2_get_by_both(void) {
        char value;

        if (get(2, &value) == 1 && view_of(0).handle == 0)
                model_fail("a get sees %c, which is not in the map", value);
}

static void post(unsigned dead) {
        uint32_t n = world_arena.header->n_shortcut_pages, made = world_arena.header->n_shortcut_pages_made;
        uint64_t in_use = (UINT64_C(1) << n) - 1;

        if (dead == 0 && (world.shortcut_pages & in_use) != in_use)
                model_fail("%u pages are in use, and have memory: %lx", n,
                           (unsigned long) world.shortcut_pages);
        if (dead == 0 && world.shortcut_pages >> made != 0)
                model_fail("none is said to have memory from %u on: %lx", made,
                           (unsigned long) world.shortcut_pages);
}

/* clang-format off */
static const ModelCase model_cases[] = {
        { .name = "grow-trim", .pre = pre_left, .actors = { t0_adapt, t1_trim }, .post = post, .deaths = 0,
          .preemptions = 2, .full_preemptions = 3 },
        { .name = "grow-grow", .pre = pre_left, .actors = { t0_adapt, t1_adapt }, .post = post, .deaths = 0,
          .preemptions = 2, .full_preemptions = 3 },
        { .name = "grow-get", .pre = pre_moves, .actors = { t0_adapt, t1_get_o }, .post = post, .deaths = 1,
          .preemptions = 2, .full_preemptions = 3 },
        { .name = "grow-put", .pre = pre_moves, .actors = { t0_adapt, t1_put }, .post = post, .deaths = 1,
          .preemptions = 2, .full_preemptions = 3 },
        { .name = "grow-insert-get", .pre = pre_old_word, .actors = { t0_adapt, t1_insert, t2_get_by_both },
          .post = post, .deaths = 0, .preemptions = 2, .full_preemptions = 2 },
};
/* clang-format on */
