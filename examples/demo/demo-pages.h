#pragma once
/*
 * The page cache that all workers share: a map with a limit. Once it is full, each new page takes the place of pages
 * that nobody has asked for lately. A real server would render the pages that are missing; here their bytes are made
 * up, as many as the log says.
 */
#include <stdbool.h>
#include <stdint.h>

#include <tslab_map.h>

#include "examples/demo/demo-log.h"

#define PAGES_NAME "pages"
#define PAGES_SIZE_MAX (UINT32_C(1) << 20) /* larger answers are not cached */

/* Creates the map if there is none. Errors of tslab_map_open(). */
int pages_open(struct tslab_map **ret, struct tslab *pool, uint64_t limit);

/* Whether the answer is a page that can be cached: only such requests count. */
bool pages_want(const Request *request);
/*
 * Reads the page into the buffer of PAGES_SIZE_MAX bytes, or makes it there and puts it into the cache. *ret_hit: it
 * was in the cache. If the cache has no room for it, it is served all the same. Negative errno.
 */
int pages_serve(struct tslab_map *pages, const Request *request, uint32_t epoch, char *buffer, bool *ret_hit);
