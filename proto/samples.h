#pragma once

/*
 * Sampled allocations: a memfd that a client writes and sends to the daemon (Samples), which keeps
 * it, also when the client is gone; tslabctl reads it. For readers all of it is input.
 *
 * A stack is of return addresses, innermost first. Each is the index of its module plus 1, above
 * bit 48, and the offset in it; or, without module, the address itself.
 */

#include <assert.h>
#include <stdint.h>

#define SAMPLES_MAGIC UINT64_C(0x316d617362616c73) /* "slabsam1" */
#define SAMPLES_FRAMES_MAX 24
#define SAMPLES_MODULES_MAX 64
#define SAMPLES_MODULE_SHIFT 48
#define SAMPLES_PATH_SIZE 232
#define SAMPLES_BUILD_ID_MAX 20
#define SAMPLES_N 4096

typedef struct SamplesModule {
        uint32_t build_id_size; /* 0: it has none */
        uint8_t build_id[SAMPLES_BUILD_ID_MAX];
        char path[SAMPLES_PATH_SIZE];
} SamplesModule;
static_assert(sizeof(SamplesModule) == 256, "format of samples");

typedef struct SamplesEntry {
        uint32_t seq; /* odd while it is written; 0: never was */
        uint32_t size; /* as asked for */
        uint64_t handle;
        uint64_t usec; /* realtime */
        uint32_t tid;
        uint32_t n_frames;
        uint64_t frames[SAMPLES_FRAMES_MAX];
} SamplesEntry;
static_assert(sizeof(SamplesEntry) == 32 + 8 * SAMPLES_FRAMES_MAX, "format of samples");

typedef struct SamplesFile {
        uint64_t magic;
        uint64_t n_taken; /* samples, replaced ones too */
        uint64_t n_lost; /* replaced though their object lived */
        uint32_t every; /* one of so many allocations */
        uint32_t n_modules;
        uint8_t unused[32];
        SamplesModule modules[SAMPLES_MODULES_MAX];
        SamplesEntry entries[SAMPLES_N];
} SamplesFile;

#define SAMPLES_SIZE_MAX (1024U * 1024U)
static_assert(sizeof(SamplesFile) <= SAMPLES_SIZE_MAX, "format of samples");
