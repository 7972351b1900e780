/* The size classes of an allocator. */
#include "slab-alloc/classes.h"

#include <stdlib.h>
#include <string.h>

/* The next number of a list, and where it ends. 0: there is none, or no class can have this size. */
static uint32_t read_size(const char *text, const char **ret_end) {
        uint32_t size = 0;

        for (; *text >= '0' && *text <= '9'; text++)
                size = size < ALLOCATOR_CLASS_MAX ? size * 10 + (uint32_t) (*text - '0')
                                                  : ALLOCATOR_CLASS_MAX + 1;
        *ret_end = text;
        return size < SHM_CLASS_SIZE_MIN || size > ALLOCATOR_CLASS_MAX || size % SHM_CLASS_GRANULE != 0
                       ? 0
                       : size;
}

static bool read_list(AllocatorClasses *classes, const char *text) {
        uint32_t size, last = 0;

        for (classes->n = 0; classes->n < ALLOCATOR_CLASSES_MAX; text++) {
                size = read_size(text, &text);
                if (size <= last || (*text != ',' && *text != '\0'))
                        return false;
                classes->sizes[classes->n++] = last = size;
                if (*text == '\0')
                        return true;
        }
        return false;
}

/* A class that stands where the larger one of the class before would stand serves both, and counts for itself. */
static void add_pool_classes(AllocatorClasses *classes) {
        for (uint32_t i = 0; i < classes->n; i++) {
                uint32_t larger = classes->sizes[i] + ALLOCATOR_HEAD_SIZE;

                classes->known[classes->n_pool] = (uint8_t) i;
                classes->pool_sizes[classes->n_pool++] = classes->sizes[i];
                if (i + 1 < classes->n && classes->sizes[i + 1] == larger)
                        continue;
                classes->known[classes->n_pool] = (uint8_t) i;
                classes->pool_sizes[classes->n_pool++] = larger;
        }
}

bool classes_read(AllocatorClasses *classes) {
        static const uint32_t sizes[] = ALLOCATOR_CLASSES;
        const char *text = secure_getenv("TSLAB_CLASSES");
        uint32_t class = 0;

        *classes = (AllocatorClasses){ .n = ALLOCATOR_N_CLASSES };
        memcpy(classes->sizes, sizes, sizeof(sizes));
        if (text && !read_list(classes, text))
                return false;
        /* A word of the pool that is garbage has a class that no program knows. */
        memset(classes->known, UINT8_MAX, sizeof(classes->known));
        add_pool_classes(classes);
        for (uint32_t size = SHM_CLASS_GRANULE; size <= classes_size_max(classes);
             size += SHM_CLASS_GRANULE) {
                class += size > classes->sizes[class];
                classes->size_of[size / SHM_CLASS_GRANULE - 1] = (uint16_t) classes->sizes[class];
        }
        return true;
}
