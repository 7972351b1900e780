#pragma once
/* struct tslab_options as this version knows it, from the struct that the program was compiled with. */
#include <errno.h>
#include <string.h>

#include <tslab.h>

#include "shm/arena/actor.h"

/*
 * Copies options of any version to `ret`, a struct of `size` bytes that begins with the same fields. -EINVAL: they set
 * a field that this version does not know.
 */
int options_load_sized(void *ret, size_t size, const void *options);

/*
 * Copies options of any version to `ret`, a struct of `size` bytes that contains them. NULL: there are none. -EINVAL.
 */
static inline int map_options_load(void *ret, size_t size, const void *options) {
        size_t given;

        if (!options)
                return 0;
        memcpy(&given, options, sizeof(given));
        if (__builtin_expect(given != size, 0))
                return options_load_sized(ret, size, options);
        /* The size is a constant here, so the compiler copies without a call. */
        memcpy(ret, options, size);
        return 0;
}

/*
 * As map_options_load(), for calls that take nanoseconds: options of this version are used where they are. A copy would
 * load in wider pieces than the caller stored just before, for which a processor waits until the stores have left it.
 * `room` has the values of options that were not given. NULL: -EINVAL.
 */
static inline const void *map_options_use(void *room, size_t size, const void *options) {
        size_t given;

        if (!options)
                return room;
        memcpy(&given, options, sizeof(given));
        if (__builtin_expect(given == size, 1))
                return options;
        return options_load_sized(room, size, options) < 0 ? NULL : room;
}

/* -EINVAL: it sets a field that this version does not know. `given` may be NULL. */
int options_load(const struct tslab_options *given, struct tslab_options *ret);

/* -EINVAL: no such arena can be made. */
int options_geometry(const struct tslab_options *options, ShmGeometry *ret);

/* retain_bytes, in slabs. */
uint32_t options_retain(const struct tslab_options *options);

ShmCacheMode options_cache(const struct tslab_options *options);

bool options_huge(const struct tslab_options *options);

uint64_t options_timeout_usec(const struct tslab_options *options);
