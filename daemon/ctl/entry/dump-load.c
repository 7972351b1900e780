#include "daemon/ctl/entry/dump-load.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/ctl/base/progress.h"
#include "proto/cleanup.h"

#define WORKERS_MAX 4

/* The map that the records of a block belong to until a DUMP_MAP. */
typedef struct Place {
        char name[TSLAB_MAP_NAME_MAX + 1];
        DumpMap map;
        bool takes; /* there is one, and it is wanted */
        uint64_t elapsed_ms; /* by which lifetimes are shorter */
} Place;

typedef struct Team {
        Load *load;
        Entries *entries; /* the entries go to its pool; NULL: they are only checked */
        pthread_mutex_t lock; /* for all that follows, and for the reader */
        Place place; /* at the end of what was read */
        const char *fault; /* the text that ends "FILE …", if the file is not whole */
        uint64_t fault_number; /* the block of it, the first of all */
        CtlExit failed; /* after a complaint about the pool */
        bool has_end, has_more; /* the last record was met; and more behind it in its block */
        uint64_t end_number, n_told; /* its block, and its value */
        bool *found; /* for each name that is wanted */
} Team;

typedef struct Worker {
        Team *team;
        pthread_t thread;
        bool is_running; /* in a thread of its own */
        DumpBuffer block;
        uint64_t number; /* the block's */
        Place place;
        Entries entries; /* the team's pool, and a map of the worker's own */
        char name[TSLAB_MAP_NAME_MAX + 1]; /* that map's */
        LoadCounts counts;
        uint64_t n_records, sums;
        uint64_t done_bytes; /* where the block ends in the file */
} Worker;

/* Entries live by the wall clock meanwhile, as the system may have been off. One that was set back prolongs none. */
static uint64_t elapsed_ms(const void *value) {
        uint64_t begin_ms, now_ms;
        struct timespec now;

        memcpy(&begin_ms, value, sizeof(begin_ms));
        (void) clock_gettime(CLOCK_REALTIME, &now);
        now_ms = (uint64_t) now.tv_sec * 1000 + (uint64_t) now.tv_nsec / 1000000;
        return now_ms > begin_ms ? now_ms - begin_ms : 0;
}

/* The index of a name that is wanted; SIZE_MAX: it is not. */
static size_t find_name(const Load *load, const void *name, size_t size) {
        for (size_t i = 0; i < load->n_names; i++)
                if (strlen(load->names[i]) == size && !memcmp(load->names[i], name, size))
                        return i;
        return SIZE_MAX;
}

static void set_place(const Load *load, Place *place, const DumpRecord *record, const void *key,
                      const void *value) {
        if (record->kind == DUMP_BEGIN)
                place->elapsed_ms = elapsed_ms(value);
        if (record->kind != DUMP_MAP)
                return;
        memcpy(place->name, key, record->key_size);
        place->name[record->key_size] = '\0';
        memcpy(&place->map, value, sizeof(place->map));
        place->takes = load->n_names == 0 || find_name(load, key, record->key_size) != SIZE_MAX;
}

/* Goes over the block for the place at its end, where the next block begins. */
static void advance_place(Team *team, const DumpBuffer *block) {
        const void *key, *value;
        DumpRecord record;

        for (size_t at = 0; dump_buffer_next(block, &at, &record, &key, &value);)
                set_place(team->load, &team->place, &record, key, value);
}

/* With the lock. */
static void set_fault(Team *team, uint64_t number, const char *fault) {
        if (team->fault && team->fault_number <= number)
                return;
        team->fault = fault;
        team->fault_number = number;
}

static void note_fault(const Worker *worker, const char *fault) {
        (void) pthread_mutex_lock(&worker->team->lock);
        set_fault(worker->team, worker->number, fault);
        (void) pthread_mutex_unlock(&worker->team->lock);
}

/* With the lock. False: there is none. */
static bool read_next(Worker *worker) {
        Team *team = worker->team;
        const char *fault;
        bool is_over;

        if (team->fault || team->failed)
                return false;
        worker->number = team->load->reader.number;
        worker->place = team->place;
        fault = dump_read_block(&team->load->reader, &worker->block, &is_over);
        if (fault)
                set_fault(team, worker->number, fault);
        else if (!is_over && team->entries)
                advance_place(team, &worker->block);
        worker->done_bytes = team->load->reader.n_bytes;
        return !fault && !is_over;
}

/* False: there is none, or a worker has failed. */
static bool take_block(Worker *worker) {
        bool taken;

        (void) pthread_mutex_lock(&worker->team->lock);
        taken = read_next(worker);
        (void) pthread_mutex_unlock(&worker->team->lock);
        if (taken && !dump_sum_is_right(&worker->block)) {
                note_fault(worker, "is damaged");
                taken = false;
        }
        if (taken)
                worker->sums += ((DumpBlock *) worker->block.block)->sum;
        return taken;
}

static void note_end(const Worker *worker, const void *value, bool has_more) {
        Team *team = worker->team;

        (void) pthread_mutex_lock(&team->lock);
        if (team->has_end)
                set_fault(team, worker->number, "is damaged");
        team->has_end = true;
        team->has_more = has_more;
        team->end_number = worker->number;
        memcpy(&team->n_told, value, sizeof(team->n_told));
        (void) pthread_mutex_unlock(&team->lock);
}

static void note_name(const Worker *worker, const void *name, size_t size) {
        Team *team = worker->team;
        size_t i = find_name(team->load, name, size);

        (void) pthread_mutex_lock(&team->lock);
        if (i != SIZE_MAX)
                team->found[i] = true;
        (void) pthread_mutex_unlock(&team->lock);
}

static bool check_record(Worker *worker, size_t *at) {
        bool is_first = worker->number == 0 && *at == 0;
        const void *key, *value;
        DumpRecord record;

        if (!dump_buffer_next(&worker->block, at, &record, &key, &value) ||
            is_first != (record.kind == DUMP_BEGIN))
                return false;
        worker->n_records++;
        if (record.kind == DUMP_MAP)
                note_name(worker, key, record.key_size);
        else if (record.kind == DUMP_END)
                note_end(worker, value, *at != worker->block.used);
        return true;
}

static void check_block(Worker *worker) {
        bool is_sound = true;

        for (size_t at = 0; is_sound && at < worker->block.used;)
                is_sound = check_record(worker, &at);
        if (!is_sound)
                note_fault(worker, "is damaged");
}

/* A map that is there keeps its options. One worker after the other, as they may make it. */
static bool open_place(Worker *worker) {
        const DumpMap *map = &worker->place.map;
        const struct tslab_map_options options = { .size = sizeof(options),
                                                   .limit_bytes = map->limit_bytes,
                                                   .ttl_ms = map->ttl_ms,
                                                   .stale_ms = map->stale_ms,
                                                   .value_max = map->value_max,
                                                   .evict = map->evict };
        Team *team = worker->team;
        bool is_open;

        if (worker->entries.map && !strcmp(worker->name, worker->place.name))
                return true;
        (void) pthread_mutex_lock(&team->lock);
        strcpy(worker->name, worker->place.name);
        is_open = !team->failed && entries_open_map(&worker->entries, worker->name, &options) == CTL_DONE;
        if (!is_open)
                team->failed = CTL_FAILED;
        (void) pthread_mutex_unlock(&team->lock);
        return is_open;
}

/* If several workers fail, one complains. */
static bool complain_once(Worker *worker, int error) {
        Team *team = worker->team;

        (void) pthread_mutex_lock(&team->lock);
        if (!team->failed)
                team->failed = entries_complain(&worker->entries, error);
        (void) pthread_mutex_unlock(&team->lock);
        return false;
}

static int put_entry(const Worker *worker, const DumpRecord *record, uint64_t ttl_ms, const void *key,
                     const void *value) {
        const struct tslab_map_put_options options = { .size = sizeof(options),
                                                       .epoch = TSLAB_EPOCH_CURRENT,
                                                       .ttl_ms = ttl_ms,
                                                       .mode = TSLAB_MAP_INSERT };
        struct tslab_map *map = worker->entries.map;
        int64_t number;
        int r;

        if (record->kind == DUMP_VALUE)
                return tslab_map_put_with(map, key, record->key_size, value, record->value_size, &options);
        memcpy(&number, value, sizeof(number));
        r = tslab_map_add(map, key, record->key_size, 0, number, ttl_ms, NULL);
        return r == -EINVAL ? -EEXIST : r;
}

static bool load_entry(Worker *worker, const DumpRecord *record, const void *key, const void *value) {
        uint64_t elapsed = worker->place.elapsed_ms, ttl_ms = TSLAB_MAP_TTL_NONE;
        int r;

        if (record->ttl_left_ms != UINT64_MAX) {
                uint64_t left = record->ttl_left_ms > elapsed ? record->ttl_left_ms - elapsed : 0;

                if (left == 0) {
                        worker->counts.expired++;
                        return true;
                }
                ttl_ms = left < TSLAB_MAP_TTL_MAX ? left : TSLAB_MAP_TTL_MAX;
        }
        r = put_entry(worker, record, ttl_ms, key, value);
        if (r == 0)
                worker->counts.entries++;
        else if (r == -EEXIST)
                worker->counts.present++;
        else if (r == -ENOMEM || r == -ENOSPC || r == -E2BIG)
                worker->counts.refused++;
        else
                return complain_once(worker, r);
        return true;
}

static bool load_record(Worker *worker, size_t *at) {
        const void *key, *value;
        DumpRecord record;

        if (!dump_buffer_next(&worker->block, at, &record, &key, &value))
                return false;
        set_place(worker->team->load, &worker->place, &record, key, value);
        if (!worker->place.takes || record.kind == DUMP_BEGIN || record.kind == DUMP_END)
                return true;
        if (!open_place(worker))
                return false;
        worker->counts.maps += record.kind == DUMP_MAP;
        return record.kind == DUMP_MAP || load_entry(worker, &record, key, value);
}

static void load_block(Worker *worker) {
        for (size_t at = 0; at < worker->block.used;)
                if (!load_record(worker, &at))
                        return;
}

static void do_block(Worker *worker) {
        if (worker->team->entries)
                load_block(worker);
        else
                check_block(worker);
}

static void *run_worker(void *userdata) {
        Worker *worker = userdata;

        while (take_block(worker))
                do_block(worker);
        return NULL;
}

/* Not more than there are processors for this process. */
static unsigned count_workers(void) {
        cpu_set_t set;
        int n = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : WORKERS_MAX;

        return n < 1 ? 1 : n > WORKERS_MAX ? WORKERS_MAX : (unsigned) n;
}

/* The main thread is a worker, too, the only one where no thread can be had. */
static void run_workers(Worker *workers, unsigned n, const char *text) {
        for (unsigned i = 1; i < n; i++)
                workers[i].is_running =
                        pthread_create(&workers[i].thread, NULL, run_worker, &workers[i]) == 0;
        while (take_block(&workers[0])) {
                do_block(&workers[0]);
                progress_show(text, workers[0].done_bytes, workers[0].team->load->reader.size);
        }
        for (unsigned i = 1; i < n; i++)
                if (workers[i].is_running)
                        (void) pthread_join(workers[i].thread, NULL);
}

/* Adds the workers' figures to those of the first. */
static void join_workers(Worker *workers, unsigned n) {
        Worker *sum = &workers[0];

        for (unsigned i = 0; i < n; i++) {
                entries_close_map(&workers[i].entries);
                dump_buffer_deinit(&workers[i].block);
                if (i == 0)
                        continue;
                sum->n_records += workers[i].n_records;
                sum->sums += workers[i].sums;
                sum->counts.maps += workers[i].counts.maps;
                sum->counts.entries += workers[i].counts.entries;
                sum->counts.present += workers[i].counts.present;
                sum->counts.expired += workers[i].counts.expired;
                sum->counts.refused += workers[i].counts.refused;
        }
}

/* All blocks of the file. *ret has the figures of all workers. */
static void run_team(Team *team, const char *text, const char *when_interrupted, Worker *ret) {
        Worker workers[WORKERS_MAX];
        unsigned n = count_workers();

        for (unsigned i = 0; i < n; i++)
                workers[i] = (Worker){ .team = team,
                                       .entries = { .pool = team->entries ? team->entries->pool : NULL } };
        dump_rewind(&team->load->reader);
        (void) pthread_mutex_init(&team->lock, NULL);
        progress_begin(text, when_interrupted);
        run_workers(workers, n, text);
        progress_end();
        (void) pthread_mutex_destroy(&team->lock);
        join_workers(workers, n);
        *ret = workers[0];
}

static CtlExit check_file(const Team *team, const Worker *sum) {
        const DumpReader *reader = &team->load->reader;
        const char *fault = team->fault;

        if (team->has_end && (team->has_more || (fault && team->fault_number > team->end_number) ||
                              team->end_number + 1 < reader->number))
                fault = "has more behind its end";
        else if (!fault && !team->has_end)
                fault = "is cut off";
        else if (!fault && team->n_told != sum->n_records - 1)
                fault = "is damaged";
        return fault ? complain("'%s' %s; nothing was loaded", reader->path, fault) : CTL_DONE;
}

CtlExit load_open(Load *load, const char *path, char **names, size_t n_names) {
        load->names = names;
        load->n_names = n_names;
        return dump_open(&load->reader, path);
}

CtlExit load_check(Load *load) {
        _cleanup_(proto_freep) bool *found = must(calloc(load->n_names + 1, sizeof(*found)));
        Team team = { .load = load, .found = found };
        Worker sum;
        CtlExit r;

        run_team(&team, "checking", "nothing was loaded", &sum);
        r = check_file(&team, &sum);
        for (size_t i = 0; r == CTL_DONE && i < load->n_names; i++)
                if (!found[i])
                        r = complain("there is no map '%s' in '%s'; nothing was loaded", load->names[i],
                                     load->reader.path);
        load->sums = sum.sums;
        return r;
}

CtlExit load_run(Load *load, Entries *entries, LoadCounts *ret) {
        Team team = { .load = load, .entries = entries };
        Worker sum;

        run_team(&team, "loading", "entries that were loaded stay", &sum);
        *ret = sum.counts;
        if (team.failed)
                return team.failed;
        if (team.fault || sum.sums != load->sums)
                return complain("'%s' has changed since it was checked; entries that were loaded stay",
                                load->reader.path);
        return CTL_DONE;
}

void load_deinit(Load *load) {
        dump_reader_deinit(&load->reader);
}
