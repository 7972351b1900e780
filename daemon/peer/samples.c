#include "daemon/peer/samples.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "daemon/peer/client-watch.h"
#include "proto/cleanup.h"
#include "proto/samples.h"

/* Of what is on no disk, so that reading it never waits for anyone. */
int samples_check(int fd) {
        struct stat status;

        if (fcntl(fd, F_GET_SEALS) < 0)
                return -EBADF;
        if (fstat(fd, &status) < 0)
                return -errno;
        if (!S_ISREG(status.st_mode) || status.st_size != sizeof(SamplesFile))
                return -EMSGSIZE;
        return 0;
}

static Samples *samples_free(Samples *samples) {
        (void) proto_close(samples->fd);
        free(samples);
        return NULL;
}

bool samples_is_gone(const Manager *manager, const Samples *samples) {
        for (const ClientWatch *c = manager->clients; c; c = c->next)
                if (c->index == samples->client && c->pid == samples->pid)
                        return c->dead;
        return true;
}

static void drop(Samples **link) {
        Samples *samples = *link;

        *link = samples->next;
        (void) samples_free(samples);
}

static void drop_earlier(Manager *manager, const Samples *about) {
        for (Samples **link = &manager->samples; *link; link = &(*link)->next)
                if ((*link)->client == about->client && (*link)->pid == about->pid) {
                        drop(link);
                        return;
                }
}

/* -ENOBUFS: there is none that could go. */
static int make_room(Manager *manager) {
        Samples **oldest = NULL;
        unsigned n = 0;

        for (Samples **link = &manager->samples; *link; link = &(*link)->next, n++)
                if (samples_is_gone(manager, *link))
                        oldest = link;
        if (n < SAMPLES_KEPT)
                return 0;
        if (!oldest)
                return -ENOBUFS;
        drop(oldest);
        return 0;
}

int samples_add(Manager *manager, const Samples *about, int fd) {
        Samples *samples;
        int r;

        drop_earlier(manager, about);
        r = make_room(manager);
        if (r < 0)
                return r;
        samples = malloc(sizeof(*samples));
        if (!samples)
                return -ENOMEM;
        *samples = *about;
        samples->fd = fd;
        samples->next = manager->samples;
        manager->samples = samples;
        return 0;
}

const Samples *samples_get(const Manager *manager, uint32_t index) {
        uint32_t n = 0;

        for (const Samples *s = manager->samples; s; s = s->next)
                n++;
        if (index >= n)
                return NULL;
        n -= index + 1;
        for (const Samples *s = manager->samples;; s = s->next)
                if (n-- == 0)
                        return s;
}

Samples *samples_free_all(Samples *samples) {
        while (samples) {
                Samples *next = samples->next;

                (void) samples_free(samples);
                samples = next;
        }
        return NULL;
}
