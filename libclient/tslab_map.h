#pragma once
/*
 * tslab_map: maps of byte strings to byte strings in a pool, shared by any number of processes.
 *
 *      struct tslab_map *map;
 *      char value[4096];
 *      ssize_t n;
 *      int r;
 *
 *      r = tslab_map_open(&map, pool, "sessions", NULL);
 *      r = tslab_map_put(map, "alice", 5, "127 requests", 12, TSLAB_EPOCH_CURRENT);
 *      n = tslab_map_get(map, "alice", 5, value, sizeof(value), NULL);    (here, or in another process)
 *      r = tslab_map_delete(map, "alice", 5);
 *
 *      map = tslab_map_close(map);
 *
 * Nobody waits: there is no lock in the pool. A process that is killed inside a call leaves the old
 * value or the new one, and no memory behind. A get returns a value that the key had at one moment inside
 * the call, never a mixture.
 *
 * A change that depends on the old value loses no change of others when it names the version that it
 * was made from:
 *
 *      do {
 *              tslab_handle version = 0;
 *              uint64_t count = 0;
 *
 *              n = tslab_map_get_version(map, "hits", 4, &count, sizeof(count), &version);
 *              if (n < 0 && n != -ENOENT)
 *                      return n;
 *              count = n < 0 ? 1 : count + 1;
 *              r = tslab_map_replace(map, "hits", 4, version, &count, sizeof(count), TSLAB_EPOCH_CURRENT);
 *      } while (r == -EAGAIN);
 *
 * An entry is one object: 32 bytes, the key and the value, in the epoch its put names. A value that is too large for
 * that is in further objects of that epoch, which belong to the entry alone and take 8 bytes of each 4096. When that
 * epoch is closed the entry stays, until it is deleted, replaced or expired; when it is revoked the entry is absent
 * from then on. A put beside a revocation of its epoch is done before that, or begins anew in the epoch that is open
 * now, or fails with -ESHUTDOWN or -ESTALE; then the old value stays, though the key may have been absent for a moment.
 *
 * The index of all maps of a pool is in one reserved epoch, labelled "maps", that the first map reserves. It grows
 * and shrinks with the entries: at most 48 bytes for each entry, and 33 KiB for each map, if the pool has a class of 64
 * bytes. Close that epoch and maps cannot grow; revoke it and they are gone (-EIDRM).
 *
 * Threads: any thread may make any call at any time, but for tslab_map_close(), which must be the
 * last with this map. While and after tslab_close() closes the pool, calls that change a map return -EBADF,
 * and calls that read one -EIDRM. Fork: a child goes on using its parent's maps. Calls that change a map need a
 * record, as allocating does: see "Fork" and "the attach errors" in <tslab.h>. Reading needs none. Calls but
 * tslab_map_open() do not enter the daemon otherwise. Not async-signal-safe.
 *
 * A thread that has more than 61 objects pending (tslab_alloc_pending()) leaves too few notes for a change.
 */
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <tslab.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A map, open in this process. */
struct tslab_map;

#define TSLAB_MAP_NAME_MAX 43 /* bytes of a name */

/* tslab_map_options.flags */
#define TSLAB_MAP_EXISTING UINT32_C(1) /* do not create it */
#define TSLAB_MAP_EXCLUSIVE UINT32_C(2) /* create it, or fail */

/* struct tslab_map_options options = { .size = sizeof(options), .flags = TSLAB_MAP_EXISTING }; */
struct tslab_map_options {
        size_t size; /* size of this struct, as the program knows it */
        uint32_t flags;
};

/*
 * Opens the map of that name, and creates it where there is none. Takes one of the pool's 64 named
 * roots, "map.NAME", for good; the first map of a pool takes "tslab.maps" and an epoch besides. The caller
 * closes *ret with tslab_map_close(), before the pool. `options` may be NULL. Enters the daemon where an
 * epoch is to be reserved, and waits up to a second for other processes that do control work.
 *
 * -EINVAL      the name is empty or longer than 43 bytes; options are out of range, or of a later version
 * -ENOENT      there is none, and TSLAB_MAP_EXISTING is set or the pool was opened with TSLAB_READER
 * -EEXIST      there is one, and TSLAB_MAP_EXCLUSIVE is set
 * -EUCLEAN     the root of that name is no map; or the control or attach error of that name
 * -ENOSPC      64 named roots have been used; no epoch can be spared
 * -ENOMEM, -ENOBUFS, -ESHUTDOWN (the epoch of the maps was closed just now), the attach errors, and
 * the control errors of <tslab.h>, -EBUSY and -EPERM among them
 */
int tslab_map_open(struct tslab_map **ret, struct tslab *pool, const char *name,
                   const struct tslab_map_options *options);

/* Closes the map in this process and returns NULL; NULL-safe. The map itself stays in the pool. */
struct tslab_map *tslab_map_close(struct tslab_map *map);

/*
 * Returns the size of the largest value that the map takes: 1 MiB by default, 16 MiB at most. A buffer of so many bytes
 * is enough for a get, unless the map took larger values before.
 */
size_t tslab_map_size_max(struct tslab_map *map);

/*
 * Copies a value out and returns its size. *ret_epoch (may be NULL) is the epoch that the value is in, with its
 * era. On failure the buffer's contents are undefined.
 *
 * -ENOENT      no such key
 * -EMSGSIZE    the value is larger than the buffer; tslab_map_get_part() tells its size
 * -EIDRM       the map is no more: its index was revoked
 * -EUCLEAN     a stray write has damaged the entry
 */
ssize_t tslab_map_get(struct tslab_map *map, const void *key, size_t key_size, void *buffer,
                      size_t buffer_size, uint32_t *ret_epoch);

/*
 * Copies a value out as tslab_map_get() does, and tells its version. Every put makes a new version. No other value of
 * the pool has it, and none of the last 2^31 - 1 objects in the same slot had it. A program that keeps a version while
 * that slot is reused so often (for more than three minutes, at 10 million times a second) may meet it again as the
 * version of another value. A version is not a handle to be freed.
 *
 * Fails as tslab_map_get() does, with -ENOENT, -EMSGSIZE, -EIDRM or -EUCLEAN.
 */
ssize_t tslab_map_get_version(struct tslab_map *map, const void *key, size_t key_size, void *buffer,
                              size_t buffer_size, tslab_handle *ret_version);

/* A value is more than its bytes: */
struct tslab_map_value {
        size_t size; /* bytes of the whole value */
        tslab_handle version;
        uint32_t epoch; /* with its era */
        uint32_t reserved[3];
};

/*
 * Copies a part of a value out, from `offset` on, and returns how many bytes that were: fewer than the buffer has where
 * the value ends. With `version` 0 that is a part of the present value; else only of the value that has this version:
 * so a large value is read in parts that belong together. *ret_value (may be NULL) tells the size, also for a buffer of
 * no bytes.
 *
 * -ENOENT      no such key
 * -EAGAIN      it has another version by now: begin again
 * -EIDRM, -EUCLEAN as tslab_map_get()
 */
ssize_t tslab_map_get_part(struct tslab_map *map, const void *key, size_t key_size, tslab_handle version,
                           size_t offset, void *buffer, size_t buffer_size,
                           struct tslab_map_value *ret_value);

/*
 * Copies a value out into memory of its own, which the caller frees with free(); a zero byte follows it.
 *
 * -ENOMEM      malloc() failed
 * -ENOENT, -EIDRM, -EUCLEAN as tslab_map_get()
 */
int tslab_map_get_alloc(struct tslab_map *map, const void *key, size_t key_size, void **ret,
                        struct tslab_map_value *ret_value);

/*
 * Sets a key's value, with or without a value before. `epoch` is as in tslab_alloc(). Key and value are copied.
 *
 * -E2BIG       the value is larger than tslab_map_size_max(), or the key than the largest class less 40 bytes
 * -EINVAL      no such epoch
 * -ESHUTDOWN   the epoch is closed; or that of the maps is, and the index would have to grow
 * -ESTALE      the era of `epoch` is over
 * -ENOMEM      as tslab_alloc(); nothing was changed
 * -ENOBUFS     too many objects are pending in this thread
 * -ENOSPC      there were over 900 keys of one 64-bit hash: not by chance
 * -EROFS       the pool was opened with TSLAB_READER
 * -EIDRM       the map is no more
 * and the attach errors
 */
int tslab_map_put(struct tslab_map *map, const void *key, size_t key_size, const void *value,
                  size_t value_size, uint32_t epoch);

/* Sets a value as tslab_map_put() does, if the key is absent. -EEXIST: it is present. */
int tslab_map_insert(struct tslab_map *map, const void *key, size_t key_size, const void *value,
                     size_t value_size, uint32_t epoch);

/* Sets a value as tslab_map_put() does, if the key is present. -ENOENT: it is absent. */
int tslab_map_update(struct tslab_map *map, const void *key, size_t key_size, const void *value,
                     size_t value_size, uint32_t epoch);

/*
 * Sets a value as tslab_map_put() does, if the present value has this version; 0: if the key is absent.
 * -EAGAIN: another put or delete came between.
 */
int tslab_map_replace(struct tslab_map *map, const void *key, size_t key_size, tslab_handle version,
                      const void *value, size_t value_size, uint32_t epoch);

/*
 * Deletes a key and frees its entry.
 *
 * -ENOENT      no such key
 * -ENOBUFS, -EROFS, -EIDRM and the attach errors
 */
int tslab_map_delete(struct tslab_map *map, const void *key, size_t key_size);

/* Deletes as tslab_map_delete() does, if the value has this version, not 0. -EAGAIN: it has another one. */
int tslab_map_delete_version(struct tslab_map *map, const void *key, size_t key_size, tslab_handle version);

/*
 * Deletes all entries that are in an epoch and returns how many. Era 0 stands for all eras of the id. Walks
 * through the whole map, and also removes entries from the index that were revoked. An entry that is put
 * meanwhile may be missed; close the epoch first.
 *
 * -ENOBUFS, -EROFS, -EIDRM and the attach errors; some may have been deleted
 */
ssize_t tslab_map_expire(struct tslab_map *map, uint32_t epoch);

/*
 * Walks through the entries of a map, in no order that means anything:
 *
 *      struct tslab_map_iter iter = TSLAB_MAP_ITER_INIT;
 *
 *      while ((r = tslab_map_next(map, &iter)) > 0)
 *              printf("%.*s\n", (int) iter.key_size, (const char *) iter.key);
 *
 * It holds nothing, needs no release, and must not be copied while in use.
 */
struct tslab_map_iter {
        /* The entry: a copy, in this struct, until the next call. */
        const void *key;
        const void *value; /* NULL: it is large; to be had by its key and version with tslab_map_get_part() */
        size_t key_size;
        size_t value_size;
        uint32_t epoch;
        uint32_t reserved[3];
        tslab_handle version;
        /* Not for programs. */
        uint64_t position[2];
        uint64_t buffer[512];
};
#define TSLAB_MAP_ITER_INIT                                                                                  \
        { 0 }

/*
 * Goes on to the next entry. Returns 1 with the entry in *iter, or 0 if there are no more. May run beside
 * writers: an entry that is present from the first call to the last is met exactly once, with some value that it
 * had meanwhile; other entries are met at most once.
 *
 * -EIDRM       the map is no more
 */
int tslab_map_next(struct tslab_map *map, struct tslab_map_iter *iter);

/* Counts the entries; beside writers, approximately. Walks through all of them. -EIDRM: the map is no more. */
ssize_t tslab_map_count(struct tslab_map *map);

#ifdef __cplusplus
}
#endif
