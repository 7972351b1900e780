#pragma once
/*
 * The memory that an entry counts with against the limit of its map: the slot's part of a slab and of the slab's
 * tables, and the entry's part of the index. An entry in several pieces counts with the slots of all of them.
 */
#define SLAB_COST 4416
#define INDEX_COST 48

#define SLOTS_OF_SLAB(slot) (4096 / (slot) > 64 ? 64 : 4096 / (slot))
#define SLOT_COST(slot) ((SLAB_COST + SLOTS_OF_SLAB(slot) - 1) / SLOTS_OF_SLAB(slot))
#define ENTRY_COST(slot) (SLOT_COST(slot) + INDEX_COST)
