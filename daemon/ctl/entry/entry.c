#include "daemon/ctl/entry/entry.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/ctl/base/connect.h"

#define LIMIT_SURE 8192U /* no class is so large that no entry keeps this limit */

/* The answers are those of the pool's own errors; the rest is the system's. */
CtlExit entries_complain(const Entries *entries, int error) {
        switch (error) {
        case -ENOENT:
        case -EINVAL: /* no map can have that name */
                return complain("there is no map '%s' in this pool", entries->name);
        case -EIDRM:
                return complain("map '%s' is no more: its index was revoked", entries->name);
        case -E2BIG:
                return complain("key and value are too large for map '%s'", entries->name);
        case -EACCES:
        case -EROFS:
                return complain("your role in this pool does not allow that; ask its operator");
        case -ESHUTDOWN:
                return complain("the current epoch is closed, or that of the maps: see 'epoch list'");
        default:
                return complain("map '%s': %s", entries->name, strerror(-error));
        }
}

static int open_pool(Entries *entries, const char *path, bool writes) {
        const struct tslab_options options = { .size = sizeof(options), .flags = writes ? 0 : TSLAB_READER };
        _cleanup_(proto_freep) char *relative = NULL;

        /* a name without a slash would be that of a pool */
        if (!strchr(path, '/') && asprintf(&relative, "./%s", path) < 0)
                return -ENOMEM;
        return tslab_open(&entries->pool, relative ?: path, &options);
}

CtlExit entries_open_pool(Entries *entries, bool writes) {
        _cleanup_(connection_deinit) Connection connection = CONNECTION_INIT;
        CtlExit exit_code;
        int r;

        exit_code = connection_open(&connection); /* it knows what to say where there is no daemon */
        if (exit_code)
                return exit_code;
        r = open_pool(entries, connection.path, writes);
        if (r ==
            -ECONNRESET) /* the daemon hung up, and the pool is not open: see connection_call_quietly() */
                r = open_pool(entries, connection.path, writes);
        if (r == -EPROTONOSUPPORT)
                return complain(
                        "the memory of the pool is of another format than this tslabctl, %s, knows: use the "
                        "tslabctl of the build that its daemon is of",
                        tslab_version());
        return r < 0 ? complain("cannot open the pool: %s", strerror(-r)) : CTL_DONE;
}

CtlExit entries_open_map(Entries *entries, const char *map, const struct tslab_map_options *options) {
        int r;

        entries_close_map(entries);
        entries->name = map;
        r = tslab_map_open(&entries->map, entries->pool, map, options);
        if (r == -EINVAL && options->limit_bytes > 0 && options->limit_bytes < LIMIT_SURE)
                return complain("map '%s' has a limit of %" PRIu64
                                " bytes there, and in this pool an entry may need more: make the map first",
                                map, options->limit_bytes);
        return r < 0 ? entries_complain(entries, r) : CTL_DONE;
}

CtlExit entries_open(Entries *entries, const char *map, bool writes) {
        const struct tslab_map_options options = { .size = sizeof(options), .flags = TSLAB_MAP_EXISTING };
        CtlExit r = entries_open_pool(entries, writes);

        return r ?: entries_open_map(entries, map, &options);
}

void entries_close_map(Entries *entries) {
        entries->map = tslab_map_close(entries->map);
}

void entries_deinit(Entries *entries) {
        entries_close_map(entries);
        if (entries->pool)
                tslab_close(entries->pool);
        entries->pool = NULL;
}

static int hex_digit(char c) {
        const char *digits = "0123456789abcdef", *found = c ? strchr(digits, c | 0x20) : NULL;

        return found ? (int) (found - digits) : -1;
}

CtlExit entry_key_parse(const char *text, EntryKey *ret) {
        uint8_t *bytes = must(malloc(strlen(text) + 1));
        size_t n = 0;

        for (const char *p = text; *p; p++) {
                if (*p != '\\') {
                        bytes[n++] = (uint8_t) *p;
                } else if (p[1] == '\\') {
                        bytes[n++] = '\\';
                        p++;
                } else if (p[1] == 'x' && hex_digit(p[2]) >= 0 && hex_digit(p[3]) >= 0) {
                        bytes[n++] = (uint8_t) (hex_digit(p[2]) << 4 | hex_digit(p[3]));
                        p += 3;
                } else {
                        free(bytes);
                        return complain_usage("'%s' is no key: after a backslash comes another, or xHH",
                                              text);
                }
        }
        *ret = (EntryKey){ bytes, n };
        return CTL_DONE;
}

char *entry_key_format(const void *key, size_t size) {
        const uint8_t *bytes = key;
        char *text = must(malloc(4 * size + 1)), *at = text;

        for (size_t i = 0; i < size; i++)
                if (bytes[i] == '\\')
                        at += sprintf(at, "\\\\");
                else if (bytes[i] > ' ' && bytes[i] < 0x7f)
                        *at++ = (char) bytes[i];
                else
                        at += sprintf(at, "\\x%02x", bytes[i]);
        *at = '\0';
        return text;
}

static CtlExit complain_key(const Entries *entries, const char *text, int error) {
        switch (error) {
        case -ENOENT:
                return complain("map '%s' has no key '%s'", entries->name, text);
        case -EUCLEAN:
                return complain(
                        "map '%s': a stray write has damaged the value of key '%s'; a put replaces it",
                        entries->name, text);
        default:
                return entries_complain(entries, error);
        }
}

CtlExit entry_get(Entries *entries, const EntryKey *key, const char *text, void **ret_value,
                  struct tslab_map_info *ret_info) {
        int r = tslab_map_get_alloc(entries->map, key->bytes, key->size, ret_value, ret_info);

        return r < 0 ? complain_key(entries, text, r) : CTL_DONE;
}

CtlExit entry_put(Entries *entries, const EntryKey *key, const void *value, size_t size,
                  const uint64_t *ttl_ms) {
        struct tslab_map_put_options options = { .size = sizeof(options), .epoch = TSLAB_EPOCH_CURRENT };
        int r;

        if (ttl_ms)
                options.ttl_ms = *ttl_ms ?: TSLAB_MAP_TTL_NONE;
        r = tslab_map_put_with(entries->map, key->bytes, key->size, value, size, &options);
        return r < 0 ? entries_complain(entries, r) : CTL_DONE;
}

CtlExit entry_delete(Entries *entries, const EntryKey *key, const char *text) {
        int r = tslab_map_delete(entries->map, key->bytes, key->size);

        return r < 0 ? complain_key(entries, text, r) : CTL_DONE;
}

CtlExit entries_delete_all(Entries *entries, uint64_t *ret_n) {
        ssize_t n = tslab_map_expire(entries->map, TSLAB_MAP_EPOCH_ALL);

        *ret_n = n < 0 ? 0 : (uint64_t) n;
        return n < 0 ? entries_complain(entries, (int) n) : CTL_DONE;
}

int entry_next(Entries *entries, struct tslab_map_cursor *cursor, char **ret_key,
               struct tslab_map_info *ret_info) {
        char key[TSLAB_MAP_KEY_MAX];
        int r = tslab_map_next(entries->map, cursor, key, sizeof(key), ret_info);

        if (r == 1 || r == -EUCLEAN)
                *ret_key = entry_key_format(key, ret_info->key_size);
        if (r == -EUCLEAN)
                (void) complain_key(entries, *ret_key, r);
        else if (r < 0)
                (void) entries_complain(entries, r);
        return r;
}
