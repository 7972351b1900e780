#pragma once
/*
 * Scopes on epochs of <slab_alloc.h>: a thread that enters a domain counts as a user of its epoch, and the
 * last one to leave closes the epoch, if that is wanted.
 *
 *      epoch_domain_t *request = epoch_domain_wrap(a, epoch_current(a), true);
 *
 *      epoch_domain_enter(request);
 *      object = slab_malloc_epoch(epoch_domain_allocator(), 128, request->epoch_id);
 *      epoch_domain_exit(request);                    (closes the epoch)
 *      epoch_domain_destroy(request);
 *
 * A domain is for the thread that made it: where another one enters or leaves it, nothing happens.
 * Several threads have a domain each, of one epoch. Domains nest, and may be entered again. After a
 * fork they are the child's own, but their epochs are shared: see <slab_alloc.h>.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <slab_alloc.h>

#ifdef __cplusplus
extern "C" {
#endif

/* To be read; written by the calls below. */
typedef struct epoch_domain {
        SlabAllocator *alloc;
        EpochId epoch_id;
        uint64_t epoch_era; /* which lifetime of the id this is about: a later one is never closed */
        uint32_t refcount; /* how often it is entered */
        bool auto_close;
        pthread_t owner_tid;
} epoch_domain_t;

/*
 * Makes a domain of the current epoch that closes nothing by itself; the caller destroys it. NULL: no
 * memory, no allocator.
 */
epoch_domain_t *epoch_domain_create(SlabAllocator *alloc);

/*
 * Makes a domain of any epoch; the caller destroys it. With auto_close the epoch is closed when nobody
 * counted is left in it. NULL: no memory, no allocator, no such epoch.
 */
epoch_domain_t *epoch_domain_wrap(SlabAllocator *alloc, EpochId epoch_id, bool auto_close);

/* Enters: the domain is the thread's current one. The first time counts as a user of the epoch. NULL-safe. */
void epoch_domain_enter(epoch_domain_t *domain);

/*
 * Leaves a domain, which should be the one entered last; another order is accepted. When the domain has been left
 * as often as it was entered, the count of users falls; with auto_close and a count of 0 the epoch is closed,
 * as by epoch_close(). NULL-safe.
 */
void epoch_domain_exit(epoch_domain_t *domain);

/* The domain that this thread entered last and has not left; NULL: none. From 64 deep, the 64th. */
epoch_domain_t *epoch_domain_current(void);

/* Its allocator; NULL: none. */
SlabAllocator *epoch_domain_allocator(void);

/*
 * Frees a domain, leaving it first as often as it is entered; with auto_close the epoch is closed if
 * nobody counted is left in it. By its own thread, before its allocator is freed. NULL-safe.
 */
void epoch_domain_destroy(epoch_domain_t *domain);

/* Closes the epoch, even if threads are in it, unless its lifetime is over. The domain stays entered. NULL-safe. */
void epoch_domain_force_close(epoch_domain_t *domain);

#ifdef __cplusplus
}
#endif
