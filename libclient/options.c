#include "libclient/options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define TIMEOUT_MS_DEFAULT 5000

int options_load_sized(void *ret, size_t size, const void *options) {
        const uint8_t *bytes = options;
        size_t given;

        memcpy(&given, options, sizeof(given));
        if (given < sizeof(given) || given > 4096)
                return -EINVAL;
        /* A later version's fields mean this version's behaviour where they are 0. */
        for (size_t i = size; i < given; i++)
                if (bytes[i] != 0)
                        return -EINVAL;
        memcpy(ret, options, given < size ? given : size);
        return 0;
}

int options_load(const struct tslab_options *given, struct tslab_options *ret) {
        struct tslab_options options = { .size = sizeof(options) };

        if (given && options_load_sized(&options, sizeof(options), given) < 0)
                return -EINVAL;
        if (options.flags & ~TSLAB_READER || options.cache > TSLAB_CACHE_OFF || options.huge > 1)
                return -EINVAL;
        *ret = options;
        return 0;
}

int options_geometry(const struct tslab_options *options, ShmGeometry *ret) {
        static const uint32_t classes[] = SHM_CLASSES_DEFAULT;
        uint64_t n_threads = options->n_threads ? options->n_threads : SHM_N_THREADS_DEFAULT;
        ShmGeometry g = {
                .slabs_size = options->arena_bytes ? options->arena_bytes : SHM_SIZE_DEFAULT,
                .n_epochs = options->n_epochs ? options->n_epochs : SHM_N_EPOCHS_DEFAULT,
                .n_classes = options->n_classes ? options->n_classes : SHM_N_CLASSES_DEFAULT,
        };
        const char *why;

        if (g.n_classes > SHM_CLASSES_MAX || n_threads >= SHM_RECORDS_MAX)
                return -EINVAL;
        g.n_records = (uint32_t) n_threads + 1;
        memcpy(g.class_size, options->n_classes ? options->classes : classes,
               g.n_classes * sizeof(classes[0]));
        if (shm_geometry_check(&g, &why) < 0)
                return -EINVAL;
        *ret = g;
        return 0;
}

uint32_t options_retain(const struct tslab_options *options) {
        uint64_t bytes = options->retain_bytes ? options->retain_bytes : SHM_RETAIN_DEFAULT;

        return bytes / SHM_SLAB_SIZE < SHM_SLABS_MAX ? (uint32_t) (bytes / SHM_SLAB_SIZE) : SHM_SLABS_MAX;
}

ShmCacheMode options_cache(const struct tslab_options *options) {
        static const ShmCacheMode modes[] = {
                [TSLAB_CACHE_ADAPTIVE] = SHM_CACHE_ADAPTIVE,
                [TSLAB_CACHE_ON] = SHM_CACHE_ON,
                [TSLAB_CACHE_OFF] = SHM_CACHE_OFF,
        };
        const char *name = getenv("TSLAB_CACHE");

        if (name && strcmp(name, "on") == 0)
                return SHM_CACHE_ON;
        if (name && strcmp(name, "off") == 0)
                return SHM_CACHE_OFF;
        if (name && strcmp(name, "adaptive") == 0)
                return SHM_CACHE_ADAPTIVE;
        return modes[options->cache];
}

bool options_huge(const struct tslab_options *options) {
        const char *name = getenv("TSLAB_HUGE");

        if (name && (strcmp(name, "yes") == 0 || strcmp(name, "1") == 0))
                return true;
        if (name && (strcmp(name, "no") == 0 || strcmp(name, "0") == 0))
                return false;
        return options->huge;
}

uint64_t options_timeout_usec(const struct tslab_options *options) {
        if (options->timeout_ms == UINT32_MAX)
                return UINT64_MAX;
        return (options->timeout_ms ? options->timeout_ms : TIMEOUT_MS_DEFAULT) * UINT64_C(1000);
}
