#include "examples/demo/traffic.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define LINE_MAX_SIZE 320
#define DAY 86400
#define BEGIN 1431820800 /* 17 May 2015, 00:00 */

#define CLIENTS_AT_ONCE 2500
#define CLIENTS_COMING 3500 /* in the course of the day; as many stop coming */

/* splitmix64: every seed is a good one. */
static uint64_t next_random(uint64_t *state) {
        uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

        z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
        return z ^ z >> 31;
}

static uint32_t random_below(uint64_t *state, uint32_t n) {
        return (uint32_t) (next_random(state) % n);
}

/* From 0 to n - 1, the low ones far more often: the cube of an even distribution. */
static uint32_t skewed_below(uint64_t *state, uint32_t n) {
        uint64_t x = next_random(state) >> 44; /* 20 bits, so that x * x * x fits */

        return (uint32_t) ((((x * x * x) >> 30) * n) >> 30);
}

/* One address a client. The multiplier is odd, so no two get the same. */
static void write_address(char *s, size_t size, uint32_t client) {
        uint32_t x = (client * UINT32_C(0x9e3779b1)) & 0xffffff;

        if (client % 8 == 7)
                (void) snprintf(s, size, "2001:db8::%x:%x", x >> 12, x & 0xfff);
        else
                (void) snprintf(s, size, "10.%u.%u.%u", x >> 16, x >> 8 & 0xff, x & 0xff);
}

static void write_path(char *s, size_t size, uint64_t *state) {
        static const char *const sections[] = { "blog", "articles", "presentations", "images/thumbnails",
                                                "" };
        uint32_t page = skewed_below(state, 4000);

        switch (page % 5) {
        case 4:
                (void) snprintf(s, size, "/page/%u", page);
                break;
        default:
                (void) snprintf(s, size, "/%s/%u/a-page-with-a-telling-name-%u.html", sections[page % 5],
                                2000 + page % 15, page);
        }
}

static int write_line(char *s, size_t size, uint64_t *state, uint32_t client, int64_t when) {
        char address[48], path[96], date[32];
        time_t t = when;
        struct tm tm;

        write_address(address, sizeof(address), client);
        write_path(path, sizeof(path), state);
        (void) gmtime_r(&t, &tm);
        (void) strftime(date, sizeof(date), "%d/%b/%Y:%H:%M:%S", &tm);
        return snprintf(s, size, "%s - - [%s +0000] \"GET %s HTTP/1.1\" %u %u \"-\" \"demo/1.0\"\n", address,
                        date, path, random_below(state, 50) ? 200U : 404U, 200 + skewed_below(state, 100000));
}

int traffic_make(uint64_t seed, size_t n, char **ret, size_t *ret_size) {
        char *text = malloc((n + 1) * LINE_MAX_SIZE), *shrunk;
        size_t size = 0;

        if (!text)
                return -ENOMEM;
        for (size_t i = 0; i < n; ++i) {
                uint32_t oldest = (uint32_t) (i * CLIENTS_COMING / n);
                uint32_t client = oldest + skewed_below(&seed, CLIENTS_AT_ONCE);

                /* Now and then, a client that stopped coming does come. */
                if (oldest > 0 && random_below(&seed, 500) == 0)
                        client = random_below(&seed, oldest);

                size += (size_t) write_line(text + size, LINE_MAX_SIZE, &seed, client,
                                            BEGIN + (int64_t) (i * DAY / n));
        }

        shrunk = realloc(text, size + 1);
        *ret = shrunk ?: text;
        *ret_size = size;
        return 0;
}
