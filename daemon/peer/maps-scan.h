#pragma once
/*
 * Whether a process maps the arena: a child of the daemon reads /proc/PID/maps.
 *
 * The kernel takes a lock of the other process for this, and threads of that process can hold it as long as they
 * like. The child is killed when the scan takes too long, and with the daemon.
 */
#include <stdbool.h>
#include <sys/types.h>
#include <systemd/sd-event.h>

typedef struct MapsScan MapsScan;

/* The exit status of the child. */
typedef enum MapsFound { MAPS_UNKNOWN, MAPS_MAPPED, MAPS_UNMAPPED } MapsFound;

struct MapsScan {
        sd_event_source *source;
        pid_t child; /* 0: no scan is under way */
        pid_t pid; /* the process to look at */
        void (*on_done)(MapsScan *scan, MapsFound found);
        void *userdata;
};

/*
 * Calls `on_done` once, from the loop, unless the scan is stopped before. Does nothing if it cannot begin. A process
 * has one scan at a time: the daemon closes the file of a child that it killed, and knows it by the number of that
 * process.
 */
void maps_scan_start(MapsScan *scan, sd_event *event, pid_t pid, int arena_fd);
/* Ends the scan with MAPS_UNKNOWN. */
void maps_scan_kill(const MapsScan *scan);
/* Ends the scan without a call of `on_done`. */
void maps_scan_stop(MapsScan *scan);
