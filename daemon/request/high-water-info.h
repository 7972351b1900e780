#pragma once
/* High-water marks as the protocol has them. */
#include "daemon/work/high-water.h"
#include "proto/message.h"

typedef struct PeaksInfo {
        Tslab__Peaks info;
        Tslab__ClassPeak classes[SHM_CLASSES_MAX];
        Tslab__ClassPeak *class_pointers[SHM_CLASSES_MAX];
        Tslab__AskedSize asked[SHM_GRANULES_MAX];
        Tslab__AskedSize *asked_pointers[SHM_GRANULES_MAX];
} PeaksInfo;

/* It points into itself. */
void peaks_info_init(PeaksInfo *info, const Peaks *peaks, const ShmArena *arena);
