/*
 * A process with objects, for test-verbs.py: attaches to the pool at the socket that its argument names,
 * does the commands on stdin, and answers each with a line. The end of stdin ends it.
 *
 *      alloc SIZE N    in the current epoch; answers with its number
 *      free            all of them
 *      root NAME       names the first one
 */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "proto/call.h"
#include "shm/epoch/epoch.h"
#include "shm/maintain/freeze.h"
#include "shm/cache/object.h"
#include "shm/arena/root.h"

#define TIMEOUT_USEC UINT64_C(60000000)
#define HANDLES_MAX 4096

typedef struct Client {
        ProtoCall *call;
        ShmArena arena;
        ShmActor actor;
        uint64_t handles[HANDLES_MAX];
        size_t n_handles;
} Client;

static int client_attach(Client *client, const char *path) {
        _cleanup_(proto_reply_freep) ProtoReply *hello_reply = NULL, *reply = NULL;
        _cleanup_(proto_fds_deinit) ProtoFds fds = PROTO_FDS_INIT;
        ProtoRequest request = PROTO_REQUEST_INIT;
        Tslab__Attach attach = TSLAB__ATTACH__INIT;
        ProtoHello hello = PROTO_HELLO_INIT;
        int r;

        hello.software = (char *) "ctl-client";
        hello.comm = (char *) "ctl-client";
        r = proto_call_open(&client->call, path, &hello, TIMEOUT_USEC, &hello_reply);
        if (r)
                return r;

        request.body_case = TSLAB__REQUEST__BODY_ATTACH;
        request.attach = &attach;
        r = proto_call(client->call, &request, TIMEOUT_USEC, NULL, NULL, &reply, &fds);
        if (r)
                return r;

        r = shm_arena_map(&client->arena, proto_fds_take(&fds, 0), false);
        if (r)
                return r;
        client->arena.wake_fd = proto_fds_take(&fds, 1);
        r = shm_membarrier_register();
        return r
                       ?: shm_actor_init(&client->actor, &client->arena, reply->attach->client,
                                         (uint32_t) gettid());
}

static int do_alloc(Client *client, size_t size, size_t n) {
        for (size_t i = 0; i < n && client->n_handles < HANDLES_MAX; ++i) {
                void *object;
                int r = shm_object_alloc(&client->actor, size, SHM_EPOCH_CURRENT, NULL,
                                         &client->handles[client->n_handles], &object);

                if (r)
                        return r;
                client->n_handles++;
        }
        return printf("%" PRIu32 "\n", shm_epoch_current(&client->arena)) < 0;
}

static int do_free(Client *client) {
        while (client->n_handles > 0) {
                int r = shm_object_free(&client->actor, client->handles[client->n_handles - 1]);

                if (r)
                        return r;
                client->n_handles--;
        }
        return printf("freed\n") < 0;
}

static int do_line(Client *client, const char *line) {
        char name[64];
        size_t size, n;
        int r;

        if (sscanf(line, "alloc %zu %zu", &size, &n) == 2)
                return do_alloc(client, size, n);
        if (!strcmp(line, "free\n"))
                return do_free(client);
        if (sscanf(line, "root %63s", name) == 1) {
                r = shm_root_set(&client->arena, name, 0, client->handles[0]);
                return r ?: printf("named\n") < 0;
        }
        return -EINVAL;
}

int main(int argc, char **argv) {
        static Client client;
        char line[128];
        int r;

        r = argc == 2 ? client_attach(&client, argv[1]) : -EINVAL;
        if (r == 0)
                r = printf("attached\n") < 0;
        while (r == 0 && fflush(stdout) == 0 && fgets(line, sizeof(line), stdin))
                r = do_line(&client, line);
        if (r) {
                fprintf(stderr, "ctl-client: %d\n", r);
                return 1;
        }

        shm_actor_deinit(&client.actor);
        client.call = proto_call_free(client.call);
        shm_arena_deinit(&client.arena);
        return 0;
}
