/*
 * Handles from anywhere, on a private pool with live objects. The input is a program:
 *
 *      op 1 | kind 1 | bytes 8          op: get, read, free, free a batch, publish, root_get, alloc
 *                                       kind: the source of the handle, and the live object it is made from
 *
 * A handle is the bytes as they are, or that of a live object, changed by the bytes or not. Nothing
 * crashes, a handle is accepted exactly if it is a live object's, and all others stay as they were.
 */

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <tslab.h>

#define N_OBJECTS 24U
#define N_OLD 8U /* freed handles, of slots that are in use again */
#define STEP 10U

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct Object {
        tslab_handle handle;
        size_t size;
        uint8_t *bytes;
        uint8_t fill;
} Object;

static struct tslab *pool;
static Object objects[N_OBJECTS];
static tslab_handle old[N_OLD];
static uint8_t n_made;

static void require(bool condition) {
        if (!condition)
                abort();
}

static void make(Object *o) {
        static const size_t sizes[] = { 1, 64, 65, 200, 512, 700, 1024, 4096 };
        void *object;

        require(tslab_alloc(pool, sizes[n_made % 8], TSLAB_EPOCH_CURRENT, &o->handle, &object) == 0);
        require(tslab_get(pool, o->handle, &object, &o->size) == 0);
        o->bytes = object;
        o->fill = n_made++;
        memset(o->bytes, o->fill, o->size);
}

static void setup(void) {
        struct tslab_options options = { .size = sizeof(options),
                                         .arena_bytes = 64 * 4096,
                                         .n_threads = 2,
                                         .n_classes = 5,
                                         .classes = { 64, 128, 512, 1024, 4096 } };

        require(tslab_create(&pool, &options) == 0);
        for (size_t i = 0; i < N_OBJECTS; i++)
                make(&objects[i]);
        for (size_t i = 0; i < N_OLD; i++) {
                old[i] = objects[i].handle;
                require(tslab_free(pool, objects[i].handle) == 0);
                make(&objects[i]);
        }
        require(tslab_root_set(pool, "root", 0, objects[0].handle) == 0);
}

static Object *find(tslab_handle handle) {
        for (size_t i = 0; i < N_OBJECTS; i++)
                if (objects[i].handle == handle)
                        return &objects[i];
        return NULL;
}

static void check_all(void) {
        for (size_t i = 0; i < N_OBJECTS; i++) {
                const Object *o = &objects[i];
                void *object;
                size_t size;

                require(tslab_get(pool, o->handle, &object, &size) == 0);
                require(object == o->bytes && size == o->size);
                for (size_t k = 0; k < size; k++)
                        require(o->bytes[k] == o->fill);
        }
}

static tslab_handle handle_of(uint8_t kind, uint64_t bytes) {
        tslab_handle live = objects[kind / 8 % N_OBJECTS].handle;

        switch (kind % 8) {
        case 0:
                return bytes;
        case 1:
                return live;
        case 2:
                return live ^ bytes;
        case 3:
                return live ^ UINT64_C(1) << bytes % 64;
        case 4: /* another slot with its tag */
                return (live & ~UINT64_C(0x3fffffff)) | (bytes & 0x3fffffff);
        case 5: /* another tag of its slot */
                return live ^ bytes << 32;
        case 6:
                return old[kind / 8 % N_OLD];
        default: /* a slab nearby */
                return live + (bytes % 128 << 6) + (bytes >> 8) % 64;
        }
}

static void do_get(tslab_handle handle) {
        const Object *o = find(handle);
        void *object = NULL;
        size_t size = 0;
        int r = tslab_get(pool, handle, &object, &size);

        require(o ? r == 0 && object == o->bytes && size == o->size : r == -ESTALE && !object && size == 0);
}

static void do_read(tslab_handle handle, size_t room) {
        const Object *o = find(handle);
        uint8_t buffer[4096];
        ssize_t n = tslab_read(pool, handle, buffer, room % (sizeof(buffer) + 1));

        if (!o)
                require(n == -ESTALE);
        else if (room % (sizeof(buffer) + 1) < o->size)
                require(n == -EMSGSIZE);
        else
                require((size_t) n == o->size && memcmp(buffer, o->bytes, o->size) == 0);
}

/* One that is accepted is made anew, so that there is always the same number. */
static void do_free(tslab_handle handle) {
        Object *o = find(handle);
        int r = tslab_free(pool, handle);

        require(r == (o ? 0 : -ESTALE));
        if (!o)
                return;
        require(tslab_free(pool, handle) == -ESTALE);
        old[n_made % N_OLD] = handle;
        make(o);
}

static void do_free_batch(tslab_handle handle) {
        tslab_handle handles[] = { handle, 0, old[0], handle };
        Object *o = find(handle);
        ssize_t n = tslab_free_batch(pool, handles, 4);

        require(n == (o ? 1 : 0));
        if (o)
                make(o);
}

static void do_root(const uint8_t *bytes) {
        char name[9] = {};
        tslab_handle handle = 7;
        int r;

        memcpy(name, bytes, 8);
        r = tslab_root_get(pool, name, &handle);
        require(r == 0 ? handle != 7 : (r == -ENOENT || r == -EINVAL) && handle == 7);
        require((r == 0) == (strcmp(name, "root") == 0));
}

static void do_alloc(size_t size, uint32_t epoch) {
        tslab_handle handle = 0;
        int r = tslab_alloc(pool, size, epoch, &handle, NULL);

        require(r == 0 || (handle == 0 && (r == -EINVAL || r == -E2BIG || r == -ESTALE || r == -ESHUTDOWN)));
        require(r == 0 ? size > 0 && size <= 4096 : true);
        if (r == 0)
                require(!find(handle) && tslab_free(pool, handle) == 0);
}

static void step(const uint8_t *data) {
        tslab_handle handle;
        uint64_t bytes;

        memcpy(&bytes, data + 2, sizeof(bytes));
        handle = handle_of(data[1], bytes);
        switch (data[0] % 8) {
        case 0:
                do_get(handle);
                break;
        case 1:
                do_read(handle, (size_t) bytes);
                break;
        case 2:
                do_free(handle);
                break;
        case 3:
                do_free_batch(handle);
                break;
        case 4:
                require(tslab_publish(pool, handle) == -ENOENT);
                break;
        case 5:
                do_root(data + 2);
                break;
        case 6:
                do_alloc((size_t) (bytes & 0x1fff), (uint32_t) (bytes >> 32));
                break;
        default: /* not memory of ours, wherever in the pool it may be */
                tslab_mfree(pool, objects[0].bytes + bytes % (64 * 4096));
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        if (!pool)
                setup();
        for (size_t i = 0; i + STEP <= size && i < 64 * STEP; i += STEP)
                step(data + i);
        check_all();
        return 0;
}
