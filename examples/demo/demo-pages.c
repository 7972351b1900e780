#include "examples/demo/demo-pages.h"

#include <errno.h>
#include <string.h>

#include "examples/demo/util.h"

#define PATH_SIZE_MAX 1024 /* pages with longer names are not cached */
#define STATUS_OK 200

int pages_open(struct tslab_map **ret, struct tslab *pool, uint64_t limit) {
        const struct tslab_map_options options = {
                .size = sizeof(options),
                .limit_bytes = limit,
                .value_max = PAGES_SIZE_MAX,
                .evict = TSLAB_MAP_EVICT_SIEVE,
        };

        return tslab_map_open(ret, pool, PAGES_NAME, &options);
}

bool pages_want(const Request *request) {
        return request->is_get && request->status == STATUS_OK && request->size > 0 &&
               request->size <= PAGES_SIZE_MAX && request->path.size <= PATH_SIZE_MAX;
}

/* In place of a template and a database. */
static void render(const Request *request, char *buffer) {
        size_t n = request->path.size < request->size ? request->path.size : request->size;

        memcpy(buffer, request->path.bytes, n);
        memset(buffer + n, ' ', request->size - n);
}

int pages_serve(struct tslab_map *pages, const Request *request, uint32_t epoch, char *buffer,
                bool *ret_hit) {
        Text path = request->path;
        ssize_t n;
        int r;

        n = tslab_map_get(pages, path.bytes, path.size, buffer, PAGES_SIZE_MAX, NULL);
        *ret_hit = n >= 0;
        if (n != -ENOENT)
                return n < 0 ? (int) n : 0;
        render(request, buffer);
        r = tslab_map_put(pages, path.bytes, path.size, buffer, request->size, epoch);
        return r == -ENOMEM || r == -E2BIG ? 0 : r;
}
