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
 * Calls do not wait for other threads, with three exceptions: tslab_map_wait(); tslab_map_open(), for up to a second;
 * and a change that finds no memory, or its map full, and nothing to evict. Before such a change fails, it may wait:
 *
 *   - with -ENOMEM, for slots in the caches of all threads. It asks the daemon to empty them and waits for up to 20 ms:
 *     for the whole 20 ms if there is no daemon now. In a private pool it empties them itself, and waits up to 200 ms
 *     for threads that are inside a call. Of all calls of a process one in 100 ms does so; the others fail at once.
 *   - in a private pool whose entries expire, until it has deleted expired entries, for some 30 ms at most.
 *
 * No change waits while the pool has memory and the map has room. That is so in a pool that is larger than the limits
 * of its maps together, and in one whose maps evict and have most of its memory.
 *
 * A process that is killed inside a call leaves the old value or the new one, and loses no memory. A get returns a
 * value that the key had at one moment inside the call, never a mixture.
 *
 * A change that depends on the old value loses no change of others if it names the version from which it was made:
 *
 *      do {
 *              tslab_handle version = 0;
 *              uint64_t count = 0;
 *
 *              n = tslab_map_get(map, "hits", 4, &count, sizeof(count), &version);
 *              if (n < 0 && n != -ENOENT)
 *                      return n;
 *              count = n < 0 ? 1 : count + 1;
 *              r = tslab_map_replace(map, "hits", 4, version, &count, sizeof(count), TSLAB_EPOCH_CURRENT);
 *      } while (r == -EAGAIN);
 *
 * An entry is one object: 32 bytes, the key and the value, in the epoch that its put names. A value that is too large
 * for one object continues in further objects of that epoch, which belong to the entry alone; they take 8 more bytes
 * for each 4096. An entry of more than 816 bytes is also divided wherever two smaller objects take less memory than
 * one.
 *
 * When the epoch is closed, its entries stay until they are deleted, replaced or expired. When it is revoked, they are
 * absent from then on, and their memory goes back. Then the daemon, or in a private pool the process that revokes,
 * walks through all maps of the pool, and takes these entries out of the indexes and counts: that walk meets each entry
 * of each map, also those that were put since, and leaves them. A put at the same time as a revocation of its epoch is
 * done before that, or begins anew in the epoch that is open now, or fails with -ESHUTDOWN or -ESTALE. If it fails, the
 * old value stays, though the key may have been absent for a moment.
 *
 * Entries may have a lifetime (tslab_map_put_with(), tslab_map_options). Its clock goes on while the system is
 * suspended, and does not follow the wall clock. It is exact to a tick of the kernel, which takes 1 to 10 ms, or longer
 * where the ticks of a virtual machine come late. When the time of a key is over, the key is absent at once, for all
 * calls. Its memory goes back within a second: the daemon sees to that or, in a private pool, calls that change maps.
 * In a private pool, a call that finds no memory, or no room below the limit, first deletes expired entries, with stale
 * values; in a daemon's pool these go within a second after such a call has failed. Processes
 * in different time namespaces have one clock for this. A process learns its namespace's offset from /proc; without
 * that, or between its own unshare(2) and fork(2) in a namespace that is not the host's, it is taken to have none.
 *
 * Limits. A map with limit_bytes keeps its entries within so many bytes of the pool's memory. An object of an entry
 * counts with its part of a slab and of the slab's tables: 4416 bytes, divided by the number of objects of its size
 * class that a slab has room for. The entry counts with 48 bytes more, its part of the index; tslab_map_statistics()
 * has the sum. Slots that are free for other entries of their size come on top: where they come to be many, since sizes
 * change, the entries between them are evicted, also those that were used. The index of a map of less than some
 * thousand entries takes more than counts.
 * Threads count by themselves, so that together they may exceed the limit by a 64th, and by an entry each. A thread
 * that does nothing meanwhile may have up to 64 KiB of entries that only it has counted; they come on top until it
 * changes the map. A put that has looked at 1 GiB of the pool or at 16384 claims, and found no entry to evict,
 * exceeds the limit, too, and the next one looks on from there. When the limit of a map that evicts is lowered, each
 * put deletes a few more entries than it brings, until the map is within the limit. A map that does not evict keeps
 * its entries then; each may be replaced by one that takes no more.
 *
 * Eviction. A put that would exceed the limit fails with -ENOSPC or, with TSLAB_MAP_EVICT_SIEVE, evicts: it first
 * deletes as many entries as it needs room for, namely those that were not used for long. Where sizes differ, large
 * entries that were not used since they were put go before small ones. To get, replace or touch an entry, or to add to
 * it, is to use it; a get in a pool that was opened with TSLAB_READER does not count. Entries of any size are evicted,
 * counters and buckets, too; an entry that was put just now is not the next to go.
 *
 * A put into such a map also evicts if the pool has no memory left, whether the map has a limit or not. The entries
 * that go are those of the largest map of the pool that evicts, or of the put's own map if no other is larger by more
 * than an eighth. They go for everything else that needs memory, too: objects, puts into maps that do not evict, new
 * maps. So a pool that is full of such entries refuses nothing, and maps that put much come to have equal shares. A map
 * that needs less than its share loses only entries in slabs that are emptied for others; a map that does not evict
 * loses nothing. To keep a map to less, give it a limit.
 *
 * In its own map, a put evicts entries of the size that it needs, or else all entries of whole slabs, so that a change
 * of sizes does not end in failures. In another map it evicts all entries of whole slabs. If slabs are shared with
 * objects, or with entries of maps that do not evict, they are not empty when the entries are gone: then one put of a
 * new size may evict most of what the evicting maps have, or all of it. If a value is larger than all their entries and
 * the free memory together, nothing is evicted for it. A put still fails with -ENOMEM if its memory cannot come from
 * entries of maps that evict: the rest of the pool is objects, entries of other maps, claims that stand, values that
 * other threads are about to put, or slots in caches of threads that are stopped inside a call.
 *
 * The index of all maps of a pool is in one reserved epoch, labelled "maps", which the first map reserves. It grows and
 * shrinks with the entries: it takes at most 48 bytes for each entry, and 33 KiB for each map, if the pool has a class
 * of 64 bytes. Each thread also keeps the nodes of one key that it deleted, in case it puts the key again. If you close
 * that epoch, its maps cannot grow, for good: a closed epoch cannot be opened again. Maps that are made afterwards
 * have another such epoch, and grow. If you revoke the epoch, the maps in it are gone (-EIDRM), and begin empty when
 * they are opened again. Their entries then take memory until the epochs that the puts named are revoked, too:
 * nothing else frees them, not even eviction.
 *
 * Threads: any thread may make any call at any time, except tslab_map_close(), which must be the last with this map.
 * While tslab_close() closes the pool, and afterwards, calls that change a map return -EBADF, and calls that read one
 * -EIDRM. Fork: a child goes on using its parent's maps. Calls that change a map need a record, as allocating does: see
 * "Fork" and "the attach errors" in <tslab.h>. Reading needs none. Apart from attaching, only tslab_map_open() enters
 * the daemon. No call is async-signal-safe.
 *
 * A change of a map needs notes in the thread's record. A thread that has more than 61 objects pending
 * (tslab_alloc_pending()) leaves too few of them.
 */
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <tslab.h>

#ifdef __cplusplus
extern "C" {
/* In C, a struct and a call may have one name; -Wshadow takes the call for one that hides a constructor. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#endif

/* A map, open in this process. */
struct tslab_map;

enum tslab_map_size {
        TSLAB_MAP_KEY_MAX = 4096, /* no key is larger, whichever classes the pool has */
        TSLAB_MAP_TAGS_MAX = 4, /* an entry has so many at most */
        TSLAB_MAP_NAME_MAX = 43, /* bytes of a name, which is UTF-8 without control characters */
};

/* tslab_map_options.flags */
enum tslab_map_flag {
        TSLAB_MAP_EXISTING = 1, /* do not create it */
        TSLAB_MAP_EXCLUSIVE = 2, /* create it, or fail */
};

/* Lifetimes, in milliseconds. A number from 1 to the largest is one; longer ones are refused, with -EINVAL. */
__extension__ enum tslab_map_ttl {
        TSLAB_MAP_TTL_DEFAULT = 0, /* that of the map, see tslab_map_options */
        TSLAB_MAP_TTL_MAX = 315576000000, /* ten years */
        TSLAB_MAP_TTL_NONE = UINT64_MAX, /* no end */
};

/* tslab_map_options.evict */
enum tslab_map_evict {
        TSLAB_MAP_EVICT_NEVER = 0, /* puts fail where the map is full */
        TSLAB_MAP_EVICT_SIEVE = 1, /* entries that were not used for long make room */
};

/*
 * struct tslab_map_options options = { .size = sizeof(options), .flags = TSLAB_MAP_EXISTING };
 *
 * All but the flags belong to the map: they count only if this call creates it.
 */
struct tslab_map_options {
        size_t size; /* size of this struct, as the program knows it */
        uint64_t ttl_ms; /* lifetime of entries that are put without one; 0: no end */
        /* Memory of the entries, the smallest class at least, see "Limits" in tslab_map(3); 0: as much as there is */
        uint64_t limit_bytes;
        uint32_t value_max; /* size of the largest value, 16 MiB at most; 0: 1 MiB */
        uint32_t stale_ms; /* how long stale values of expired entries can be had, if there is room; 0: not */
        uint32_t evict; /* TSLAB_MAP_EVICT_* */
        uint32_t flags;
};

/*
 * Opens the map of that name, and creates it where there is none. A map takes one of the pool's 255 named
 * roots, "map.NAME", until it is removed; the first map of a pool takes "tslab.maps" and an epoch besides. The caller
 * closes *ret with tslab_map_close(), before the pool. `options` may be NULL. Enters the daemon where an
 * epoch is to be reserved, and waits up to a second for other processes that do control work.
 *
 * -EINVAL      the name is empty, longer than 43 bytes or not printable text; options are out of range, or of a
 *              later version; the limit is below the smallest entry
 * -ENOENT      there is none, and TSLAB_MAP_EXISTING is set or the pool was opened with TSLAB_READER
 * -EEXIST      there is one, and TSLAB_MAP_EXCLUSIVE is set
 * -EUCLEAN     the root of that name is no map; or the control or attach error of that name
 * -ENOSPC      all 255 named roots are in use: remove maps, or unset roots; no epoch can be spared
 * -ENOMEM, -ENOBUFS, -ESHUTDOWN (the epoch of the maps was closed just now), the attach errors, and
 * the control errors of <tslab.h>, -EBUSY and -EPERM among them. Where operators alone may reserve epochs
 * (TSLAB_OPERATORS_ONLY), -EPERM for the first map, unless one of them has run "tslabctl epoch reserve maps".
 */
int tslab_map_open(struct tslab_map **ret, struct tslab *pool, const char *name,
                   const struct tslab_map_options *options);

/* Options of a map that tslab_map_set_options() changes. */
enum tslab_map_set {
        TSLAB_MAP_SET_LIMIT = 1, /* limit_bytes */
        TSLAB_MAP_SET_TTL = 2,
        TSLAB_MAP_SET_STALE = 4,
        TSLAB_MAP_SET_VALUE_MAX = 8,
        TSLAB_MAP_SET_EVICT = 16,
};

/*
 * Changes options of the map, for all programs that use it: those that `set` names by TSLAB_MAP_SET_*, all at once. The
 * others, and options->flags, do not count. So a program may give a map that others made before it the options
 * that the map should have. A control call; "tslabctl maps set" does the same.
 *
 * -EINVAL      `set` is 0 or names others; options as for tslab_map_open()
 * -EIDRM       the map is no more
 * and the control errors
 */
int tslab_map_set_options(struct tslab_map *map, const struct tslab_map_options *options, uint32_t set);

/*
 * Removes a map from the pool, with all its entries, for all programs. Its name is free for another map. For programs
 * that have it open it is no more from then on: their calls return -EIDRM, threads that wait for its claims wake, and
 * programs that want it open it again, which makes a new map. Its memory goes back soon: the daemon sees to that or, in
 * a private pool, calls that change maps, or tslab_reap(). tslab_root_set() does the same where it unsets a root
 * "map.NAME".
 *
 * -EINVAL      as tslab_map_open()
 * -ENOENT      there is no map of that name
 * -EROFS       the pool was opened with TSLAB_READER
 * and the attach errors
 */
int tslab_map_remove(struct tslab *pool, const char *name);

/* Closes the map in this process and returns NULL; NULL-safe. The map itself stays in the pool. */
struct tslab_map *tslab_map_close(struct tslab_map *map);

/*
 * Returns the size of the largest value that the map takes. That is tslab_map_options.value_max, or less if the chunks
 * of the pool's largest class cannot make up so much. A buffer of this size is enough for a get, unless the map took
 * larger values before.
 */
size_t tslab_map_size_max(struct tslab_map *map);

/*
 * Copies a value out and returns its size. *ret_version (may be NULL) is its version. Every put makes a new version. No
 * other value of the pool has it, and none of the last 2 thousand million objects in the same slab had it. If a program
 * keeps a version while so many objects are made in that slab, which takes more than three minutes at 10 million a
 * second, it may meet it again as the version of another value. A version is not a handle to be freed. On failure the
 * buffer's contents are undefined.
 *
 * -ENOENT      no such key
 * -EMSGSIZE    the value is larger than the buffer; tslab_map_find() tells its size
 * -EIDRM       the map is no more: it was removed, or its index was revoked
 * -EUCLEAN     a stray write has damaged the entry
 */
ssize_t tslab_map_get(struct tslab_map *map, const void *key, size_t key_size, void *buffer,
                      size_t buffer_size, tslab_handle *ret_version);

/* tslab_map_info.flags */
enum tslab_map_entry_flag {
        TSLAB_MAP_COUNTER = 1, /* the entry is a counter or a bucket */
        TSLAB_MAP_STALE = 2, /* its time is over; also for tslab_map_info.accept */
        TSLAB_MAP_KEY_ONLY = 4, /* tslab_map_next(): the buffer had no room for the value */
        TSLAB_MAP_BUCKET = 8, /* beside TSLAB_MAP_COUNTER: the entry is a bucket */
        TSLAB_MAP_TAGGED = 16, /* the entry has tags, see tslab_map_tag() */
};

/* An entry is more than the bytes of its value: */
struct tslab_map_info {
        size_t size; /* size of this struct, as the program knows it: set it before the call */
        uint32_t epoch; /* the epoch that the value is in, with its era */
        uint32_t flags;
        tslab_handle version; /* as tslab_map_get(); of a stale value 0, as of an absent key */
        uint64_t ttl_left_ms; /* until the entry ends; UINT64_MAX: it does not */
        uint64_t value_size; /* bytes of the whole value */
        uint32_t accept; /* set before the call: TSLAB_MAP_STALE, if a stale value will do; else 0 */
        uint32_t key_size; /* bytes of the key */
        tslab_handle place; /* for tslab_map_read(): where the value is, also a stale one */
};

/*
 * Copies a value out as tslab_map_get() does, and describes its entry (unless ret_info is NULL). It does so even if the
 * buffer is too small, so that the caller can make it large enough. On other failures *ret_info is as it was.
 *
 * With TSLAB_MAP_STALE in ret_info->accept the call also copies an expired value, as long as the map keeps it
 * (tslab_map_options.stale_ms) and nothing has taken its place: a claim does not count as such, see tslab_map_claim().
 * Counters are not kept.
 *
 * -EINVAL      ret_info->size or ret_info->accept is out of range
 * and as tslab_map_get(): -ENOENT, -EMSGSIZE, -EIDRM or -EUCLEAN
 */
ssize_t tslab_map_get_with(struct tslab_map *map, const void *key, size_t key_size, void *buffer,
                           size_t buffer_size, struct tslab_map_info *ret_info);

/*
 * Looks a key up once, for a program that wants to know the size of the value before it makes room for it:
 *
 *      struct tslab_map_info info = { .size = sizeof(info) };
 *
 *      do {
 *              r = tslab_map_find(map, key, key_size, &info);
 *              if (r)
 *                      return r;
 *              buffer = room_for(info.value_size);
 *              n = tslab_map_read(map, info.place, 0, buffer, info.value_size);
 *      } while (n == -ESTALE);
 *
 * Nothing is held in between: the place is a number. ret_info is as in tslab_map_get_with(), which this call counts as.
 *
 * -EINVAL, -ENOENT, -EIDRM as tslab_map_get_with()
 */
int tslab_map_find(struct tslab_map *map, const void *key, size_t key_size, struct tslab_map_info *ret_info);

/*
 * Copies a value that was found, from `offset` on, and returns how many bytes it copied: fewer than the buffer has if
 * the value ends there. So the parts of a large value belong together. `place` is that of tslab_map_find(), or a
 * version; no key is looked up.
 *
 * -ESTALE      the value was replaced, deleted, evicted or revoked meanwhile, or there is no such value in this map
 * -EIDRM       the map is no more
 * -EUCLEAN     a stray write has damaged the entry
 */
ssize_t tslab_map_read(struct tslab_map *map, tslab_handle place, size_t offset, void *buffer,
                       size_t buffer_size);

/*
 * Copies a value out into memory of its own, which the caller frees with free(); a zero byte follows it. ret_info is as
 * in tslab_map_get_with().
 *
 * -ENOMEM      malloc() failed
 * -EINVAL, -ENOENT, -EIDRM, -EUCLEAN as tslab_map_get_with()
 */
int tslab_map_get_alloc(struct tslab_map *map, const void *key, size_t key_size, void **ret,
                        struct tslab_map_info *ret_info);

/* One of the keys of tslab_map_get_many() and tslab_map_put_many(). */
struct tslab_map_item {
        const void *key;
        size_t key_size;
        void *value; /* get: a buffer; put: the value, which stays as it is */
        size_t value_size; /* bytes of the buffer, or of the value; a get that finds a value sets it */
        int64_t result; /* as the call for one key returns */
        tslab_handle version; /* a get tells it; TSLAB_MAP_REPLACE takes it */
};

/*
 * Gets the values of n keys, each as tslab_map_get() does, with its result in the item. The values are not those of one
 * moment. Where entries are not in the processor's cache, it takes about half the time of as many single calls: the
 * memory of several keys is fetched at one time. Returns how many values were copied.
 *
 * -EIDRM       the map is no more
 */
ssize_t tslab_map_get_many(struct tslab_map *map, struct tslab_map_item *items, size_t n);

/*
 * Sets a key's value, with or without a value before. `epoch` is as in tslab_alloc(). Key and value are copied.
 *
 * -E2BIG       the value is larger than tslab_map_size_max(), or the key than the largest class less 40 bytes, or the
 *              entry alone than the map's limit
 * -EINVAL      no such epoch
 * -ESHUTDOWN   the epoch is closed; or that of the maps is, and the index would have to grow
 * -ESTALE      the era of `epoch` is over
 * -ENOMEM      as tslab_alloc(); nothing was changed. With the default classes an entry is replaced while as many
 *              slabs of 4096 bytes are empty as 1.1 x its key and value take, rounded up. More may be needed: one for a
 *              key of more than 3900 bytes; one or, rarely, two for a new key, if the slabs of the index have no free
 *              slots; a few if the list of classes ends below 4096 bytes
 * -ENOBUFS     too many objects are pending in this thread
 * -ENOSPC      the map's limit is reached, it does not evict, and the put would take more memory than the entry that it
 *              replaces; or there were over 900 keys of one 64-bit hash: not by chance
 * -EROFS       the pool was opened with TSLAB_READER
 * -EIDRM       the map is no more
 * and the attach errors
 */
int tslab_map_put(struct tslab_map *map, const void *key, size_t key_size, const void *value,
                  size_t value_size, uint32_t epoch);

/* tslab_map_put_options.mode */
enum tslab_map_mode {
        TSLAB_MAP_PUT = 0, /* whether the key has a value or not */
        TSLAB_MAP_INSERT = 1, /* if it has none; else -EEXIST */
        TSLAB_MAP_UPDATE = 2, /* if it has one; else -ENOENT */
        TSLAB_MAP_REPLACE =
                3, /* if its value has the version that is named, as tslab_map_replace(); else -EAGAIN */
};

/*
 * struct tslab_map_put_options options = {
 *         .size = sizeof(options), .epoch = TSLAB_EPOCH_CURRENT, .ttl_ms = 60000,
 * };
 */
struct tslab_map_put_options {
        size_t size; /* size of this struct, as the program knows it */
        uint64_t ttl_ms; /* the entry's lifetime, or TSLAB_MAP_TTL_DEFAULT, TSLAB_MAP_TTL_NONE */
        uint32_t epoch;
        uint32_t mode;
        uint32_t n_tags; /* how many `tags` there are, TSLAB_MAP_TAGS_MAX at most */
        uint32_t reserved; /* 0 */
        tslab_handle version; /* TSLAB_MAP_REPLACE: the version that is to be replaced; 0: none */
        const tslab_handle *tags; /* from tslab_map_tag(); NULL: none */
};

/*
 * Sets a value as tslab_map_put() does, on a condition, and with a lifetime: once that is over, the key is absent.
 * `options` may be NULL: then as tslab_map_put() in the current epoch.
 *
 * -EINVAL      options are out of range, or of a later version; no such epoch
 * -EEXIST, -ENOENT, -EAGAIN by the mode
 * and the errors of tslab_map_put()
 */
int tslab_map_put_with(struct tslab_map *map, const void *key, size_t key_size, const void *value,
                       size_t value_size, const struct tslab_map_put_options *options);

/*
 * Tags: an entry is put with up to four tags, and one call makes all entries of a tag absent at once, in all processes,
 * however many there are. A tag is any bytes, as a key is; the two do not meet.
 *
 *      struct tslab_map_put_options options = {
 *              .size = sizeof(options), .epoch = TSLAB_EPOCH_CURRENT, .tags = &tag, .n_tags = 1,
 *      };
 *
 *      r = tslab_map_tag(pages, "product 17", 10, TSLAB_EPOCH_CURRENT, &tag);       (before the page is made)
 *      make_page(page);
 *      r = tslab_map_put_with(pages, url, url_size, page, page_size, &options);
 *      ...
 *      r = tslab_map_invalidate(pages, "product 17", 10);                             (the product was changed)
 *
 * tslab_map_tag() tells the tag as it is now, and makes it if it is absent. Ask before the value is computed: if the
 * tag is invalidated after that, even before the put, the entry is absent from the first, and the put returns 0. So a
 * value that was computed from data of before an invalidation is never found after it. The handle is good for puts
 * within an hour; an entry that is put later may be absent.
 *
 * A tag is an entry of 32 bytes and its name, in the epoch that is named; tslab_map_statistics() counts it as one, and
 * no walk meets it. It goes when its entries have ended. If it is evicted, or its epoch is revoked, its entries are
 * absent from then on. Entries without tags pay nothing; with tags they take 8 bytes for each.
 *
 * -E2BIG       the tag is larger than the largest key
 * and the errors of tslab_map_put()
 */
int tslab_map_tag(struct tslab_map *map, const void *tag, size_t tag_size, uint32_t epoch,
                  tslab_handle *ret_tag);

/*
 * Invalidates a tag: when the call returns, all entries that have it are absent, stale values too, and so are those
 * that are put later with a handle that tslab_map_tag() told before. Their memory goes back within some seconds, or
 * when memory is wanted. If the process is killed in this call, the tag was invalidated or not.
 *
 * -ENOENT      no entry has the tag
 * -EROFS, -EIDRM and the attach errors
 */
int tslab_map_invalidate(struct tslab_map *map, const void *tag, size_t tag_size);

/*
 * Sets the values of n keys, each as tslab_map_put_with() does with these options, with its result in the item; the
 * version that TSLAB_MAP_REPLACE replaces is the item's. A call that fails, or whose process is killed, has set some of
 * them. Returns how many were set.
 *
 * -EINVAL      options are out of range, or of a later version
 * -EROFS       the pool was opened with TSLAB_READER
 */
ssize_t tslab_map_put_many(struct tslab_map *map, struct tslab_map_item *items, size_t n,
                           const struct tslab_map_put_options *options);

/*
 * Gives an entry another lifetime, from now on, without changing its value or version. If the process is stopped in
 * this call until after the entry's end, the touch may bring the entry back, unless a value or a claim has taken its
 * place.
 *
 * -ENOENT      no such key
 * -EINVAL      the entry is a token bucket, which would be full without its entry
 * -EROFS, -EIDRM and the attach errors
 */
int tslab_map_touch(struct tslab_map *map, const void *key, size_t key_size, uint64_t ttl_ms);

/*
 * Touches an entry as tslab_map_touch() does, and copies its value out as tslab_map_get_with() does: in one step, so
 * the value is that of the entry which has the new lifetime. A session whose lifetime begins anew with each request
 * takes one look-up then. If the buffer is too small, the entry keeps its lifetime. It counts as a get.
 *
 * -ENOENT      no such key; stale values are not touched
 * -EMSGSIZE    the buffer is too small
 * -EINVAL      as tslab_map_touch(); ret_info->size is out of range, or ret_info->accept is not 0
 * -EUCLEAN     as tslab_map_get()
 * -EROFS, -EIDRM and the attach errors
 */
ssize_t tslab_map_get_touch(struct tslab_map *map, const void *key, size_t key_size, uint64_t ttl_ms,
                            void *buffer, size_t buffer_size, struct tslab_map_info *ret_info);

/*
 * Adds to a counter, in place: an entry whose value is an int64_t in the machine's byte order, as tslab_map_get()
 * copies it. If the key is absent, the call puts a counter there, in the current epoch, as if it had been `initial`. If
 * a process is killed in this call, the add was done or not. *ret_value (may be NULL) is the sum.
 *
 * `ttl_ms` is the lifetime of a counter that the call puts; that of one that is there stays as it is. The version of a
 * counter stays, too: it names the counter and not its value.
 *
 * -EINVAL      the key has a value that is no counter
 * -EOVERFLOW   the sum is beyond what an int64_t holds; the counter is as it was
 * and the errors of tslab_map_put()
 */
int tslab_map_add(struct tslab_map *map, const void *key, size_t key_size, int64_t delta, int64_t initial,
                  uint64_t ttl_ms, int64_t *ret_value);

/* tslab_map_add_options.mode */
enum tslab_map_add_mode {
        TSLAB_MAP_ADD = 0,
        TSLAB_MAP_ADD_WRAP = 1, /* sums are modulo 2^64, and never -EOVERFLOW */
        TSLAB_MAP_ADD_SET = 2, /* `value` takes the place of the counter's value */
};

/*
 * struct tslab_map_add_options options = { .size = sizeof(options), .mode = TSLAB_MAP_ADD_SET };
 */
struct tslab_map_add_options {
        size_t size; /* size of this struct, as the program knows it */
        uint64_t ttl_ms; /* lifetime of a counter that the call puts */
        int64_t initial;
        uint32_t mode;
        uint32_t reserved; /* 0 */
};

/*
 * Adds `value` to a counter as tslab_map_add() does, modulo 2^64, or sets the counter to it, as the options say; NULL:
 * as tslab_map_add() without an initial value. A counter that is set keeps its version and lifetime, so that
 * tslab_map_add_at() goes on; the adds of others come before it or after it.
 *
 * -EINVAL      options are out of range, or of a later version
 * and the errors of tslab_map_add()
 */
int tslab_map_add_with(struct tslab_map *map, const void *key, size_t key_size, int64_t value,
                       const struct tslab_map_add_options *options, int64_t *ret_value);

/*
 * Adds as tslab_map_add() does, to the counter that has this version (tslab_map_get()), without looking up its
 * key. A program keeps the versions of counters that it adds to often, and upon -ESTALE goes back to tslab_map_add().
 * While another process deletes or replaces the counter, the call may still add to it although a get already misses the
 * key. The sum is then deleted with the counter.
 *
 * -ESTALE      the counter was deleted, replaced or revoked, or its time is over
 * -EINVAL      that is no counter of this map
 * -EOVERFLOW   as tslab_map_add()
 * -EROFS, -EBADF and the attach errors
 */
int tslab_map_add_at(struct tslab_map *map, tslab_handle counter, int64_t delta, int64_t *ret_value);

/*
 * Limits a rate: takes `cost` tokens from the key's bucket, which gets `per_second` tokens a second and holds up to
 * `burst`. An absent key is a full bucket, and a bucket that is full again is not kept.
 *
 *      r = tslab_map_limit(limits, address, address_size, 10, 20, 1, &retry_ms);
 *      if (r == 1)
 *              refuse(retry_ms);
 *
 * Returns 0 where the tokens were taken, or 1 where there are too few; *ret_retry_ms (may be NULL) is then how long
 * it takes until there are enough, if nobody else takes any, and else 0. A cost of 0 takes nothing and returns 0. A
 * bucket that became empty with another rate or burst is full again when that would have filled it.
 *
 * -EINVAL      per_second is not above 0, or over 1e9; burst is 0, or less than cost, or takes more than 2^62 ns (146
 *              years) to fill; the value of the key is no bucket
 * and the errors of tslab_map_put()
 */
int tslab_map_limit(struct tslab_map *map, const void *key, size_t key_size, double per_second,
                    uint32_t burst, uint32_t cost, uint64_t *ret_retry_ms);

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
 * Deletes a key and copies its value out, in one step. Of several calls that take a value one gets it, and no put or
 * add comes between. An add to a counter is part of the value that is taken, or begins a new counter. ret_info is as in
 * tslab_map_get_with(), also if the buffer is too small: then nothing is deleted. Stale values are not taken.
 *
 * If a process is killed in this call, the entry is there as it was, or it is gone and nobody has its value.
 *
 * -ENOENT      no such key
 * -EMSGSIZE    the buffer is too small
 * -EINVAL      ret_info->size is out of range, or ret_info->accept is not 0
 * -EUCLEAN     as tslab_map_get()
 * -ENOBUFS, -EROFS, -EIDRM and the attach errors
 */
ssize_t tslab_map_take(struct tslab_map *map, const void *key, size_t key_size, void *buffer,
                       size_t buffer_size, struct tslab_map_info *ret_info);

/*
 * One computation at a time: of all that miss a key, one claims it and computes its value; the others wait, or go on
 * with a stale value.
 *
 *      struct tslab_map_info info = { .size = sizeof(info), .accept = TSLAB_MAP_STALE };
 *      tslab_handle claim;
 *
 *      for (;;) {
 *              n = tslab_map_get_with(map, key, key_size, buffer, sizeof(buffer), &info);
 *              if (n != -ENOENT && !(n >= 0 && (info.flags & TSLAB_MAP_STALE)))
 *                      return n;
 *              r = tslab_map_claim(map, key, key_size, TSLAB_EPOCH_CURRENT, &claim);
 *              if (r == 0)
 *                      break;
 *              if (r != -EEXIST && (n >= 0 || r != -EBUSY))
 *                      return n;
 *              if (r == -EBUSY && tslab_map_wait(map, key, key_size, claim, 2000) == -ETIMEDOUT)
 *                      return -ETIMEDOUT;
 *      }
 *      n = compute(buffer);
 *      if (n < 0)
 *              tslab_map_delete_version(map, key, key_size, claim);
 *      else
 *              tslab_map_replace(map, key, key_size, claim, buffer, n, TSLAB_EPOCH_CURRENT);
 *
 * A claim belongs to the process that made it. It stands until
 *   - a put takes its place: tslab_map_replace() and tslab_map_put_with() with the claim's version, which fulfil it, or
 *     any other put or insert of the key, an add to it, or a limit that takes tokens;
 *   - it is given up, by tslab_map_delete_version() with its version. Then a stale value that the claim has a copy of
 *     stays for the rest of stale_ms, or until it is evicted; it goes at once if there is no memory for it, or if its
 *     epoch is closed;
 *   - it is deleted, and any stale value with it: by tslab_map_delete(), which returns -ENOENT as for an absent key, or
 *     by tslab_map_expire();
 *   - the process ends, or closes the pool. Then the claim is free, and its waiters return within some milliseconds. A
 *     forked child is another process;
 *   - a daemon notices that the process executed another program, as tslab-arena(7) says: mostly within seconds;
 *   - 30 seconds are over. This ends the claim of a thread that ended without its process, of a program that forgot its
 *     claim, and, in a private pool, of a process that executed another program. As long as nothing has taken the
 *     claim's place, a replace or delete with its version may still succeed after that.
 * Once a claim is no more, a replace or delete with its version is refused: -EAGAIN, or -ENOENT. So a value that was
 * computed from data which was deleted meanwhile does not come into the map.
 *
 * To all other calls a claimed key is absent; tslab_map_statistics() counts it as an entry. A claim is one object of 64
 * bytes and the key. If the key has a stale value, and the map keeps it (tslab_map_options.stale_ms), the claim has a
 * copy of it, and takes the memory of that, too. If there is no memory for the copy, the claim is made without it.
 *
 * Returns 0: the caller has the claim, and *ret_version names it.
 *
 * -EEXIST      the key has a value
 * -EBUSY       another claim stands, which *ret_version names; another thread of this process may have made it
 * -E2BIG       the key is larger than the largest class less 72 bytes
 * -ENOSPC      as a put; also if a map that evicts has little but claims that stand
 * and the errors of tslab_map_put()
 */
int tslab_map_claim(struct tslab_map *map, const void *key, size_t key_size, uint32_t epoch,
                    tslab_handle *ret_version);

/*
 * Claims as tslab_map_claim() does, for `limit_ms` in place of the 30 seconds: for a computation that is known to take
 * longer, or a lock that is to come free sooner.
 *
 * -EINVAL      limit_ms is 0
 * and the errors of tslab_map_claim()
 */
int tslab_map_claim_for(struct tslab_map *map, const void *key, size_t key_size, uint32_t epoch,
                        uint32_t limit_ms, tslab_handle *ret_version);

/*
 * Lets a claim stand for another `limit_ms` from now, also if its time is over and nothing has taken its place. The
 * claim has another version then, which *version becomes; a replace or delete with the old one is refused, and threads
 * that wait for the old one look again. On failure *version is as it was, and so is the claim. It belongs to the
 * calling process from then on.
 *
 * -EAGAIN      the claim is no more: it was fulfilled, deleted, given up, or is another's by now
 * -EINVAL      limit_ms is 0
 * and the errors of tslab_map_put()
 */
int tslab_map_claim_extend(struct tslab_map *map, const void *key, size_t key_size, uint32_t limit_ms,
                           tslab_handle *version);

/*
 * Waits until `version` is no longer a claim on the key that stands, and returns 0: then get the value, or claim the
 * key. If it is no such claim, the call returns at once. Version 0 means any claim; with a time limit of 0 the call
 * just finds out whether there is one. Nothing waits for a thread in this call, not even tslab_close(). The call also
 * works in a pool that was opened with TSLAB_READER.
 *
 * -ETIMEDOUT   timeout_ms are over; the claim stands
 * -EDEADLK     at once: this thread made the claim, or was the last to extend it, and would wait for itself. So it is
 *              with any time limit but 0. A thread that gives its claim to another one, which is to fulfil it, waits
 *              with tslab_waiter_add(), or lets that one call tslab_map_claim_extend() first
 * -EINTR       a signal handler ran, and not just between two sleeps of this call
 * -EIDRM       the map is no more, or the pool was closed meanwhile
 */
int tslab_map_wait(struct tslab_map *map, const void *key, size_t key_size, tslab_handle version,
                   uint32_t timeout_ms);

/*
 * Waits for claims without blocking, for event loops: any number of waits, of which a file descriptor tells the end.
 *
 *      r = tslab_waiter_open(&waiter, pool);
 *      fd = tslab_waiter_fd(waiter);                  (for poll(), epoll, an event loop: it becomes readable)
 *
 *      r = tslab_waiter_add(waiter, map, key, key_size, claim, 2000, &wait);
 *      ...                                            (fd is readable:)
 *      while (tslab_waiter_next(waiter, &wait, &result) > 0)
 *              go_on(wait, result);
 *
 *      waiter = tslab_waiter_close(waiter);
 *
 * A waiter serves the waits of one event loop, and takes one thread of the library, which begins with the first wait
 * and blocks all signals. Any thread may make these calls at any time, except tslab_waiter_close(), which must be the
 * last. A waiter belongs to the process that opened it: in a forked child, which has a copy of the descriptor, the
 * calls are -EBADF, and tslab_waiter_close() closes that copy.
 */
struct tslab_waiter;

/*
 * Opens a waiter for claims of any maps of the pool. The caller closes *ret with tslab_waiter_close(), before those
 * maps and the pool.
 *
 * -ENOMEM, -EMFILE, -ENFILE, -EBADF (the pool was closed)
 */
int tslab_waiter_open(struct tslab_waiter **ret, struct tslab *pool);

/* Ends all waits and closes a waiter; returns NULL, NULL-safe. May wait for its thread, for 20 ms at most. */
struct tslab_waiter *tslab_waiter_close(struct tslab_waiter *waiter);

/*
 * Returns a file descriptor that is readable while tslab_waiter_next() has a wait to tell. It is the waiter's: neither
 * read it nor close it. Never fails.
 */
int tslab_waiter_fd(struct tslab_waiter *waiter);

/*
 * Begins to wait as tslab_map_wait() does. *ret_wait is the number of this wait. tslab_waiter_next() tells it when the
 * claim is no more, which may be so already. The key is copied. The call never sleeps. The claim may be one of this
 * thread: other tasks of an event loop run meanwhile.
 *
 * -ENOMEM, -EAGAIN (no thread can be made), -EBADF (the waiter is another process's)
 */
int tslab_waiter_add(struct tslab_waiter *waiter, struct tslab_map *map, const void *key, size_t key_size,
                     tslab_handle version, uint32_t timeout_ms, uint64_t *ret_wait);

/* Ends a wait, which tslab_waiter_next() will not tell then. -ENOENT: it was told, or cancelled. -EBADF. */
int tslab_waiter_cancel(struct tslab_waiter *waiter, uint64_t wait);

/*
 * Tells a wait that is over. Returns 1, with its number and in *ret_result the result of tslab_map_wait(): 0,
 * -ETIMEDOUT (some 20 ms late at most), or -EIDRM. Returns 0 if no wait is over; then the descriptor is not readable.
 *
 * -EBADF       the waiter is another process's
 */
int tslab_waiter_next(struct tslab_waiter *waiter, uint64_t *ret_wait, int *ret_result);

/* tslab_map_expire() */
__extension__ enum tslab_map_epoch {
        TSLAB_MAP_EPOCH_ALL = UINT32_MAX - 1,
};

/*
 * Deletes all entries of an epoch and returns how many. Claims and stale values go, too, and are not counted. Era 0
 * means all eras of the id, TSLAB_MAP_EPOCH_ALL all epochs. The call walks through the whole map, and takes revoked
 * entries out of the index. It may miss an entry that is put meanwhile; close the epoch first.
 *
 * -ENOBUFS, -EROFS, -EIDRM and the attach errors; some may have been deleted
 */
ssize_t tslab_map_expire(struct tslab_map *map, uint32_t epoch);

/*
 * Where a walk through a map is. Zeros: at its beginning. It is a value, which may be copied, kept, and given to
 * another process; it holds nothing, and never ends by itself.
 */
struct tslab_map_cursor {
        uint64_t at[2];
};

/*
 * Goes on to the next entry, in no order that means anything:
 *
 *      struct tslab_map_cursor cursor = { 0 };
 *      struct tslab_map_info info = { .size = sizeof(info) };
 *      char buffer[8192];
 *
 *      while ((r = tslab_map_next(map, &cursor, buffer, sizeof(buffer), &info)) > 0)
 *              printf("%.*s\n", (int) info.key_size, buffer);
 *
 * Returns 1 with the key at the start of the buffer, and right behind it the value if there is room for all of it; else
 * info.flags has TSLAB_MAP_KEY_ONLY, and tslab_map_read() has the value by info.place. ret_info (may be NULL) is as in
 * tslab_map_get_with(), and `accept` counts for nothing. Returns 0 if there are no more.
 *
 * The walk may run beside writers: an entry that is present from the first call to the last is met exactly once, with
 * some value that it had meanwhile; other entries are met at most once.
 *
 * -EMSGSIZE    the key is larger than the buffer: TSLAB_MAP_KEY_MAX bytes take any. The cursor stays before it
 * -EINVAL      ret_info->size or ret_info->accept is out of range
 * -EIDRM       the map is no more
 * -EUCLEAN     a stray write has damaged the value of an entry: the buffer has its key; the next call goes on behind it
 */
int tslab_map_next(struct tslab_map *map, struct tslab_map_cursor *cursor, void *buffer, size_t buffer_size,
                   struct tslab_map_info *ret_info);

/* Counts of a map since it was made. */
struct tslab_map_statistics {
        size_t size; /* size of this struct, as the program knows it: set it before the call */
        uint64_t entries; /* expired ones, too, until their memory goes back, and claims */
        uint64_t bytes; /* memory of the entries, as it counts against a limit */
        uint64_t hits,
                misses; /* gets; of threads that have a record of their own, since they have put, allocated or freed
                           in this pool */
        uint64_t inserts, deletes; /* entries that came, and that were deleted or revoked */
        uint64_t expirations, evictions;
        uint64_t failures; /* changes that failed for want of memory or room */
};

/*
 * Returns the counts of a map, without a walk over its entries. They may be wrong by changes that others make at that
 * time. If a process is killed in a change, they may be wrong by that change until the death is repaired: then the map
 * is counted anew. If others change the map during that count, entries and bytes may be wrong by some of these changes,
 * until nobody has changed the map for 2 s, and 20 s for each million entries; then they are right again. In a private
 * pool only control calls look whether this is so, tslab_reap() for instance: one notes that the map is quiet, and one
 * that is made so much later counts it.
 *
 * -EINVAL      ret->size is out of range
 * -EIDRM       the map is no more
 */
int tslab_map_statistics(struct tslab_map *map, struct tslab_map_statistics *ret);

/*
 * Counts the entries by a walk through all of them; the number is approximate while others write. -EIDRM: the map is no
 * more.
 */
ssize_t tslab_map_count(struct tslab_map *map);

#ifdef __cplusplus
#pragma GCC diagnostic pop
}
#endif
