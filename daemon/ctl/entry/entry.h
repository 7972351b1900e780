#pragma once

/*
 * Entries of maps, read and changed as any program does it: this room alone uses libtslab, by its public calls. All
 * functions complain about their failures.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tslab_map.h>

#include "daemon/ctl/base/complain.h"

typedef struct Entries {
        struct tslab *pool;
        struct tslab_map *map;
        const char *name; /* the map's */
} Entries;

#define ENTRIES_INIT                                                                                         \
        { NULL, NULL, NULL }

/* Opens a map of the pool that the command line names. */
CtlExit entries_open(Entries *entries, const char *map, bool writes);
/* As entries_open() in two steps, for one map after another; a map that is open is closed first. */
CtlExit entries_open_pool(Entries *entries, bool writes);
CtlExit entries_open_map(Entries *entries, const char *map, const struct tslab_map_options *options);
void entries_close_map(Entries *entries);
/* Complains about a call on the map that failed. */
CtlExit entries_complain(const Entries *entries, int error);
void entries_deinit(Entries *entries);

typedef struct EntryKey {
        void *bytes;
        size_t size;
} EntryKey;

/*
 * A key from the command line, where "\xHH" is the byte of that number and "\\" a backslash; keys are shown in the same
 * way.
 */
CtlExit entry_key_parse(const char *text, EntryKey *ret);
/* The caller frees it. */
char *entry_key_format(const void *bytes, size_t size);

/* The caller frees *ret_value. */
CtlExit entry_get(Entries *entries, const EntryKey *key, const char *text, void **ret_value,
                  struct tslab_map_info *ret_info);
CtlExit entry_put(Entries *entries, const EntryKey *key, const void *value, size_t size,
                  const uint64_t *ttl_ms);
CtlExit entry_delete(Entries *entries, const EntryKey *key, const char *text);
/* Deletes all entries that are there when it comes to them, and counts them. */
CtlExit entries_delete_all(Entries *entries, uint64_t *ret_n);
/*
 * 1: the next one; 0: there is none. After a complaint: -EUCLEAN, of the next one alone: its key is there, its value is
 * damaged; others, of the map. The caller frees *ret_key, which these two set, and sets ret_info->size before.
 */
int entry_next(Entries *entries, struct tslab_map_cursor *cursor, char **ret_key,
               struct tslab_map_info *ret_info);
