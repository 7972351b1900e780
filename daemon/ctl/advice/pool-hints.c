#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "daemon/ctl/advice/pool-hints.h"
#include "daemon/ctl/base/ask.h"
#include "daemon/ctl/base/format.h"
#include "shm/format/layout.h"

/* The least surplus that is worth a sentence; stale pointers make a few such pages all the time. */
#define SURPLUS_MIN (UINT64_C(1) << 20)
/* The least memory in use without objects that is worth one; it must also be more than the objects take. */
#define UNUSED_MIN (UINT64_C(4) << 20)
#define VALUE_MAX (UINT64_C(16) << 20) /* the limit of all maps: see <tslab_map.h> */

__attribute__((format(printf, 2, 3))) static void add_hint(Hints *hints, const char *format, ...) {
        va_list arguments;

        if (hints->n_hints == HINTS_MAX)
                return;

        va_start(arguments, format);
        (void) vsnprintf(hints->hints[hints->n_hints++], HINT_SIZE, format, arguments);
        va_end(arguments);
}

static void look_at_settings(Hints *hints, const Tslab__StatsReply *stats) {
        if (stats->settings_error && stats->settings_error[0])
                add_hint(hints,
                         "the settings are bad, and not in use: %.160s; correct them, then reload the daemon",
                         stats->settings_error);
}

static void look_at_page_wait(Hints *hints, const Tslab__StatsReply *stats) {
        if (stats->page_wait_seconds > 0)
                add_hint(hints,
                         "the daemon has waited for %" PRIu64
                         " s for the lock of the pool's memory, and only answers "
                         "questions: %.160s",
                         stats->page_wait_seconds, stats->page_wait_cause);
}

static void look_at_records(Hints *hints, const Tslab__StatsReply *stats) {
        if (stats->records_shared > 0)
                add_hint(hints,
                         "%s without a record of their own because all %u are in use, and slow because they "
                         "share one; start the daemon with a larger --threads",
                         format_count(FORMAT_BUFFER, stats->records_shared, "thread is", "threads are"),
                         stats->n_records);
        else if (stats->n_records > 0 && stats->threads >= stats->n_records - stats->n_records / 10)
                add_hint(
                        hints,
                        "%u of %u thread records are in use, and threads that find none are slow; start the daemon "
                        "with a larger --threads",
                        stats->threads, stats->n_records);
}

static void look_at_roots(Hints *hints, const Tslab__StatsReply *stats, const char *command) {
        if (stats->roots >= SHM_ROOTS_MAX - SHM_ROOTS_MAX / 10)
                add_hint(
                        hints,
                        "%u of %u names of maps and other roots are in use, and no map can be made without one; "
                        "'%s maps remove MAP' removes a map that no program uses",
                        stats->roots, SHM_ROOTS_MAX, command);
}

static void look_at_memory(Hints *hints, const Tslab__StatsReply *stats) {
        uint64_t used = stats_used_bytes(stats), slabs_bytes = stats->n_slabs * 4096;
        uint64_t evictable = stats->evictable_bytes;

        if (slabs_bytes > 0 && used >= slabs_bytes - slabs_bytes / 10 + evictable)
                add_hint(hints,
                         "nearly full: %s of %s are in use%s%s%s; close epochs, or start a larger pool",
                         format_bytes(FORMAT_BUFFER, used), format_bytes(FORMAT_BUFFER, slabs_bytes),
                         evictable > 0 ? ", and only " : "",
                         evictable > 0 ? format_bytes(FORMAT_BUFFER, evictable) : "",
                         evictable > 0 ? " of that are entries that maps may evict" : "");
}

static uint64_t epoch_unused_bytes(const Tslab__EpochInfo *epoch) {
        uint64_t bytes = epoch->slabs * 4096;

        return bytes > epoch->live_bytes ? bytes - epoch->live_bytes : 0;
}

static const Tslab__EpochInfo *most_unused_epoch(const Tslab__StatsReply *stats) {
        const Tslab__EpochInfo *most = NULL;

        for (size_t i = 0; i < stats->n_epochs; ++i)
                if (!most || epoch_unused_bytes(stats->epochs[i]) > epoch_unused_bytes(most))
                        most = stats->epochs[i];
        return most;
}

/* Bytes of the slots in caches, if these are as large as a slot of the pool is on average. */
static uint64_t cached_bytes(const Tslab__StatsReply *stats) {
        uint64_t bytes = 0, n_slots = 0;

        for (size_t i = 0; i < stats->n_classes; ++i) {
                bytes += stats->classes[i]->slabs * 4096;
                n_slots += stats->classes[i]->slabs * stats->classes[i]->slots;
        }
        return n_slots > 0 ? (uint64_t) ((double) bytes / (double) n_slots * (double) stats->cached_objects)
                           : 0;
}

/* Memory in use is far above that of the objects, and why. */
static void look_at_unused(Hints *hints, const Tslab__StatsReply *stats, const char *command) {
        const Tslab__EpochInfo *most = most_unused_epoch(stats);
        uint64_t used = stats_used_bytes(stats);
        uint64_t unused = used > stats->live_bytes ? used - stats->live_bytes : 0;
        bool cached = cached_bytes(stats) >= unused / 2;

        if (!most || unused < UNUSED_MIN || unused < stats->live_bytes)
                return;
        add_hint(hints, "%s are in use for %s of objects; epoch %s has most of it, %s for %s; %s%s%s",
                 format_bytes(FORMAT_BUFFER, used), format_bytes(FORMAT_BUFFER, stats->live_bytes),
                 format_epoch(FORMAT_BUFFER, epoch_number(most)),
                 format_bytes(FORMAT_BUFFER, most->slabs * 4096),
                 format_bytes(FORMAT_BUFFER, most->live_bytes),
                 cached ? "threads keep free slots in their caches, which '" : "each object keeps its slab",
                 cached ? command : "",
                 cached ? " trim' empties"
                        : ": sparse slabs empty as objects are replaced, or when the epoch ends");
}

static uint64_t count_full_failures(const Tslab__Counters *c) {
        uint64_t others = c->failures_limit + c->failures_system;

        return c->failures > others ? c->failures - others : 0;
}

/* Which of the three it was: the pool, the limit or the system. */
static void look_at_failures(Hints *hints, const Tslab__StatsReply *stats) {
        static const char since[] = "failed since the pool began";
        const Tslab__Counters *c = stats->counters;
        char n[FORMAT_SIZE];

        if (!c)
                return;
        if (count_full_failures(c) > 0)
                add_hint(hints, "%s %s because it was full; close epochs, or start a larger pool",
                         format_count(n, count_full_failures(c), "allocation", "allocations"), since);
        if (c->failures_limit > 0)
                add_hint(hints, "%s %s because the memory limit of a control group was reached; raise it",
                         format_count(n, c->failures_limit, "allocation", "allocations"), since);
        if (c->failures_system > 0)
                add_hint(hints, "%s %s because the system had no memory",
                         format_count(n, c->failures_system, "allocation", "allocations"), since);
}

/* A limit beyond which the pool would not grow anyway is no trouble. */
static void look_at_limit(Hints *hints, const Tslab__StatsReply *stats) {
        if (stats->limit_bytes > 0 && stats->limit_left_bytes < stats->limit_bytes / 10 &&
            stats->committed_bytes + stats->limit_left_bytes < stats->size_bytes)
                add_hint(
                        hints,
                        "%s of the memory limit of %.100s are in use, and %s are left for the pool; raise the limit, "
                        "or allocation fails before the pool is full",
                        format_bytes(FORMAT_BUFFER, stats->limit_used_bytes), stats->limit_cgroup,
                        format_bytes(FORMAT_BUFFER, stats->limit_left_bytes));
}

static uint32_t largest_class(const Tslab__StatsReply *stats) {
        return stats->n_classes > 0 ? stats->classes[stats->n_classes - 1]->size : 0;
}

static void look_at_objects(Hints *hints, const Tslab__StatsReply *stats, const char *command) {
        const Tslab__Counters *c = stats->counters;
        bool fits = c->too_large_bytes <= SHM_CLASS_SIZE_MAX;

        add_hint(hints,
                 "%s refused, since the largest size class has %u bytes; the largest of them took %" PRIu64
                 " bytes; %s%s%s",
                 format_count(FORMAT_BUFFER, c->too_large, "object was", "objects were"),
                 largest_class(stats), c->too_large_bytes,
                 fits ? "'" : "no class can have so many: split them", fits ? command : "",
                 fits ? " suggest' says which classes take them" : "");
}

/* The size is that of the entry, with its key. */
static void look_at_values(Hints *hints, const Tslab__Counters *c, const char *command) {
        bool fits = c->values_too_large_bytes <= VALUE_MAX;

        add_hint(
                hints,
                "%s refused, since their map or its limit takes none so large; the largest took %" PRIu64
                " bytes with its key; %s%s%s",
                format_count(FORMAT_BUFFER, c->values_too_large, "value of a map was", "values of maps were"),
                c->values_too_large_bytes, fits ? "'" : "no map takes so many: split them",
                fits ? command : "",
                fits ? " maps set MAP --value-max=BYTES' or '--limit=BYTES' takes them" : "");
}

static void look_at_sizes(Hints *hints, const Tslab__StatsReply *stats, const char *command) {
        const Tslab__Counters *c = stats->counters;

        if (c && c->too_large > 0)
                look_at_objects(hints, stats, command);
        if (c && c->values_too_large > 0)
                look_at_values(hints, c, command);
}

static void look_at_surplus(Hints *hints, const Tslab__StatsReply *stats, const char *command) {
        uint64_t known = stats->committed_bytes + stats->metadata_bytes;

        if (stats->memfd_blocks_bytes > known && stats->memfd_blocks_bytes - known > SURPLUS_MIN)
                add_hint(hints, "%s of pages belong to no slab; '%s trim' gives them back",
                         format_bytes(FORMAT_BUFFER, stats->memfd_blocks_bytes - known), command);
}

static void look_at_epoch(Hints *hints, const Tslab__EpochInfo *epoch, uint64_t now_usec,
                          const char *command) {
        char number[FORMAT_SIZE];

        (void) format_epoch(number, epoch_number(epoch));
        if (epoch->state == TSLAB__EPOCH_STATE__EPOCH_STATE_CLOSING && epoch->live_objects > 0)
                add_hint(
                        hints,
                        "epoch %s was closed %s and still holds %s (%s); '%s leaks' shows where they came from",
                        number, format_ago(FORMAT_BUFFER, epoch->closed_usec, now_usec),
                        format_count(FORMAT_BUFFER, epoch->live_objects, "object", "objects"),
                        format_bytes(FORMAT_BUFFER, epoch->live_bytes), command);
        if (epoch->state != TSLAB__EPOCH_STATE__EPOCH_STATE_OPEN && epoch->maps)
                add_hint(hints,
                         "epoch %s, of the indexes of all maps, is closed: these maps take new keys no more; "
                         "maps that are made from now on do",
                         number);
        if (epoch->state != TSLAB__EPOCH_STATE__EPOCH_STATE_OPEN && epoch->current)
                add_hint(hints,
                         "the current epoch, %s, is closed: allocation in it fails until '%s epoch advance'",
                         number, command);
        if (epoch->older && epoch->older->live_objects > 0)
                add_hint(hints, "earlier eras of epoch %u still hold %s in %s", epoch->id,
                         format_count(FORMAT_BUFFER, epoch->older->live_objects, "object", "objects"),
                         format_count(FORMAT_BUFFER, epoch->older->slabs, "slab", "slabs"));
}

void hints_find(Hints *hints, const Tslab__StatsReply *stats, const char *command) {
        uint64_t now_usec = format_now_usec();

        hints->n_hints = 0;
        look_at_page_wait(hints, stats);
        look_at_settings(hints, stats);
        look_at_records(hints, stats);
        look_at_roots(hints, stats, command);
        look_at_memory(hints, stats);
        look_at_failures(hints, stats);
        look_at_limit(hints, stats);
        look_at_sizes(hints, stats, command);
        look_at_surplus(hints, stats, command);
        look_at_unused(hints, stats, command);
        for (size_t i = 0; i < stats->n_epochs; ++i)
                look_at_epoch(hints, stats->epochs[i], now_usec, command);
}

void hints_find_epochs(Hints *hints, Tslab__EpochInfo *const *epochs, size_t n_epochs, const char *command) {
        uint64_t now_usec = format_now_usec();

        hints->n_hints = 0;
        for (size_t i = 0; i < n_epochs; ++i)
                look_at_epoch(hints, epochs[i], now_usec, command);
}
