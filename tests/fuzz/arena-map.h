#pragma once
/* The map of an arena image: its entries are of all kinds. Programs call it while the arena is written over. */
#include "tests/fuzz/arena-image.h"

/* Makes it, in the image's epoch 3. */
void image_map_make(ShmActor *actor);

/* A program's view of an arena that was just mapped: it has no thread yet. */
void image_map_begin(ShmArena *arena);
/* A call: a says which, b the key and a size, the value all else. The map is opened again if the value is odd. */
void image_map_call(const ImageStep *step);
/* Each call on a few keys, of all kinds. */
void image_map_call_all(void);
