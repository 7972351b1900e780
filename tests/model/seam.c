/* See seam.h. */
#include "tests/model/seam.h"

#include <string.h>

ModelKind model_kind;
unsigned model_size;
ModelOrder model_order;
int model_weaker = -1;
bool model_stored_nothing, model_weak;
bool model_copies;

/* Programs without an explorer use this one. */
__attribute__((weak)) void shm_step(const void *address) {
}

__attribute__((weak)) void model_fence_rel(void) {
}

/* Words as they lie in the memory that is copied from. */
void model_copy(void *to, const void *from, size_t size) {
        uint8_t *t = to;
        const uint8_t *f = from;

        while (size > 0) {
                uint64_t word = 0;
                unsigned n = size >= 8 ? 8 : size >= 4 ? 4 : 1;

                while (((uintptr_t) f | (uintptr_t) t) % n != 0)
                        n = n == 8 ? 4 : 1;
                model_access(f, MODEL_LOAD, n, MODEL_RLX);
                memcpy(&word, f, n);
                model_access(t, MODEL_STORE, n, MODEL_RLX);
                memcpy(t, &word, n);
                t += n;
                f += n;
                size -= n;
        }
}
