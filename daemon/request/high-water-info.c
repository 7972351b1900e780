#include "daemon/request/high-water-info.h"

static void fill_class_marks(HighWaterInfo *info, const ShmHighWater *marks, const ShmArena *arena) {
        for (uint32_t i = 0; i < arena->n_classes; i++) {
                Tslab__ClassPeak *class = &info->classes[i];

                tslab__class_peak__init(class);
                class->size = arena->classes[i].size;
                class->slabs = marks->class_slabs[i];
                class->objects = marks->class_objects[i];
                info->class_pointers[i] = class;
        }
        info->info.classes = info->class_pointers;
        info->info.n_classes = arena->n_classes;
}

static void fill_requested_sizes(HighWaterInfo *info, const uint64_t *requested) {
        size_t n = 0;

        for (uint32_t i = 0; i < SHM_GRANULES_MAX; i++) {
                if (requested[i] == 0)
                        continue;
                tslab__asked_size__init(&info->asked[n]);
                info->asked[n].size = (i + 1) * SHM_CLASS_GRANULE;
                info->asked[n].n = requested[i];
                info->asked_pointers[n] = &info->asked[n];
                n++;
        }
        info->info.asked = info->asked_pointers;
        info->info.n_asked = n;
}

void high_water_info_init(HighWaterInfo *info, const HighWater *high_water, const ShmArena *arena) {
        const ShmHighWater *marks = high_water_get(high_water);
        Tslab__Peaks *p = &info->info;

        tslab__peaks__init(p);
        p->since_usec = marks->since_usec;
        p->looks = marks->n_looks;
        p->committed_bytes = marks->committed_slabs * SHM_SLAB_SIZE;
        p->used_bytes = marks->used_slabs * SHM_SLAB_SIZE;
        p->retained_bytes = marks->retained_slabs * SHM_SLAB_SIZE;
        p->swing_bytes = marks->swing_slabs * SHM_SLAB_SIZE;
        p->clients = marks->clients;
        p->threads = marks->threads;
        fill_class_marks(info, marks, arena);
        fill_requested_sizes(info, high_water_requested_sizes(high_water));
}
