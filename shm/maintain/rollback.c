/*
 * Rolling back
 *
 * Purpose: frees objects that a dead thread had allocated, or noted, and whose handle no other thread has.
 *
 * Invariants
 *   1. Tags are made even only while the record is DEAD. No slot of the record was given back by then, so the rollback
 *      can be broken off and begun again. Once the record is ROLLED_BACK a tag may be another thread's live object.
 *   2. An odd tag on top of a cache is an object whose handle no thread has: the owner died between the store of the
 *      tag and that of the count. This does not hold under FLUSH: top slots may have been given back, and be another
 *      thread's.
 *
 * Who may do what: the maintainer, on records whose owners are dead.
 *
 * Crash: the record is DEAD as before. The maintainer has notes of its own while it shortens a path; the next
 *   maintainer deals with them.
 */
#include "shm/maintain/rollback.h"

#include "shm/format/intent.h"
#include "shm/map/leaf/chain.h"
#include "shm/map/state/tally.h"
#include "shm/map/trie/trie-shrink.h"

bool shm_rollback_object(const ShmArena *arena, SlotId id, uint32_t tag) {
        uint32_t expected = tag;

        if (!(tag & 1) || slot_id_slab(id) >= shm_arena_n_slabs_ever(arena))
                return false;
        /* ORDER: acqrel, pairs with shm_object_copy(); the object is over before the slot is given back. */
        return shm_cas_acqrel(shm_slot_tag(arena, id), &expected, tag + 1);
}

static uint32_t odd_tag(const ShmArena *arena, SlotId id) {
        uint32_t tag;

        if (slot_id_slab(id) >= shm_arena_n_slabs_ever(arena))
                return 0;
        /* ORDER: acq, pairs with shm_uncached_free(); as it is now. */
        tag = shm_load_acq(shm_slot_tag(arena, id));
        return tag & 1 ? tag : 0;
}

/* Frees the deepest object first: if this is broken off, the tags above it are still odd. */
static uint64_t rollback_top(const ShmArena *arena, const ShmCacheWalk *walk) {
        uint32_t n = shm_cache_walk_count(walk), i = n;
        uint64_t n_made = 0;

        while (i > 0 && odd_tag(arena, shm_cache_walk_slot(walk, i - 1)) != 0)
                i--;
        for (; i < n; i++)
                n_made += shm_rollback_object(arena, shm_cache_walk_slot(walk, i),
                                              odd_tag(arena, shm_cache_walk_slot(walk, i)));
        return n_made;
}

/*
 * A leaf begins with the hash under which it is noted. Nodes of an index are noted, too: by chance, the words of a node
 * could look like the head of a chain, and name objects that are not its own.
 */
static bool note_has_leaf(const ShmArena *arena, uint64_t handle, uint64_t root, uint64_t hash) {
        uint64_t first;

        return root > SHM_NOTE_NAMED_ROOT && shm_object_copy(arena, handle, 0, &first, sizeof(first)) == 0 &&
               first == hash;
}

/*
 * Frees chunks at once, since they are in no record. They go before the leaf, which leads to them, so that this can be
 * begun again: see shm/map/leaf/chain.c.
 */
static uint64_t rollback_notes(ShmActor *control, const ShmRecord *r) {
        ShmArena *arena = control->arena;
        uint64_t n = 0;

        for (uint32_t i = 0; i < SHM_NOTES_MAX; i++) {
                uint64_t root = shm_load_rlx(&r->notes[i].root); /* ORDER: rlx; the owner is dead. */
                uint64_t hash = shm_load_rlx(&r->notes[i].hash); /* ORDER: rlx; as above. */
                uint64_t handle = shm_record_note(r, i);

                if (handle == 0 || !shm_object_live(arena, handle) ||
                    (root != 0 && shm_trie_contains(arena, root, hash, handle)))
                        continue;
                if (note_has_leaf(arena, handle, root, hash))
                        shm_chain_free_chunks(control, handle);
                n += shm_rollback_object(arena, shm_handle_slot(handle), shm_handle_tag(arena->key, handle));
        }
        return n;
}

void shm_rollback_paths(ShmActor *control, uint32_t record) {
        const ShmRecord *r = shm_arena_record(control->arena, record);

        for (uint32_t i = 0; i < SHM_NOTES_MAX; i++) {
                uint64_t root = shm_load_rlx(&r->notes[i].root); /* ORDER: rlx; the owner is dead. */
                uint64_t hash = shm_load_rlx(&r->notes[i].hash); /* ORDER: rlx; as above. */
                ShmTrie trie;

                if (shm_record_note(r, i) != 0 && root > SHM_NOTE_NAMED_ROOT &&
                    shm_trie_open(&trie, control->arena, root) == 0)
                        (void) shm_trie_shrink(control, &trie, hash);
        }
}

void shm_rollback_forget(ShmRecord *r) {
        for (uint32_t i = 0; i < SHM_NOTES_MAX; i++)
                if (shm_record_note(r, i) != 0)
                        shm_store_rlx(&r->notes[i].handle, 0); /* ORDER: rlx; before the record is free. */
        shm_store_rlx(&r->map, 0); /* ORDER: rlx; before the record is free. */
        shm_store_rlx(&r->guard, 0); /* ORDER: rlx; before the record is free. */
}

void shm_rollback_control(ShmActor *control) {
        for (uint32_t i = 0; i < SHM_NOTES_MAX; i++) {
                uint64_t root =
                        shm_load_rlx(&control->record->notes[i].root); /* ORDER: rlx; the maintainer's. */
                uint64_t hash = shm_load_rlx(&control->record->notes[i].hash); /* ORDER: rlx; the same. */
                uint64_t handle = shm_record_note(control->record, i);

                if (handle != 0 && root != 0 && !shm_trie_contains(control->arena, root, hash, handle))
                        (void) (note_has_leaf(control->arena, handle, root, hash)
                                        ? shm_chain_free(control, handle)
                                        : shm_object_free(control, handle));
        }
        shm_map_miscounted(control->arena, control->record);
        shm_rollback_paths(control, 0);
        shm_rollback_forget(control->record);
}

uint64_t shm_rollback_cache(const ShmArena *arena, uint32_t record, const ShmCacheWalk *walk) {
        if (shm_intent_flushed(shm_record_intent(arena, record), record, walk->index) != 0)
                return 0;
        return rollback_top(arena, walk);
}

uint64_t shm_rollback_named(ShmActor *control, uint32_t record) {
        ShmArena *arena = control->arena;
        ShmIntent intent = shm_record_intent(arena, record);
        uint64_t n = 0;

        if (intent.kind == SHM_INTENT_TAKE)
                n = shm_rollback_object(arena, intent.id, intent.tag);
        shm_map_miscounted(arena, shm_arena_record(arena, record));
        return n + rollback_notes(control, shm_arena_record(arena, record));
}
