#include "near/near-status.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <systemd/sd-daemon.h>

#include "near/clock.h"
#include "proto/notify.h"

#define STATUS_SIZE 768
#define AGAIN_USEC (250 * USEC_PER_MS)

static sd_event_source *again; /* sends a message again that found no room */
static sd_event_source *watchdog; /* NULL: the service manager expects no sign of life */
static uint64_t watchdog_usec;
static char status[STATUS_SIZE];
static bool is_ready;

static void send_status(void) {
        int r = notify_now("%sSTATUS=%s", is_ready ? "READY=1\n" : "", status);

        if (r != -EAGAIN || !again)
                return;
        (void) sd_event_source_set_time_relative(again, AGAIN_USEC);
        (void) sd_event_source_set_enabled(again, SD_EVENT_ONESHOT);
}

static int on_again(sd_event_source *source, uint64_t usec, void *userdata) {
        send_status();
        return 0;
}

static int on_watchdog(sd_event_source *source, uint64_t usec, void *userdata) {
        bool sent = notify_now("WATCHDOG=1") >= 0;

        return sd_event_source_set_time_relative(source, watchdog_usec / (sent ? 2 : 16));
}

int status_open(sd_event *event) {
        int r = sd_watchdog_enabled(false, &watchdog_usec);

        if (r > 0)
                r = sd_event_add_time_relative(event, &watchdog, CLOCK_MONOTONIC, 0, watchdog_usec / 8,
                                               on_watchdog, NULL);
        if (watchdog)
                r = sd_event_source_set_enabled(watchdog, SD_EVENT_ON);
        if (r >= 0)
                r = sd_event_add_time_relative(event, &again, CLOCK_MONOTONIC, AGAIN_USEC, 0, on_again, NULL);
        return r < 0 ? r : sd_event_source_set_enabled(again, SD_EVENT_OFF);
}

void status_close(void) {
        watchdog = sd_event_source_disable_unref(watchdog);
        again = sd_event_source_disable_unref(again);
}

void status_ready(void) {
        is_ready = true;
        send_status();
}

void status_set(const char *format, ...) {
        va_list arguments;

        va_start(arguments, format);
        (void) vsnprintf(status, sizeof(status), format, arguments);
        va_end(arguments);
        send_status();
}
