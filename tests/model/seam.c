/* See seam.h. */
#include "tests/model/seam.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

ModelKind model_kind;
unsigned model_size;
ModelOrder model_order;
int model_weaker = -1;
bool model_stored_nothing, model_weak, model_acts;
bool model_copies;

/* Programs without an explorer use this one. */
__attribute__((weak)) void shm_step(const void *address) {
}

__attribute__((weak)) void model_fence_rel(void) {
}

extern ModelSite *__start_model_sites[], *__stop_model_sites[];

bool model_sites_weaken(const char *text) {
        char name[256];
        bool found = false;

        for (ModelSite **s = __start_model_sites; s < __stop_model_sites; s++) {
                (void) snprintf(name, sizeof(name), "%s:%d:", (*s)->file, (*s)->line);
                if (strncmp(text, name, strlen(name)) != 0)
                        continue;
                (*s)->weaker = atoi(text + strlen(name));
                found = true;
        }
        return found;
}

void model_sites_print(const char *name) {
        for (ModelSite **s = __start_model_sites; s < __stop_model_sites; s++) {
                if (!name)
                        printf("place %s %s %d\n", (*s)->file, (*s)->function, (*s)->line);
                else if ((*s)->kind)
                        printf("reached %s %s %s %d %s %d\n", name, (*s)->file, (*s)->function, (*s)->line,
                               (*s)->kind, (*s)->order);
                (*s)->kind = NULL;
        }
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
