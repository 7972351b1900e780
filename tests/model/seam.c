/* See seam.h. */
#include "tests/model/seam.h"

ModelKind model_kind;
unsigned model_size;

/* Of programs without an explorer. */
__attribute__((weak)) void shm_step(const void *address) {
}
