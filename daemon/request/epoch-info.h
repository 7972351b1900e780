#pragma once
/* Epochs as messages of the protocol. */
#include "proto/message.h"
#include "shm/epoch/epoch.h"
#include "shm/stats/stats.h"

typedef struct EpochInfos {
        Tslab__EpochInfo infos[SHM_EPOCHS_MAX];
        Tslab__EpochOlder olders[SHM_EPOCHS_MAX];
        Tslab__EpochInfo *pointers[SHM_EPOCHS_MAX];
        char labels[SHM_EPOCHS_MAX][PROTO_LABEL_MAX + 1];
        size_t n;
} EpochInfos;

/* The number, with its era, of the epoch that the indexes of all maps are in; 0: there is none. A root names it. */
uint32_t epoch_of_maps(const ShmArena *arena);

/* The result points into itself, so it must not be moved. */
void epoch_infos_init(EpochInfos *infos, const ShmArena *arena, const ShmStats *stats);
