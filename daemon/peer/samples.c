#include "daemon/peer/samples.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "proto/cleanup.h"
#include "proto/samples.h"

/* Only memfds can have seals; their pages are on no disk, so reading them never waits for a file system. */
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

bool samples_is_gone(const SamplesList *list, const Samples *samples) {
        for (const ClientWatch *c = list->clients->first; c; c = c->next)
                if (c->index == samples->client && c->pid == samples->pid && c->mark == samples->mark)
                        return c->dead;
        return true;
}

static void drop_samples(Samples **link) {
        Samples *samples = *link;

        *link = samples->next;
        (void) proto_close(samples->fd);
        free(samples);
}

static void drop_earlier_samples(SamplesList *list, const Samples *about) {
        for (Samples **link = &list->first; *link; link = &(*link)->next)
                if ((*link)->client == about->client && (*link)->pid == about->pid &&
                    (*link)->mark == about->mark) {
                        drop_samples(link);
                        return;
                }
}

/* -ENOBUFS: no samples may be dropped. */
static int make_samples_room(SamplesList *list) {
        Samples **oldest = NULL;
        unsigned n = 0;

        for (Samples **link = &list->first; *link; link = &(*link)->next, n++)
                if (samples_is_gone(list, *link))
                        oldest = link;
        if (n < SAMPLES_KEPT)
                return 0;
        if (!oldest)
                return -ENOBUFS;
        drop_samples(oldest);
        return 0;
}

int samples_add(SamplesList *list, const Samples *about, int fd) {
        Samples *samples;
        int r;

        drop_earlier_samples(list, about);
        r = make_samples_room(list);
        if (r < 0)
                return r;
        samples = malloc(sizeof(*samples));
        if (!samples)
                return -ENOMEM;
        *samples = *about;
        samples->fd = fd;
        samples->next = list->first;
        list->first = samples;
        return 0;
}

const Samples *samples_get(const SamplesList *list, uint32_t index) {
        uint32_t n = 0;

        for (const Samples *s = list->first; s; s = s->next)
                n++;
        if (index >= n)
                return NULL;
        n -= index + 1;
        for (const Samples *s = list->first;; s = s->next)
                if (n-- == 0)
                        return s;
}

void samples_clear(SamplesList *list) {
        while (list->first)
                drop_samples(&list->first);
}
