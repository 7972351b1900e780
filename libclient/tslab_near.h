#pragma once
/*
 * A near cache: a map that holds copies from an engine elsewhere (Redis, Valkey, a database), for all
 * processes of a pool. A daemon keeps it coherent: it hears of each change in the engine, drops the key, and says again
 * and again for how long the copies are covered. tslab-near(8) is such a daemon, for Redis and Valkey.
 *
 * A worker never reads a copy that is not covered. If the daemon loses its connection, it revokes all copies at once;
 * if it dies, the pool's daemon does; if both die, the cover is over by itself.
 *
 *      ssize_t n;
 *      struct tslab_near_claim claim;
 *
 *      n = tslab_near_get(near, key, key_size, buffer, sizeof(buffer), 50, &claim);
 *      if (n == -ENOENT) {
 *              n = ask_the_engine(key, key_size, buffer);      (-ENODATA: it has no such key)
 *              if (n >= 0 || n == -ENODATA)
 *                      tslab_near_fill(near, key, key_size, &claim, server, n < 0 ? NULL : buffer, n < 0 ? 0 : n,
 *                                      TTL_MS);
 *              else
 *                      tslab_near_give_up(near, key, key_size, &claim);
 *      }
 *
 * Of several workers that miss a key, one gets the claim and asks the engine. A change of the key between its
 * question and its fill takes the claim away, so that the fill is refused: an old value cannot come in behind a
 * change. `server` is the run id of the server that answered. A fill is refused if the changes of that server are not
 * heard: a connection may still lead to a server that another one has replaced.
 *
 * Any thread may call these; a forked child goes on using its parent's, but the cover that its parent gives is not the
 * child's to move or to end. For the errors of maps see <tslab_map.h>.
 */
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <tslab_map.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tslab_near;

enum tslab_near_size {
        TSLAB_NEAR_PREFIXES_SIZE = 1024, /* all prefixes of a near cache, each with its zero */
        TSLAB_NEAR_SERVERS_MAX = 128,
};

enum tslab_near_claim_flags {
        TSLAB_NEAR_CLAIMED_LAST = 1, /* `last` is a claim */
};

/* A miss, from tslab_near_get() to the call that ends it. Programs need not look into it. */
struct tslab_near_claim {
        tslab_handle copy; /* this caller asks the engine for all; 0: it asks for itself alone */
        tslab_handle last; /* see tslab_near_keep_last(): what the answer replaces; 0: nothing */
        tslab_handle cover; /* the cover that held when the call began; 0: none did */
        uint32_t flags;
        uint32_t reserved;
};

/* For limit_bytes. `__extension__`: before C23 an enumerator is an int. */
__extension__ enum tslab_near_limit {
        TSLAB_NEAR_NO_LIMIT = UINT64_MAX, /* copies may take all of the pool */
};

/*
 * Opens the near cache of that name, which is the map of that name and the named root "near.NAME". `options` are for
 * the map, if this call makes it; it always evicts. Its limit_bytes are half of the pool where they are 0, and none
 * where they are TSLAB_NEAR_NO_LIMIT. The caller closes *ret with tslab_near_close(), before the pool.
 *
 * -EINVAL      the name is longer than 42 bytes
 * and the errors of tslab_map_open()
 */
int tslab_near_open(struct tslab_near **ret, struct tslab *pool, const char *name,
                    const struct tslab_map_options *options);

/* Closes it in this process, and ends its cover if this process gives it. Returns NULL; NULL-safe. */
struct tslab_near *tslab_near_close(struct tslab_near *near);

/*
 * Copies a value out that was covered when the call began, and returns its size. After -ENOENT the caller asks the
 * engine, and passes the answer to tslab_near_fill(), or calls tslab_near_give_up(). If another worker has asked, the
 * call waits for its answer up to `wait_ms`.
 *
 * -ENOENT      there is no copy, or none that is covered
 * -ENODATA     there is a covered copy that says: the engine has no such key
 * -EMSGSIZE    the buffer is too small
 * and the errors of tslab_map_get()
 */
ssize_t tslab_near_get(struct tslab_near *near, const void *key, size_t key_size, void *buffer,
                       size_t buffer_size, uint32_t wait_ms, struct tslab_near_claim *ret_claim);

/*
 * Gives the answer of the engine to the other workers; `value` NULL: it has no such key. `server` is the run id of
 * the server that answered, as INFO has it in its section "server"; NULL: not known. It belongs to the connection:
 * ask for it once for each. `ttl_ms` is as in tslab_map_put_with(), but counts from the claim, so that a copy does
 * not outlive a lifetime that the engine gave. The call ends the claim, even if it fails. If nothing was covered it
 * returns 0.
 *
 * -EAGAIN      the key was changed since, the cover was lost, or the lifetime is over: the answer is good for this
 *              caller alone
 * -EREMCHG     the cover names servers, and this is none of them: as -EAGAIN. If the server is known, its answer may be
 *              older than the bound: connect anew, and ask again
 * and the errors of tslab_map_put(): -ENOMEM, -E2BIG and so on
 */
int tslab_near_fill(struct tslab_near *near, const void *key, size_t key_size,
                    const struct tslab_near_claim *claim, const char *server, const void *value,
                    size_t value_size, uint64_t ttl_ms);

/*
 * Ends a claim without an answer, if the engine gave none: the next worker that misses the key gets the claim. Returns
 * 0, even if the claim is no more, and otherwise fails as tslab_map_delete() does.
 */
int tslab_near_give_up(struct tslab_near *near, const void *key, size_t key_size,
                       const struct tslab_near_claim *claim);

/*
 * Drops a key's copy, its claim and its last value (see below): after a change of the key in the engine. A worker that
 * changes a key calls this, to read its own change at once.
 *
 * Fails as tslab_map_delete() and tslab_map_open() do, but for -ENOENT.
 */
int tslab_near_drop(struct tslab_near *near, const void *key, size_t key_size);

/*
 * From now on answers that this process passes to tslab_near_fill() are also kept for tslab_near_last(), in the map
 * "NAME.last", which this call makes if it is not there. It evicts, and has no limit: see tslabctl(1), "maps set".
 *
 * -EINVAL      the name of the near cache is longer than 37 bytes
 * and the errors of tslab_map_open()
 */
int tslab_near_keep_last(struct tslab_near *near);

/*
 * Gives the value that this host heard last, covered or not, for the time that the engine gives no answer. It is a
 * value that some program kept while the copies were covered, and against which nothing was heard since: no change of
 * its key, and not that changes may have been missed, which ends with the beginning of the next cover. So a value
 * that was changed or deleted elsewhere comes back only if that happened after the engine was heard last. The caller
 * frees *ret_value with free(); a zero byte follows it.
 *
 * -ENOENT      there is none
 * and the errors of tslab_map_get_alloc() and tslab_map_open()
 */
int tslab_near_last(struct tslab_near *near, const void *key, size_t key_size, void **ret_value,
                    size_t *ret_size);

/*
 * The keys and servers of a cover.
 *
 * struct tslab_near_scope scope = { .size = sizeof(scope), .prefixes = prefixes, .n_prefixes = 2 };
 */
struct tslab_near_scope {
        size_t size; /* size of this struct, as the program knows it */
        const char *const *prefixes; /* keys that begin with one of these; none: all keys */
        size_t n_prefixes;
        const char *const *
                servers; /* the run ids of the servers whose changes are heard; none: any server may answer */
        size_t n_servers;
};

/*
 * For the daemon that keeps the cache coherent: leases an epoch for copies, which are not covered yet. The daemon calls
 * this when it hears of all changes from now on that these servers make to these keys. Programs get no claim for other
 * keys, and always ask the engine; their fills are refused if another server answered. `scope` NULL: all keys, and any
 * server. A process has one lease for each open near cache. A control call.
 *
 * -EALREADY    this process gives the cover already
 * -EBUSY       another process gives it, or the copies of the last lease are still being revoked
 * -E2BIG       the prefixes take more than 1024 bytes, or there are more than 128 servers
 * -EINVAL      scope->size is out of range
 * and the errors of tslab_epoch_lease() and tslab_alloc()
 */
int tslab_near_begin(struct tslab_near *near, const struct tslab_near_scope *scope);

/*
 * Covers the copies until a moment of CLOCK_BOOTTIME, in microseconds, in place of any cover before. The moment to pass
 * is the time up to which the engine has told of all changes, plus the bound. Readers' clocks are coarse, so the cover
 * ends 20 ms before it. If the moment is past, nothing is covered, even if it passed while the process was stopped in
 * this call. Enters no daemon.
 *
 * -ESTALE      there is no lease, or an operator closed or revoked it: end, and begin again
 * -EUSERS      no record is left for this thread: the cover is as before
 */
int tslab_near_cover(struct tslab_near *near, uint64_t until_usec);

/*
 * Ends the cover at once, then revokes all copies. Returns 0, even if this process gives no cover. A control call.
 *
 * Fails as tslab_epoch_close() does, but then, too, no copy is covered. The copies are revoked when this is called
 * again, or when the next lease begins.
 *
 * -EUSERS      no record is left for this thread: nothing was done, and the cover ends at its time
 */
int tslab_near_end(struct tslab_near *near);

/*
 * Ends the cover as tslab_near_end() does, and forgets all values of tslab_near_last(): all keys have changed. The
 * daemon calls it in place of tslab_near_end() and, if it gives no cover, at any time.
 *
 * -EBUSY       another process gives the cover
 * and the errors of tslab_near_end() and tslab_root_set()
 */
int tslab_near_flush(struct tslab_near *near);

#ifdef __cplusplus
}
#endif
