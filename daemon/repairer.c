#include "daemon/repairer.h"

#include <errno.h>
#include <stdlib.h>

#include "daemon/client-watch.h"
#include "daemon/drainer.h"
#include "daemon/events.h"
#include "daemon/log.h"
#include "daemon/message-id.h"
#include "daemon/turn.h"
#include "shm/maintain/repair.h"

#define SLICE 8U /* caches a turn */

struct Repairer {
        Manager *manager;
        sd_event_source *turn;
        bool busy, again; /* a pass is under way; another one is wanted */
        ShmRepair repair;
};

static void say(const Repairer *repairer) {
        const ShmRepairCounts *c = &repairer->repair.counts;
        const char *format = "%llu records of dead threads repaired: %llu slots given back, %llu objects "
                             "unpublished, %llu slabs released, %llu slots unsettled";

        if (c->records + c->slots + c->objects + c->slabs == 0)
                return;
        log_fields(LOG_INFO, (LogFields){ .message = MESSAGE_REPAIR }, format,
                   (unsigned long long) c->records, (unsigned long long) c->slots,
                   (unsigned long long) c->objects, (unsigned long long) c->slabs,
                   (unsigned long long) c->unsettled);
        events_send(repairer->manager, &(EventInfo){ .kind = "repair" }, format,
                    (unsigned long long) c->records, (unsigned long long) c->slots,
                    (unsigned long long) c->objects, (unsigned long long) c->slabs,
                    (unsigned long long) c->unsettled);
}

static void end_pass(Repairer *repairer) {
        Manager *manager = repairer->manager;

        say(repairer);
        repairer->busy = false;
        (void) sd_event_source_set_enabled(repairer->turn, SD_EVENT_OFF);
        client_watches_repaired(manager);
        /* What went back may be the last of its slab, in an epoch that was closed. */
        if (repairer->repair.counts.slots + repairer->repair.counts.slabs > 0)
                drainer_look(manager->drainer);
        if (repairer->again)
                repairer_start(repairer);
}

static int on_turn(sd_event_source *source, uint64_t usec, void *userdata) {
        Repairer *repairer = userdata;

        if (shm_repair_step(&repairer->manager->control, &repairer->repair, SLICE))
                end_pass(repairer);
        return 0;
}

void repairer_start(Repairer *repairer) {
        repairer->again = repairer->busy;
        if (repairer->busy)
                return;
        repairer->busy = true;
        repairer->repair = (ShmRepair){};
        (void) sd_event_source_set_enabled(repairer->turn, SD_EVENT_ON);
}

int repairer_new(Repairer **ret_repairer, Manager *manager) {
        Repairer *repairer = calloc(1, sizeof(*repairer));
        int r;

        if (!repairer)
                return -ENOMEM;
        repairer->manager = manager;
        r = turn_new(&repairer->turn, manager->event, on_turn, repairer);
        if (r < 0) {
                (void) repairer_free(repairer);
                return r;
        }
        *ret_repairer = repairer;
        return 0;
}

Repairer *repairer_free(Repairer *repairer) {
        if (!repairer)
                return NULL;
        (void) sd_event_source_disable_unref(repairer->turn);
        free(repairer);
        return NULL;
}
