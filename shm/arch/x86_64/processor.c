#include "shm/arch/x86_64/processor.h"

#include <cpuid.h>

bool processor_has_cas16(void) {
        unsigned a, b, c, d;

        return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_CMPXCHG16B);
}
