#pragma once
/*
 * Pidfds that systemd keeps while the daemon restarts: of clients that /proc does not show, so that the next daemon
 * could not open them anew. Each is kept under a name made of the mark in the client's entry: see
 * daemon/peer/identity.h. Without systemd these functions do nothing.
 *
 * A pidfd is kept before its entry is made, and dropped after its entry is freed: no entry is without its pidfd, and
 * the next daemon drops a pidfd that no entry names.
 */
#include <stdbool.h>
#include <stdint.h>

/* Idempotent. Results: as of notify_send(). */
int kept_add(uint32_t mark, int pidfd);
void kept_remove(uint32_t mark);
/* Whether it is the name of such a descriptor. */
bool kept_parse(const char *name, uint32_t *ret_mark);
