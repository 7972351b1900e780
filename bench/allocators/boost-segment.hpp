#pragma once
/* Both programs use this segment, in memory that the caller gives. Boost's managed_external_buffer has no locks. */
#include <boost/interprocess/indexes/iset_index.hpp>
#include <boost/interprocess/managed_external_buffer.hpp>
#include <boost/interprocess/mem_algo/rbtree_best_fit.hpp>
#include <boost/interprocess/sync/mutex_family.hpp>

#include "bench/allocators/boost.h"

namespace bip = boost::interprocess;

using Segment = bip::basic_managed_external_buffer<char, bip::rbtree_best_fit<bip::mutex_family>, bip::iset_index>;

static Segment *segment;
static char *segment_memory;

static inline void segment_init(void *memory, size_t memory_size) {
        segment_memory = static_cast<char *>(memory);
        segment = new Segment(bip::create_only, memory, memory_size);
}
