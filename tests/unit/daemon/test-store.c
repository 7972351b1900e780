/*
 * Looks at systemd's store. The other end of NOTIFY_SOCKET is a store of this test, which keeps no more than its limit,
 * as systemd does.
 */
#include "daemon/takeover/store.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "daemon/log.h"
#include "proto/notify.h"
#include "daemon/peer/kept.h"
#include "daemon/takeover/passed.h"
#include "tests/util/test.h"

#define N_CLIENTS 40U
#define N_ENTRIES (N_CLIENTS + 2)
#define NAME_SIZE 32
#define LOOKS_MAX 1000U
#define TIMEOUT_USEC UINT64_C(60000000)

typedef struct FakeStore {
        int socket;
        pthread_t thread;
        pthread_mutex_t lock; /* guards the next members */
        unsigned max, n_refused;
        struct {
                char name[NAME_SIZE];
                int fd;
        } entries[N_ENTRIES];
        unsigned n;
} FakeStore;

static Pool pool;
static ClientWatch watches[N_CLIENTS];

static int receive(int socket, char *text, size_t size) {
        union {
                struct cmsghdr header;
                char space[CMSG_SPACE(sizeof(int))];
        } control;
        struct iovec part = { .iov_base = text, .iov_len = size - 1 };
        struct msghdr message = {
                .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)
        };
        const struct cmsghdr *c;
        ssize_t n = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
        int fd = -1;

        text[n > 0 ? n : 0] = 0;
        c = n > 0 ? CMSG_FIRSTHDR(&message) : NULL;
        for (; c; c = CMSG_NXTHDR(&message, (struct cmsghdr *) c))
                if (c->cmsg_type == SCM_RIGHTS)
                        memcpy(&fd, CMSG_DATA(c), sizeof(fd));
        return fd;
}

static void drop(FakeStore *fake, unsigned i) {
        close(fake->entries[i].fd);
        fake->entries[i] = fake->entries[--fake->n];
}

static unsigned find(const FakeStore *fake, const char *name) {
        unsigned i = 0;

        while (i < fake->n && strcmp(fake->entries[i].name, name) != 0)
                i++;
        return i;
}

static void take(FakeStore *fake, const char *name, int fd) {
        if (fake->n >= fake->max) {
                fake->n_refused++;
                close(fd);
        } else if (find(fake, name) < fake->n) {
                close(fd); /* the same one */
        } else {
                snprintf(fake->entries[fake->n].name, NAME_SIZE, "%s", name);
                fake->entries[fake->n++].fd = fd;
        }
}

/* Until there is an empty message. Any other descriptor is one to wait for. */
static void *serve(void *userdata) {
        FakeStore *fake = userdata;
        char text[128], name[NAME_SIZE];
        int fd;

        while (fd = receive(fake->socket, text, sizeof(text)), *text) {
                (void) pthread_mutex_lock(&fake->lock);
                if (sscanf(text, "FDSTORE=1\nFDNAME=%31s", name) == 1)
                        take(fake, name, fd);
                else if (sscanf(text, "FDSTOREREMOVE=1\nFDNAME=%31s", name) == 1 &&
                         find(fake, name) < fake->n)
                        drop(fake, find(fake, name));
                (void) pthread_mutex_unlock(&fake->lock);
                if (!strncmp(text, "BARRIER", 7))
                        close(fd);
        }
        return NULL;
}

static void set_max(FakeStore *fake, unsigned max) {
        (void) pthread_mutex_lock(&fake->lock);
        fake->max = max;
        while (fake->n > max)
                drop(fake, 0); /* the memory is first */
        (void) pthread_mutex_unlock(&fake->lock);
}

static unsigned n_kept(FakeStore *fake) {
        unsigned n;

        (void) pthread_mutex_lock(&fake->lock);
        n = fake->n;
        (void) pthread_mutex_unlock(&fake->lock);
        return n;
}

static bool has_memory(FakeStore *fake) {
        bool has;

        (void) pthread_mutex_lock(&fake->lock);
        has = find(fake, PASSED_ARENA) < fake->n;
        (void) pthread_mutex_unlock(&fake->lock);
        return has;
}

/* A whole check, and a turn of what follows it. Returns how many descriptors the store refused. */
static unsigned look(FakeStore *fake, Store *store, const Clients *clients) {
        unsigned n;

        store->begun_usec = 0;
        for (unsigned i = 0; i < 3; i++) {
                store_tick(store, clients);
                assert_int_equal(sd_notify_barrier(0, TIMEOUT_USEC), 1);
        }
        assert_int_equal(store->barrier, -1);
        (void) pthread_mutex_lock(&fake->lock);
        n = fake->n_refused;
        fake->n_refused = 0;
        (void) pthread_mutex_unlock(&fake->lock);
        return n;
}

/* Where all waits for room are used up, a store whose thread has no turn misses messages, of some looks, too. */
static void look_until(FakeStore *fake, Store *store, const Clients *clients, unsigned n) {
        unsigned n_looks = 0;

        while ((look(fake, store, clients) > 0 || n_kept(fake) != n) && n_looks < LOOKS_MAX)
                n_looks++;
        assert_true(n_looks < LOOKS_MAX);
}

static void open_fake(FakeStore *fake, unsigned max) {
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        socklen_t size = sizeof(address);

        *fake = (FakeStore){ .socket = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0),
                             .lock = PTHREAD_MUTEX_INITIALIZER,
                             .max = max };
        assert_int_equal(bind(fake->socket, (const struct sockaddr *) &address, sizeof(address.sun_family)),
                         0);
        assert_int_equal(getsockname(fake->socket, (struct sockaddr *) &address, &size), 0);
        assert_int_equal(pthread_create(&fake->thread, NULL, serve, fake), 0);
        address.sun_path[0] = '@';
        setenv("NOTIFY_SOCKET", address.sun_path, 1);
}

static void close_fake(FakeStore *fake) {
        (void) shutdown(fake->socket, SHUT_RD);
        assert_int_equal(pthread_join(fake->thread, NULL), 0);
        set_max(fake, 0);
        close(fake->socket);
        unsetenv("NOTIFY_SOCKET");
}

static void open_clients(Clients *clients) {
        pool.arena.fd = memfd_create("arena", MFD_CLOEXEC);
        *clients = (Clients){ .pool = &pool };
        for (unsigned i = 0; i < N_CLIENTS; i++) {
                watches[i] = (ClientWatch){ .clients = clients,
                                            .next = clients->first,
                                            .mark = i,
                                            .is_hidden = true,
                                            .pidfd = pool.arena.fd };
                clients->first = &watches[i];
        }
}

/* Clients, and room for all and the memory and the probe. */
static void open_store(FakeStore *fake, Clients *clients) {
        open_clients(clients);
        open_fake(fake, N_CLIENTS + 2);
}

static void close_store(Store *store, FakeStore *fake) {
        store_deinit(store);
        close_fake(fake);
        close(pool.arena.fd);
}

static void test_full_store(void **state) {
        Store store = STORE_INIT;
        FakeStore fake;
        Clients clients;

        (void) state;
        log_set_level(LOG_EMERG);
        open_store(&fake, &clients);
        assert_int_equal(look(&fake, &store, &clients), 0);
        assert_int_equal(n_kept(&fake), 1);
        for (const ClientWatch *client = clients.first; client; client = client->next)
                kept_add(client->mark, client->pidfd);
        assert_int_equal(look(&fake, &store, &clients), 0);
        assert_int_equal(n_kept(&fake), N_CLIENTS + 1);

        /* Without the memory: each client gives way to it once. */
        set_max(&fake, 3);
        assert_false(has_memory(&fake));
        for (unsigned i = 0; i < 4; i++)
                (void) look(&fake, &store, &clients);
        assert_true(has_memory(&fake));
        assert_int_equal(n_kept(&fake), 3);
        for (unsigned i = 0; i < 4; i++)
                assert_int_equal(look(&fake, &store, &clients), 2); /* the memory and the probe */
        store_check_soon(&store);
        assert_true(look(&fake, &store, &clients) > 2);

        /* Room for all. */
        set_max(&fake, N_CLIENTS + 2);
        for (unsigned i = 0; i < 2; i++)
                assert_int_equal(look(&fake, &store, &clients), 0);
        assert_int_equal(n_kept(&fake), N_CLIENTS + 1);

        close_store(&store, &fake);
}

/* A client that leaves while others go back moves the list, and costs no other client its place. */
static void test_leave_while_returning(void **state) {
        Store store = STORE_INIT;
        FakeStore fake;
        Clients clients;

        (void) state;
        open_store(&fake, &clients);
        for (const ClientWatch *client = clients.first; client; client = client->next)
                kept_add(client->mark, client->pidfd);
        set_max(&fake, 3);
        for (unsigned i = 0; i < 4; i++)
                (void) look(&fake, &store, &clients);
        set_max(&fake, N_CLIENTS + 2);
        (void) look(&fake, &store, &clients);
        for (unsigned i = 0; i < 3; i++) {
                kept_remove(clients.first->mark);
                clients.first = clients.first->next;
                store_tick(&store, &clients);
        }
        look_until(&fake, &store, &clients, N_CLIENTS - 3 + 1);
        close_store(&store, &fake);
}

/* A client that came while systemd read nothing is kept once it reads again. */
static void test_attach_unheard(void **state) {
        Store store = STORE_INIT;
        FakeStore fake;
        Clients clients;

        (void) state;
        open_store(&fake, &clients);
        (void) pthread_mutex_lock(&fake.lock);
        while (notify_now("X=1") > 0)
                ;
        for (ClientWatch *client = clients.first; client; client = client->next)
                client_watch_keep(client);
        for (unsigned i = 0; i < 3; i++)
                store_tick(&store, &clients);
        (void) pthread_mutex_unlock(&fake.lock);
        assert_int_equal(sd_notify_barrier(0, TIMEOUT_USEC), 1);
        look_until(&fake, &store, &clients, N_CLIENTS + 1);
        close_store(&store, &fake);
}

/* A store that never says what it read: no second look begins. */
static void test_silent_store(void **state) {
        Store store = STORE_INIT;
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        socklen_t size = sizeof(address);
        int barrier, fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        Clients clients;

        (void) state;
        open_clients(&clients);
        assert_int_equal(bind(fd, (const struct sockaddr *) &address, sizeof(address.sun_family)), 0);
        assert_int_equal(getsockname(fd, (struct sockaddr *) &address, &size), 0);
        address.sun_path[0] = '@';
        setenv("NOTIFY_SOCKET", address.sun_path, 1);
        store_tick(&store, &clients);
        barrier = store.barrier;
        assert_true(barrier >= 0);
        for (unsigned i = 0; i < 20; i++) {
                store_check_soon(&store);
                store_tick(&store, &clients);
                assert_int_equal(store.barrier, barrier);
        }
        store_deinit(&store);
        assert_int_equal(store.barrier, -1);

        /* One that goes away during a look closes all that it was sent, and was not full. */
        store.state = STORE_ROOM;
        store_check_soon(&store);
        store_tick(&store, &clients);
        assert_true(store.barrier >= 0);
        close(fd);
        store_tick(&store, &clients);
        assert_true(store.barrier < 0 && store.probe < 0);
        assert_int_equal(store.state, STORE_ROOM);

        /* Nor is anything left of one that is gone. */
        store_check_soon(&store);
        store_tick(&store, &clients);
        assert_true(store.barrier < 0 && store.probe < 0);
        unsetenv("NOTIFY_SOCKET");
        close(pool.arena.fd);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_full_store),
                cmocka_unit_test(test_leave_while_returning),
                cmocka_unit_test(test_attach_unheard),
                cmocka_unit_test(test_silent_store),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
