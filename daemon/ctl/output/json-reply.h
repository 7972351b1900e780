#pragma once

/*
 * Replies of the daemon as JSON, for programs. The names are promises: members may be added, none
 * taken away. Bytes and microseconds stay as they are; an epoch is the number that the library uses,
 * with its `id` and `era` beside it. The caller owns the returned object.
 */

#include <json-c/json.h>

#include "proto/message.h"

json_object *json_stats(const Tslab__StatsReply *stats);
json_object *json_epoch(const Tslab__EpochInfo *epoch);
/* `epoch`, `id` and `era` */
json_object *json_epoch_number(uint32_t epoch);
json_object *json_epoch_close(const Tslab__EpochCloseReply *reply);
/* Without index_bytes. */
json_object *json_map(const Tslab__MapInfo *map);
/* `waited`: the client with the claim that a thread of this one waits for, or NULL. */
json_object *json_client(const Tslab__ClientInfo *client, const Tslab__ClientInfo *waited);
json_object *json_root(const Tslab__RootInfo *root);
json_object *json_trim(const Tslab__TrimReply *reply);
json_object *json_check(const Tslab__CheckReply *reply);
