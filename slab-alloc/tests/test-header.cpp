// <slab_alloc.h>, <epoch_domain.h>, <slab_stats.h> and <slab_diagnostics.h> in C++17.
#include <epoch_domain.h>
#include <slab_alloc.h>
#include <slab_diagnostics.h>
#include <slab_stats.h>

int main() {
        SlabAllocator a;
        allocator_init(&a);
        auto *domain = epoch_domain_create(&a);
        if (!domain)
                return 1;
        epoch_domain_enter(domain);
        SlabHandle handle = 0;
        if (!alloc_obj_epoch(epoch_domain_allocator(), 64, domain->epoch_id, &handle) || !free_obj(&a, handle))
                return 1;
        epoch_domain_exit(domain);
        epoch_domain_destroy(domain);
        allocator_destroy(&a);
        return 0;
}
