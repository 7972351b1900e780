#pragma once
/*
 * The file in which the maps of a pool outlive its memory: TSLAB_KEEP=. tslabctl writes it when the daemon stops, and
 * loads it into memory that is new before anybody else is served.
 *
 *      FILE            written as the daemon stopped, or before an upgrade
 *      FILE.loading    goes into the pool: the next daemon goes on with it if this one is killed
 *      FILE.loaded     is in the pool; kept until the next one, for an operator who needs it again
 *      FILE.failed     was not loaded, or not all of it: nothing was lost, and the log says why; then FILE.failed.1
 *      FILE.old        a FILE that the memory had outlived, or that a later stop found
 *
 * A FILE beside memory that was taken up has nothing that the memory has not.
 */
#include "daemon/peer/listener.h"

typedef struct Keep {
        Sessions *sessions;
        Listener *listener; /* for tslabctl alone; NULL: tslabctl does not run */
        sd_event_source *source; /* the end of tslabctl */
        char *file; /* the file under way */
        char *loads; /* TSLAB_KEEP= as the load began; NULL: it writes */
        pid_t pid;
        bool aside; /* an older FILE is FILE.old, until it is known that there is a new one */
        uint64_t since_usec;
        void (*on_done)(void *userdata); /* called once tslabctl has ended */
        void *userdata;
} Keep;

/*
 * Before memory that is new is given to systemd: the next daemon may take it up while it is empty, and finds by the
 * name FILE.loading that the maps are not in it.
 */
void keep_claim(const Pool *pool);
/* Both log their errors. False: there is nothing to do, or it failed, and on_done() is not called. */
bool keep_load(Keep *keep, bool taken_up);
bool keep_dump(Keep *keep);
bool keep_is_busy(const Keep *keep);
/* Asks the service manager for more time, and ends a tslabctl that takes too long. */
void keep_tick(const Keep *keep);
/* Whether the file can be written later; if not, the log says so. */
void keep_check(const Pool *pool);
/* Ends tslabctl, if it runs: the file that it wrote is removed, and a load is begun anew by the next daemon. */
void keep_deinit(Keep *keep);
