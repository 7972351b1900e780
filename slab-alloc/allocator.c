/* Allocators: private pools of one shape. */
#include "slab-alloc/state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tslab.h>

#include "slab-alloc/counters.h"
#include "slab-alloc/metadata.h"
#include "slab-alloc/stats.h"
#include "shm/epoch/epoch.h"
#include "shm/format/handle.h"

/* This is address space, not memory. But the bitmaps of a larger arena would be spread over more pages. */
#define ARENA_BYTES (UINT64_C(2) << 30)
/* Free slabs that keep their memory: enough that slabs are not dropped and committed in turn, and little memory. */
#define RETAIN_BYTES (UINT64_C(416) << 10)
/* An epoch's era may end between looking it up and allocating, but hardly again. */
#define TRIES_MAX 4

static AllocatorState *state_free(AllocatorState *state) {
        if (state) {
                stats_know_state(state, NULL);
                state->pool = tslab_close(state->pool);
                free(state);
        }
        return NULL;
}

/* A number of bytes, or with K, M or G, from the environment. False, and a line on stderr: it is none. */
static bool read_bytes(const char *name, uint64_t *bytes) {
        const char *text = secure_getenv(name), *units = "KMG", *unit;
        unsigned long long n;
        unsigned shift = 0;
        char *end;

        if (!text)
                return true;
        errno = 0;
        n = strtoull(text, &end, 10);
        if (*end != '\0' && (unit = strchr(units, *end)) && *++end == '\0')
                shift = 10 * (unsigned) (unit - units + 1);
        if (text[0] < '0' || text[0] > '9' || errno || *end != '\0' || n > UINT64_MAX >> shift) {
                (void) fprintf(stderr, "slab_alloc: $%s is '%s': it takes a number of bytes, as 512M\n", name,
                               text);
                errno = EINVAL;
                return false;
        }
        *bytes = (uint64_t) n << shift;
        return true;
}

static bool read_classes(AllocatorClasses *classes) {
        if (classes_read(classes))
                return true;
        (void) fprintf(
                stderr,
                "slab_alloc: $TSLAB_CLASSES is '%s': it takes up to %d sizes that rise, multiples of 16 from 64 "
                "to %d, with commas between, as 64,128,256\n",
                secure_getenv("TSLAB_CLASSES"), ALLOCATOR_CLASSES_MAX, (int) ALLOCATOR_CLASS_MAX);
        errno = EINVAL;
        return false;
}

static AllocatorState *state_new(void) {
        struct tslab_options options = {
                .size = sizeof(options),
                .arena_bytes = ARENA_BYTES,
                .retain_bytes = RETAIN_BYTES,
                .n_epochs = ALLOCATOR_EPOCHS + 1,
        };
        AllocatorState *state = aligned_alloc(_Alignof(AllocatorState), sizeof(*state));
        int r;

        if (!state)
                return NULL;
        memset(state, 0, sizeof(*state));
        if (!read_bytes("TSLAB_SIZE", &options.arena_bytes) ||
            !read_bytes("TSLAB_RETAIN", &options.retain_bytes) || !read_classes(&state->classes))
                return state_free(state);
        options.n_classes = state->classes.n_pool;
        memcpy(options.classes, state->classes.pool_sizes, sizeof(state->classes.pool_sizes));
        if (options.retain_bytes == 0)
                options.retain_bytes = 1; /* none; 0 is the default of tslab_create() */
        r = options.arena_bytes == 0 ? -EINVAL : tslab_create(&state->pool, &options);
        if (r == -EINVAL)
                (void) fprintf(stderr, "slab_alloc: $TSLAB_SIZE is not a multiple of 4K from 4K to 64G\n");
        if (r < 0 || tslab_epoch_reserve(state->pool, "0, stable", &state->stable) < 0 ||
            (state->stable & 0xff) != ALLOCATOR_STABLE)
                return state_free(state);
        stats_know_state(NULL, state);
        return state;
}

_public_ void allocator_init(SlabAllocator *alloc) {
        if (!alloc)
                return;
        memset(alloc, 0, sizeof(*alloc));
        alloc->state = state_new();
        metadata_init(alloc);
}

_public_ void allocator_destroy(SlabAllocator *alloc) {
        if (alloc)
                alloc->state = state_free(allocator_state(alloc));
}

_public_ SlabAllocator *slab_allocator_create(void) {
        SlabAllocator *alloc = malloc(sizeof(*alloc));

        if (!alloc)
                return NULL;
        allocator_init(alloc);
        if (alloc->state)
                return alloc;
        free(alloc);
        return NULL;
}

_public_ void slab_allocator_free(SlabAllocator *alloc) {
        allocator_destroy(alloc);
        free(alloc);
}

/* The lifetime of an id that is open now: named in full, an allocation need not look it up again. */
static int open_number(const AllocatorState *state, EpochId epoch, uint32_t *ret_number) {
        uint32_t id, era;
        int r;

        if (epoch >= ALLOCATOR_EPOCHS)
                return -EINVAL;
        r = shm_epoch_admit(&state->pool->arena, epoch, &id, &era);
        if (r == 0)
                *ret_number = shm_epoch_number(id, era);
        return r == -ESHUTDOWN && epoch == 0 ? allocator_stable(state, ret_number) : r;
}

static int allocate_object(AllocatorState *state, uint32_t size, EpochId epoch, tslab_handle *ret_handle,
                           void **ret_object) {
        uint32_t number = 0;
        int r;

        for (int i = 0; i < TRIES_MAX; i++) {
                r = open_number(state, epoch, &number);
                if (r == 0)
                        r = tslab_alloc(state->pool, size, number, ret_handle, ret_object);
                if (r != -ESTALE)
                        break;
        }
        return r;
}

_public_ void *alloc_obj_epoch(SlabAllocator *alloc, uint32_t size, EpochId epoch, SlabHandle *out_handle) {
        AllocatorState *state = allocator_state(alloc);
        tslab_handle handle;
        CountersMark mark;
        void *object;
        int r;

        if (!state || size == 0 || size > classes_size_max(&state->classes))
                return NULL;
        size = classes_size_of(&state->classes, size);
        mark = counters_mark(state->pool);
        r = allocate_object(state, size, epoch, &handle, &object);
        if (r == -ESHUTDOWN)
                counters_note_refused(state, size);
        if (r < 0)
                return NULL;
        counters_note_alloc(state, &mark, size);
        if (out_handle)
                *out_handle = handle;
        return object;
}

_public_ bool free_obj(SlabAllocator *alloc, SlabHandle handle) {
        AllocatorState *state = allocator_state(alloc);
        CountersMark mark;

        if (!state)
                return false;
        mark = counters_mark_free(state->pool, slot_id_slab(shm_handle_slot(handle)));
        if (tslab_free(state->pool, handle) < 0)
                return false;
        counters_note_free(state, &mark);
        return true;
}

static void *allocate_bytes(AllocatorState *state, size_t size, EpochId epoch) {
        void *object = NULL;
        uint32_t number = 0;
        int r;

        for (int i = 0; i < TRIES_MAX && !object; i++) {
                r = open_number(state, epoch, &number);
                if (r == -ESHUTDOWN)
                        counters_note_refused(state, size + ALLOCATOR_HEAD_SIZE);
                if (r < 0)
                        break;
                object = tslab_malloc(state->pool, size, number);
                if (!object && errno != ESTALE)
                        break;
        }
        return object;
}

_public_ void *slab_malloc_epoch(SlabAllocator *alloc, size_t size, EpochId epoch) {
        AllocatorState *state = allocator_state(alloc);
        CountersMark mark;
        void *object;

        if (!state || size == 0 || size > classes_size_max(&state->classes) - ALLOCATOR_HEAD_KNOWN)
                return NULL;
        mark = counters_mark(state->pool);
        object = allocate_bytes(state, size, epoch);
        if (object)
                counters_note_alloc(state, &mark, size + ALLOCATOR_HEAD_SIZE);
        return object;
}

/* The slab of a pointer into the arena; for other pointers, any number. */
static uint32_t slab_of(const AllocatorState *state, const void *ptr) {
        return (uint32_t) (((uintptr_t) ptr - (uintptr_t) state->pool->arena.slabs) / SHM_SLAB_SIZE);
}

_public_ void slab_free(SlabAllocator *alloc, void *ptr) {
        AllocatorState *state = allocator_state(alloc);
        CountersMark mark;

        if (!state || !ptr)
                return;
        mark = counters_mark_free(state->pool, slab_of(state, ptr));
        tslab_mfree(state->pool, ptr);
        counters_note_free(state, &mark);
}
