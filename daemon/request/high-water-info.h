#pragma once
/* High-water marks as a message of the protocol. */
#include "daemon/work/high-water-scan.h"
#include "proto/message.h"

typedef struct HighWaterInfo {
        Tslab__Peaks info;
        Tslab__ClassPeak classes[SHM_CLASSES_MAX];
        Tslab__ClassPeak *class_pointers[SHM_CLASSES_MAX];
        Tslab__AskedSize asked[SHM_GRANULES_MAX];
        Tslab__AskedSize *asked_pointers[SHM_GRANULES_MAX];
} HighWaterInfo;

/* The result points into itself, so it must not be moved. */
void high_water_info_init(HighWaterInfo *info, const HighWater *high_water, const ShmArena *arena);
