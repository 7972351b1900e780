/*
 * Metadata of an allocator
 *
 * Purpose: the members of temporal-slab's struct that programs read there.
 * Invariants: 1. labels are registered under the pool's call_lock, which is free in a forked child; a label has one
 *    id as long as the allocator lives.
 * Who may do what: any thread of this process writes; no code decides by the metadata.
 * Crash: it is this process's, and ends with it.
 */
#include "slab-alloc/metadata.h"

#include <string.h>

static void put_figure(uint64_t *p, uint64_t value) {
        shm_hint_store(p, value);
}

uint64_t metadata_era(uint32_t number) {
        uint32_t id = number & 0xff, era = number >> 8;

        if (era <= 1)
                return 0;
        /* All ids are open in era 1, and the ring comes to id 1 first. */
        return (uint64_t) (era - (id == 0 ? 1 : 2)) * ALLOCATOR_EPOCHS + id;
}

void metadata_init(SlabAllocator *alloc) {
        strcpy(alloc->label_registry.labels[0], "(unlabeled)");
        alloc->label_registry.count = 1;
}

void metadata_set_opened(SlabAllocator *alloc, uint32_t number) {
        EpochMetadata *meta = &alloc->epoch_meta[number & 0xff];

        put_figure(&alloc->epoch_era_counter, metadata_era(number));
        put_figure(&alloc->epoch_era[number & 0xff], metadata_era(number));
        put_figure(&meta->open_since_ns, now_ns());
        put_figure(&meta->rss_before_close, 0);
        put_figure(&meta->rss_after_close, 0);
        metadata_set_label(alloc, number & 0xff, "");
}

void metadata_set_closed(SlabAllocator *alloc, EpochId epoch, uint64_t rss_before, uint64_t rss_after) {
        put_figure(&alloc->epoch_meta[epoch].rss_before_close, rss_before);
        put_figure(&alloc->epoch_meta[epoch].rss_after_close, rss_after);
}

/* 0: no label, or more than there are ids for. */
static uint8_t find_label_id(LabelRegistry *registry, const char *label) {
        if (!label[0])
                return 0;
        for (uint8_t id = 1; id < registry->count; id++)
                if (strcmp(registry->labels[id], label) == 0)
                        return id;
        if (registry->count == SLAB_LABEL_IDS)
                return 0;
        strcpy(registry->labels[registry->count], label);
        return registry->count++;
}

void metadata_set_label(SlabAllocator *alloc, EpochId epoch, const char *label) {
        Lock *lock = &allocator_state(alloc)->pool->local->call_lock;
        EpochMetadata *meta = &alloc->epoch_meta[epoch];

        (void) lock_take(lock);
        meta->label_id = find_label_id(&alloc->label_registry, label);
        strcpy(meta->label, label);
        lock_release(lock);
}
