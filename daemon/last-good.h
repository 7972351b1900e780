#pragma once
/*
 * The settings that the pool's daemon last worked with, in NAME.settings of the runtime directory: lines NAME=VALUE,
 * users and groups as numbers. A daemon that is given the memory of a pool goes on with these if the settings turn out
 * bad, since the pool would be lost if it ended.
 */
#include "daemon/options.h"

/* Writes the file. If `trouble` is set, other settings are in use, and nothing is written. Logs its errors. */
void last_good_save(const Options *options);
/* Sets *options, where `pool` is set already. -ENOENT: there are none; -EINVAL; ... *options may be changed in part. */
int last_good_read(Options *options);
/* Removes the file. For the daemon that has the pool's lock. */
void last_good_remove(const Options *options);
