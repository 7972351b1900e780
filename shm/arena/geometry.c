/* Sizes of a pool and of the parts of its arena. Plain values: nothing here touches the arena. */
#include "shm/arena/geometry.h"

#include <errno.h>

static int geometry_refuse(const char **ret_why, const char *why) {
        *ret_why = why;
        return -EINVAL;
}

static int geometry_check_classes(const ShmGeometry *g, const char **ret_why) {
        if (g->n_classes < 1 || g->n_classes > SHM_CLASSES_MAX)
                return geometry_refuse(ret_why, "a pool has 1 to 32 size classes");
        for (uint32_t i = 0; i < g->n_classes; i++) {
                uint32_t size = g->class_size[i];

                if (size < SHM_CLASS_SIZE_MIN || size > SHM_CLASS_SIZE_MAX || size % SHM_CLASS_GRANULE != 0)
                        return geometry_refuse(ret_why,
                                               "a size class is a multiple of 16 from 64 to 4096 bytes");
                if (i > 0 && size <= g->class_size[i - 1])
                        return geometry_refuse(ret_why, "size classes must rise");
        }
        return 0;
}

int shm_geometry_check(const ShmGeometry *g, const char **ret_why) {
        if (g->slabs_size < SHM_SLAB_SIZE || g->slabs_size > (uint64_t) SHM_SLABS_MAX * SHM_SLAB_SIZE)
                return geometry_refuse(ret_why, "a pool's size is 4 KiB to 64 GiB");
        if (g->slabs_size % SHM_SLAB_SIZE != 0)
                return geometry_refuse(ret_why, "a pool's size is a multiple of 4 KiB");
        if (g->n_records < 2 || g->n_records > SHM_RECORDS_MAX)
                return geometry_refuse(ret_why, "a pool has room for 1 to 4095 threads");
        if (g->n_epochs < 2 || g->n_epochs > SHM_EPOCHS_MAX)
                return geometry_refuse(ret_why, "a pool has 2 to 64 epochs");
        return geometry_check_classes(g, ret_why);
}

void shm_set_shape_init(ShmSetShape *shape, uint32_t n_slabs) {
        uint32_t words[SHM_SET_LEVELS_MAX];
        uint32_t n = n_slabs, off = 0;

        *shape = (ShmSetShape){};
        do {
                n = (n + 63) / 64;
                words[shape->n_levels++] = n;
        } while (n > 1);

        for (uint32_t level = 0; level < shape->n_levels; level++) {
                shape->level_words[level] = words[shape->n_levels - 1 - level];
                shape->level_off[level] = off;
                off += (shape->level_words[level] + 7) / 8 * 8;
        }
        shape->stride = off;
}

static uint64_t take_region(uint64_t *end, uint64_t size) {
        uint64_t off = *end;

        *end = (off + size + SHM_SLAB_SIZE - 1) / SHM_SLAB_SIZE * SHM_SLAB_SIZE;
        return off;
}

/* A region that fills huge pages begins with one. */
static uint64_t take_huge_region(uint64_t *end, uint64_t size) {
        if (size >= SHM_HUGE_SIZE)
                *end = (*end + SHM_HUGE_SIZE - 1) / SHM_HUGE_SIZE * SHM_HUGE_SIZE;
        return take_region(end, size);
}

void shm_geometry_offsets(const ShmGeometry *g, ShmOffsets *ret) {
        uint64_t n_slabs = g->slabs_size / SHM_SLAB_SIZE;
        uint64_t n_caches = shm_n_caches(g->n_epochs, g->n_classes);
        uint64_t n_sets = 2 + g->n_epochs + (uint64_t) g->n_epochs * g->n_classes + SHM_SET_MAPS;
        uint64_t end = 0;
        ShmOffsets o = {};

        shm_set_shape_init(&o.shape, (uint32_t) n_slabs);
        take_region(&o.record_stride, sizeof(ShmRecord) + n_caches * sizeof(ShmCache));
        take_region(&end, sizeof(ShmHeader));
        o.clients = take_region(&end, (uint64_t) g->n_records * (sizeof(ShmClient) + sizeof(ShmHolds)));
        o.heads = take_region(&end, (uint64_t) g->n_records * sizeof(ShmRecordHead));
        o.records = take_region(&end, g->n_records * o.record_stride);
        o.changed = end;
        o.sets = end + shm_changed_words((uint32_t) n_slabs) * sizeof(uint64_t);
        take_region(&end, o.sets - end + n_sets * o.shape.stride * sizeof(uint64_t));
        o.lines = take_huge_region(&end, n_slabs * sizeof(ShmSlabLine));
        o.tags = take_huge_region(&end, n_slabs * sizeof(ShmTags));
        o.shortcuts = take_huge_region(&end, n_slabs * sizeof(ShmShortcuts));
        o.slabs = take_huge_region(&end, g->slabs_size);
        o.total = end;
        *ret = o;
}
