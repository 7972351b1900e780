/* See weak.h. */
#include "tests/model/weak.h"

#include <stdlib.h>
#include <string.h>

#include "tests/model/explore.h"
#include "tests/model/memory.h"
#include "tests/model/seam.h"
#include "tests/model/table.h"

#define LOCATIONS_MAX 64
#define STORES_MAX 24
#define WORDS_MAX 4 /* locations of an access */
#define HALF 4U /* the smallest location */
#define NONE UINT8_MAX

/* A piece of HALF bytes is known by these bits: the actors that touched it, and: */
#define CHANGED 0x80
#define SPLIT 0x40 /* an access took no more than this piece */
#define ACTORS 0x0f

typedef struct View {
        uint8_t at[LOCATIONS_MAX];
} View;

typedef struct Store {
        uint64_t value;
        uint8_t mates
                [WORDS_MAX]; /* places of what was stored with it, by the location's place in its 16 bytes */
        uint8_t follows; /* 1: a read-modify-write of the store before it */
        uint8_t unused[3];
        View view;
} Store;

typedef struct Location {
        uint8_t *at;
        unsigned size;
} Location;

typedef struct Known {
        View now, acquired, released;
        uint64_t read; /* a bit for each location, since the last wait */
} Known;

static uint8_t *memory, *pieces;
static size_t memory_size;
static Location locations[LOCATIONS_MAX];
static unsigned n_locations;
static bool some_wait;

/* Saved and put back by the search. */
static Known known[MODEL_ACTORS_MAX];
static View released_at[MODEL_ACTORS_MAX]
                       [LOCATIONS_MAX]; /* by the actor's last release store of a location */
static View fences; /* the last sc fence knew this */
static View sc_stores; /* the newest sc stores */
static uint8_t n_stores[LOCATIONS_MAX];
static Store stores[LOCATIONS_MAX][STORES_MAX];

void weak_forget(void) {
        memory_size = 0;
}

void weak_prepare(void *base, size_t size) {
        memory = base;
        memory_size = size;
        free(pieces);
        pieces = calloc(size / HALF, 1);
}

/*
 * Locations
 */
static bool is_shared(uint8_t piece) {
        unsigned actors = piece & ACTORS;

        return (piece & CHANGED) && (actors & (actors - 1)) != 0;
}

static void add_location(size_t piece, unsigned size) {
        if (n_locations == LOCATIONS_MAX)
                model_fail("more than %u locations: too large for a weak memory", LOCATIONS_MAX);
        locations[n_locations++] = (Location){ memory + piece * HALF, size };
}

void weak_reset(bool waits) {
        some_wait = waits;
        n_locations = 0;
        for (size_t i = 0; i < memory_size / HALF; i += 2) {
                bool low = is_shared(pieces[i]), high = is_shared(pieces[i + 1]);

                if (!((pieces[i] | pieces[i + 1]) & SPLIT)) {
                        if (low || high)
                                add_location(i, 2 * HALF);
                        continue;
                }
                if (low)
                        add_location(i, HALF);
                if (high)
                        add_location(i + 1, HALF);
        }
        memset(known, 0, sizeof(known));
        memset(released_at, 0, sizeof(released_at));
        memset(&fences, 0, sizeof(fences));
        memset(&sc_stores, 0, sizeof(sc_stores));
        for (unsigned l = 0; l < n_locations; l++) {
                n_stores[l] = 1;
                stores[l][0] = (Store){};
                memcpy(&stores[l][0].value, locations[l].at, locations[l].size);
        }
}

bool weak_touch(unsigned actor, const WeakAccess *a, bool changed) {
        size_t off = (size_t) ((const uint8_t *) a->address - memory);
        bool news = false;

        if (!a->address || off >= memory_size)
                return false;
        for (size_t i = off / HALF; i < (off + a->size + HALF - 1) / HALF; i++) {
                uint8_t old = pieces[i];

                pieces[i] |=
                        (uint8_t) (1U << actor | (changed ? CHANGED : 0) | (a->size <= HALF ? SPLIT : 0));
                news |= is_shared(pieces[i]) && (!is_shared(old) || (pieces[i] & SPLIT) != (old & SPLIT));
        }
        return news;
}

/* The locations of an access; returns how many. */
static unsigned find(const WeakAccess *a, unsigned ret[WORDS_MAX]) {
        const uint8_t *at = a->address;
        unsigned n = 0;

        for (unsigned l = 0; at && l < n_locations; l++)
                if (locations[l].at < at + a->size && at < locations[l].at + locations[l].size)
                        ret[n++] = l;
        return n;
}

bool weak_matters(const WeakAccess *a) {
        unsigned ls[WORDS_MAX];

        return find(a, ls) > 0;
}

/* The location's place in its 16 bytes. */
static unsigned place(unsigned l) {
        return (unsigned) ((uintptr_t) locations[l].at % MEMORY_CELL / HALF);
}

static bool is_beside(unsigned l, unsigned k) {
        return (uintptr_t) locations[l].at / MEMORY_CELL == (uintptr_t) locations[k].at / MEMORY_CELL;
}

/*
 * Views
 */
static void join(View *v, const View *other) {
        for (unsigned l = 0; l < n_locations; l++)
                if (v->at[l] < other->at[l])
                        v->at[l] = other->at[l];
}

/* Places in the list from this one on move; what is in front of it, where others are taken out, is the first then. */
static uint8_t moved(uint8_t at, unsigned from, int by) {
        if (at == NONE)
                return NONE;
        return at >= from ? (uint8_t) (at + by) : by < 0 ? 0 : at;
}

static void move(unsigned l, unsigned from, int by) {
        for (unsigned i = 0; i < MODEL_ACTORS_MAX; i++) {
                known[i].now.at[l] = moved(known[i].now.at[l], from, by);
                known[i].acquired.at[l] = moved(known[i].acquired.at[l], from, by);
                known[i].released.at[l] = moved(known[i].released.at[l], from, by);
                for (unsigned k = 0; k < n_locations; k++)
                        released_at[i][k].at[l] = moved(released_at[i][k].at[l], from, by);
        }
        fences.at[l] = moved(fences.at[l], from, by);
        sc_stores.at[l] = moved(sc_stores.at[l], from, by);
        for (unsigned k = 0; k < n_locations; k++)
                for (Store *s = stores[k]; s < stores[k] + n_stores[k]; s++) {
                        s->view.at[l] = moved(s->view.at[l], from, by);
                        if (k != l && is_beside(l, k))
                                s->mates[place(l)] = moved(s->mates[place(l)], from, by);
                }
}

/*
 * Accesses
 */
/* The first place of a list that the access may read, or stand behind. */
static unsigned first_of(unsigned actor, const WeakAccess *a, unsigned l) {
        unsigned first = known[actor].now.at[l];

        if (a->reads && a->order == MODEL_SC && first < sc_stores.at[l])
                return sc_stores.at[l];
        return !a->reads && a->size < HALF ? n_stores[l] - 1U : first;
}

/* The places that a choice stands for: of the stores to read, or those to be taken. */
static void decode(unsigned actor, const WeakAccess *a, unsigned choice, const unsigned *ls, unsigned n,
                   unsigned *ret) {
        for (unsigned i = 0; i < n; i++) {
                unsigned first = first_of(actor, a, ls[i]), ways = n_stores[ls[i]] - first;

                ret[i] = first + choice % ways + (a->reads ? 0 : 1);
                choice /= ways;
        }
}

unsigned weak_n_choices(unsigned actor, const WeakAccess *a) {
        unsigned ls[WORDS_MAX], n = find(a, ls), ways = 1;

        for (unsigned i = 0; i < n; i++)
                ways *= n_stores[ls[i]] - first_of(actor, a, ls[i]);
        return ways;
}

bool weak_is_stale(unsigned actor, const WeakAccess *a, unsigned choice) {
        unsigned ls[WORDS_MAX], n = find(a, ls), at[WORDS_MAX];

        decode(actor, a, choice, ls, n, at);
        for (unsigned i = 0; i < n; i++)
                if (at[i] != n_stores[ls[i]] - (a->reads ? 1U : 0U))
                        return true;
        return false;
}

/* Whether what was stored at once is read at once. */
static bool are_whole(const unsigned *ls, const unsigned *at, unsigned n) {
        for (unsigned i = 0; i < n; i++)
                for (unsigned k = 0; k < n; k++)
                        for (unsigned s = 0; i != k && s <= at[i]; s++) {
                                uint8_t mate = stores[ls[i]][s].mates[place(ls[k])];

                                if (mate != NONE && mate > at[k])
                                        return false;
                        }
        return true;
}

static bool is_taken(unsigned l, unsigned at) {
        return at < n_stores[l] && stores[l][at].follows;
}

bool weak_show(unsigned actor, const WeakAccess *a, unsigned choice) {
        unsigned ls[WORDS_MAX], n = find(a, ls), at[WORDS_MAX];

        decode(actor, a, choice, ls, n, at);
        for (unsigned i = 0; i < n && !a->reads; i++)
                if (is_taken(ls[i], at[i]))
                        return false;
        if (!a->reads)
                return true;
        if (!are_whole(ls, at, n))
                return false;
        for (unsigned i = 0; i < n; i++)
                memcpy(locations[ls[i]].at, &stores[ls[i]][at[i]].value, locations[ls[i]].size);
        return true;
}

static void read_store(Known *k, unsigned l, unsigned at, bool acquire) {
        k->read |= some_wait ? UINT64_C(1) << l : 0;
        if (k->now.at[l] < at)
                k->now.at[l] = (uint8_t) at;
        join(&k->acquired, &stores[l][at].view);
        if (acquire)
                join(&k->now, &stores[l][at].view);
        join(&k->acquired, &k->now);
}

static void insert(unsigned l, unsigned at, bool follows) {
        Store *s = &stores[l][at];

        if (n_stores[l] == STORES_MAX)
                model_fail("more than %u stores that may be read: too large for a weak memory", STORES_MAX);
        move(l, at, 1);
        memmove(s + 1, s, (n_stores[l]++ - at) * sizeof(*s));
        *s = (Store){ .follows = follows };
        memset(s->mates, NONE, sizeof(s->mates));
        memcpy(&s->value, locations[l].at, locations[l].size);
}

static void put_back(const unsigned *ls, unsigned n) {
        for (unsigned i = 0; i < n; i++)
                memcpy(locations[ls[i]].at, &stores[ls[i]][n_stores[ls[i]] - 1].value, locations[ls[i]].size);
}

bool weak_end(unsigned actor, const WeakAccess *a, unsigned choice, bool stored) {
        bool acquire = a->order != MODEL_RLX && a->order != MODEL_REL;
        bool release = a->order != MODEL_RLX && a->order != MODEL_ACQ;
        unsigned ls[WORDS_MAX], n = find(a, ls), at[WORDS_MAX];
        Known *k = &known[actor];
        View view;

        decode(actor, a, choice, ls, n, at);
        for (unsigned i = 0; i < n && a->reads; i++) {
                if (stored && is_taken(ls[i], at[i] + 1))
                        return false;
                read_store(k, ls[i], at[i], acquire);
        }
        for (unsigned i = 0; i < n && stored; i++) {
                at[i] += a->reads ? 1 : 0;
                insert(ls[i], at[i], a->reads);
                k->now.at[ls[i]] = (uint8_t) at[i];
        }
        put_back(ls, n);
        if (!stored)
                return true;
        join(&k->acquired, &k->now);
        view = release ? k->now : k->released;
        for (unsigned i = 0; i < n; i++) {
                if (a->reads)
                        join(&view, &stores[ls[i]][at[i] - 1].view);
                join(&view, &released_at[actor][ls[i]]);
                view.at[ls[i]] = (uint8_t) at[i];
                if (a->order == MODEL_SC)
                        sc_stores.at[ls[i]] = (uint8_t) at[i];
        }
        for (unsigned i = 0; i < n; i++) {
                stores[ls[i]][at[i]].view = view;
                if (release)
                        released_at[actor][ls[i]] = k->now;
                for (unsigned j = 0; j < n; j++)
                        if (j != i)
                                stores[ls[i]][at[i]].mates[place(ls[j])] = (uint8_t) at[j];
        }
        return true;
}

/*
 * Fences
 */
void weak_fence(unsigned actor, ModelOrder order) {
        Known *k = &known[actor];

        if (order == MODEL_ACQ || order == MODEL_SC)
                k->now = k->acquired;
        if (order == MODEL_SC) {
                join(&k->now, &fences);
                fences = k->now;
                join(&k->acquired, &k->now);
        }
        if (order == MODEL_REL || order == MODEL_SC)
                k->released = k->now;
}

/* No other actor's fence knows of another one's by this. */
void weak_barrier(unsigned actor, unsigned n_actors) {
        View before, all;

        weak_fence(actor, MODEL_SC);
        before = all = fences;
        for (unsigned i = 0; i < n_actors; i++) {
                fences = before;
                if (i != actor)
                        weak_fence(i, MODEL_SC);
                join(&all, &fences);
        }
        fences = all;
        weak_fence(actor, MODEL_SC);
}

void weak_trim(unsigned live) {
        for (unsigned l = 0; l < n_locations; l++) {
                unsigned k = n_stores[l] - 1U;

                for (unsigned i = 0; i < MODEL_ACTORS_MAX; i++)
                        if ((live >> i & 1) && known[i].now.at[l] < k)
                                k = known[i].now.at[l];
                if (k == 0)
                        continue;
                n_stores[l] = (uint8_t) (n_stores[l] - k);
                memmove(stores[l], stores[l] + k, n_stores[l] * sizeof(Store));
                stores[l][0].follows = false;
                move(l, k, -(int) k);
        }
}

static bool is_old(const Known *k, unsigned l) {
        return (k->read >> l & 1) && k->now.at[l] + 1U < n_stores[l];
}

unsigned weak_n_old(unsigned actor) {
        unsigned n = 0;

        for (unsigned l = 0; l < n_locations; l++)
                n += is_old(&known[actor], l);
        return n;
}

void weak_end_wait(unsigned actor, unsigned choice) {
        Known *k = &known[actor];

        for (unsigned l = 0; l < n_locations; l++)
                if (is_old(k, l) && choice-- == 0)
                        k->now.at[l]++;
        join(&k->acquired, &k->now);
        k->read = 0;
}

/*
 * The search
 */
void weak_save(void) {
        memory_save(known, sizeof(known));
        for (unsigned i = 0; i < MODEL_ACTORS_MAX; i++)
                memory_save(released_at[i], n_locations * sizeof(View));
        memory_save(&fences, sizeof(fences));
        memory_save(&sc_stores, sizeof(sc_stores));
        memory_save(n_stores, sizeof(n_stores));
        for (unsigned l = 0; l < n_locations; l++)
                memory_save(stores[l], n_stores[l] * sizeof(Store));
}

uint64_t weak_hash(void) {
        uint64_t h =
                table_hash(table_hash(1, (const uint8_t *) known, sizeof(known)), fences.at, sizeof(fences));

        h = table_hash(table_hash(h, sc_stores.at, sizeof(sc_stores)), n_stores, n_locations);
        for (unsigned i = 0; i < MODEL_ACTORS_MAX; i++)
                h = table_hash(h, released_at[i][0].at, n_locations * sizeof(View));
        for (unsigned l = 0; l < n_locations; l++)
                h = table_hash(h, (const uint8_t *) stores[l], n_stores[l] * sizeof(Store));
        return h;
}
