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
 * Threads: any thread may make any call at any time. tslab_close() is called once; calls that other
 * threads make after it fail (see there). A thread gets a record in the pool with its first call that
 * needs one (allocating, freeing, publishing) and gives it back when it ends. Records of threads that
 * ended by a raw exit, which runs no destructors, are found when records run short. When all records are
 * taken, threads of a process share one, and wait for each other while they use it; each looks now and then whether
 * there is one for itself.
 *
 * Fork: a child goes on using the pool of its parent, whether it was made by fork(), _Fork() or
 * clone() without CLONE_VM. The child's first call that needs a record attaches it. That call may wait for
 * the daemon, and may therefore fail in more ways than in the parent:
 *
 *      -ENOTCONN    there is no daemon now; the next call tries again
 *      -ETIMEDOUT   the daemon did not answer in time; calls in the 10 seconds after it do not ask again
 *      -EUSERS      all records, or all entries for processes, are taken, or the daemon has no descriptor left
 *      -EDQUOT      this user has nearly all records, entries or connections; the last are for other users
 *      -EUCLEAN     the daemon has another arena by now; see tslab_stale()
 *      -EACCES, -EPERM, -EREMOTE   the daemon refuses this process
 *      -EPROTO      the daemon's answer is no answer of tslabd
 *      -EPROTONOSUPPORT   the daemon's protocol is of another version
 *      -EMFILE, -ENFILE   no descriptor is left
 *      -ENOMEM      no memory is left; in any process, when a thread makes its first such call
 *
 * These are "the attach errors" below. Reading needs no record and works at once. A child must not
 * close descriptors that it did not open (closefrom()) before it closes the pool or executes another
 * program.
 *
 * Exec: when a process executes another program, its open pools end as if the process had died; see
 * tslab-arena(7). The library tells programs apart by a number that it makes when it is loaded, from
 * getauxval(AT_RANDOM); a forked child has the number of its parent.
 *
 * Nothing here is async-signal-safe or may be called between vfork() and exec. A signal handler must not leave a call
 * by longjmp(), not even where the bytes of a value cannot be read: the thread's record would be left inside an
 * operation. A handler that ends its thread there, by pthread_exit(), leaves the record to repair. If it is the record
 * that threads share, as n_threads of the pool are too few, then objects that others of them have pending are freed,
 * and so are those of tslab_pending_share(). Until a daemon has repaired it, for a second or two, calls without a
 * record of their own may then fail with -EUSERS. Destructors that run in the thread afterwards, as of keys, may use
 * other pools, and close that pool, but use nothing in it: slots could be lost.
 *
 * Sizes are bytes, times milliseconds or, where named _usec, microseconds since 1970.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
/* In C, a struct and a call may have one name; -Wshadow takes the call for one that hides a constructor. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#endif

/* An open pool. */
struct tslab;

/* Names a live object, in all processes of its pool and in no other pool. 0 is never valid. */
typedef uint64_t tslab_handle;

/*
 * An epoch is a lifetime that objects are allocated into. Its number has an id in the low 8 bits and above
 * them the era: how often that id was opened. Era 0 stands for the era that is open.
 */
__extension__ enum tslab_epoch {
        TSLAB_EPOCH_CURRENT = UINT32_MAX, /* the one that tslab_epoch_advance() made current last */
};

/* Constants are enumerators, so that other languages' tools, which read headers without macros, find them. */
enum tslab_size {
        TSLAB_CLASSES_MAX = 32,
        TSLAB_LABEL_SIZE = 32, /* with the final 0 */
};

/* tslab_options.cache */
enum tslab_cache {
        TSLAB_CACHE_ADAPTIVE = 0, /* threads keep slots for allocations to come, where that pays */
        TSLAB_CACHE_ON = 1, /* threads always keep slots */
        TSLAB_CACHE_OFF = 2, /* threads never keep slots */
};

/* tslab_options.flags */
enum tslab_flag {
        TSLAB_READER = 1, /* tslab_open(): map read-only; allocating and freeing is -EROFS */
};

/*
 * How to open or create a pool. A member that is 0 has its default. Members of the other call are ignored.
 *
 *      struct tslab_options options = { .size = sizeof(options), .n_threads = 64 };
 */
struct tslab_options {
        size_t size; /* size of this struct, as the program knows it */
        uint32_t flags; /* TSLAB_READER */
        uint32_t cache; /* TSLAB_CACHE_ON and so on; $TSLAB_CACHE (on, off, adaptive) overrides it */

        /* tslab_open() */
        uint32_t timeout_ms; /* for each answer of the daemon; 0: 5 s, UINT32_MAX: no limit */
        const char *comm; /* shown for this process, at most 15 bytes; NULL: its own name */

        /* tslab_create() */
        uint64_t arena_bytes; /* room for objects, a multiple of 4096 up to 64 GiB; 0: 256 MiB */
        /*
         * Free slabs up to this sum keep their memory; 0: 16 MiB, below 4096: none. The memory of others goes back
         * in later calls that free or close, once nobody took them for a second, and by tslab_drain() at once.
         */
        uint64_t retain_bytes;
        uint32_t n_threads; /* records: one for each thread, and one for each process; 0: 1024 */
        uint32_t n_epochs; /* 2 to 64; 0: 16 */
        /*
         * In classes[]; 0: 64, 80, 96, 112, 128, 144, 160, 192, 224, 256, 304, 336, 368, 400, 448, 512, 576, 672, 816,
         * 1024, 1360, 2048 and 4096 bytes.
         */
        uint32_t n_classes;
        uint32_t classes[TSLAB_CLASSES_MAX]; /* object sizes, rising multiples of 16 from 64 to 4096 */

        /* One in so many calls that no cache serves is timed, for tslab_thread_stats(); 0: none. */
        uint32_t time_slow;

        /*
         * tslab_create(): 1: tslab_reap() has the kernel put the pool's memory together in huge pages, wherever 2 MiB
         * of slabs are in use; 0: no. $TSLAB_HUGE (yes, no) overrides it. Needs Linux 6.1.
         */
        uint32_t huge;
};

/* Returns the version of the library, like "0.1.0". A constant; any thread, also in a forked child. */
const char *tslab_version(void);

/*
 * Opens a pool of a daemon. `pool` is its name, the path of its socket (which has a '/'), or NULL for
 * $TSLAB_POOL, else "default". The caller closes *ret with tslab_close(). Enters the daemon, and waits for
 * its answers up to options->timeout_ms (`options` may be NULL).
 *
 * -EINVAL          not a name; options are out of range, or of a later version
 * -ENOENT, -ECONNREFUSED   there is no daemon
 * -EACCES          no permission to use the socket or, without TSLAB_READER, to write
 * -EPERM           the daemon refuses this process
 * -EREMOTE         this process is of another pid namespace than the daemon, and the kernel is older than Linux 6.5
 * -ETIMEDOUT       the daemon did not answer in time
 * -ECONNRESET      the daemon went away meanwhile
 * -EPROTO          some other program than tslabd answers
 * -EPROTONOSUPPORT  the daemon's protocol, or the format of its arena, is of another version
 * -EBADMSG         the arena is damaged: its header contradicts itself
 * -EUSERS          all records, or all entries for processes, are taken, or the daemon has no descriptor left
 * -EDQUOT          this user has nearly all records, entries or connections; the last are for other users
 * -EOPNOTSUPP      this processor has no 16-byte compare-and-swap, or the kernel's pages are not of 4 KiB
 * -ENAMETOOLONG    the path of the socket is longer than 107 bytes
 * -ENOMEM, -EMFILE, -ENFILE, -EAGAIN   the system is short of memory, descriptors, or thread keys
 */
int tslab_open(struct tslab **ret, const char *pool, const struct tslab_options *options);

/*
 * Creates a private pool. Children that this process forks later share it. It has no daemon: the calls
 * themselves do a daemon's work. The caller closes *ret with tslab_close(); the memory is gone when every
 * process has closed the pool or ended. Never enters a daemon.
 *
 * Only one process at a time does control work: advancing, reserving and closing epochs, and giving
 * memory back. Control calls return -EBUSY while another process does. If that one dies, the next call goes on with its
 * work. Calls also take back, now and then, the slots that idle threads cache: if all threads are idle, tslab_reap()
 * does.
 *
 * -EINVAL (options out of range, or of a later version), -EOPNOTSUPP (this processor has no 16-byte
 * compare-and-swap, or the kernel's pages are not of 4 KiB), -EFBIG (the pool is larger than this process's
 * RLIMIT_FSIZE), -ENOMEM, -EMFILE, -ENFILE, -EAGAIN (no thread key left)
 */
int tslab_create(struct tslab **ret, const struct tslab_options *options);

/*
 * Closes a pool in this process and returns NULL; NULL-safe. Gives back the records of all threads
 * and frees objects that are still pending. Epochs that this process leased are revoked (by a later
 * tslab_reap() if the pool is private and another process does control work all the while). In a forked
 * child the call concerns the child alone. Does not enter the daemon.
 *
 * Other threads may be inside calls with this pool: tslab_close() waits until those calls are over, however
 * long that takes. The threads may make further calls: each call that needs a record, changes the pool or
 * is a control call returns -EBADF from then on (tslab_malloc() sets errno). Lookups find an empty pool:
 * -ESTALE, -ENOENT, -EIDRM of maps, epoch 0.
 *
 * Pointers to objects end. For one second, writes through them are lost and reads give zeros. Address
 * space of the size of the arena stays reserved for that time, and until every thread that allocated or freed
 * in the pool has ended or gone on to other pools. Each such thread takes a page or two of memory meanwhile. A later
 * tslab_close() releases it all, or the library does so when it needs address space. A kilobyte stays.
 * If this process has no other threads, everything is released at once, and the pool must not be used again.
 */
struct tslab *tslab_close(struct tslab *pool);

/*
 * Tells whether the daemon of this pool has another arena than the one open here, or has given this
 * process up. The arena goes on working for the processes that have it, but no daemon gives its memory
 * back or repairs it: close the pool and open it again.
 *
 * If the daemon to which this process was connected is gone, the call connects to the next daemon, if there is
 * one, and waits for each of its answers up to options->timeout_ms. If none comes, as from a daemon that cannot
 * start, later calls wait 50 ms at most for each, until it answers. Otherwise the call takes one system call and
 * does not enter the daemon. Any thread, also in a forked child, which it does not attach.
 */
bool tslab_stale(struct tslab *pool);

/*
 * Allocates an object of `size` bytes in an epoch. *ret_object (may be NULL) is aligned to 16. The
 * object is everyone's: it stays when this process dies, until somebody frees its handle. Any thread;
 * a forked child attaches first. Enters no daemon otherwise, unless there is no memory: then it does as
 * tslab_drain(), and waits as long, before it fails. Of all calls of a process one in 100 ms does so.
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
 * Tells the largest size that tslab_alloc() takes: that of the pool's largest class. (For tslab_malloc() it is 16 bytes
 * less.) Any thread; works at once in a forked child; never enters the daemon.
 */
size_t tslab_size_max(struct tslab *pool);

/*
 * Frees an object, which any process may have allocated. If several threads free one handle, one succeeds.
 * Any thread; a forked child attaches first. Enters no daemon otherwise. In a private pool, freeing the
 * last object of a slab of a closed epoch also gives the memory of the slab back.
 *
 * -ESTALE      the handle names no live object: freed before, of another pool, or garbage
 * -EROFS       opened with TSLAB_READER
 * -EUCLEAN     somebody wrote over the arena's metadata; or the attach error of that name
 * and the attach errors
 */
int tslab_free(struct tslab *pool, tslab_handle handle);

/*
 * Finds an object: *ret_object is its address in this process, *ret_size (may be NULL) the size of its
 * class. The pointer is good until somebody frees the handle; programs must agree on when that is. With
 * TSLAB_READER it must not be written to. Any thread; works at once in a forked child; never enters the
 * daemon.
 *
 * -ESTALE      the handle names no live object
 */
int tslab_get(struct tslab *pool, tslab_handle handle, void **ret_object, size_t *ret_size);

/*
 * Copies an object out, then checks that it was still live after the last byte was copied. Returns how many
 * bytes it copied, which is the size of the object's class. The call detects that the object was freed, not
 * that somebody writes into it: programs that use it replace objects instead of changing them. Any thread;
 * works at once in a forked child; never enters the daemon.
 *
 * -ESTALE      the handle names no live object, or the object was freed meanwhile (`buffer` is undefined)
 * -EMSGSIZE    `size`, of the buffer, is less than the object's
 */
ssize_t tslab_read(struct tslab *pool, tslab_handle handle, void *buffer, size_t size);

/*
 * Allocates up to n objects of one size, as tslab_alloc() does. Returns how many, and stores their handles at
 * the start of ret_handles. It is fewer than n if memory ran out or the epoch was closed on the way. Any
 * thread; a forked child attaches first.
 *
 * If not even one was allocated, it fails as tslab_alloc() does, with -EINVAL, -E2BIG, -ENOMEM, -ESHUTDOWN,
 * -ESTALE, -EROFS and the attach errors.
 */
ssize_t tslab_alloc_batch(struct tslab *pool, size_t size, uint32_t epoch, tslab_handle *ret_handles,
                          size_t n);

/*
 * Frees n objects. Returns how many it freed; the others were stale. Any thread; a forked child attaches
 * first.
 *
 * -EROFS (opened with TSLAB_READER) and the attach errors
 */
ssize_t tslab_free_batch(struct tslab *pool, const tslab_handle *handles, size_t n);

/*
 * Allocates a pending object: it belongs to this thread until the thread calls tslab_publish(). If the thread
 * ends or its process dies before that, the object is freed. A thread that shares its record (see Threads)
 * shares its pending objects too: they are freed when its process closes the pool or dies. This is for
 * objects that are of no use before they are linked somewhere.
 *
 * As tslab_alloc(), and -ENOBUFS: 64 objects are pending in this thread.
 */
int tslab_alloc_pending(struct tslab *pool, size_t size, uint32_t epoch, tslab_handle *ret_handle,
                        void **ret_object);

/*
 * Publishes an object that this thread allocated pending, or one that any thread of this process allocated
 * and shared by tslab_pending_share(): from then on it belongs to everyone. Any thread may have written to
 * its memory before. Enters the daemon only to attach a forked child, where nothing is pending yet.
 *
 * -ENOENT      it is pending neither in this thread nor, shared, in the process
 * -EROFS       opened with TSLAB_READER
 * and the attach errors
 */
int tslab_publish(struct tslab *pool, tslab_handle handle);

/*
 * Lets all threads of this process publish, or free, an object that this thread allocated pending. It is for
 * programs whose tasks go from thread to thread, as in async runtimes, or in Go:
 *
 *      r = tslab_alloc_pending(pool, 100, TSLAB_EPOCH_CURRENT, &handle, &object);
 *      r = tslab_pending_share(pool, handle);
 *      ...                                         (the task goes on, in another thread)
 *      r = tslab_publish(pool, handle);
 *
 * The object no longer goes with the thread: it is freed if the process dies, or closes the pool, before it is
 * published. Sharing it again changes nothing. Takes a lock of this process, for some
 * nanoseconds. Never enters the daemon.
 *
 * -ENOENT      it is not pending in this thread
 * -ENOBUFS     64 objects of this process are shared and pending
 * -EROFS       opened with TSLAB_READER
 * and the attach errors
 */
int tslab_pending_share(struct tslab *pool, tslab_handle handle);

/*
 * Allocates an object for a program that keeps pointers. The 16 bytes before the object hold its handle, so
 * the largest size is the largest class less 16. The pointer is valid in this process, aligned to 16, and is
 * freed by tslab_mfree(), also in a forked child. Any thread.
 *
 * On failure it returns NULL and sets errno to the error that tslab_alloc() would return, without its sign.
 */
void *tslab_malloc(struct tslab *pool, size_t size, uint32_t epoch);

/*
 * Frees an object that tslab_malloc() returned; NULL-safe. A pointer to anything else is left alone, as far
 * as the 16 bytes before it tell. errno stays. Any thread; a forked child attaches first, and if it cannot,
 * nothing is freed.
 */
void tslab_mfree(struct tslab *pool, void *object);

/*
 * Gives back the slots that threads keep for allocations to come: those slots of this thread at once, the slots
 * of other threads, in all processes of the pool, by way of the daemon. Waits for the daemon up to 20 ms; in a
 * private pool, up to 200 ms for threads that are in the middle of a call. A thread that stays
 * there keeps its slots. Any thread; a forked child attaches first.
 *
 * 0, or -EROFS (opened with TSLAB_READER) and the attach errors
 */
int tslab_drain(struct tslab *pool);

/*
 * Looks a named root up: *ret_handle is the handle that was set last. It may be stale. Any thread; works at
 * once in a forked child; never enters the daemon.
 *
 * -ENOENT      there is no such root
 * -EINVAL      the name is empty or longer than 47 bytes
 */
int tslab_root_get(struct tslab *pool, const char *name, tslab_handle *ret_handle);

/*
 * Sets a named root to `handle` if it is `expected`; in both, 0 means that there is no such root. The handle
 * is stored and not checked, and does not keep its object alive. A root that is set to 0 leaves room for another name.
 * Any thread; works at once in a forked child; never enters the daemon. The root of a map, "map.NAME", can only be set
 * to 0, which removes the map: see tslab_map_remove().
 *
 * -EAGAIN      it is not `expected`
 * -ENOSPC      255 names are in use
 * -EINVAL      the name is empty or longer than 47 bytes, or it is a map's and `handle` is not 0
 * -EROFS       opened with TSLAB_READER
 * and, where a map is removed, the errors of tslab_map_remove()
 */
int tslab_root_set(struct tslab *pool, const char *name, tslab_handle expected, tslab_handle handle);

/*
 * Tells the epoch for which TSLAB_EPOCH_CURRENT stands now, with its era. Returns 0. Any thread; works at once
 * in a forked child; never enters the daemon.
 */
int tslab_epoch_current(struct tslab *pool, uint32_t *ret_epoch);

/* tslab_epoch_info.state */
enum tslab_epoch_state {
        TSLAB_EPOCH_OPEN = 1,
        TSLAB_EPOCH_CLOSING = 2, /* no allocation; objects of it may live on */
        TSLAB_EPOCH_DRAINED = 3, /* closed, and no object of it is left */
};

struct tslab_epoch_info {
        size_t size; /* size of this struct, as the program knows it */
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
 * Describes an epoch; `epoch` is as in tslab_alloc(). The caller sets info->size. Any thread; works at once in
 * a forked child; never enters the daemon.
 *
 * -EINVAL (no such epoch; info->size is too small), -ESTALE (its era is over)
 */
int tslab_epoch_info(struct tslab *pool, uint32_t epoch, struct tslab_epoch_info *info);

/*
 * Control calls, as named below. In a daemon's pool they enter the daemon and wait for its answer; if it has
 * died, they look once for the next daemon. A forked child attaches first. In a private pool they do the
 * work themselves. Threads of a process take turns. Beside the errors that are listed at each call they
 * return "the control errors":
 *
 * -ENOTCONN    there is no daemon now
 * -ECONNRESET  the daemon went away during the call, which it may have carried out or not
 * -ETIMEDOUT   the daemon did not answer in time; it may carry the call out yet
 * -EUCLEAN     the daemon has another arena by now, or has given this process up: see tslab_stale()
 * -EPERM, -EACCES, -EREMOTE   the daemon does not let this process do that
 * -EBUSY       private pools: another process is doing control work
 * -EROFS       opened with TSLAB_READER
 * -EUSERS      a forked child: all records, or all entries for processes, are taken, or the daemon has no descriptor
 * -EDQUOT      this user has nearly all records, entries or connections; the last are for other users
 * -EPROTO, -EPROTONOSUPPORT   no answer of tslabd; its protocol is of another version
 * -ENOMEM, -EMFILE, -ENFILE   no memory; no descriptor
 */

/*
 * Closes the current epoch to allocation, opens the next id of the ring in a new era, and makes that epoch
 * current. *ret_epoch (may be NULL) is its number. A control call.
 *
 * -ENOSPC      all other ids are reserved, are yet to be revoked, or hold objects 4095 eras old
 * and the control errors
 */
int tslab_epoch_advance(struct tslab *pool, uint32_t *ret_epoch);

/*
 * Advances as tslab_epoch_advance() does, but only while `expected` is the current epoch, with its era as
 * tslab_epoch_current() tells it. Of several callers that expect the same epoch, one advances. So many
 * workers may rotate by the clock, each on its own, and the ring goes one step for each period.
 *
 *      uint32_t seen, now;
 *
 *      r = tslab_epoch_current(pool, &seen);
 *      r = tslab_epoch_advance_from(pool, seen, &now);        (1 in one worker, 0 in the others)
 *
 * Returns 1 if this call advanced, 0 if another epoch was current and nothing was done. In both cases *ret_epoch
 * (may be NULL) is the epoch that is current then. A control call. If it fails after the daemon may have
 * carried it out, it can safely be made again.
 *
 * -EINVAL      `expected` has no era, or is no epoch of this pool
 * -EOPNOTSUPP  the daemon is of a version that does not know it
 * and as tslab_epoch_advance()
 */
int tslab_epoch_advance_from(struct tslab *pool, uint32_t expected, uint32_t *ret_epoch);

/*
 * Reserves an epoch: opens an unused id in a new era and takes it out of the rotation, for objects that
 * outlive the others. *ret_epoch is its number. `label`, for people, may be NULL. Closing the epoch gives the
 * id back. A control call.
 *
 * -ENOSPC      no id can be spared: the others are reserved, leased, hold objects, or are yet to be revoked
 * -EINVAL      the label is longer than 31 bytes, or not printable text
 * and the control errors
 */
int tslab_epoch_reserve(struct tslab *pool, const char *label, uint32_t *ret_epoch);

/*
 * Reserves an epoch that this process owns. When the process dies or closes the pool, the epoch is closed and
 * revoked, as by tslab_epoch_close() with TSLAB_CLOSE_REVOKE, with all objects that anybody allocated in it.
 * Closing the epoch earlier does not end the lease: objects that are left are freed when the process ends.
 * A forked child does not inherit the lease; the death of a daemon does not end it. In a daemon's pool the
 * daemon revokes soon after; in a private pool tslab_close() does or, if the process died, tslab_reap() in
 * another process. A control call.
 *
 * As tslab_epoch_reserve(), and -EOPNOTSUPP: the daemon is of a version that does not know it.
 */
int tslab_epoch_lease(struct tslab *pool, const char *label, uint32_t *ret_epoch);

/*
 * Labels an epoch, open or closed. People see the label in `tslabctl epoch list`, programs by
 * tslab_epoch_info(). `epoch` is as in tslab_alloc(); `label` is copied, NULL or "" removes it. The label
 * goes when the id is opened in a new era. Any thread. A control call.
 *
 * -EINVAL      no such epoch; the label is longer than 31 bytes, or not printable text
 * -ESTALE      its era is over
 * and the control errors
 */
int tslab_epoch_label(struct tslab *pool, uint32_t epoch, const char *label);

/*
 * Repairs a private pool after processes ended without closing it, killed at any moment. Slots that they kept
 * for allocations to come go back, their pending objects are freed, epochs that they leased are revoked;
 * other objects that they shared stay. Returns how many processes were repaired. If a stopped thread may still
 * use some slot of a dead process, the rest is left for a later call. Call tslab_reap() after a forked child
 * died; the child need not have been waited for. All processes that use the pool must be in one pid namespace.
 * Any thread; a forked child attaches first. Waits up to 200 ms for threads in the middle of a call if a
 * process died in the middle of control work. A process that executes another program has ended, too.
 *
 * With tslab_options.huge it also makes huge pages, which takes half a millisecond for each. Others' control calls
 * go on meanwhile.
 *
 * -EOPNOTSUPP  a daemon's pool: the daemon does it
 * -EBUSY       another process is doing control work: see tslab_control_owner()
 * and the attach errors
 */
int tslab_reap(struct tslab *pool);

/*
 * Private pools: the pid of the process that does control work now, or 0 if none does. Calls that need control work
 * return -EBUSY meanwhile. A process that is stopped in the middle of it stays the owner until it goes on or ends; no
 * allocation and no change of a map waits for it. If the owner has ended, or executes another program, the next call
 * that needs control work goes on in its place. A reader, and any process, may ask; it waits for nobody.
 *
 * -EOPNOTSUPP  a daemon's pool: the daemon does it
 * -EBADF       the pool was closed
 */
int tslab_control_owner(struct tslab *pool);

/* tslab_epoch_close() flags */
enum tslab_close_flag {
        TSLAB_CLOSE_REVOKE = 1, /* free all its objects: every handle into it is stale */
        TSLAB_CLOSE_OLDER = 2, /* with TSLAB_CLOSE_REVOKE: all earlier eras of the id, too */
};

/*
 * Closes an epoch: allocation in it fails with -ESHUTDOWN, its objects stay valid until they are
 * freed. When the call returns, the memory of its empty slabs has been given back to the system; the
 * memory of other slabs follows as they empty. Waits up to 200 ms for threads that are in the middle of a
 * call, and does not wait for objects. In a private pool that several processes use, memory in the caches of
 * their threads follows a millisecond later, when one of these threads makes a call or anybody a control call.
 * An epoch that is closed may be closed again. A control call.
 *
 * With TSLAB_CLOSE_REVOKE all its objects are freed, from whichever process they come, before the memory is
 * given back. Other processes may still look at them by pointer: all programs must have stopped using the
 * epoch. An object that a thread has in hand (the thread was stopped while it allocated the object, or has it
 * pending) is freed by the daemon when that thread goes on; in a private pool, by closing again.
 *
 * Only the era that `epoch` names is concerned, or the newest era of the id if it names none. Objects of
 * earlier eras stay, unless TSLAB_CLOSE_OLDER is given or their era is named: an era that is over can be
 * revoked, though not closed again.
 *
 * -EINVAL      no such epoch; unknown flags, or TSLAB_CLOSE_OLDER alone
 * -ESTALE      its era is over, or has not begun
 * -EBUSY       other earlier eras of the id are being revoked: try again
 * and the control errors
 */
int tslab_epoch_close(struct tslab *pool, uint32_t epoch, uint32_t flags);

/*
 * References count the processes that still want an epoch. A reference keeps nothing open and nothing alive; it
 * tells the last process that it is the last. A process that dies has none any more once the daemon or, in a private
 * pool, tslab_reap() has noticed; a forked child begins with none. A reference is to one era, and counts for no other,
 * even if its process is stopped meanwhile. Any thread; a forked child attaches first. The calls do not enter the
 * daemon otherwise.
 */

/*
 * Takes a reference to an open epoch; `epoch` is as in tslab_alloc(). References nest.
 *
 * -EINVAL (no such epoch), -ESTALE (its era is over), -ESHUTDOWN (it is closed), -EROFS (opened with
 * TSLAB_READER), -EBADF (the pool was closed) and the attach errors
 */
int tslab_epoch_ref(struct tslab *pool, uint32_t epoch);

/*
 * Gives a reference back. Returns how many processes still have one; 0: this was the last.
 *
 * -ENOENT (this process has none), -EINVAL, -ESTALE, -EROFS, -EBADF and the attach errors
 */
int tslab_epoch_unref(struct tslab *pool, uint32_t epoch);

/* Returns how many processes have references to an epoch, or -EINVAL, -ESTALE. Works with TSLAB_READER, too. */
int tslab_epoch_refs(struct tslab *pool, uint32_t epoch);

/*
 * A domain is a scope around one epoch.
 *
 *      r = tslab_domain_open(&domain, pool, TSLAB_EPOCH_CURRENT, TSLAB_DOMAIN_AUTO_CLOSE);
 *      r = tslab_domain_enter(domain);
 *      r = tslab_alloc(pool, 100, tslab_domain_epoch(domain), &handle, &object);
 *      r = tslab_domain_leave(domain);        (the last to leave, in all processes, closes the epoch)
 *      domain = tslab_domain_close(domain);
 *
 * Entering takes a reference to the epoch. Any number of threads may be inside, each any number of times; a
 * thread leaves in the reverse order of entering. A process that is killed inside is inside no more, but
 * closes nothing: the next thread that leaves closes the epoch, or a call of tslab_epoch_close().
 */
struct tslab_domain;

/* tslab_domain_open() flags */
enum tslab_domain_flag {
        TSLAB_DOMAIN_AUTO_CLOSE = 1, /* the last to leave closes the epoch */
};

/*
 * Makes a domain of an epoch. `epoch` is as in tslab_alloc(); the domain stays with the era that it means now.
 * Other processes make their own domains of the same epoch. The caller closes *ret with tslab_domain_close(),
 * before the pool.
 *
 * -EINVAL (no such epoch; unknown flags), -ESTALE, -ENOMEM
 */
int tslab_domain_open(struct tslab_domain **ret, struct tslab *pool, uint32_t epoch, uint32_t flags);

/* Closes a domain that no thread is inside of; returns NULL, NULL-safe. Closes no epoch. */
struct tslab_domain *tslab_domain_close(struct tslab_domain *domain);

/* Enters a domain. Fails as tslab_epoch_ref() does, and with -ENOBUFS: this thread is inside 64 domains. */
int tslab_domain_enter(struct tslab_domain *domain);

/*
 * Leaves the domain that this thread entered last. With TSLAB_DOMAIN_AUTO_CLOSE the last thread to leave closes
 * the epoch, as tslab_epoch_close() does.
 *
 * -EINVAL      it is not the domain that this thread entered last
 * and the errors of tslab_epoch_unref() without -ESTALE, and the control errors: the domain was left, but the
 * epoch was not closed
 */
int tslab_domain_leave(struct tslab_domain *domain);

/* Returns the domain's epoch, with its era. */
uint32_t tslab_domain_epoch(const struct tslab_domain *domain);

/* Returns the domain that this thread entered last and did not leave; NULL: none. */
struct tslab_domain *tslab_domain_current(void);

/*
 * The pool's size, and whether an address is in it. They never change, so any thread may ask at any time before
 * tslab_close() returns, also in a forked child and with TSLAB_READER. Nothing is walked through, nobody is asked.
 */

/* Returns the room for objects in bytes: the size of all slabs, whether they have memory or not. */
uint64_t tslab_capacity(struct tslab *pool);

/*
 * Returns whether `address` is where this process has the pool's objects mapped, as is each address that
 * tslab_alloc(), tslab_get() or tslab_malloc() returns here. It does not tell whether an object lives there.
 */
bool tslab_contains(struct tslab *pool, const void *address);

/*
 * Statistics. The caller sets the `size` of each struct. Sums over a pool in use belong to no single moment.
 * The calls for the pool, a class and an epoch walk through the slabs in use: some milliseconds for a GiB. Any
 * thread; they work at once in a forked child, and with TSLAB_READER, and never enter the daemon.
 */

struct tslab_stats {
        size_t size; /* size of this struct, as the program knows it */
        uint64_t live_objects, live_bytes;
        uint64_t cached_objects; /* free, held by threads for allocations to come */
        uint64_t committed_bytes; /* slabs that have memory */
        uint64_t retained_bytes; /* the part of it in slabs that are free */
        /* Sums over all threads that the pool has had. */
        uint64_t allocs, frees;
        uint64_t alloc_hits, frees_cached; /* the part of these that a thread's cache served */
        uint64_t refills, flushes; /* times that a cache was filled; emptied by half */
        uint64_t slabs_taken, slabs_recycled; /* free slabs that came into use; slabs that were emptied */
        uint64_t slabs_reclaimed; /* slabs that gave their memory back to the system */
        uint64_t failures; /* allocations refused for want of memory */
        uint32_t threads; /* that have a record now */
        uint32_t reserved;
        /* Calls that went past a thread's cache because it did not pay, and the times that this began. */
        uint64_t alloc_bypassed, free_bypassed, bypass_windows;
        /* Refused with -E2BIG: objects, and the largest of them; values of maps, the largest with its key and head. */
        uint64_t too_large, too_large_bytes;
        uint64_t values_too_large, values_too_large_bytes;
        /* The part of the failures for which a cgroup left no memory, and for which the system had none. */
        uint64_t failures_limit, failures_system;
        uint64_t frees_stale; /* refused with -ESTALE: double frees, and frees after the end of an era */
        uint64_t flushed_slots,
                refilled_slots; /* free slots that went from caches to slabs; from slabs to caches */
        uint64_t slabs_committed; /* slabs that threads gave memory to, not the daemon */
        uint64_t slabs_filled,
                slabs_reopened; /* the last free slot was taken; full slabs that have some again */
};

/* Objects of a class, or of an epoch. */
struct tslab_count {
        size_t size; /* size of this struct, as the program knows it */
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

/* Counts of the calling thread, since it got its record. */
struct tslab_thread_stats {
        size_t size; /* size of this struct, as the program knows it */
        uint64_t allocs, frees;
        uint64_t alloc_hits, frees_cached;
        uint64_t refills, flushes;
        uint64_t failures;
        /*
         * Slow calls are calls of tslab_alloc() and tslab_free() that no cache served: they refilled or flushed
         * it, went past it, or committed memory. Of the slow calls that were timed
         * (tslab_options.time_slow): how many, the sum, and the longest.
         */
        uint64_t slow_allocs, slow_allocs_timed, slow_allocs_ns, slow_alloc_max_ns;
        uint64_t slow_frees, slow_frees_timed, slow_frees_ns, slow_free_max_ns;
        uint32_t is_shared; /* not 0: the record is shared with other threads of the process, see Threads */
        uint32_t reserved;
        uint64_t alloc_bypassed, free_bypassed, bypass_windows; /* as in tslab_stats */
};

/*
 * Tells the counts of this thread. Gives the thread a record if it has none; a forked child attaches first.
 * Walks through nothing.
 *
 * -EINVAL (stats->size is too small), -EROFS (opened with TSLAB_READER) and the attach errors
 */
int tslab_thread_stats(struct tslab *pool, struct tslab_thread_stats *stats);

#ifdef __cplusplus
#pragma GCC diagnostic pop
}
#endif
