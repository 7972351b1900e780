#pragma once
/* The handlers of requests, one file for each request or for a few that belong together. */
#include "daemon/peer/client-watch.h"
#include "daemon/peer/samples.h"
#include "daemon/peer/session.h"
#include "daemon/work/collapser.h"
#include "daemon/work/high-water-scan.h"
#include "daemon/work/holder.h"
#include "daemon/work/maintainer.h"
#include "daemon/work/trimmer.h"

typedef struct Counter Counter;
typedef struct Checker Checker;
typedef struct MapJob MapJob;
typedef struct LookJob LookJob;
typedef struct MapSizer MapSizer;

/* A wait of the loop for the lock of the arena's file; see daemon/request/stand-in.h. */
typedef struct PageWait {
        uint64_t seconds;
        char cause[HOLDER_TEXT_SIZE];
} PageWait;

/* All parts that handlers use. The manager owns it, and fills in the members before the line. */
typedef struct Requests {
        Pool *pool;
        Sessions *sessions;
        Clients *clients;
        SamplesList *samples;
        Maintainer *maintainer;
        Trimmer *trimmer;
        Collapser *collapser;
        HighWater *high_water;
        const PageWait *page_wait; /* NULL: the loop itself answers */
        /* -- */
        Counter *counter;
        Checker *checker;
        MapSizer *sizer; /* daemon/request/request-maps.c's alone */
        MapJob *maps; /* all maps under way; daemon/request/request-slabs.c's alone */
        LookJob *looks; /* all under way; daemon/request/close-look.c's alone */
        Queue advances; /* the first is under way; daemon/request/request-advance.c's alone */
} Requests;

/* One request. The role of the session was checked before. */
typedef struct RequestContext {
        Requests *requests;
        Session *session;
        uint64_t id;
        ProtoFds *fds;
        const struct ucred *sender;
} RequestContext;

void request_hello(RequestContext *context, const ProtoRequest *request);
void request_attach(RequestContext *context, const ProtoRequest *request);
void request_fork_attach(RequestContext *context, const ProtoRequest *request);
void request_epoch_list(RequestContext *context, const ProtoRequest *request);
void request_epoch_advance(RequestContext *context, const ProtoRequest *request);
void request_epoch_close(RequestContext *context, const ProtoRequest *request);
void request_epoch_reserve(RequestContext *context, const ProtoRequest *request);
void request_epoch_label(RequestContext *context, const ProtoRequest *request);
void request_stats(RequestContext *context, const ProtoRequest *request);
void request_clients(RequestContext *context, const ProtoRequest *request);
void request_trim(RequestContext *context, const ProtoRequest *request);
void request_peaks_reset(RequestContext *context, const ProtoRequest *request);
void request_check(RequestContext *context, const ProtoRequest *request);
void request_roots(RequestContext *context, const ProtoRequest *request);
void request_samples(RequestContext *context, const ProtoRequest *request);
void request_watch(RequestContext *context, const ProtoRequest *request);
void request_slab_map(RequestContext *context, const ProtoRequest *request);
/* Frees the maps that are under way when the daemon ends. */
void map_jobs_free(Requests *requests);

void request_maps(RequestContext *context, const ProtoRequest *request);
void request_map_set(RequestContext *context, const ProtoRequest *request);
/* Measures maps for request_maps(). 0 or a negative errno. */
int map_sizer_new(MapSizer **ret_sizer, const Requests *requests);
/* NULL-safe, returns NULL. */
MapSizer *map_sizer_free(MapSizer *sizer);

/* Answers what closing, or revoking, an epoch would do; nothing is done. */
void close_look_start(RequestContext *context, const Tslab__EpochClose *close);
void close_looks_free(Requests *requests);

/* The classes that have live objects, at most SHM_CLASSES_MAX. Returns how many. */
size_t request_class_counts(const ShmArena *arena, const EpochCount *live, Tslab__ClassCount *counts,
                            Tslab__ClassCount **pointers);

/* Refusals that several handlers send. */
void request_refuse_memory(Session *session, uint64_t id);
void request_refuse_epoch(const Requests *requests, Session *session, uint64_t id, int error,
                          uint32_t number);

/* The number with its newest era, if it names none. */
uint32_t request_epoch_number(const Requests *requests, uint32_t number);

/* A descriptor that cannot write, and that only this user could reopen for writing; or a negative errno. */
int request_reopen_for_reading(int memfd);
