#pragma once
/*
 * Probes: places at which bpftrace, perf or gdb can look at a program while it runs ("USDT"). Each is a nop, and a note
 * in the file that says where it stands and in which registers its arguments are. docs/tracing.md lists them.
 *
 * Arguments are values that the code has at hand, or can make in two or three instructions. Builds without
 * <sys/sdt.h> have none, nor has the explorer's.
 */
#if defined(TSLAB_PROBES) && !defined(SHM_STEP)
#define SDT_USE_VARIADIC
#include <sys/sdt.h>
#define shm_probe(name, ...) STAP_PROBEV(tslab, name, __VA_ARGS__)
#else
#define shm_probe(name, ...) ((void) 0)
#endif
