/*
 * Maps: the hands of eviction
 *
 * Purpose: moves the hand of each class, in sweeps of two kinds (shm/map/evict/evict.c).
 *
 * Invariants
 *   1. A hand is one word. A thread moves it by compare-and-set, and then looks at the slots that it moved the hand
 *      past. So threads that evict at the same time look at different slots.
 *   2. All else here is a hint: the counts only decide which kind the next sweep is of.
 *
 * Who may do what: a put, with its own actor.
 *
 * Crash: slots that a killed thread moved the hand past are looked at in the next sweep. No thread waits for a stopped
 *   one: the others move the hand on.
 */
#include "shm/map/evict/evict-hand.h"

/*
 * If a sweep evicts, and the entries put in it are more than this share of all that it passed, a young sweep follows.
 * With a share of 32 an access log misses up to 2 points more, since entries that are never used stay for a full sweep.
 * Each young sweep is shorter by the entries that the one before spared. So only few sweeps have so few young entries
 * that a put passes many slabs: puts take as long as with 32.
 */
#define YOUNG_SHARE 256

static bool is_behind(uint64_t a, uint64_t b) {
        return (int64_t) ((a >> SLAB_SHIFT << SLAB_SHIFT) - (b >> SLAB_SHIFT << SLAB_SHIFT)) < 0;
}

bool shm_hand_move(const ShmTrie *trie, uint32_t class, uint64_t *w, uint64_t next) {
        /* ORDER: acqrel; the slots that it passes are looked at afterwards. */
        if (!shm_cas_acqrel(&hand_of(trie, class)->place, w, next))
                return false;
        *w = next;
        return true;
}

/*
 * Sweeps with one number are of one kind in all classes: otherwise the young sweep of one class would take as long as
 * the full sweep of another. The first hand that begins the next sweep decides, by the entries that were put meanwhile:
 * a young sweep passes these. If nothing was evicted, older entries come first, in a full sweep.
 */
static ShmHand hand_next_sweep(const ShmTrie *trie, ShmHand h) {
        uint64_t classes = classes_in_use(trie), evicted = 0, put = 0, entries = 0;

        for (; classes != 0; classes &= classes - 1) {
                const ShmMapHand *hand = hand_of(trie, (uint32_t) __builtin_ctzll(classes));
                ShmHand other = hand_unpack(shm_hint_load(&hand->place));

                if (other.sweep == h.sweep + 1)
                        return (ShmHand){ .sweep = other.sweep, .young = other.young };
                if (other.sweep != h.sweep)
                        continue;
                evicted += shm_hint_load(&hand->evicted);
                put += shm_hint_load(&hand->put);
                entries += shm_hint_load(other.young ? &hand->entries : &hand->passed);
        }
        return (ShmHand){ .sweep = h.sweep + 1, .young = evicted > 0 && put * YOUNG_SHARE > entries };
}

/* A sweep is over. Counts that other threads add at the same time are lost. */
static void hand_reset(const ShmTrie *trie, uint32_t class, bool young) {
        ShmMapHand *hand = hand_of(trie, class);
        uint32_t passed = shm_hint_load(&hand->passed);

        if (!young)
                shm_hint_store(&hand->entries, passed);
        shm_hint_store(&hand->passed, 0);
        shm_hint_store(&hand->evicted, 0);
        shm_hint_store(&hand->put, 0);
}

void shm_hand_end(const ShmTrie *trie, uint32_t class, uint64_t *w) {
        uint32_t n_slabs = shm_arena_n_slabs_ever(trie->arena);
        ShmHand h = hand_unpack(*w), at_end = { .sweep = h.sweep, .slab = n_slabs, .young = h.young };

        if (h.slab < n_slabs)
                (void) shm_hand_move(trie, class, w, hand_pack(at_end));
        else if (shm_hand_move(trie, class, w, hand_pack(hand_next_sweep(trie, h))))
                hand_reset(trie, class, h.young);
}

uint32_t shm_hand_hindmost(const ShmTrie *trie, uint64_t *ret_last, uint64_t *ret_first) {
        uint64_t classes = classes_in_use(trie);
        uint32_t hindmost = (uint32_t) __builtin_ctzll(classes | UINT64_C(1) << (SHM_CLASSES_MAX - 1));

        *ret_last = *ret_first = hand_load(trie, hindmost);
        for (; classes != 0; classes &= classes - 1) {
                uint32_t class = (uint32_t) __builtin_ctzll(classes);
                uint64_t w = hand_load(trie, class);

                if (is_behind(w, *ret_last)) {
                        hindmost = class;
                        *ret_last = w;
                }
                if (is_behind(*ret_first, w))
                        *ret_first = w;
        }
        return hindmost;
}

uint32_t shm_hand_next_class(const ShmTrie *trie, uint64_t *ret_w) {
        uint64_t first;
        uint32_t class = shm_hand_hindmost(trie, ret_w, &first);
        int32_t lead = sweeps_ahead(first, *ret_w);

        if (lead > LEAD_MAX)
                (void) shm_hand_move(trie, class, ret_w, *ret_w + ((uint64_t) (lead & ~1) << SWEEP_SHIFT));
        return class;
}
