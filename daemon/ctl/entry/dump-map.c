#include "daemon/ctl/entry/dump-map.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

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
static CtlExit add_large(DumpWriter *writer, Entries *entries, const void *key_here, size_t key_size,
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
        return dump_add(writer, &record, key, value);
}

CtlExit dump_map(DumpWriter *writer, Entries *entries, const DumpMap *options, DumpCounts *counts) {
        DumpRecord record = { .kind = DUMP_MAP, .value_size = sizeof(*options) };
        struct tslab_map_info info = { .size = sizeof(info) };
        struct tslab_map_cursor cursor = {};
        size_t room;
        void *at;
        CtlExit r;

        record.key_size = (uint32_t) strlen(entries->name);
        r = dump_add(writer, &record, entries->name, options);
        counts->maps++;
        while (r == CTL_DONE) {
                int next;

                r = dump_room(writer, &at, &room);
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
                        r = add_large(writer, entries, at, info.key_size, counts);
                } else {
                        record = record_of(&info);
                        dump_add_here(writer, &record);
                        counts->entries++;
                }
        }
        return r;
}
