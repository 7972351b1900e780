/* Values of 16 bytes to 1 MiB: of each size as many keys as make 16 MiB, at most WEB_KEYS. */
#include <stdio.h>

#include "bench/web/web.h"

#define VALUES_BYTES (UINT32_C(16) << 20)
#define VALUES_ROUND_BYTES (UINT64_C(256) << 20) /* a round's: fewer operations on larger values */

static void values_of_size(Web *web, uint32_t size) {
        const StoreOperation put = { "put", false, web->store->put }, get = { "get", true, web->store->get };
        uint32_t n_keys = VALUES_BYTES / size < WEB_KEYS ? VALUES_BYTES / size : WEB_KEYS;
        uint64_t n = VALUES_ROUND_BYTES / size < web->n ? VALUES_ROUND_BYTES / size : web->n;

        web_each(web, web->store->put, n_keys, size);
        web_metric(web, web_measure(web, &put, n_keys, size, n), "put_%u_ns", size);
        web_metric(web, web_measure(web, &get, n_keys, size, n), "get_%u_ns", size);
}

void web_values(Web *web) {
        static const uint32_t sizes[] = { 16, 128, 1024, 4096, 65536, 262144, 1048576 };
        char prefix[16];

        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
                (void) snprintf(prefix, sizeof(prefix), "value-%zu", i);
                web_make_keys(web, prefix, WEB_KEYS);
                values_of_size(web, sizes[i]);
        }
}
