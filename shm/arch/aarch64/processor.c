#include "shm/arch/aarch64/processor.h"

#include <sys/auxv.h>

#define CAP_ATOMICS (1UL << 8) /* HWCAP_ATOMICS */

bool processor_has_casp;

__attribute__((constructor)) static void find_casp(void) {
        processor_has_casp = getauxval(AT_HWCAP) & CAP_ATOMICS;
}

bool processor_has_cas16(void) {
        return true;
}
