/* See seam.h. */
#include "tests/model/seam.h"

ModelKind model_kind;
unsigned model_size;

/* Programs without an explorer use this one. */
__attribute__((weak)) void shm_step(const void *address) {
}
