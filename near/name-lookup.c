#include "near/name-lookup.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "near/topology.h"

#define LOOKUPS_MAX (3 * TOPOLOGY_PRIMARIES_MAX) /* each primary has two links */

/* The thread's alone. */
typedef struct Lookup {
        int fd;
        char host[TOPOLOGY_HOST_SIZE];
} Lookup;

/* Lookups that go on, also of links that are gone. */
static int count_lookup(int change) {
        static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
        static int n;
        int r = 0;

        (void) pthread_mutex_lock(&lock);
        if (n + change > LOOKUPS_MAX)
                r = -ETIMEDOUT;
        else
                n += change;
        (void) pthread_mutex_unlock(&lock);
        return r;
}

static int find_address(const char *host, int family, char *ret) {
        const struct addrinfo hints = { .ai_family = family, .ai_socktype = SOCK_STREAM };
        struct addrinfo *list;
        int r;

        r = getaddrinfo(host, NULL, &hints, &list);
        if (r)
                return r;
        r = getnameinfo(list->ai_addr, list->ai_addrlen, ret, NI_MAXHOST, NULL, 0, NI_NUMERICHOST);
        freeaddrinfo(list);
        return r;
}

static void *run_lookup(void *userdata) {
        Lookup *lookup = userdata;
        LookupAnswer answer = {};

        answer.error = find_address(lookup->host, AF_INET, answer.address);
        if (answer.error && find_address(lookup->host, AF_INET6, answer.address) == 0)
                answer.error = 0;
        (void) !write(lookup->fd, &answer, sizeof(answer)); /* fails where nobody waits any more */
        (void) close(lookup->fd);
        free(lookup);
        (void) count_lookup(-1);
        return NULL;
}

static int start_thread(Lookup *lookup) {
        pthread_attr_t attributes;
        pthread_t thread;
        int r;

        r = pthread_attr_init(&attributes);
        if (r)
                return -r;
        (void) pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
        r = pthread_create(&thread, &attributes, run_lookup, lookup);
        (void) pthread_attr_destroy(&attributes);
        return -r;
}

static int open_lookup(const char *host) {
        Lookup *lookup;
        int fds[2], r;

        lookup = calloc(1, sizeof(*lookup));
        if (!lookup)
                return -ENOMEM;
        (void) strncpy(lookup->host, host, sizeof(lookup->host) - 1);
        r = pipe2(fds, O_CLOEXEC) ? -errno : 0;
        if (r) {
                free(lookup);
                return r;
        }
        lookup->fd = fds[1];
        r = start_thread(lookup);
        if (r == 0)
                return fds[0];
        (void) close(fds[0]);
        (void) close(fds[1]);
        free(lookup);
        return r;
}

int lookup_begin(const char *host) {
        int r;

        r = count_lookup(1);
        if (r)
                return r;
        r = open_lookup(host);
        if (r < 0)
                (void) count_lookup(-1);
        return r;
}
