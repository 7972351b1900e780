/* cached_node_allocator: all members share a pool of nodes of one size, and each thread caches up to 64 of them. */
#include <cstdlib>

#include <boost/interprocess/allocators/cached_node_allocator.hpp>

#include "bench/allocators/boost-segment.hpp"

namespace {

struct Nodes {
        virtual ~Nodes() = default;
        virtual void *take() = 0;
        virtual void give(void *) = 0;
};

template <size_t size> struct NodesOf final : Nodes {
        struct Node {
                alignas(16) char bytes[size];
        };
        bip::cached_node_allocator<Node, Segment::segment_manager> nodes{ segment->get_segment_manager() };

        void *take() override {
                return bip::ipcdetail::to_raw_pointer(nodes.allocate_one());
        }
        void give(void *object) override {
                nodes.deallocate_one(static_cast<Node *>(object));
        }
};

size_t object_size;
thread_local Nodes *thread_nodes;

} // namespace

void boost_init(void *memory, size_t memory_size, size_t size) {
        segment_init(memory, memory_size);
        object_size = size;
        /* Without this the pool would go with the first member that ends. */
        boost_thread_init();
}

void boost_thread_init(void) {
        switch (object_size) {
        case 64:
                thread_nodes = new NodesOf<64>;
                break;
        case 128:
                thread_nodes = new NodesOf<128>;
                break;
        case 256:
                thread_nodes = new NodesOf<256>;
                break;
        default:
                std::abort();
        }
}

void boost_thread_deinit(void) {
        delete thread_nodes;
        thread_nodes = nullptr;
}

uint64_t boost_alloc(size_t, void **ret_object) {
        try {
                char *object = static_cast<char *>(thread_nodes->take());

                *ret_object = object;
                return static_cast<uint64_t>(object - segment_memory);
        } catch (const bip::bad_alloc &) {
                return 0;
        }
}

void boost_free(uint64_t handle) {
        thread_nodes->give(segment_memory + handle);
}
