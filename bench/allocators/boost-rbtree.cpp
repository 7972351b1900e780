/* The segment's own allocator: best fit for any size, from a red-black tree under one mutex. */
#include "bench/allocators/boost-segment.hpp"

void boost_init(void *memory, size_t memory_size, size_t) {
        segment_init(memory, memory_size);
}

void boost_thread_init(void) {
}

void boost_thread_deinit(void) {
}

uint64_t boost_alloc(size_t size, void **ret_object) {
        char *object = static_cast<char *>(segment->allocate(size, std::nothrow));

        *ret_object = object;
        return object ? static_cast<uint64_t>(object - segment_memory) : 0;
}

void boost_free(uint64_t handle) {
        segment->deallocate(segment_memory + handle);
}
