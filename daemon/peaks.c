#include "daemon/peaks.h"

#include <errno.h>
#include <stdlib.h>

#include "proto/deadline.h"

#define REST 20U /* times as long as a look took */

struct Peaks {
        Manager *manager;
        sd_event_source *turn;
        bool looking;
        uint64_t spent_usec; /* in steps of this look */
        uint64_t rest_until_usec;
        ShmCensus census;
        ShmPeaks marks;
        uint64_t asked[SHM_GRANULES_MAX];
};

static void set_looking(Peaks *peaks, bool looking) {
        peaks->looking = looking;
        (void) sd_event_source_set_enabled(peaks->turn, looking ? SD_EVENT_ON : SD_EVENT_OFF);
}

static void finish(Peaks *peaks, uint64_t now) {
        shm_peaks_raise(&peaks->marks, &peaks->census, manager_realtime_usec());
        shm_peaks_store(&peaks->manager->arena, &peaks->marks);
        for (uint32_t i = 0; i < SHM_GRANULES_MAX; i++)
                peaks->asked[i] += peaks->census.asked[i];
        peaks->rest_until_usec = now + REST * peaks->spent_usec;
        set_looking(peaks, false);
}

static int on_turn(sd_event_source *source, void *userdata) {
        Peaks *peaks = userdata;
        uint64_t begin = proto_now_usec(), now;
        bool done = shm_census_step(&peaks->census, &peaks->manager->arena);

        now = proto_now_usec();
        peaks->spent_usec += now - begin;
        if (done)
                finish(peaks, now);
        return 0;
}

void peaks_look(Peaks *peaks) {
        if (peaks->looking || proto_now_usec() < peaks->rest_until_usec)
                return;
        peaks->census = (ShmCensus){};
        peaks->spent_usec = 0;
        set_looking(peaks, true);
}

const ShmPeaks *peaks_get(const Peaks *peaks) {
        return &peaks->marks;
}

const uint64_t *peaks_asked(const Peaks *peaks) {
        return peaks->asked;
}

int peaks_new(Peaks **ret_peaks, Manager *manager) {
        Peaks *peaks = calloc(1, sizeof(*peaks));
        int r;

        if (!peaks)
                return -ENOMEM;
        peaks->manager = manager;
        shm_peaks_load(&manager->arena, &peaks->marks);
        r = sd_event_add_defer(manager->event, &peaks->turn, on_turn, peaks);
        if (r >= 0) /* all that others want comes first */
                r = sd_event_source_set_priority(peaks->turn, SD_EVENT_PRIORITY_IDLE);
        if (r < 0) {
                (void) peaks_free(peaks);
                return r;
        }
        set_looking(peaks, false);
        *ret_peaks = peaks;
        return 0;
}

Peaks *peaks_free(Peaks *peaks) {
        if (!peaks)
                return NULL;
        (void) sd_event_source_disable_unref(peaks->turn);
        free(peaks);
        return NULL;
}
