#pragma once
/*
 * State machines as tables: an edge leads from a state, by an event, to a state. The code looks transitions up in
 * the table, and a test tries every state with every event against it. An event without an edge is refused.
 */
#include <stddef.h>
#include <stdint.h>

typedef struct ShmEdge {
        uint8_t from, event, to;
} ShmEdge;

typedef struct ShmEdges {
        const ShmEdge *edges;
        size_t n;
} ShmEdges;

/* An initializer of ShmEdges from an array of edges. */
#define SHM_EDGES(_table)                                                                                    \
        { (_table), sizeof(_table) / sizeof((_table)[0]) }

/* The state after the event, or -1 if there is no such edge. */
static inline int shm_edge_to(ShmEdges edges, unsigned from, unsigned event) {
        for (size_t i = 0; i < edges.n; i++)
                if (edges.edges[i].from == from && edges.edges[i].event == event)
                        return edges.edges[i].to;
        return -1;
}
