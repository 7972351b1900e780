#pragma once
/*
 * tslab: objects of fixed size classes in memory that a group of processes shares.
 *
 *      struct tslab *pool;
 *      tslab_handle handle;
 *      void *object;
 *      int r;
 *
 *      r = tslab_open(&pool, NULL, NULL);             (the pool of a daemon)
 *      r = tslab_create(&pool, NULL);                 (or one of this process and its children)
 *
 *      r = tslab_alloc(pool, 100, TSLAB_EPOCH_CURRENT, &handle, &object);
 *      r = tslab_root_set(pool, "config", 0, handle);
 *      r = tslab_root_get(pool, "config", &handle);   (here, or in another process)
 *      r = tslab_get(pool, handle, &object, NULL);
 *      r = tslab_free(pool, handle);
 *
 *      pool = tslab_close(pool);
 *
 * Handles are the same in every process and may be stored in the pool; pointers are this process's.
 * Objects never move, and are not zeroed.
 *
 * Results: calls return 0 (or a count), or a negative errno; each lists all it can return. Outputs
 * are untouched on failure. Nothing is printed, and no call exits.
 *
 * Threads: all calls may be made by any thread at any time; of tslab_close() there is one, and what
 * other threads call after it fails (see there). A thread gets a record in the pool with its first
 * call that needs one (allocating, freeing, publishing) and gives it back when it ends. Those of
 * threads that ended by a raw exit, which tells nobody, are found when records run short. When all
 * are taken, threads of a process share one, and wait for each other while they use it.
 *
 * Fork: a child goes on using the pool of its parent, whether it was made by fork(), _Fork() or
 * clone() without CLONE_VM. Its first call that needs a record attaches it, which may wait for the
 * daemon, and may therefore fail in more ways than in its parent:
 *
 *      -ENOTCONN    there is no daemon now; the next call tries again
 *      -ETIMEDOUT   the daemon did not answer in time
 *      -EUSERS      all records, or all entries for processes, are taken
 *      -EDQUOT      this user has nearly all of these, or of the connections; the last are for others
 *      -EUCLEAN     the daemon has another arena by now; see tslab_stale()
 *      -EACCES, -EPERM, -EREMOTE   the daemon refuses this process
 *      -EPROTO, -EMFILE, -ENFILE   the answer was none; no descriptor left
 *
 * These are "the attach errors" below. Reading needs no record and works at once. A child must not
 * close descriptors that it did not open (closefrom()) before it closes the pool or executes another
 * program.
 *
 * Exec: a pool that is open ends with the program, as if the process had died; see tslab-arena(7). The library
 * knows the program by a number that it makes as it is loaded, of getauxval(AT_RANDOM); a forked child has the same.
 *
 * Nothing here is async-signal-safe or may be called between vfork() and exec.
 *
 * Sizes are bytes, times milliseconds or, where named _usec, microseconds since 1970.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An open pool. */
struct tslab;

/* Names a live object, in all processes of its pool and in no other pool. 0 is never valid. */
typedef uint64_t tslab_handle;

/*
 * Epochs are lifetimes that objects are allocated into: an id in the low 8 bits, above it the era,
 * how often that id was opened. Era 0 stands for whichever is open.
 */
#define TSLAB_EPOCH_CURRENT UINT32_MAX /* the one that tslab_epoch_advance() made current last */

#define TSLAB_CLASSES_MAX 16
#define TSLAB_LABEL_SIZE 32 /* with the final 0 */

/* tslab_options.cache */
enum {
        TSLAB_CACHE_ADAPTIVE = 0, /* threads keep slots for allocations to come, where that pays */
        TSLAB_CACHE_ON = 1, /* they always do */
        TSLAB_CACHE_OFF = 2, /* they never do */
};

/* tslab_options.flags */
#define TSLAB_READER UINT32_C(1) /* tslab_open(): map read-only; allocating and freeing is -EROFS */

/*
 * How to open or create a pool. Unset is default; what does not belong to the call is ignored.
 *
 *      struct tslab_options options = { .size = sizeof(options), .n_threads = 64 };
 */
struct tslab_options {
        size_t size; /* of this struct, as the program knows it */
        uint32_t flags; /* TSLAB_READER */
        uint32_t cache; /* TSLAB_CACHE_ON and so on; $TSLAB_CACHE (on, off, adaptive) goes before it */

        /* tslab_open() */
        uint32_t timeout_ms; /* for each answer of the daemon; 0: 5 s, UINT32_MAX: no limit */
        const char *comm; /* shown for this process, at most 15 bytes; NULL: its own name */

        /* tslab_create() */
        uint64_t arena_bytes; /* room for objects, a multiple of 4096 up to 64 GiB; 0: 256 MiB */
        uint64_t retain_bytes; /* of free slabs that keep their memory; 0: 16 MiB, below 4096: none */
        uint32_t n_threads; /* records, of which every process takes one more than it has threads; 0: 1024 */
        uint32_t n_epochs; /* 2 to 64; 0: 16 */
        uint32_t n_classes; /* in classes[]; 0: 64, 96, 128, 192, 256, 384, 512 and 768 bytes */
        uint32_t classes[TSLAB_CLASSES_MAX]; /* object sizes, rising multiples of 16 from 64 to 4096 */

        /* Time each so many calls that no cache serves, for tslab_thread_stats(); 0: none. */
        uint32_t time_slow;
};

/* The version of the library, like "0.1.0". A constant; any thread, also in a forked child. */
const char *tslab_version(void);

/*
 * Opens a pool of a daemon: a name, the path of its socket (has a '/'), or NULL for $TSLAB_POOL, else
 * "default". The caller closes *ret with tslab_close(). Enters the daemon, and waits for it up to
 * options->timeout_ms (`options` may be NULL).
 *
 * -EINVAL          not a name; options are out of range, or of a later version
 * -ENOENT, -ECONNREFUSED   there is no daemon
 * -EACCES          no permission to use the socket, or, without TSLAB_READER, to write
 * -EPERM, -EREMOTE the daemon refuses this process; it does not see its pid namespace
 * -ETIMEDOUT       it did not answer in time
 * -ECONNRESET      it went away meanwhile
 * -EPROTO          what answers is no tslabd
 * -EPROTONOSUPPORT its protocol, or the format of its arena, is of another version
 * -EBADMSG         the arena is damaged: its header contradicts itself
 * -EUSERS          all records, or all entries for processes, are taken
 * -EDQUOT          this user has nearly all of these, or of the connections; the last are for others
 * -EOPNOTSUPP      this processor has no 16-byte compare-and-swap
 * -ENAMETOOLONG    the path of the socket is longer than 107 bytes
 * -ENOMEM, -EMFILE, -ENFILE, -EAGAIN   the system is short of memory, descriptors, or thread keys
 */
int tslab_open(struct tslab **ret, const char *pool, const struct tslab_options *options);

/*
 * Creates a private pool, shared with children that this process forks later, without a daemon: what
 * one does, the calls do by themselves. The caller closes *ret with tslab_close(); the memory is gone
 * when every process has closed it or ended. Never enters a daemon.
 *
 * Only one process at a time does control work: advancing, reserving and closing epochs, and giving
 * memory back. The calls for it return -EBUSY where another process is at it. When a process dies
 * in the middle of control work they go on doing so until tslab_reap() is called.
 *
 * -EINVAL (options out of range, or of a later version), -EOPNOTSUPP (this processor has no 16-byte
 * compare-and-swap), -ENOMEM, -EMFILE, -ENFILE, -EAGAIN (no thread key left)
 */
int tslab_create(struct tslab **ret, const struct tslab_options *options);

/*
 * Closes a pool in this process and returns NULL; NULL-safe. Gives back the records of all threads
 * and frees what they still have pending; epochs that this process leased are revoked (in a private
 * pool where another process does control work all the while, by tslab_reap() when this one has
 * ended). In a forked child it concerns the child alone. Does not enter the daemon.
 *
 * Other threads may be inside calls with this pool: it waits until they are over, however long. They
 * may make more, and may end later: whatever needs a record, changes the pool or is a control call
 * returns -EBADF from then on (where errors are returned; tslab_malloc() sets errno); lookups find an
 * empty pool: -ESTALE, -ENOENT, of maps -EIDRM, epoch 0. Pointers to objects end: for a second what
 * they are written is lost, what is read is zeros. So long, and until every thread that allocated or
 * freed in the pool has ended, or has gone on to other pools, the size of the arena stays reserved as
 * address space, with a page or two of memory per such thread; it goes with a later tslab_close(), or
 * when it is wanted. Half a kilobyte stays. Where this process has no other threads all goes at once,
 * and the pool must not be used again.
 */
struct tslab *tslab_close(struct tslab *pool);

/*
 * Whether the daemon of this pool was found to have another arena than the one open here, or to have
 * given this process up. The arena goes on working for the processes that have it, but nobody looks
 * after it, or after what this process does in it: close and open anew.
 *
 * Where the daemon that this process was connected to is gone, the call asks its successor, if there is
 * one, which arena that has, and waits for the answer up to options->timeout_ms. It does not enter a daemon
 * that is there: otherwise it takes one system call. Any thread, also in a forked child, which it does not attach.
 */
bool tslab_stale(struct tslab *pool);

/*
 * Allocates an object of `size` bytes in an epoch. *ret_object (may be NULL) is aligned to 16. The
 * object is everyone's: it stays when this process dies, until somebody frees its handle. Any thread;
 * a forked child attaches first. Enters no daemon otherwise.
 *
 * -EINVAL      size is 0; no such epoch
 * -E2BIG       size is larger than the largest class
 * -ENOMEM      the arena is full, or the system, or the pool's limit, has no memory for more of it
 * -ESHUTDOWN   the epoch is closed
 * -ESTALE      its era is over
 * -EROFS       opened with TSLAB_READER
 * and the attach errors
 */
int tslab_alloc(struct tslab *pool, size_t size, uint32_t epoch, tslab_handle *ret_handle, void **ret_object);

/*
 * Frees an object, whoever allocated it; of several that free one handle one succeeds. Any thread; a
 * forked child attaches first. Enters no daemon otherwise. In a private pool the last object of a
 * slab of a closed epoch takes its memory along.
 *
 * -ESTALE      the handle names no live object: freed before, of another pool, or garbage
 * -EROFS       opened with TSLAB_READER
 * -EUCLEAN     somebody wrote over the arena's metadata; or the attach error of that name
 * and the attach errors
 */
int tslab_free(struct tslab *pool, tslab_handle handle);

/*
 * Finds an object: *ret_object is where it is in this process, *ret_size (may be NULL) the size of
 * its class. The pointer is good until somebody frees the handle: that is between the programs. With
 * TSLAB_READER it must not be written to. Any thread; works at once in a forked child; never enters
 * the daemon.
 *
 * -ESTALE      the handle names no live object
 */
int tslab_get(struct tslab *pool, tslab_handle handle, void **ret_object, size_t *ret_size);

/*
 * Copies an object out and looks whether it was still live after its last byte: how many bytes, which
 * is the size of its class. It detects that the object was freed, not that somebody writes to it: who
 * uses this replaces objects and does not edit them. Any thread; works at once in a forked child;
 * never enters the daemon.
 *
 * -ESTALE      the handle names no live object, or ceased to while it was copied (buffer is undefined)
 * -EMSGSIZE    `size`, of the buffer, is less than the object's
 */
ssize_t tslab_read(struct tslab *pool, tslab_handle handle, void *buffer, size_t size);

/*
 * Allocates up to n objects of one size, as tslab_alloc() does: how many, of which ret_handles then
 * begins with the handles. Fewer than n when memory ran out or the epoch was closed on the way. Any
 * thread; a forked child attaches first.
 *
 * Where there is not even one: -EINVAL, -E2BIG, -ENOMEM, -ESHUTDOWN, -ESTALE, -EROFS and the attach
 * errors, as tslab_alloc().
 */
ssize_t tslab_alloc_batch(struct tslab *pool, size_t size, uint32_t epoch, tslab_handle *ret_handles,
                          size_t n);

/*
 * Frees n objects: how many it freed; the others were stale. Any thread; a forked child attaches
 * first.
 *
 * -EROFS (opened with TSLAB_READER) and the attach errors
 */
ssize_t tslab_free_batch(struct tslab *pool, const tslab_handle *handles, size_t n);

/*
 * Allocates as tslab_alloc() does, but the object is pending: this thread's until it calls
 * tslab_publish(). When the thread ends, or its process dies, before that, the object is freed. A
 * thread that shares its record (see Threads) shares its pending objects too: they are freed when
 * its process closes the pool or dies. For objects that are of no use before they are linked
 * somewhere.
 *
 * As tslab_alloc(), and -ENOBUFS: 64 objects are pending in this thread.
 */
int tslab_alloc_pending(struct tslab *pool, size_t size, uint32_t epoch, tslab_handle *ret_handle,
                        void **ret_object);

/*
 * Makes an object that this thread allocated pending everyone's. Never enters the daemon but to
 * attach a forked child, where nothing is pending yet.
 *
 * -ENOENT      it is not pending in this thread
 * -EROFS       opened with TSLAB_READER
 * and the attach errors
 */
int tslab_publish(struct tslab *pool, tslab_handle handle);

/*
 * Allocates as tslab_alloc() does, for programs that keep pointers: the 16 bytes before the object
 * hold its handle, so the largest size is the largest class less 16. The pointer is this process's,
 * aligned to 16, and is freed by tslab_mfree(), in a forked child too. Any thread.
 *
 * NULL with errno set to what tslab_alloc() would return.
 */
void *tslab_malloc(struct tslab *pool, size_t size, uint32_t epoch);

/*
 * Frees what tslab_malloc() returned; NULL-safe. What is not, or no longer, such an object of this
 * pool is left alone, as far as its 16 bytes tell. errno stays. Any thread; a forked child attaches
 * first, and where it cannot nothing is freed.
 */
void tslab_mfree(struct tslab *pool, void *object);

/*
 * Gives back what threads hold in advance for allocations to come: this thread's at once, that of
 * others, in all processes of the pool, by way of the daemon. Waits for it up to 20 ms; a thread that
 * is in the middle of a call keeps what it has. Any thread; a forked child attaches first.
 *
 * 0, or -EROFS (opened with TSLAB_READER) and the attach errors
 */
int tslab_drain(struct tslab *pool);

/*
 * Looks a named root up: the handle that was set last. It may be stale. Any thread; works at once in a
 * forked child; never enters the daemon.
 *
 * -ENOENT      there is no such root
 * -EINVAL      the name is empty or longer than 47 bytes
 */
int tslab_root_get(struct tslab *pool, const char *name, tslab_handle *ret_handle);

/*
 * Sets a root to `handle` if it is `expected`; 0 stands for absent in both. The handle is stored, not
 * looked at, and the object not kept alive by it. Any thread; works at once in a forked child; never
 * enters the daemon.
 *
 * -EAGAIN      it is not `expected`
 * -ENOSPC      64 names have been used; a name is used for good by its first set
 * -EINVAL      the name is empty or longer than 47 bytes
 * -EROFS       opened with TSLAB_READER
 */
int tslab_root_set(struct tslab *pool, const char *name, tslab_handle expected, tslab_handle handle);

/*
 * Which epoch TSLAB_EPOCH_CURRENT stands for now, with its era: 0. Any thread; works at once in a
 * forked child; never enters the daemon.
 */
int tslab_epoch_current(struct tslab *pool, uint32_t *ret_epoch);

/* tslab_epoch_info.state */
enum {
        TSLAB_EPOCH_OPEN = 1,
        TSLAB_EPOCH_CLOSING = 2, /* no allocation; objects of it may live on */
        TSLAB_EPOCH_DRAINED = 3, /* closed, and no object of it is left */
};

struct tslab_epoch_info {
        size_t size; /* of this struct, as the program knows it */
        uint32_t epoch; /* with its era */
        uint32_t state; /* TSLAB_EPOCH_OPEN and so on */
        bool current;
        bool reserved; /* by tslab_epoch_reserve() */
        char label[TSLAB_LABEL_SIZE];
        uint64_t opened_usec;
        uint64_t closed_usec; /* 0: not closed */
        uint64_t reclaimed_bytes; /* given back to the system so far, of this era */
};

/*
 * Tells of an epoch; `epoch` as in tslab_alloc(). info->size is set by the caller. Any thread; works
 * at once in a forked child; never enters the daemon.
 *
 * -EINVAL (no such epoch; info->size is too small), -ESTALE (its era is over)
 */
int tslab_epoch_info(struct tslab *pool, uint32_t epoch, struct tslab_epoch_info *info);

/*
 * Control calls, as named below. In a daemon's pool they enter the daemon, wait for its answer, and
 * where it has died look for its successor once; a forked child attaches first. In a private pool
 * they do the work themselves. Threads of a process take turns. What they return beside what is said
 * at each are "the control errors":
 *
 * -ENOTCONN    there is no daemon now
 * -ECONNRESET  it went away during the call, which it may have carried out or not
 * -ETIMEDOUT   it did not answer in time; it may carry the call out yet
 * -EUCLEAN     it has another arena by now, or took this process for one that is gone: see tslab_stale()
 * -EPERM, -EACCES   the daemon does not let this process do that
 * -EBUSY       private pools: another process is doing control work
 * -EROFS       opened with TSLAB_READER
 * -EUSERS      a forked child: all records, or all entries for processes, are taken
 * -EDQUOT      this user has nearly all of these, or of the connections; the last are for others
 * -EPROTO, -ENOMEM, -EMFILE, -ENFILE
 */

/*
 * Closes the current epoch to allocation, opens the next id of the ring in a new era, and makes it
 * current: *ret_epoch (may be NULL). A control call.
 *
 * -ENOSPC (all other ids are reserved, to be revoked still, or hold objects 4095 eras old) and the control errors
 */
int tslab_epoch_advance(struct tslab *pool, uint32_t *ret_epoch);

/*
 * Advances as tslab_epoch_advance() does, but only while `expected` is current, with its era as
 * tslab_epoch_current() tells it. Of several callers that expect the same epoch one advances: so many
 * workers may rotate by the clock, each on its own, and the ring goes one step for each period.
 *
 *      uint32_t now;
 *
 *      r = tslab_epoch_current(pool, &seen);
 *      r = tslab_epoch_advance_from(pool, seen, &now);        (1 in one worker, 0 in the others)
 *
 * 1: this call advanced. 0: another epoch was current, and nothing was done. In both cases *ret_epoch (may be
 * NULL) is the epoch that is current then. A control call; where it fails after the daemon may have carried
 * it out it can safely be made again.
 *
 * -EINVAL      `expected` has no era, or is no epoch of this pool
 * -EOPNOTSUPP  the daemon is of a version that does not know it
 * and as tslab_epoch_advance()
 */
int tslab_epoch_advance_from(struct tslab *pool, uint32_t expected, uint32_t *ret_epoch);

/*
 * Opens an id that is in no use, in a new era, and takes it out of the rotation, for objects that
 * outlive the others: *ret_epoch. `label`, for people, may be NULL. Closing it gives the id back. A
 * control call.
 *
 * -ENOSPC      none can be spared: the others are reserved, leased, hold objects, or are yet to be revoked
 * -EINVAL      the label is longer than 31 bytes, or not printable text
 * and the control errors
 */
int tslab_epoch_reserve(struct tslab *pool, const char *label, uint32_t *ret_epoch);

/*
 * Reserves an epoch as tslab_epoch_reserve() does, for this process alone to own: when it dies, or
 * closes the pool, the epoch is closed and revoked, as by tslab_epoch_close() with TSLAB_CLOSE_REVOKE,
 * whoever allocated in it. Closing it before does not end the lease: what is left of it is freed then.
 * A forked child does not inherit the lease; a daemon that dies does not end it. In a daemon's pool the
 * daemon revokes, soon after; of a private pool it is tslab_close(), or, where the process died,
 * tslab_reap() in another one. A control call.
 *
 * As tslab_epoch_reserve(), and -EOPNOTSUPP: the daemon is of a version that does not know it.
 */
int tslab_epoch_lease(struct tslab *pool, const char *label, uint32_t *ret_epoch);

/*
 * Labels an epoch, open or closed, for people to know it by: tslab_epoch_info() and `tslabctl epoch
 * list` show it. `epoch` is as in tslab_alloc(); `label` is copied, NULL or "" takes the label off. It
 * goes when the id is opened in a new era. Any thread. A control call.
 *
 * -EINVAL      no such epoch; the label is longer than 31 bytes, or not printable text
 * -ESTALE      its era is over
 * and the control errors
 */
int tslab_epoch_label(struct tslab *pool, uint32_t epoch, const char *label);

/*
 * Gives back what processes left behind that ended without closing a private pool, killed at
 * whatever moment: what they held in advance, and what they had pending; epochs that they leased
 * are revoked, other objects that they shared stay. Returns how many processes that were; of one
 * whose memory somebody stopped may yet be using, the rest is for a later call. Call it after a
 * forked child died; it need not have been waited for. All processes that use the pool must be of
 * one pid namespace. Any thread; a forked child attaches first; waits up to 200 ms for threads in
 * the middle of a call if control work had been broken off.
 *
 * -EOPNOTSUPP  a daemon's pool: the daemon does it
 * -EBUSY       another process is doing control work
 * and the attach errors
 */
int tslab_reap(struct tslab *pool);

/* tslab_epoch_close() flags */
#define TSLAB_CLOSE_REVOKE UINT32_C(1) /* free all its objects: every handle into it is stale */
#define TSLAB_CLOSE_OLDER UINT32_C(2) /* with TSLAB_CLOSE_REVOKE: and those of all earlier eras of the id */

/*
 * Closes an epoch: allocation in it fails with -ESHUTDOWN, its objects stay valid until they are
 * freed. When the call returns, the memory of its empty slabs has been given back to the system; that
 * of others follows as they empty. Waits up to 200 ms for threads that are in the middle of a call,
 * and does not wait for objects. An epoch that is closed may be closed again. A control call.
 *
 * With TSLAB_CLOSE_REVOKE its objects are freed, by whomever they were allocated, before the memory is
 * given back. Others may still look at them by pointer: those who use the epoch must have stopped. An
 * object that a thread has in hand (it was just allocating it when it was stopped, or has it pending) is freed by
 * the daemon when that thread goes on; in a private pool, by closing again.
 *
 * Only the era is concerned that `epoch` names, or the newest of the id where it names none. Objects of earlier
 * eras stay, unless TSLAB_CLOSE_OLDER is given, or their era is named: an era that is over can be
 * revoked, though not closed again.
 *
 * -EINVAL      no such epoch; unknown flags, or TSLAB_CLOSE_OLDER alone
 * -ESTALE      its era is over, or has not begun
 * -EBUSY       other earlier eras of the id are being revoked: try again
 * and the control errors
 */
int tslab_epoch_close(struct tslab *pool, uint32_t epoch, uint32_t flags);

/*
 * References: which processes still want an epoch. They keep nothing open and nothing alive; they tell the
 * last one that it is the last. A process that dies has none any more, a forked child begins with none.
 * Any thread; a forked child attaches first; never enter the daemon otherwise.
 */

/*
 * Takes a reference to an epoch that is open; `epoch` is as in tslab_alloc(). References nest.
 *
 * -EINVAL (no such epoch), -ESTALE (its era is over), -ESHUTDOWN (it is closed), -EROFS (opened with
 * TSLAB_READER), -EBADF (the pool was closed) and the attach errors
 */
int tslab_epoch_ref(struct tslab *pool, uint32_t epoch);

/*
 * Gives a reference back: how many processes still have any. 0: this was the last.
 *
 * -ENOENT (this process has none), -EINVAL, -ESTALE, -EROFS, -EBADF and the attach errors
 */
int tslab_epoch_unref(struct tslab *pool, uint32_t epoch);

/* How many processes have references to an epoch. -EINVAL, -ESTALE. Works with TSLAB_READER, too. */
int tslab_epoch_refs(struct tslab *pool, uint32_t epoch);

/*
 * A domain: a scope that is one epoch's.
 *
 *      r = tslab_domain_open(&domain, pool, TSLAB_EPOCH_CURRENT, TSLAB_DOMAIN_AUTO_CLOSE);
 *      r = tslab_domain_enter(domain);
 *      r = tslab_alloc(pool, 100, tslab_domain_epoch(domain), &handle, &object);
 *      r = tslab_domain_leave(domain);        (the last to leave, in all processes, closes the epoch)
 *      domain = tslab_domain_close(domain);
 *
 * Entering takes a reference to the epoch. Any number of threads may be inside, each any number of times; a
 * thread leaves in the reverse order of entering. A process that is killed inside is inside no more, but
 * closes nothing: the next to leave does, or whoever closes the epoch.
 */
struct tslab_domain;

/* tslab_domain_open() flags */
#define TSLAB_DOMAIN_AUTO_CLOSE UINT32_C(1) /* the last to leave closes the epoch */

/*
 * Makes a domain of an epoch; `epoch` is as in tslab_alloc(), and means that era for good. Other processes
 * make their own of the same epoch. The caller closes *ret with tslab_domain_close(), before the pool.
 *
 * -EINVAL (no such epoch; unknown flags), -ESTALE, -ENOMEM
 */
int tslab_domain_open(struct tslab_domain **ret, struct tslab *pool, uint32_t epoch, uint32_t flags);

/* Lets go of a domain that no thread is inside of; returns NULL, NULL-safe. Closes no epoch. */
struct tslab_domain *tslab_domain_close(struct tslab_domain *domain);

/* As tslab_epoch_ref(), and -ENOBUFS: this thread is inside 64 domains. */
int tslab_domain_enter(struct tslab_domain *domain);

/*
 * Leaves the domain that this thread entered last. With TSLAB_DOMAIN_AUTO_CLOSE the last to leave closes the
 * epoch, as tslab_epoch_close() does.
 *
 * -EINVAL (it is not the one entered last), what tslab_epoch_unref() returns, but -ESTALE, and the control
 * errors: it was left, and the epoch not closed
 */
int tslab_domain_leave(struct tslab_domain *domain);

/* The epoch, with its era. */
uint32_t tslab_domain_epoch(const struct tslab_domain *domain);

/* The domain that this thread entered last and did not leave; NULL: none. */
struct tslab_domain *tslab_domain_current(void);

/*
 * Statistics. Each struct's `size` is set by the caller; sums over a pool in use are of no single moment.
 * Those of the pool, a class and an epoch walk through the slabs in use: some milliseconds for a GiB. Any
 * thread; work at once in a forked child, and with TSLAB_READER; never enter the daemon.
 */
struct tslab_stats {
        size_t size; /* of this struct, as the program knows it */
        uint64_t live_objects, live_bytes;
        uint64_t cached_objects; /* free, held by threads for allocations to come */
        uint64_t committed_bytes; /* of slabs that have memory */
        uint64_t retained_bytes; /* of these, free */
        /* Sums over all threads there have been. */
        uint64_t allocs, frees;
        uint64_t alloc_hits, frees_cached; /* of these, by way of a thread's cache */
        uint64_t refills, flushes; /* of caches */
        uint64_t slabs_taken, slabs_recycled; /* free ones come into use, emptied */
        uint64_t slabs_reclaimed; /* whose memory went back to the system */
        uint64_t failures; /* allocations refused for want of memory */
        uint32_t threads; /* that have a record now */
        uint32_t reserved;
};

/* Of a class, or of an epoch. */
struct tslab_count {
        size_t size; /* of this struct, as the program knows it */
        uint64_t slabs; /* in use */
        uint64_t live_objects;
        uint64_t live_bytes;
};

/*
 * Counts the whole pool. *stats->size is set by the caller.
 *
 * -EINVAL (stats->size is too small), -ENOMEM
 */
int tslab_stats(struct tslab *pool, struct tslab_stats *stats);

/*
 * Counts the class that objects of `size` bytes are in.
 *
 * -EINVAL (size is 0; ret->size is too small), -E2BIG (size is larger than the largest class), -ENOMEM
 */
int tslab_class_stats(struct tslab *pool, size_t size, struct tslab_count *ret);

/*
 * Counts an epoch; `epoch` is as in tslab_alloc(), open or closed.
 *
 * -EINVAL (no such epoch; ret->size is too small), -ESTALE (its era is over), -ENOMEM
 */
int tslab_epoch_stats(struct tslab *pool, uint32_t epoch, struct tslab_count *ret);

/* What the calling thread did, since it came to its record. */
struct tslab_thread_stats {
        size_t size; /* of this struct, as the program knows it */
        uint64_t allocs, frees;
        uint64_t alloc_hits, frees_cached;
        uint64_t refills, flushes;
        uint64_t failures;
        /*
         * Calls of tslab_alloc() and tslab_free() that no cache served: they refilled or flushed it, went
         * past it, or committed memory. Of those that were timed (tslab_options.time_slow): how many, the
         * sum, and the longest.
         */
        uint64_t slow_allocs, slow_allocs_timed, slow_allocs_ns, slow_alloc_max_ns;
        uint64_t slow_frees, slow_frees_timed, slow_frees_ns, slow_free_max_ns;
        uint32_t is_shared; /* not 0: the record is shared with other threads of the process, see Threads */
        uint32_t reserved;
};

/*
 * Tells what this thread did so far. Gives it a record if it has none; a forked child attaches first.
 * Walks through nothing.
 *
 * -EINVAL (stats->size is too small), -EROFS (opened with TSLAB_READER) and the attach errors
 */
int tslab_thread_stats(struct tslab *pool, struct tslab_thread_stats *stats);

#ifdef __cplusplus
}
#endif
