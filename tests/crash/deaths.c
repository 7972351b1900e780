#include "tests/crash/deaths.h"

#include <stdio.h>

#include "shm/arena/cache-walk.h"
#include "shm/arena/client.h"

static uint32_t tag_of(const ShmArena *arena, SlotId id) {
        /* ORDER: acq, pairs with shm_uncached_free(); the thread is dead, or freed long ago. */
        return shm_load_acq(shm_slot_tag(arena, id));
}

static void add(Deaths *deaths, SlotId id, uint32_t tag) {
        uint32_t i = deaths->n_unreturned;

        if (i < sizeof(deaths->unreturned) / sizeof(deaths->unreturned[0])) {
                deaths->unreturned[i].id = id;
                deaths->unreturned[i].tag = tag;
                deaths->n_unreturned++;
        }
}

static void note_tops(Deaths *deaths, const ShmArena *arena, const ShmCacheWalk *walk) {
        for (uint32_t i = shm_cache_walk_count(walk); i > 0; i--) {
                /* ORDER: rlx; the owner is dead. */
                SlotId id = { shm_load_rlx(&walk->cache->slots[i - 1]) & SHM_SLOT_ID_MASK };
                uint32_t tag = tag_of(arena, id);

                if (!(tag & 1))
                        return;
                add(deaths, id, tag);
                deaths->n_odd++;
        }
}

static void note_record(Deaths *deaths, const ShmArena *arena, uint32_t record) {
        ShmIntent intent = shm_record_intent(arena, record);

        deaths->n_intents[intent.kind]++;
        if (intent.kind == SHM_INTENT_TAKE && tag_of(arena, intent.id) == intent.tag)
                add(deaths, intent.id, intent.tag);
        for (ShmCacheWalk walk = {}; shm_cache_walk_next(&walk, arena, record);)
                if (intent.kind != SHM_INTENT_FLUSH || intent.arg >> 9 != walk.index)
                        note_tops(deaths, arena, &walk);
}

void deaths_note(Deaths *deaths, const ShmArena *arena, pid_t pid) {
        ShmClientInfo info;
        ShmRecordOwner owner;

        for (uint32_t i = 0; i < arena->n_records; i++) {
                if (shm_client_get(arena, i, &info) || info.pid != pid)
                        continue;
                for (uint32_t record = 1; record < shm_arena_n_records_ever(arena); record++) {
                        owner = shm_record_owner(arena, record);
                        if (owner.state == SHM_RECORD_USED && owner.client == i)
                                note_record(deaths, arena, record);
                }
        }
}

uint32_t deaths_left(const Deaths *deaths, const ShmArena *arena) {
        uint32_t n = 0;

        for (uint32_t i = 0; i < deaths->n_unreturned; i++)
                n += tag_of(arena, deaths->unreturned[i].id) == deaths->unreturned[i].tag;
        return n;
}

void deaths_print(const Deaths *deaths) {
        static const char *const names[DEATHS_KINDS] = { "none",  "FREE", "TAKE", "CLAIM",
                                                         "FLUSH", "SLAB", "RUN" };

        printf("killed under");
        for (int kind = 0; kind < DEATHS_KINDS; kind++)
                printf(" %s %llu,", names[kind], (unsigned long long) deaths->n_intents[kind]);
        printf(" with %llu tags odd on top\n", (unsigned long long) deaths->n_odd);
}
