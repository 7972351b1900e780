#include "daemon/turn.h"

#include <time.h>

int turn_new(sd_event_source **ret_source, sd_event *event, sd_event_time_handler_t on_turn, void *userdata) {
        sd_event_source *source;
        int r;

        r = sd_event_add_time(event, &source, CLOCK_MONOTONIC, 1, 1, on_turn, userdata);
        if (r < 0)
                return r;
        r = sd_event_source_set_enabled(source, SD_EVENT_OFF);
        if (r < 0) {
                (void) sd_event_source_unref(source);
                return r;
        }
        *ret_source = source;
        return 0;
}
