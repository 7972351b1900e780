#include "daemon/request/high-water-info.h"

static void fill_classes(PeaksInfo *info, const ShmPeaks *marks, const ShmArena *arena) {
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

static void fill_asked(PeaksInfo *info, const uint64_t *asked) {
        size_t n = 0;

        for (uint32_t i = 0; i < SHM_GRANULES_MAX; i++) {
                if (asked[i] == 0)
                        continue;
                tslab__asked_size__init(&info->asked[n]);
                info->asked[n].size = (i + 1) * SHM_CLASS_GRANULE;
                info->asked[n].n = asked[i];
                info->asked_pointers[n] = &info->asked[n];
                n++;
        }
        info->info.asked = info->asked_pointers;
        info->info.n_asked = n;
}

void peaks_info_init(PeaksInfo *info, const Peaks *peaks, const ShmArena *arena) {
        const ShmPeaks *marks = peaks_get(peaks);
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
        fill_classes(info, marks, arena);
        fill_asked(info, peaks_asked(peaks));
}
