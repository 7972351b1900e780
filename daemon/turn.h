#pragma once
/*
 * Turns of the event loop, for what takes many: one slice in each, while the source is enabled.
 *
 * sd-event's deferred sources will not do: sources that are pending go by age, and one that is deferred
 * is as old as the program for good. With work left, it would let nobody else through. A timer that is
 * always over comes of age anew in each turn, after whoever has waited longer.
 */
#include <systemd/sd-event.h>

/* Begins disabled; sd_event_source_set_enabled() SD_EVENT_ON and SD_EVENT_OFF. 0 or negative errno. */
int turn_new(sd_event_source **ret_source, sd_event *event, sd_event_time_handler_t on_turn, void *userdata);
