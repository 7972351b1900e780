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
 *      tslab_handle claim;
 *
 *      n = tslab_near_get(near, key, key_size, buffer, sizeof(buffer), 50, &claim);
 *      if (n == -ENOENT) {
 *              n = ask_the_engine(key, key_size, buffer);      (-ENODATA: it has no such key)
 *              if (n >= 0 || n == -ENODATA)
 *                      tslab_near_fill(near, key, key_size, claim, n < 0 ? NULL : buffer, n < 0 ? 0 : n, TTL_MS);
 *              else
 *                      tslab_near_give_up(near, key, key_size, claim);
 *      }
 *
 * Of several workers that miss a key, one gets the claim and asks the engine. A change of the key between its question
 * and its fill takes the claim away, so that the fill is refused: an old value cannot come in behind a change.
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
};

/*
 * Opens the near cache of that name, which is the map of that name and the named root "near.NAME". `options` are for
 * the map, if this call makes it; it always evicts. The caller closes *ret with tslab_near_close(), before the pool.
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
 * engine. If *ret_claim is not 0 then, it passes the answer to tslab_near_fill(), or calls tslab_near_give_up(). If
 * another worker has the claim, the call waits for its answer up to `wait_ms`.
 *
 * -ENOENT      there is no copy, or none that is covered
 * -ENODATA     there is a covered copy that says: the engine has no such key
 * -EMSGSIZE    the buffer is too small
 * and the errors of tslab_map_get()
 */
ssize_t tslab_near_get(struct tslab_near *near, const void *key, size_t key_size, void *buffer,
                       size_t buffer_size, uint32_t wait_ms, tslab_handle *ret_claim);

/*
 * Gives the answer of the engine to the other workers; `value` NULL: it has no such key. `ttl_ms` is as in
 * tslab_map_put_with(), but counts from the claim, so that a copy does not outlive a lifetime that the engine gave. The
 * call ends the claim, even if it fails. With claim 0 it does nothing.
 *
 * -EAGAIN      the key was changed since, the cover was lost, or the lifetime is over: the answer is good for this
 *              caller alone
 * and the errors of tslab_map_put(): -ENOMEM, -E2BIG and so on
 */
int tslab_near_fill(struct tslab_near *near, const void *key, size_t key_size, tslab_handle claim,
                    const void *value, size_t value_size, uint32_t ttl_ms);

/*
 * Ends a claim without an answer, if the engine gave none: the next worker that misses the key gets the claim. Returns
 * 0, even if the claim is no more, and otherwise fails as tslab_map_delete() does.
 */
int tslab_near_give_up(struct tslab_near *near, const void *key, size_t key_size, tslab_handle claim);

/*
 * Drops a key's copy, and its claim: after a change of the key in the engine. A worker that changes a key calls this,
 * to read its own change at once.
 *
 * Fails as tslab_map_delete() does, but for -ENOENT.
 */
int tslab_near_drop(struct tslab_near *near, const void *key, size_t key_size);

/*
 * For the daemon that keeps the cache coherent: leases an epoch for copies, which are not covered yet. The daemon calls
 * this when it hears of all changes from now on, of keys that begin with one of the prefixes or, if there are no
 * prefixes, of all keys. Programs get no claim for other keys, and always ask the engine. A process has one lease for
 * each open near cache. A control call.
 *
 * -EALREADY    this process gives the cover already
 * -EBUSY       another process gives it, or the copies of the last lease are still being revoked
 * -E2BIG       the prefixes take more than 1024 bytes
 * and the errors of tslab_epoch_lease() and tslab_alloc()
 */
int tslab_near_begin(struct tslab_near *near, const char *const *prefixes, size_t n_prefixes);

/*
 * Covers the copies until a moment of CLOCK_BOOTTIME, in microseconds, in place of any cover before. The moment to pass
 * is the time up to which the engine has told of all changes, plus the bound. Readers' clocks are coarse, so the cover
 * ends 20 ms before it. If the moment is past, nothing is covered, even if it passed while the process was stopped in
 * this call. Enters no daemon.
 *
 * -ESTALE      there is no lease, or an operator closed or revoked it: end, and begin again
 */
int tslab_near_cover(struct tslab_near *near, uint64_t until_usec);

/*
 * Ends the cover at once, then revokes all copies. Returns 0, even if this process gives no cover. A control call.
 *
 * Fails as tslab_epoch_close() does, but then, too, no copy is covered. The copies are revoked when this is called
 * again, or when the next lease begins.
 */
int tslab_near_end(struct tslab_near *near);

#ifdef __cplusplus
}
#endif
