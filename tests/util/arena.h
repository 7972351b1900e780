#pragma once
/* A small arena, with the daemon's actor and one thread's. */
#include "shm/cache/object.h"

typedef struct TestArena {
        ShmArena arena;
        ShmActor control;
        ShmActor actor;
} TestArena;

/* 256 slabs, 4 epochs, 4 records, the default classes. */
ShmGeometry test_geometry(void);

/* For cmocka: *state becomes a TestArena. */
int test_arena_setup(void **state);
int test_arena_teardown(void **state);

void test_arena_init(TestArena *t, const ShmGeometry *geometry);
void test_arena_deinit(TestArena *t);

/* An object that must be had. */
uint64_t test_alloc(TestArena *t, size_t size, uint32_t epoch);

/* A record's cache, as one that was used. */
ShmCache *test_cache(TestArena *t, uint32_t record, uint32_t epoch, uint32_t class);
