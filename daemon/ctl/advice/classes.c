#include "daemon/ctl/advice/classes.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "shm/format/layout.h"

/*
 * Sizes are in granules here, 1 to N. The search is for the best list of at most k sizes whose last
 * is the largest size of today: best[k][i] is the number of bytes that all objects of up to i
 * granules need with k classes, of which the k-th has i granules. A class that is used also costs a
 * slab for each thread, because each thread holds one.
 */

#define N (SHM_CLASS_SIZE_MAX / GRANULE)
#define GRANULE SHM_CLASS_GRANULE
#define LEAST (SHM_CLASS_SIZE_MIN / GRANULE)
#define SAMPLES_MIN 32U
#define WORTH_PART                                                                                           \
        20U /* a list is worth changing for this part of the used memory, since that needs a new pool */
#define WORTH_BYTES (64U * 1024U)

typedef struct Demand {
        double objects[N + 1]; /* by size in granules */
        double below[N + 1]; /* the sum of objects up to there */
        double class_bytes; /* memory that a class costs beside its objects */
} Demand;

static uint64_t count_samples(const Tslab__Peaks *peaks, uint32_t from, uint32_t to) {
        uint64_t n = 0;

        for (size_t i = 0; i < peaks->n_asked; ++i)
                if (peaks->asked[i]->size > from && peaks->asked[i]->size <= to)
                        n += peaks->asked[i]->n;
        return n;
}

/*
 * Spreads the objects of a class, which holds sizes above `from`, over these sizes as the samples are
 * spread.
 */
static void spread_objects(Demand *demand, const Tslab__Peaks *peaks, uint32_t from,
                           const Tslab__ClassPeak *class) {
        uint64_t total = count_samples(peaks, from, class->size);

        if (total < SAMPLES_MIN) {
                demand->objects[class->size / GRANULE] += (double) class->objects;
                return;
        }
        for (size_t i = 0; i < peaks->n_asked; ++i)
                if (peaks->asked[i]->size > from && peaks->asked[i]->size <= class->size)
                        demand->objects[peaks->asked[i]->size / GRANULE] +=
                                (double) class->objects * (double) peaks->asked[i]->n / (double) total;
}

static bool find_demand(Demand *ret, const Tslab__StatsReply *stats) {
        const Tslab__Peaks *peaks = stats->peaks;
        uint32_t from = 0;

        *ret = (Demand){ .class_bytes = (double) (1 + peaks->threads) * SHM_SLAB_SIZE };
        for (size_t i = 0; i < peaks->n_classes; ++i) {
                const Tslab__ClassPeak *class = peaks->classes[i];

                if (class->size <= from || class->size % GRANULE || class->size > SHM_CLASS_SIZE_MAX)
                        return false;
                spread_objects(ret, peaks, from, class);
                from = class->size;
        }
        for (uint32_t i = 1; i <= N; ++i)
                ret->below[i] = ret->below[i - 1] + ret->objects[i];
        return from > 0;
}

/* The memory of the objects above size `from` up to `to` in slabs of size `to`. */
static double class_cost(const Demand *demand, uint32_t from, uint32_t to) {
        double n = demand->below[to] - demand->below[from];
        uint32_t slots = SHM_SLAB_SIZE / (to * GRANULE);

        slots = slots < SHM_SLOTS_MAX ? slots : SHM_SLOTS_MAX;
        return n > 0 ? n * SHM_SLAB_SIZE / slots + demand->class_bytes : 0;
}

static double classes_cost(const Demand *demand, const Tslab__Peaks *peaks) {
        double sum = 0;
        uint32_t from = 0;

        for (size_t i = 0; i < peaks->n_classes; from = peaks->classes[i++]->size / GRANULE)
                sum += class_cost(demand, from, peaks->classes[i]->size / GRANULE);
        return sum;
}

typedef struct CostTable {
        double best[ADVICE_CLASSES_MAX + 1][N + 1];
        uint32_t previous[ADVICE_CLASSES_MAX + 1][N + 1];
} CostTable;

static void fill_costs(CostTable *table, const Demand *demand, uint32_t largest) {
        for (uint32_t i = LEAST; i <= largest; ++i) {
                table->best[1][i] = class_cost(demand, 0, i);
                table->previous[1][i] = 0;
        }
        for (uint32_t k = 2; k <= ADVICE_CLASSES_MAX; ++k)
                for (uint32_t i = LEAST; i <= largest; ++i) {
                        table->best[k][i] = INFINITY;
                        for (uint32_t j = LEAST; j < i; ++j) {
                                double sum = table->best[k - 1][j] + class_cost(demand, j, i);

                                if (sum < table->best[k][i]) {
                                        table->best[k][i] = sum;
                                        table->previous[k][i] = j;
                                }
                        }
                }
}

/* The number of classes in the shortest list that is as good as any. */
static uint32_t choose_n_classes(const CostTable *table, uint32_t largest) {
        uint32_t k = 1;

        for (uint32_t i = 2; i <= ADVICE_CLASSES_MAX; ++i)
                if (table->best[i][largest] < table->best[k][largest] * 0.999)
                        k = i;
        return k;
}

static void take_sizes(AdviceClasses *ret, const CostTable *table, uint32_t k, uint32_t largest) {
        ret->n = k;
        for (uint32_t i = largest; k > 0; i = table->previous[k--][i])
                ret->sizes[k - 1] = i * GRANULE;
}

static void keep_classes(AdviceClasses *ret, const Tslab__Peaks *peaks, const char *why) {
        *ret = (AdviceClasses){};
        for (size_t i = 0; i < peaks->n_classes && i < ADVICE_CLASSES_MAX; ++i)
                ret->sizes[ret->n++] = peaks->classes[i]->size;
        (void) snprintf(ret->why, sizeof(ret->why), "%s", why);
}

static void fit_classes(AdviceClasses *ret, const Tslab__StatsReply *stats) {
        static CostTable table;
        const Tslab__Peaks *peaks = stats->peaks;
        uint64_t n = count_samples(peaks, 0, UINT32_MAX);
        uint32_t largest;
        Demand demand;
        double now, then;

        if (n < SAMPLES_MIN || !find_demand(&demand, stats)) {
                keep_classes(ret, peaks, "too few sizes were seen to tell");
                return;
        }
        /* A size must not be refused because no sample of it was taken. */
        largest = peaks->classes[peaks->n_classes - 1]->size / GRANULE;
        fill_costs(&table, &demand, largest);
        take_sizes(ret, &table, choose_n_classes(&table, largest), largest);
        now = classes_cost(&demand, peaks);
        then = table.best[ret->n][largest];
        if (now - then < now / WORTH_PART || now - then < WORTH_BYTES) {
                keep_classes(ret, peaks, "no other list would have saved much");
                return;
        }
        ret->changed = true;
        ret->saved_bytes = (uint64_t) (now - then);
        (void) snprintf(ret->why, sizeof(ret->why), "fits %" PRIu64 " samples of sizes that were asked for",
                        n);
}

/* The largest size that was refused and that a class can have; 0: none. Values of maps need no large class. */
static uint32_t find_refused_size(const Tslab__Counters *counters) {
        return counters && counters->too_large_bytes <= SHM_CLASS_SIZE_MAX
                       ? (uint32_t) counters->too_large_bytes
                       : 0;
}

static void add_refused_size(AdviceClasses *ret, uint32_t size) {
        size_t n = ret->changed ? strlen(ret->why) : 0;

        if (ret->n == ADVICE_CLASSES_MAX)
                ret->n--; /* its objects go into the new class */
        ret->sizes[ret->n++] = (size + GRANULE - 1) / GRANULE * GRANULE;
        (void) snprintf(ret->why + n, sizeof(ret->why) - n,
                        "%s of up to %" PRIu32 " bytes were refused, since no class is so large",
                        ret->changed ? "; objects" : "objects", size);
        ret->changed = true;
}

void advice_find_classes(AdviceClasses *ret, const Tslab__StatsReply *stats) {
        uint32_t refused = find_refused_size(stats->counters);

        fit_classes(ret, stats);
        if (ret->n > 0 && refused > ret->sizes[ret->n - 1])
                add_refused_size(ret, refused);
}
