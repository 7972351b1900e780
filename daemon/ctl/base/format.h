#pragma once

/*
 * Numbers as text for people. Each function writes to a buffer of FORMAT_SIZE bytes and returns it:
 *
 *      printf("%s", format_bytes(FORMAT_BUFFER, n));
 *
 * Parsers of the numbers that people type are here, too.
 */

#include <stdint.h>

#define FORMAT_SIZE 64
/* A buffer for one expression; it lives as long as the block in which it stands. */
#define FORMAT_BUFFER ((char[FORMAT_SIZE]){ 0 })

/* "64B", "1.5K", "16.0M": powers of 1024. */
char *format_bytes(char *buffer, uint64_t bytes);
/* "3d 4h", "12min 5s", "350ms": the two largest units. */
char *format_span(char *buffer, uint64_t usec);
/* "2024-05-01 10:00:00", local; "-" for 0. */
char *format_time(char *buffer, uint64_t usec);
/* "5min 2s ago", or "now" where `usec` is later than `now_usec`; "-" for 0. */
char *format_ago(char *buffer, uint64_t usec, uint64_t now_usec);
/* "3:2" for id | era << 8; "3" in era 0. */
char *format_epoch(char *buffer, uint32_t epoch);
/* "1 thread", "2 threads" */
char *format_count(char *buffer, uint64_t n, const char *one, const char *many);
/* A bar of `width` (below FORMAT_SIZE - 2): '#' for `used`, '+' for `kept`, '.' for the rest of `total`. */
char *format_bar(char *buffer, unsigned width, uint64_t used, uint64_t kept, uint64_t total);

/* CLOCK_REALTIME */
uint64_t format_now_usec(void);

/*
 * N, N:ERA, or a number of the API (id | era << 8, as --json shows). -EINVAL: none of these;
 * -ERANGE: ids are 0..63, eras of 24 bits.
 */
int parse_epoch(const char *text, uint32_t *ret_epoch);
/* Seconds with up to three decimals, as milliseconds. -EINVAL; -ERANGE: over a day. */
int parse_seconds(const char *text, uint32_t *ret_msec);
/* As parse_seconds(); -ERANGE: over `max_msec`. */
int parse_span(const char *text, uint64_t max_msec, uint64_t *ret_msec);
/* Bytes, with K, M or G for powers of 1024. -EINVAL, -ERANGE. */
int parse_bytes(const char *text, uint64_t *ret_bytes);
