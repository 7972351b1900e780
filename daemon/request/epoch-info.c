#include "daemon/request/epoch-info.h"

#include "proto/text.h"
#include "shm/arena/client.h"
#include "shm/map/entry/map.h"

static Tslab__EpochState proto_epoch_state(ShmEpochState state) {
        switch (state) {
        case SHM_EPOCH_CLOSING:
                return TSLAB__EPOCH_STATE__EPOCH_STATE_CLOSING;
        case SHM_EPOCH_DRAINED:
                return TSLAB__EPOCH_STATE__EPOCH_STATE_DRAINED;
        default:
                return TSLAB__EPOCH_STATE__EPOCH_STATE_OPEN;
        }
}

static pid_t owner_pid(const ShmArena *arena, uint32_t owner) {
        ShmClientInfo client;

        return owner != 0 && shm_client_get(arena, owner - 1, &client) == 0 ? client.pid ?: -1 : 0;
}

static void fill_epoch_info(EpochInfos *infos, uint32_t i, const ShmEpochInfo *epoch, const ShmStats *stats) {
        Tslab__EpochInfo *info = &infos->infos[i];
        Tslab__EpochOlder *older = &infos->olders[i];

        tslab__epoch_info__init(info);
        tslab__epoch_older__init(older);
        proto_text_clean(infos->labels[i], sizeof(infos->labels[i]), epoch->label);
        info->id = epoch->id;
        info->era = epoch->era;
        info->state = proto_epoch_state(epoch->state);
        info->label = infos->labels[i];
        info->reserved = epoch->flags & SHM_EPOCH_RESERVED;
        info->current = epoch->current;
        info->slabs = stats->epochs[i].slabs;
        info->live_objects = stats->epochs[i].live_objects;
        info->live_bytes = stats->epochs[i].live_size;
        info->committed_bytes = stats->epochs[i].slabs * SHM_SLAB_SIZE;
        info->reclaimed_bytes = epoch->reclaimed_size;
        info->opened_usec = epoch->opened_usec;
        info->closed_usec = epoch->closed_usec;
        older->slabs = stats->older[i].slabs;
        older->live_objects = stats->older[i].live_objects;
        info->older = older;
        infos->pointers[i] = info;
}

void epoch_infos_init(EpochInfos *infos, const ShmArena *arena, const ShmStats *stats) {
        uint64_t root;
        uint32_t of_maps = shm_maps_epoch(arena, &root), number;
        ShmEpochInfo epoch;

        for (infos->n = 0; infos->n < arena->n_epochs; infos->n++) {
                if (shm_epoch_get(arena, (uint32_t) infos->n, &epoch))
                        break;
                number = shm_epoch_number(epoch.id, epoch.era);
                fill_epoch_info(infos, (uint32_t) infos->n, &epoch, stats);
                infos->infos[infos->n].refs = shm_client_count_holders(arena, number);
                infos->infos[infos->n].owner_pid = owner_pid(arena, epoch.owner);
                infos->infos[infos->n].maps = number == of_maps;
        }
}
