#include "examples/demo/ledger.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "examples/demo/util.h"

static int get_total(struct tslab_map *ledger, Text client, Total *ret, tslab_handle *ret_version) {
        ssize_t n;

        n = tslab_map_get(ledger, client.bytes, client.size, ret, sizeof(*ret), ret_version);
        if (n == -ENOENT) {
                *ret = (Total){};
                *ret_version = 0;
                return 0;
        }
        if (n < 0)
                return (int) n;
        return n == sizeof(*ret) ? 0 : -EBADMSG;
}

int ledger_get(struct tslab_map *ledger, Text client, Total *ret) {
        tslab_handle version;

        return get_total(ledger, client, ret, &version);
}

int ledger_add(struct tslab_map *ledger, Text client, const Session *session, uint32_t epoch) {
        tslab_handle version;
        Total total;
        int r;

        do {
                r = get_total(ledger, client, &total, &version);
                if (r)
                        return r;
                total.n_requests += session->n_requests;
                total.n_sessions += 1;
                total.size += session->size;
                r = tslab_map_replace(ledger, client.bytes, client.size, version, &total, sizeof(total),
                                      epoch);
        } while (r == -EAGAIN);
        return r;
}

/* The next client: 1, with its name and its total; 0: there are no more. */
static int ledger_next(struct tslab_map *ledger, struct tslab_map_cursor *cursor, char *ret_client,
                       Total *ret) {
        struct tslab_map_info info = { .size = sizeof(info) };
        char entry[LOG_CLIENT_MAX + sizeof(*ret)];
        int r;

        r = tslab_map_next(ledger, cursor, entry, sizeof(entry), &info);
        if (r <= 0)
                return r;
        if (info.key_size > LOG_CLIENT_MAX || info.value_size != sizeof(*ret))
                return -EBADMSG;
        memcpy(ret_client, entry, info.key_size);
        ret_client[info.key_size] = 0;
        memcpy(ret, entry + info.key_size, sizeof(*ret));
        return 1;
}

int ledger_sum(struct tslab_map *ledger, Total *ret, uint64_t *ret_clients) {
        struct tslab_map_cursor cursor = {};
        char client[LOG_CLIENT_MAX + 1];
        uint64_t n_clients = 0;
        Total sum = {}, total;
        int r;

        for (; (r = ledger_next(ledger, &cursor, client, &total)) > 0; ++n_clients) {
                sum.n_requests += total.n_requests;
                sum.n_sessions += total.n_sessions;
                sum.size += total.size;
        }
        if (r < 0)
                return r;
        *ret = sum;
        *ret_clients = n_clients;
        return 0;
}

typedef struct Line {
        char client[LOG_CLIENT_MAX + 1];
        uint64_t n_requests;
} Line;

static int compare_entries(const void *a, const void *b) {
        return strcmp(((const Line *) a)->client, ((const Line *) b)->client);
}

static int collect_entries(struct tslab_map *ledger, Line *lines, size_t n_max, size_t *ret_n) {
        struct tslab_map_cursor cursor = {};
        Total total;
        int r;

        for (*ret_n = 0; *ret_n < n_max; ++*ret_n) {
                r = ledger_next(ledger, &cursor, lines[*ret_n].client, &total);
                if (r <= 0)
                        break;
                lines[*ret_n].n_requests = total.n_requests;
        }
        return *ret_n < n_max ? r : 0;
}

int ledger_dump(struct tslab_map *ledger, FILE *f) {
        _cleanup_(freep) Line *lines = NULL;
        ssize_t count = tslab_map_count(ledger);
        size_t n;
        int r;

        if (count < 0)
                return (int) count;
        lines = calloc((size_t) count + 1, sizeof(*lines));
        if (!lines)
                return -ENOMEM;
        r = collect_entries(ledger, lines, (size_t) count, &n);
        if (r)
                return r;

        qsort(lines, n, sizeof(*lines), compare_entries);
        for (size_t i = 0; i < n; ++i)
                (void) fprintf(f, "%s %" PRIu64 "\n", lines[i].client, lines[i].n_requests);
        return ferror(f) || fflush(f) ? -EIO : 0;
}
