#pragma once
/* Epochs as messages of the protocol. */
#include <stdbool.h>

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

/* Whether the indexes of all maps are in the epoch, which a root tells. `number` has the era. */
bool epoch_is_of_maps(const ShmArena *arena, uint32_t number);

/* The result points into itself, so it must not be moved. */
void epoch_infos_init(EpochInfos *infos, const ShmArena *arena, const ShmStats *stats);
