#include "daemon/manager.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "daemon/last-good.h"
#include "daemon/log.h"
#include "daemon/message-id.h"
#include "proto/notify.h"
#include "daemon/peer/client-exec.h"
#include "daemon/peer/client-reaper.h"
#include "daemon/peer/client-resume.h"
#include "daemon/peer/closer.h"
#include "daemon/peer/listener.h"
#include "daemon/peer/watchers.h"
#include "daemon/pool.h"
#include "daemon/reload.h"
#include "daemon/request/dispatch.h"
#include "daemon/request/stand-in.h"
#include "daemon/takeover/keep.h"
#include "daemon/takeover/store.h"
#include "daemon/takeover/takeover.h"
#include "daemon/work/pressure.h"
#include "proto/deadline.h"

#define TICK_USEC PROTO_USEC_PER_SEC

struct Manager {
        Pool pool;
        sd_event_source *sigterm, *sigint, *sighup, *sigusr1;
        sd_event_source *tick; /* once a second */
        sd_event_source *watchdog; /* NULL: the service manager expects no sign of life */
        uint64_t watchdog_usec; /* without a sign of life for so long, it kills the daemon */
        Passed passed;
        Store store;
        ArenaOrigin origin;
        Keep keep;

        Reserve *reserve;
        Maintainer *maintainer;
        Trimmer *trimmer;
        Collapser *collapser;
        HighWater *high_water;
        Pressure *pressure;

        Sessions sessions;
        Clients clients;
        ClientReaper *client_reaper;
        SamplesList samples;
        Listener *listener;

        Requests requests;
        StandIn *stand_in; /* answers while the loop waits for a page */
        uint64_t n_stood; /* when the status was sent last */
        char status[448];
        uint64_t used_usec; /* CLOCK_MONOTONIC: when somebody was connected, or the pool was ready */
        bool serves; /* others than tslabctl, which puts the kept maps into the pool */
        bool told_ready; /* since the start or the last reload */
};

/* ---- Connections between the parts */

/* A client, or one of its threads, needs the daemon: free slabs are few, or slabs have drained. */
static void on_wake(void *userdata) {
        Manager *manager = userdata;

        reserve_notify(manager->reserve);
        maintainer_notify(manager->maintainer);
        high_water_scan(manager->high_water);
}

static void on_repaired(void *userdata) {
        Manager *manager = userdata;

        client_reaper_repaired(manager->client_reaper);
}

static void on_event(void *userdata, const EventInfo *info, const char *text) {
        Manager *manager = userdata;

        watchers_send(&manager->sessions, info, text);
}

static void on_request(Session *session, const ProtoRequest *request, ProtoFds *fds,
                       const struct ucred *sender) {
        Manager *manager = session->sessions->userdata;

        request_dispatch(&manager->requests, session, request, fds, sender);
}

static void connect_parts(Manager *manager) {
        manager->pool.on_event = on_event;
        manager->pool.event_userdata = manager;

        manager->sessions.on_request = on_request;
        manager->sessions.on_hang_up = client_watch_hang_up;
        manager->sessions.on_free = client_watch_forget_session;
        manager->sessions.userdata = manager;

        manager->clients = (Clients){
                .pool = &manager->pool,
                .maintainer = manager->maintainer,
                .on_wake = on_wake,
                .userdata = manager,
        };
        manager->samples.clients = &manager->clients;
        maintainer_set_on_repaired(manager->maintainer, on_repaired, manager);

        manager->requests = (Requests){
                .pool = &manager->pool,
                .sessions = &manager->sessions,
                .clients = &manager->clients,
                .samples = &manager->samples,
                .maintainer = manager->maintainer,
                .trimmer = manager->trimmer,
                .collapser = manager->collapser,
                .high_water = manager->high_water,
        };
}

/* ---- The loop */

static void update_status(Manager *manager) {
        const char *trouble = manager->pool.options->trouble;
        char status[sizeof(manager->status)];

        (void) snprintf(
                status, sizeof(status),
                "pool %s: %u clients, %u connections, %llu of %llu MiB in memory, %llu MiB free%s%s%s",
                manager->pool.options->pool, clients_count(&manager->clients), manager->sessions.n,
                (unsigned long long) shm_arena_resident_size(&manager->pool.arena) >> 20,
                (unsigned long long) manager->pool.arena.n_slabs * SHM_SLAB_SIZE >> 20,
                (unsigned long long) reserve_n_free(manager->reserve) * SHM_SLAB_SIZE >> 20,
                manager->clients.n_unrepaired > 0 ? ", repairing" : "",
                *trouble ? "; the settings are bad, and not in use: " : "", trouble);
        if (!strcmp(status, manager->status) && manager->n_stood == task_n_stood(manager->pool.tasks))
                return;
        if (notify_now("STATUS=%s", status) < 0)
                return; /* the next tick tries again */
        manager->n_stood = task_n_stood(manager->pool.tasks);
        memcpy(manager->status, status, sizeof(status));
}

/* Until systemd is told, it waits: for a start, and then it kills the daemon, or for a reload. */
static void tell_ready(Manager *manager, bool again) {
        int r = notify_send("READY=1");

        manager->told_ready = r >= 0;
        if (r < 0 && r != -EAGAIN && !again) /* which notify_send() has told */
                log_error(LOG_WARNING, r, "could not tell systemd that pool %s is ready; trying again",
                          manager->pool.options->pool);
}

static void finish_stop(Manager *manager) {
        (void) passed_send_arena(manager->pool.arena.fd); /* see daemon/takeover/store.h */
        (void) sd_event_exit(manager->pool.event, 0);
}

/* Programs are served while the maps are written. A second signal does not wait for that. */
static void manager_stop(Manager *manager) {
        (void) notify_send("STOPPING=1");
        if (!manager->serves || !keep_dump(&manager->keep))
                finish_stop(manager);
}

/*
 * A program that connects from now on is refused, as by a daemon that was stopped: it would be served by memory that
 * ends, and the file of the maps would lack what it puts.
 */
static void refuse_programs(Manager *manager) {
        manager->stand_in = stand_in_free(manager->stand_in);
        listener_stop(manager->listener);
}

static bool has_users(const Manager *manager) {
        return manager->sessions.n > 0 || manager->clients.first;
}

static void stop_if_idle(Manager *manager) {
        uint64_t idle_usec = manager->pool.options->exit_idle * PROTO_USEC_PER_SEC, now = proto_now_usec();

        /* tslabctl may not have connected yet, or may be writing the rest */
        if (has_users(manager) || keep_is_busy(&manager->keep))
                manager->used_usec = now;
        if (idle_usec == 0 || now - manager->used_usec < idle_usec)
                return;
        log_fields(LOG_NOTICE, (LogFields){ .message = MESSAGE_STOP },
                   "pool %s stops: nobody was connected for %u s", manager->pool.options->pool,
                   (unsigned) manager->pool.options->exit_idle);
        refuse_programs(manager);
        manager_stop(manager);
}

static int on_tick(sd_event_source *source, uint64_t usec, void *userdata) {
        Manager *manager = userdata;

        if (manager->serves && !manager->told_ready)
                tell_ready(manager, true);
        sessions_tick(&manager->sessions);
        (void) client_resume_rewatch(&manager->clients, 0);
        client_reaper_tick(manager->client_reaper);
        client_exec_tick(&manager->clients);
        listener_tick(manager->listener);
        reserve_tick(manager->reserve);
        trimmer_tick(manager->trimmer);
        collapser_tick(manager->collapser);
        maintainer_rescan(manager->maintainer); /* a wake may be lost while there is no daemon */
        high_water_scan(manager->high_water);
        store_tick(&manager->store, &manager->clients);
        keep_tick(&manager->keep);
        update_status(manager);
        stop_if_idle(manager);
        return sd_event_source_set_time(source, usec + TICK_USEC);
}

/*
 * Instead of the watchdog of sd-event, which waits where the service manager does not read its socket. If it is only
 * slow, the next regular message would come too late.
 */
static int on_watchdog(sd_event_source *source, uint64_t usec, void *userdata) {
        Manager *manager = userdata;
        bool sent = notify_now("WATCHDOG=1") >= 0;

        return sd_event_source_set_time_relative(source, manager->watchdog_usec / (sent ? 2 : 16));
}

static void on_kept(void *userdata) {
        Manager *manager = userdata;

        if (manager->serves)
                finish_stop(manager);
}

static int on_signal(sd_event_source *source, const struct signalfd_siginfo *info, void *userdata) {
        Manager *manager = userdata;

        log_fields(LOG_NOTICE, (LogFields){ .message = MESSAGE_STOP },
                   "pool %s stops: %s; %u clients are attached%s", manager->pool.options->pool,
                   strsignal((int) info->ssi_signo), clients_count(&manager->clients),
                   manager->clients.first
                           ? ". They keep the memory that they have mapped. Under systemd, unless this is a "
                             "restart, the next daemon begins with a new pool, and they have to open it "
                             "again; without systemd, --adopt takes the memory from one of them"
                           : "");
        manager_stop(manager);
        return 0;
}

/*
 * Before anybody is served: a program that found no session would begin another one. A signal to stop ends this; the
 * pool is not served then.
 */
static int load_kept(Manager *manager) {
        int r;

        manager->keep = (Keep){ .sessions = &manager->sessions, .on_done = on_kept, .userdata = manager };
        if (keep_load(&manager->keep, manager->origin.taken_up))
                while (keep_is_busy(&manager->keep)) {
                        r = sd_event_run(manager->pool.event, UINT64_MAX);
                        if (r < 0)
                                return r;
                        if (sd_event_get_state(manager->pool.event) == SD_EVENT_FINISHED)
                                return 0;
                }
        manager->serves = true;
        return 0;
}

static int on_reload(sd_event_source *source, const struct signalfd_siginfo *info, void *userdata) {
        Manager *manager = userdata;

        reload(&manager->pool);
        keep_check(&manager->pool);
        if (manager->serves)
                tell_ready(manager, false);
        store_check_soon(&manager->store);
        return 0;
}

/* For the test of the watchdog: the loop stops. */
static int on_stick(sd_event_source *source, const struct signalfd_siginfo *info, void *userdata) {
        for (;;)
                (void) pause();
        return 0;
}

/* Blocks the signals: they come through the loop, and never interrupt a fallocate(). */
static int watch_signals(Manager *manager) {
        bool test_stuck = secure_getenv("TSLAB_TEST_STUCK") != NULL;
        sigset_t signals;
        int r;

        (void) sigemptyset(&signals);
        (void) sigaddset(&signals, SIGTERM);
        (void) sigaddset(&signals, SIGINT);
        (void) sigaddset(&signals, SIGHUP);
        if (test_stuck)
                (void) sigaddset(&signals, SIGUSR1);
        if (sigprocmask(SIG_BLOCK, &signals, NULL) < 0)
                return -errno;
        (void) signal(SIGPIPE, SIG_IGN);
        r = sd_event_add_signal(manager->pool.event, &manager->sigterm, SIGTERM, on_signal, manager);
        if (r >= 0)
                r = sd_event_add_signal(manager->pool.event, &manager->sigint, SIGINT, on_signal, manager);
        if (r >= 0)
                r = sd_event_add_signal(manager->pool.event, &manager->sighup, SIGHUP, on_reload, manager);
        if (r >= 0 && test_stuck)
                r = sd_event_add_signal(manager->pool.event, &manager->sigusr1, SIGUSR1, on_stick, manager);
        return r;
}

static void on_mute(void) {
        log_line(LOG_WARNING,
                 "the service manager does not read its socket (NOTIFY_SOCKET): it is told nothing");
}

static int open_watchdog(Manager *manager) {
        int r = sd_watchdog_enabled(false, &manager->watchdog_usec);

        notify_set_mute(on_mute);

        if (r <= 0)
                return r;
        r = sd_event_add_time_relative(manager->pool.event, &manager->watchdog, CLOCK_MONOTONIC, 0,
                                       manager->watchdog_usec / 8, on_watchdog, manager);
        return r < 0 ? r : sd_event_source_set_enabled(manager->watchdog, SD_EVENT_ON);
}

static int open_loop(Manager *manager) {
        int r;

        r = pool_open_loop(&manager->pool);
        if (r < 0)
                return r;
        r = watch_signals(manager);
        if (r < 0)
                return r;
        r = sd_event_add_time_relative(manager->pool.event, &manager->tick, CLOCK_MONOTONIC, TICK_USEC,
                                       TICK_USEC / 10, on_tick, manager);
        if (r < 0)
                return r;
        r = sd_event_source_set_enabled(manager->tick, SD_EVENT_ON);
        if (r < 0)
                return r;
        r = sessions_init(&manager->sessions, &manager->pool);
        if (r < 0)
                return r;
        return open_watchdog(manager);
}

/* A session takes three descriptors, and the default soft limit is 1024. */
static void raise_descriptors(void) {
        struct rlimit limit;

        if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
                return;
        limit.rlim_cur = limit.rlim_max;
        (void) setrlimit(RLIMIT_NOFILE, &limit);
}

static int open_work(Manager *manager) {
        Pool *pool = &manager->pool;
        int r;

        r = shm_slab_sums_init(&pool->sums, &pool->arena);
        if (r < 0)
                return r;
        r = reserve_new(&manager->reserve, pool);
        if (r < 0)
                return r;
        r = maintainer_new(&manager->maintainer, pool, manager->reserve);
        if (r < 0)
                return r;
        r = trimmer_new(&manager->trimmer, pool, manager->maintainer, manager->reserve);
        if (r < 0)
                return r;
        r = collapser_new(&manager->collapser, pool);
        if (r < 0)
                return r;
        r = high_water_new(&manager->high_water, pool);
        if (r < 0)
                return r;
        return pressure_new(&manager->pressure, pool, manager->maintainer, manager->trimmer);
}

static int open_parts(Manager *manager) {
        int r = open_work(manager);

        if (r < 0)
                return r;
        connect_parts(manager);
        r = client_reaper_new(&manager->client_reaper, &manager->clients);
        return r < 0 ? r : requests_init(&manager->requests);
}

/* Without a stand-in the pool is served all the same. */
static void start_stand_in(Manager *manager) {
        int r = stand_in_new(&manager->stand_in, &manager->requests, manager->listener);

        if (r < 0)
                log_error(LOG_WARNING, r,
                          "nothing answers while the loop waits for the lock of the pool's memory");
}

bool manager_is_given_pool(void) {
        return passed_has_arena();
}

int manager_new(Manager **ret_manager, Options *options) {
        Manager *manager = calloc(1, sizeof(*manager));
        int r;

        if (!manager)
                return -ENOMEM;
        pool_init(&manager->pool, options);
        manager->origin = ARENA_ORIGIN_INIT;
        manager->passed = (Passed){ .socket = -1, .arena = -1 };
        manager->store = STORE_INIT;

        raise_descriptors();
        closer_init();
        r = open_loop(manager);
        if (r < 0)
                log_error(LOG_ERR, r, "could not set up the event loop");
        if (r == 0)
                r = passed_take(&manager->passed);
        if (r == 0)
                r = listener_new(&manager->listener, &manager->sessions, &manager->passed.socket);
        if (r == 0)
                r = takeover_open_arena(&manager->origin, &manager->pool, &manager->passed,
                                        manager->listener);
        if (r == 0) {
                r = open_parts(manager);
                if (r < 0)
                        log_error(LOG_ERR, r, "could not set up pool %s", options->pool);
        }
        if (r == 0 && manager->origin.taken_up) {
                r = takeover_resume(&manager->clients, manager->maintainer, manager->trimmer,
                                    &manager->passed);
                if (r < 0)
                        log_error(LOG_ERR, r, "could not take up the clients of pool %s", options->pool);
        }
        if (r == 0)
                passed_drop_clients(&manager->passed);
        if (r == 0)
                r = load_kept(manager);
        /* Listening comes last: from then on connections are served. */
        if (r == 0 && manager->serves)
                r = listener_start(manager->listener);
        if (r == 0 && manager->serves)
                start_stand_in(manager);
        if (r < 0) {
                (void) manager_free(manager);
                return r;
        }
        *ret_manager = manager;
        return 0;
}

/* Programs that have the memory, and systemd, keep it for the next daemon. */
static void forget_pool(Manager *manager) {
        listener_stop(manager->listener);
        keep_deinit(&manager->keep); /* while the lock keeps a successor from the file of maps */
        if (!has_users(manager) && !notify_has_manager())
                listener_forget_pool(manager->listener);
}

int manager_run(Manager *manager) {
        int r;

        if (!manager->serves)
                return 0;
        log_fields(LOG_INFO, (LogFields){ .message = MESSAGE_START }, "pool %s is ready: %llu MiB, at %s",
                   manager->pool.options->pool,
                   (unsigned long long) manager->pool.arena.n_slabs * SHM_SLAB_SIZE >> 20,
                   listener_path(manager->listener));
        pressure_compare_limit(&manager->pool);
        keep_check(&manager->pool);
        last_good_save(manager->pool.options);
        tell_ready(manager, false);
        update_status(manager);
        manager->used_usec = proto_now_usec();
        r = sd_event_loop(manager->pool.event);
        if (r < 0)
                log_error(LOG_ERR, r, "the event loop failed");
        else
                forget_pool(manager);
        return r;
}

Manager *manager_free(Manager *manager) {
        if (!manager)
                return NULL;
        keep_deinit(&manager->keep);
        manager->stand_in = stand_in_free(manager->stand_in);
        manager->listener = listener_free(manager->listener);
        sessions_clear(&manager->sessions);
        clients_clear(&manager->clients);
        manager->pressure = pressure_free(manager->pressure);
        manager->collapser = collapser_free(manager->collapser);
        manager->high_water = high_water_free(manager->high_water);
        samples_clear(&manager->samples);
        manager->trimmer = trimmer_free(manager->trimmer);
        manager->client_reaper = client_reaper_free(manager->client_reaper);
        manager->maintainer = maintainer_free(manager->maintainer);
        manager->reserve = reserve_free(manager->reserve);
        requests_deinit(&manager->requests);
        sessions_deinit(&manager->sessions);
        store_deinit(&manager->store);
        arena_origin_deinit(&manager->origin);
        passed_deinit(&manager->passed);
        (void) sd_event_source_disable_unref(manager->watchdog);
        (void) sd_event_source_disable_unref(manager->tick);
        (void) sd_event_source_disable_unref(manager->sigusr1);
        (void) sd_event_source_disable_unref(manager->sighup);
        (void) sd_event_source_disable_unref(manager->sigint);
        (void) sd_event_source_disable_unref(manager->sigterm);
        pool_deinit(&manager->pool);
        free(manager);
        return NULL;
}
