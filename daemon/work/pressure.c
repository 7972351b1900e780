#include "daemon/work/pressure.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/cgroup.h"
#include "daemon/events.h"
#include "daemon/log.h"
#include "daemon/message-id.h"
#include "proto/cleanup.h"
#include "proto/deadline.h"

#define POLL_USEC (2 * PROTO_USEC_PER_SEC)
#define STALL_USEC (PROTO_USEC_PER_SEC / 10) /* waiting for so long, in POLL_USEC, is pressure */
#define AGAIN_USEC (3 * POLL_USEC) /* pressure that comes again within this time goes on */
#define TRIGGER_MAX 256

struct Pressure {
        Pool *pool;
        Maintainer *maintainer;
        Trimmer *trimmer;
        sd_event_source *source; /* the timer, or the file that systemd named */
        int fd;
        bool is_fifo;
        char path[PATH_MAX];
        uint64_t total_usec;
        uint64_t pressed_usec; /* time of the last pressure; 0: there was none */
};

static void relieve_pressure(Pressure *pressure) {
        uint64_t now = proto_now_usec();
        bool again = pressure->pressed_usec != 0 && now - pressure->pressed_usec < AGAIN_USEC;

        pressure->pressed_usec = now;
        log_fields(LOG_NOTICE, (LogFields){ .message = MESSAGE_PRESSURE }, "memory is short: %s",
                   again ? "caches of all threads are emptied, and all free memory is given back"
                         : "free memory that was retained is given back");
        events_send(pressure->pool, &(EventInfo){ .kind = "pressure" }, "memory is short");
        if (again)
                (void) maintainer_empty_caches(pressure->maintainer);
        trimmer_press(pressure->trimmer);
}

/* "some avg10=0.00 avg60=0.00 avg300=0.00 total=0": the total is the microseconds in which some task waited. */
static int read_stall_total(const char *path, uint64_t *ret) {
        _cleanup_(proto_closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
        char text[256], *total;
        ssize_t n;

        if (fd < 0)
                return -errno;
        n = read(fd, text, sizeof(text) - 1);
        if (n < 0)
                return -errno;
        text[n] = 0;
        total = strstr(text, "total=");
        if (!total)
                return -EBADMSG;
        *ret = strtoull(total + strlen("total="), NULL, 10);
        return 0;
}

static int on_pressure_poll(sd_event_source *source, uint64_t usec, void *userdata) {
        Pressure *pressure = userdata;
        uint64_t total;

        if (read_stall_total(pressure->path, &total) == 0) {
                if (total - pressure->total_usec >= STALL_USEC)
                        relieve_pressure(pressure);
                pressure->total_usec = total;
        }
        return sd_event_source_set_time(source, usec + POLL_USEC);
}

static int start_polling(Pressure *pressure) {
        int r = cgroup_pressure_path("", pressure->path, sizeof(pressure->path));

        if (r == 0)
                r = read_stall_total(pressure->path, &pressure->total_usec);
        if (r < 0) {
                log_error(LOG_DEBUG, r, "memory pressure cannot be seen");
                return 0;
        }
        r = sd_event_add_time_relative(pressure->pool->event, &pressure->source, CLOCK_MONOTONIC, POLL_USEC,
                                       POLL_USEC / 10, on_pressure_poll, pressure);
        return r < 0 ? r : sd_event_source_set_enabled(pressure->source, SD_EVENT_ON);
}

static int on_pressure_event(sd_event_source *source, int fd, uint32_t revents, void *userdata) {
        Pressure *pressure = userdata;
        char drain[256];

        if (pressure->is_fifo)
                while (read(fd, drain, sizeof(drain)) > 0)
                        ;
        else if (!(revents & EPOLLPRI))
                return sd_event_source_set_enabled(source, SD_EVENT_OFF); /* the cgroup is gone */
        relieve_pressure(pressure);
        return 0;
}

static int decode_base64(const char *text, uint8_t *ret, size_t size) {
        static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        uint32_t bits = 0, n_bits = 0;
        size_t n = 0;

        for (; *text && *text != '='; text++) {
                const char *digit = strchr(digits, *text);

                if (!digit || n >= size)
                        return -EINVAL;
                bits = bits << 6 | (uint32_t) (digit - digits);
                n_bits += 6;
                if (n_bits >= 8) {
                        n_bits -= 8;
                        ret[n++] = (uint8_t) (bits >> n_bits);
                }
        }
        return (int) n;
}

static int write_trigger(int fd) {
        const char *text = secure_getenv("MEMORY_PRESSURE_WRITE");
        uint8_t trigger[TRIGGER_MAX];
        int n;

        if (!text)
                return 0;
        n = decode_base64(text, trigger, sizeof(trigger));
        if (n < 0)
                return n;
        return write(fd, trigger, (size_t) n) == n ? 0 : -errno;
}

static int start_watching(Pressure *pressure, const char *path) {
        struct stat st;
        uint32_t events;
        int r;

        pressure->fd = open(path, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        if (pressure->fd < 0 || fstat(pressure->fd, &st) < 0)
                return -errno;
        pressure->is_fifo = S_ISFIFO(st.st_mode);
        if (!pressure->is_fifo && !S_ISREG(st.st_mode))
                return -ENOTSUP;
        r = write_trigger(pressure->fd);
        if (r < 0)
                return r;
        events = pressure->is_fifo ? EPOLLIN : EPOLLPRI;
        return sd_event_add_io(pressure->pool->event, &pressure->source, pressure->fd, events,
                               on_pressure_event, pressure);
}

int pressure_new(Pressure **ret_pressure, Pool *pool, Maintainer *maintainer, Trimmer *trimmer) {
        const char *watch = secure_getenv("MEMORY_PRESSURE_WATCH");
        Pressure *pressure = malloc(sizeof(*pressure));
        int r = -ENOENT;

        if (!pressure)
                return -ENOMEM;
        *pressure = (Pressure){ .pool = pool, .maintainer = maintainer, .trimmer = trimmer, .fd = -1 };
        *ret_pressure = pressure;
        if (watch && !strcmp(watch, "/dev/null"))
                return 0; /* the administrator has turned it off */
        if (watch) {
                r = start_watching(pressure, watch);
                if (r < 0)
                        log_error(LOG_WARNING, r, "could not watch %s for memory pressure", watch);
        }
        return r < 0 ? start_polling(pressure) : 0;
}

Pressure *pressure_free(Pressure *pressure) {
        if (!pressure)
                return NULL;
        (void) sd_event_source_disable_unref(pressure->source);
        (void) proto_close(pressure->fd);
        free(pressure);
        return NULL;
}

void pressure_compare_limit(const Pool *pool) {
        uint64_t size = (uint64_t) pool->arena.n_slabs * SHM_SLAB_SIZE;
        int64_t limit = cgroup_limit("");

        if (limit < 0 || limit == INT64_MAX || (uint64_t) limit >= size + CGROUP_MARGIN_SIZE)
                return;
        log_fields(
                LOG_WARNING, (LogFields){ .message = MESSAGE_LIMIT },
                "pool %s may take %llu MiB for objects, but its control group allows %lld MiB for everything: "
                "programs get ENOMEM before the pool is full. Raise MemoryMax= of tslab-%s.slice, or lower "
                "the size of the pool",
                pool->options->pool, (unsigned long long) size >> 20, (long long) limit >> 20,
                pool->options->pool);
}
