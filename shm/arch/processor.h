#pragma once
/* The processor that this is compiled for. All that differs between processors is in its folder. */
#if defined(__x86_64__)
#include "shm/arch/x86_64/processor.h"
#elif defined(__aarch64__)
#include "shm/arch/aarch64/processor.h"
#else
#error "tslab knows x86-64 and aarch64; CONTRIBUTING.md says what another processor needs"
#endif
