/* See seam.h. */
#include "tests/model/seam.h"

ModelKind model_kind;
unsigned model_size;
bool model_copies;

/* Programs without an explorer use this one. */
__attribute__((weak)) void shm_step(const void *address) {
}
