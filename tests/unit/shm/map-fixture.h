#pragma once
/* Pieces of the fixtures of tests of maps: an arena, a map in it, and an actor that leaves nothing behind. */
#include <stdlib.h>

#include "shm/arena/root.h"
#include "shm/cache/object.h"
#include "shm/map/state/tally.h"
#include "tests/util/reserve.h"
#include "tests/util/test.h"

static inline void map_arena_create(ShmArena *arena, uint64_t slabs_size) {
        ShmGeometry g = {
                .slabs_size = slabs_size,
                .n_records = 4,
                .n_epochs = 4,
                .n_classes = SHM_N_CLASSES_DEFAULT,
                .class_size = SHM_CLASSES_DEFAULT,
        };

        assert_int_equal(shm_arena_create(arena, &g, NULL), 0);
}

/* A map of this name, whose changes are counted. */
static inline void map_trie_create_as(ShmActor *actor, const char *name, ShmTrie *ret) {
        uint32_t epoch;
        uint64_t root;

        assert_int_equal(test_reserve_epoch(actor->arena, &epoch), 0);
        assert_int_equal(shm_trie_create(actor, epoch, &root), 0);
        assert_int_equal(shm_root_set(actor->arena, name, 0, root), 0);
        assert_int_equal(shm_object_publish(actor, root), 0);
        assert_int_equal(shm_trie_open(ret, actor->arena, root), 0);
        shm_map_attach(ret);
}

static inline void map_trie_create(ShmActor *actor, ShmTrie *ret) {
        map_trie_create_as(actor, "map.test", ret);
}

/* The actor has no note left. */
static inline void map_actor_leave(ShmActor *actor) {
        for (unsigned i = 0; i < SHM_NOTES_MAX; i++)
                assert_int_equal(actor->record->notes[i].handle, 0);
        shm_cache_leave(actor);
}

typedef struct MapFixture {
        ShmArena arena;
        ShmActor actor;
        ShmTrie trie;
} MapFixture;

static inline int map_setup(void **state) {
        MapFixture *f = calloc(1, sizeof(*f));

        map_arena_create(&f->arena, UINT64_C(64) << 20);
        assert_int_equal(shm_actor_init(&f->actor, &f->arena, 0, 1), 0);
        map_trie_create(&f->actor, &f->trie);
        *state = f;
        return 0;
}

static inline int map_teardown(void **state) {
        MapFixture *f = *state;

        map_actor_leave(&f->actor);
        shm_arena_deinit(&f->arena);
        free(f);
        return 0;
}
