/*
 * Maps: cells
 *
 * Purpose: sums and token buckets that change in place.
 *
 * Invariants
 *   1. A change is one compare-and-set of the cell's word, from a value that was read while the leaf was live, and
 *      under a guard of the leaf. It is done once or not at all, whatever becomes of the leaf: its word is closed
 *      before the slot is another's (shm/map/leaf/leaf.h). If the leaf was unlinked meanwhile, the change counts as one
 *      from before the unlinking: its call had begun by then. shm_map_add_at() does not look the leaf up: beside a
 *      delete that is under way it may still find the cell where others find no key.
 *   2. A cell is put only where its key is absent (SHM_MAP_INSERT): of two threads that make one, the later one adds to
 *      the other's.
 *   3. The word of a bucket is the time at which the bucket will be full again ("theoretical arrival time"). The leaf
 *      does not end before that: a thread moves the leaf's end first, then changes the word.
 *   4. A thread keeps in its actor the word of the index that led to the cell that it found last. Without a walk, the
 *      cell is the key's only if that word still names it and the word's node is live after that look: then the leaf is
 *      linked, as in shm_trie_reload(). The thread looks at the leaf's tag after that. The tag alone would not do: a
 *      deleted leaf is live for a moment in which others find no key any more.
 *
 * Who may do what: writers.
 *
 * Crash: before the compare-and-set nothing was added, after it all. A put is done or not.
 */
#include "shm/map/entry/cell.h"

#include "shm/arena/root.h"
#include "shm/map/evict/evict.h"
#include "shm/map/state/lifetime.h"
#include "shm/map/trie/trie-walk.h"
#include "shm/slab/tags.h"

#define KEEP_MS 1000 /* a bucket's end is moved at most so often */
#define KEEP_NEW_MS 2 /* the first end is sooner: keys that come once, however many, take little memory */
#define LATE_NS (50 * SHM_NS_PER_MS) /* ticks of a virtual machine may come so late */
#define LACKS_NS_MAX (UINT64_C(1) << 63) /* no bucket takes so long to fill: the word is damaged */
#define TURN_TICKS 4000 /* 1 to 2 us */
#define OFTEN_TICKS 500 /* mean time of a change, up to which a thread takes turns */

/* The word of a leaf that was live. */
typedef struct Cell {
        uint64_t leaf;
        uint64_t *word;
} Cell;

static bool load_cell(const ShmTrie *trie, Cell cell, uint64_t *ret_value) {
        /* ORDER: acq; before the tag: it was this leaf's. */
        *ret_value = shm_load_acq(cell.word) ^ shm_leaf_seal(cell.leaf);
        /* ORDER: acq, pairs with shm_uncached_free(); so was what was read of it before. */
        shm_fence_acq();
        return trie_live(trie->arena, cell.leaf);
}

/*
 * Whether this thread is to pause, and to leave the cell to another thread for a turn. A thread that comes upon
 * another's change moves the cache line, which takes longer than an add. Where two threads do little but add, it is
 * faster if one makes many changes while the other pauses. Measured with two processes, by key: 77 ns an add. Without
 * turns it takes 123: each thread waits for the line every time, and then its compare-and-set always succeeds. A locked
 * addition takes 45. For a thread with work of 60 ns or more between two changes, turns would take longer than moving
 * the line.
 *
 * The mean time of a change counts from the moment when this thread last came upon another's change. That was before
 * its own pause. So a thread that just paused finds few changes in much time, and goes on.
 */
static bool is_others_turn(ShmCellTurn *turn, uint64_t cell, uint64_t value) {
        uint64_t begun = turn->begun, n = turn->n + 1;

        if (__builtin_expect(turn->leaf != cell, 0)) {
                *turn = (ShmCellTurn){ .leaf = cell, .value = value };
                return false;
        }
        turn->n = n;
        if (__builtin_expect(value == turn->value, 1))
                return false;
        *turn = (ShmCellTurn){ .leaf = cell, .value = value, .begun = shm_ticks() };
        return turn->begun - begun <= n * OFTEN_TICKS;
}

/* Loads as load_cell() does, after a pause if it is another thread's turn. */
static inline bool load_in_turn(ShmActor *actor, const ShmTrie *trie, Cell cell, uint64_t *ret_value) {
        if (!load_cell(trie, cell, ret_value))
                return false;
        if (__builtin_expect(!is_others_turn(&actor->turn, cell.leaf, *ret_value), 1))
                return true;
        shm_pause(TURN_TICKS);
        return load_cell(trie, cell, ret_value);
}

/* False: the cell has another value by now, or is no more. */
static bool change_cell(ShmActor *actor, Cell cell, uint64_t value, uint64_t next) {
        uint64_t seal = shm_leaf_seal(cell.leaf), expected = value ^ seal;
        bool done;

        if (!shm_actor_guard(actor, cell.leaf))
                return false;
        /* ORDER: acqrel; the sums of all who added are in one order. */
        done = shm_cas_acqrel(cell.word, &expected, next ^ seal);
        shm_actor_unguard(actor);
        if (done)
                actor->turn.value = next;
        return done;
}

/* Whether the time of the cell that was found last is over. The answer counts if the leaf is live after that. */
static inline bool is_found_over(ShmFoundCell *found, const ShmTrie *trie) {
        const ShmMapLeaf *leaf = (const ShmMapLeaf *) found->key - 1;

        /* ORDER: rlx; read whole. */
        found->expires = shm_load_rlx(&leaf->expires) ^ shm_leaf_seal(found->leaf);
        return __builtin_expect(found->expires != 0, 0) &&
               shm_map_is_past(trie, found->expires & ~SHM_LEAF_SETTLED);
}

/* Tag and object may have been given back to the system since they were found. Reading them would make pages anew. */
static inline bool is_found_live(const ShmArena *arena, uint64_t handle) {
        return !shm_tags_away(arena, slot_id_slab(shm_handle_slot(handle))) && trie_live(arena, handle);
}

/* Whether the cell that this thread found last is the key's, and was linked at a moment inside this call. */
static inline bool is_found_again(ShmFoundCell *found, const ShmTrie *trie, const ShmMapKey *key,
                                  uint32_t flags) {
        const TrieLink link = { found->word, found->leaf ^ shm_trie_seal(found->node), found->node };

        return found->root == trie->root && found->flags == flags && found->key_size == key->size &&
               is_found_live(trie->arena, found->leaf) && shm_racy_equal(found->key, key->bytes, key->size) &&
               !is_found_over(found, trie) && is_found_live(trie->arena, found->node) &&
               trie_link_holds(trie, link) && !trie_is_removed(trie);
}

/* -ENOENT; -EINVAL: the entry is of another kind; -EIDRM. */
__attribute__((noinline)) static int seek_cell(ShmActor *actor, const ShmTrie *trie, ShmMapKey *key,
                                               uint32_t flags) {
        ShmTrieCursor c;
        ShmMapView view;
        int r;

        if (key->hash == SHM_CELL_HASH_LATER)
                key->hash = shm_hash(trie->arena, key->bytes, key->size);
        r = shm_map_find(trie, key, &c, &view);
        if (r)
                return r < 0 ? r : -ENOENT;
        if (view.is_over)
                return -ENOENT;
        if (view.head.flags != flags)
                return -EINVAL;
        actor->found = (ShmFoundCell){
                .root = c.frozen ? 0 : trie->root, /* 0: it is not found again */
                .leaf = view.handle,
                .key = view.bytes,
                .cell = shm_map_view_cell(&view),
                .key_size = key->size,
                .flags = flags,
                .expires = view.expires | (view.is_settled ? SHM_LEAF_SETTLED : 0),
                .node = c.node,
                .word = c.word,
        };
        return 0;
}

/* `flags`: those that the leaf must have. Errors of seek_cell(). */
static inline int find_cell(ShmActor *actor, const ShmTrie *trie, ShmMapKey *key, uint32_t flags, Cell *ret,
                            uint64_t *ret_value) {
        int r;

        do {
                r = is_found_again(&actor->found, trie, key, flags) ? 0 : seek_cell(actor, trie, key, flags);
                if (r)
                        return r;
                *ret = (Cell){ actor->found.leaf, actor->found.cell };
        } while (!load_in_turn(actor, trie, *ret, ret_value));
        shm_evict_visit(trie, ret->leaf);
        return 0;
}

/* -EEXIST: another thread put the key first. */
static int put_cell(ShmActor *actor, const ShmTrie *trie, const ShmMapKey *key, ShmMapPut put,
                    uint64_t value) {
        put.mode = SHM_MAP_INSERT;
        put.value = &value;
        put.value_size = sizeof(value);
        return shm_map_put(actor, trie, key, &put, NULL);
}

static int put_counter(ShmActor *actor, const ShmTrie *trie, const ShmMapKey *key, const ShmMapAdd *add,
                       uint64_t value) {
        const ShmMapPut put = { .flags = SHM_LEAF_CELL, .ttl_ms = add->ttl_ms, .epoch = add->epoch };

        return put_cell(actor, trie, key, put, value);
}

/* False: the sum is out of range. */
static inline bool add_to_value(const ShmMapAdd *add, int64_t value, uint64_t *ret) {
        int64_t sum;

        if (__builtin_expect(add->mode == SHM_MAP_ADD_SET, 0)) {
                *ret = (uint64_t) add->delta;
                return true;
        }
        if (__builtin_expect(__builtin_add_overflow(value, add->delta, &sum), 0) && add->mode == SHM_MAP_ADD)
                return false;
        *ret = (uint64_t) sum;
        return true;
}

/* -EEXIST: the leaf is no more; -EOVERFLOW. */
static inline int add_to_cell(ShmActor *actor, const ShmTrie *trie, Cell cell, uint64_t value,
                              const ShmMapAdd *add, uint64_t *ret) {
        do {
                if (!add_to_value(add, (int64_t) value, ret))
                        return -EOVERFLOW;
                if (change_cell(actor, cell, value, *ret))
                        return 0;
        } while (load_in_turn(actor, trie, cell, &value));
        return -EEXIST;
}

int shm_map_add(ShmActor *actor, const ShmTrie *trie, ShmMapKey *key, const ShmMapAdd *add, int64_t *ret) {
        uint64_t value, next = 0;
        Cell cell;
        int r;

        do {
                r = find_cell(actor, trie, key, SHM_LEAF_CELL, &cell, &value);
                if (r == -ENOENT)
                        r = add_to_value(add, add->initial, &next) ? put_counter(actor, trie, key, add, next)
                                                                   : -EOVERFLOW;
                else if (r == 0)
                        r = add_to_cell(actor, trie, cell, value, add, &next);
        } while (r == -EEXIST);
        if (r == 0)
                *ret = (int64_t) next;
        return r;
}

/* Whether the cell is a counter of this map. Counters of a map without a name all have the map 0. */
static bool is_counter_of(const ShmTrie *trie, const ShmMapView *view) {
        return view->head.flags == SHM_LEAF_CELL && view->head.map == trie->map;
}

/* SHM_TRIE_E_CHANGED: the counter has another end by now. */
static int add_at_once(ShmActor *actor, const ShmTrie *trie, uint64_t cell, int64_t delta, uint64_t *ret) {
        const ShmMapAdd add = { .delta = delta };
        ShmMapView view;
        uint64_t value;
        Cell at;
        int r;

        if (shm_map_view(trie->arena, cell, &view) != 0)
                return -ESTALE;
        if (!is_counter_of(trie, &view))
                return shm_map_view_live(trie->arena, &view) ? -EINVAL : -ESTALE;
        at = (Cell){ cell, shm_map_view_cell(&view) };
        if (!load_in_turn(actor, trie, at, &value))
                return -ESTALE;
        if (shm_map_is_over(trie, &view))
                return shm_map_settle_end(actor, &view) ? -ESTALE : SHM_TRIE_E_CHANGED;
        r = add_to_cell(actor, trie, at, value, &add, ret);
        return r == -EEXIST ? -ESTALE : r;
}

int shm_map_add_at(ShmActor *actor, const ShmTrie *trie, uint64_t cell, int64_t delta, int64_t *ret) {
        uint64_t next = 0;
        int r;

        if (trie_is_removed(trie))
                return -EIDRM;
        do {
                r = add_at_once(actor, trie, cell, delta, &next);
        } while (r == SHM_TRIE_E_CHANGED);
        if (r)
                return r;
        shm_evict_visit(trie, cell);
        *ret = (int64_t) next;
        return 0;
}

/* False: the bucket has fewer tokens than the cost. */
static bool take_tokens(const ShmMapRate *rate, uint64_t now_ns, uint64_t full_ns, uint64_t *ret_full_ns,
                        uint64_t *ret_wait_ns) {
        /*
         * A time that is past means a full bucket. A bucket lacks more than the burst if it became empty with a larger
         * one. Then its tokens come as late as the word says, and so does the time to wait for them.
         */
        uint64_t lacks_ns = full_ns <= now_ns ? 0 : full_ns - now_ns;

        lacks_ns = (lacks_ns < LACKS_NS_MAX ? lacks_ns : LACKS_NS_MAX) + rate->cost_ns;
        *ret_full_ns = now_ns + lacks_ns;
        *ret_wait_ns = lacks_ns - rate->burst_ns;
        return lacks_ns <= rate->burst_ns;
}

/*
 * By the clock of ticks alone, a bucket that holds one token and gets 100 a second would give 55 to 83: it becomes full
 * between two ticks, and loses the tokens that come after that. But the exact clock is not needed if the clock of ticks
 * sees enough tokens, and the bucket is not full yet even if this tick is LATE_NS old.
 */
static bool take_tokens_now(const ShmTrie *trie, const ShmMapRate *rate, uint64_t full_ns,
                            uint64_t *ret_full_ns, uint64_t *ret_wait_ns) {
        uint64_t now_ns = trie->now_ns(trie->arena);

        if (full_ns > now_ns + LATE_NS && full_ns <= now_ns + rate->burst_ns &&
            take_tokens(rate, now_ns, full_ns, ret_full_ns, ret_wait_ns))
                return true;
        return take_tokens(rate, trie->exact_ns(trie->arena), full_ns, ret_full_ns, ret_wait_ns);
}

/*
 * The end of a leaf: `keep_ms` after its bucket is full again, at `full_ns`. It may be past already, if the thread was
 * held up.
 */
static uint64_t bucket_end_ms(uint64_t full_ns, uint32_t keep_ms) {
        return full_ns / SHM_NS_PER_MS + keep_ms;
}

/* Moves the end of the leaf if it comes before the bucket is full. False: another thread has changed the end. */
static bool keep_bucket(ShmActor *actor, uint64_t full_ns) {
        const ShmFoundCell *found = &actor->found;
        const ShmMapView view = { .handle = found->leaf, .bytes = found->key, .expires = found->expires };
        uint64_t end_ms = found->expires & ~SHM_LEAF_SETTLED;

        if (end_ms == 0 || end_ms > full_ns / SHM_NS_PER_MS)
                return true;
        /* The end becomes a later one, so passes need not be told. */
        return shm_map_set_end(actor, &view, bucket_end_ms(full_ns, KEEP_MS));
}

static int put_bucket(ShmActor *actor, const ShmTrie *trie, const ShmMapKey *key, uint64_t full_ns,
                      uint32_t epoch) {
        const ShmMapPut put = {
                .flags = SHM_LEAF_CELL | SHM_LEAF_BUCKET,
                .end_ms = bucket_end_ms(full_ns, KEEP_NEW_MS),
                .epoch = epoch,
        };

        return put_cell(actor, trie, key, put, full_ns);
}

int shm_map_limit(ShmActor *actor, const ShmTrie *trie, ShmMapKey *key, const ShmMapRate *rate,
                  uint64_t *ret_wait_ns) {
        uint64_t full_ns, next_ns, wait_ns;
        int r, found;
        Cell cell;

        do {
                found = find_cell(actor, trie, key, SHM_LEAF_CELL | SHM_LEAF_BUCKET, &cell, &full_ns);
                if (found != 0 && found != -ENOENT)
                        return found;
                /* Not even a full bucket, for which there may be no memory. */
                if (rate->cost_ns == 0) {
                        *ret_wait_ns = 0;
                        return 0;
                }
                if (!take_tokens_now(trie, rate, found == 0 ? full_ns : 0, &next_ns, &wait_ns)) {
                        *ret_wait_ns = wait_ns;
                        return 1;
                }
                if (found == -ENOENT)
                        r = put_bucket(actor, trie, key, next_ns, rate->epoch);
                else
                        r = keep_bucket(actor, next_ns) && change_cell(actor, cell, full_ns, next_ns)
                                    ? 0
                                    : -EEXIST;
        } while (r == -EEXIST);
        if (r == 0)
                *ret_wait_ns = 0;
        return r;
}
