#include "daemon/ctl/entry/dump-map.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "proto/cleanup.h"

static bool is_counter(const struct tslab_map_info *info) {
        return info->flags & TSLAB_MAP_COUNTER;
}

static DumpRecord record_of(const struct tslab_map_info *info) {
        return (DumpRecord){ .kind = is_counter(info) ? DUMP_COUNTER : DUMP_VALUE,
                             .key_size = info->key_size,
                             .value_size = info->value_size,
                             .ttl_left_ms = info->ttl_left_ms };
}

/* A value that the block had no room for is looked up by its key: it may have been replaced, or be gone, by now. */
static CtlExit add_large(DumpFile *file, Entries *entries, const void *key_here, size_t key_size,
                         DumpCounts *counts) {
        struct tslab_map_info info = { .size = sizeof(info) };
        _cleanup_(proto_freep) void *value = NULL;
        char key[TSLAB_MAP_KEY_MAX];
        DumpRecord record;
        int r;

        memcpy(key, key_here, key_size);
        r = tslab_map_get_alloc(entries->map, key, key_size, &value, &info);
        if (r == -ENOENT)
                return CTL_DONE;
        if (r == -EUCLEAN) {
                counts->damaged++;
                return CTL_DONE;
        }
        if (r < 0)
                return entries_complain(entries, r);
        if (info.flags & TSLAB_MAP_TAGGED) {
                counts->tagged++;
                return CTL_DONE;
        }
        info.key_size = (uint32_t) key_size;
        record = record_of(&info);
        counts->entries++;
        return dump_add(file, &record, key, value);
}

CtlExit dump_map(DumpFile *file, Entries *entries, const DumpMap *options, DumpCounts *counts) {
        DumpRecord record = { .kind = DUMP_MAP, .value_size = sizeof(*options) };
        struct tslab_map_info info = { .size = sizeof(info) };
        struct tslab_map_cursor cursor = {};
        size_t room;
        void *at;
        CtlExit r;

        record.key_size = (uint32_t) strlen(entries->name);
        r = dump_add(file, &record, entries->name, options);
        counts->maps++;
        while (r == CTL_DONE) {
                int next;

                r = dump_room(file, &at, &room);
                if (r)
                        return r;
                next = tslab_map_next(entries->map, &cursor, at, room, &info);
                if (next == 0)
                        return CTL_DONE;
                if (next == -EUCLEAN) {
                        counts->damaged++;
                } else if (next < 0) {
                        return entries_complain(entries, next);
                } else if (info.flags & TSLAB_MAP_BUCKET) {
                        counts->buckets++;
                } else if (info.flags & TSLAB_MAP_TAGGED) {
                        counts->tagged++;
                } else if (info.flags & TSLAB_MAP_KEY_ONLY) {
                        r = add_large(file, entries, at, info.key_size, counts);
                } else {
                        record = record_of(&info);
                        dump_add_here(file, &record);
                        counts->entries++;
                }
        }
        return r;
}

/* Entries live by the wall clock meanwhile, as the system may have been off. One that was set back prolongs none. */
static uint64_t elapsed_ms(const void *value) {
        uint64_t begin_ms, now_ms;
        struct timespec now;

        memcpy(&begin_ms, value, sizeof(begin_ms));
        (void) clock_gettime(CLOCK_REALTIME, &now);
        now_ms = (uint64_t) now.tv_sec * 1000 + (uint64_t) now.tv_nsec / 1000000;
        return now_ms > begin_ms ? now_ms - begin_ms : 0;
}

static bool is_wanted(const char *name, char **names, size_t n_names) {
        for (size_t i = 0; i < n_names; i++)
                if (strcmp(name, names[i]) == 0)
                        return true;
        return n_names == 0;
}

/* A map that is there keeps its options. */
static CtlExit begin_map(Entries *entries, const char *name, const void *value) {
        struct tslab_map_options options = { .size = sizeof(options) };
        DumpMap map;

        memcpy(&map, value, sizeof(map));
        options.limit_bytes = map.limit_bytes;
        options.ttl_ms = map.ttl_ms;
        options.stale_ms = map.stale_ms;
        options.value_max = map.value_max;
        options.evict = map.evict;
        return entries_open_map(entries, name, &options);
}

static int put_entry(Entries *entries, const DumpRecord *record, uint64_t ttl_ms, const void *key,
                     const void *value) {
        const struct tslab_map_put_options options = { .size = sizeof(options),
                                                       .epoch = TSLAB_EPOCH_CURRENT,
                                                       .ttl_ms = ttl_ms,
                                                       .mode = TSLAB_MAP_INSERT };
        int64_t number;
        int r;

        if (record->kind == DUMP_VALUE)
                return tslab_map_put_with(entries->map, key, record->key_size, value, record->value_size,
                                          &options);
        memcpy(&number, value, sizeof(number));
        r = tslab_map_add(entries->map, key, record->key_size, 0, number, ttl_ms, NULL);
        return r == -EINVAL ? -EEXIST : r;
}

static CtlExit load_entry(Entries *entries, const DumpRecord *record, uint64_t elapsed, const void *key,
                          const void *value, DumpCounts *counts) {
        uint64_t ttl_ms = TSLAB_MAP_TTL_NONE;
        int r;

        if (record->ttl_left_ms != UINT64_MAX) {
                uint64_t left = record->ttl_left_ms > elapsed ? record->ttl_left_ms - elapsed : 0;

                if (left == 0) {
                        counts->expired++;
                        return CTL_DONE;
                }
                ttl_ms = left < TSLAB_MAP_TTL_MAX ? left : TSLAB_MAP_TTL_MAX;
        }
        r = put_entry(entries, record, ttl_ms, key, value);
        if (r == 0)
                counts->entries++;
        else if (r == -EEXIST)
                counts->present++;
        else if (r == -ENOMEM || r == -ENOSPC || r == -E2BIG)
                counts->refused++;
        else
                return entries_complain(entries, r);
        return CTL_DONE;
}

CtlExit dump_load(DumpFile *file, Entries *entries, char **names, size_t n_names, DumpCounts *counts) {
        char name[TSLAB_MAP_NAME_MAX + 1];
        const void *key, *value;
        bool takes = false;
        uint64_t elapsed = 0;
        DumpRecord record;
        CtlExit r;

        while ((r = dump_next(file, &record, &key, &value)) == CTL_DONE && value) {
                if (record.kind == DUMP_BEGIN) {
                        elapsed = elapsed_ms(value);
                } else if (record.kind == DUMP_MAP) {
                        memcpy(name, key, record.key_size);
                        name[record.key_size] = '\0';
                        takes = is_wanted(name, names, n_names);
                        r = takes ? begin_map(entries, name, value) : CTL_DONE;
                        counts->maps += takes;
                } else if (takes && record.kind != DUMP_END) {
                        r = load_entry(entries, &record, elapsed, key, value, counts);
                }
                if (r)
                        break;
        }
        entries_close_map(entries);
        return r;
}
