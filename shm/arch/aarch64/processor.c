#include "shm/arch/aarch64/processor.h"

#include <sys/auxv.h>

#define CAP_ATOMICS (1UL << 8) /* HWCAP_ATOMICS */
#define CAP_LSE2 (1UL << 25) /* HWCAP_USCAT */

bool processor_has_casp, processor_has_load16;

__attribute__((constructor)) static void find_instructions(void) {
        processor_has_casp = getauxval(AT_HWCAP) & CAP_ATOMICS;
        processor_has_load16 = getauxval(AT_HWCAP) & CAP_LSE2;
}

bool processor_has_cas16(void) {
        return true;
}
