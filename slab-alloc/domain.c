/* Domains: each thread's stack of the domains that it entered. */
#include <stdlib.h>
#include <string.h>

#include <epoch_domain.h>
#include <tslab.h>

#include "slab-alloc/state.h"
#include "shm/epoch/epoch.h"

#define DEPTH_MAX 64

/* Domains that are entered while it is full are not in it. */
static __thread epoch_domain_t *stack[DEPTH_MAX];
static __thread uint32_t depth;

static void push_domain(epoch_domain_t *domain) {
        if (depth < DEPTH_MAX)
                stack[depth++] = domain;
}

/* Removes the domain from the stack once. First come the entries that did not fit into the stack: they need nothing. */
static void pop_domain(const epoch_domain_t *domain) {
        uint32_t n = 0, last = 0;

        for (uint32_t i = 0; i < depth; i++)
                if (stack[i] == domain) {
                        last = i;
                        n++;
                }
        if (n == 0 || n < domain->refcount)
                return;
        depth--;
        memmove(&stack[last], &stack[last + 1], (depth - last) * sizeof(stack[0]));
}

static bool is_ours(const epoch_domain_t *domain) {
        return domain && pthread_equal(domain->owner_tid, pthread_self());
}

_public_ epoch_domain_t *epoch_domain_create(SlabAllocator *alloc) {
        return epoch_domain_wrap(alloc, epoch_current(alloc), false);
}

_public_ epoch_domain_t *epoch_domain_wrap(SlabAllocator *alloc, EpochId epoch_id, bool auto_close) {
        const AllocatorState *state = allocator_state(alloc);
        epoch_domain_t *domain;

        if (!state || epoch_id >= ALLOCATOR_EPOCHS)
                return NULL;
        domain = malloc(sizeof(*domain));
        if (!domain)
                return NULL;
        *domain = (epoch_domain_t){
                .alloc = alloc,
                .epoch_id = epoch_id,
                .epoch_era = allocator_era(state, epoch_id),
                .auto_close = auto_close,
                .owner_tid = pthread_self(),
        };
        return domain;
}

static bool is_over(const epoch_domain_t *domain) {
        const AllocatorState *state = allocator_state(domain->alloc);

        return !state || allocator_era(state, domain->epoch_id) != domain->epoch_era;
}

/* Named with its era, so that a later lifetime of the id is left alone. */
static void close_epoch(const epoch_domain_t *domain) {
        AllocatorState *state = allocator_state(domain->alloc);

        if (state)
                allocator_close(state, shm_epoch_number(domain->epoch_id, (uint32_t) domain->epoch_era));
}

static void close_if_last(const epoch_domain_t *domain) {
        if (domain->auto_close && slab_epoch_get_refcount(domain->alloc, domain->epoch_id) == 0)
                close_epoch(domain);
}

static void leave_epoch(epoch_domain_t *domain) {
        /* Users of a later lifetime are not ours to count. */
        if (!is_over(domain))
                slab_epoch_dec_refcount(domain->alloc, domain->epoch_id);
}

_public_ void epoch_domain_enter(epoch_domain_t *domain) {
        if (!is_ours(domain))
                return;
        if (domain->refcount++ == 0 && !is_over(domain))
                slab_epoch_inc_refcount(domain->alloc, domain->epoch_id);
        push_domain(domain);
}

_public_ void epoch_domain_exit(epoch_domain_t *domain) {
        if (!is_ours(domain) || domain->refcount == 0)
                return;
        pop_domain(domain);
        if (--domain->refcount > 0)
                return;
        leave_epoch(domain);
        close_if_last(domain);
}

_public_ epoch_domain_t *epoch_domain_current(void) {
        return depth > 0 ? stack[depth - 1] : NULL;
}

_public_ SlabAllocator *epoch_domain_allocator(void) {
        const epoch_domain_t *domain = epoch_domain_current();

        return domain ? domain->alloc : NULL;
}

_public_ void epoch_domain_destroy(epoch_domain_t *domain) {
        if (!domain)
                return;
        if (domain->refcount > 0)
                leave_epoch(domain);
        for (; domain->refcount > 0; domain->refcount--)
                pop_domain(domain);
        close_if_last(domain);
        free(domain);
}

_public_ void epoch_domain_force_close(epoch_domain_t *domain) {
        if (domain)
                close_epoch(domain);
}
