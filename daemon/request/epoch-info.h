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

/* The result points into itself, so it must not be moved. */
void epoch_infos_init(EpochInfos *infos, const ShmArena *arena, const ShmStats *stats);
