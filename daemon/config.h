#pragma once
/* The settings file of a pool: lines NAME=VALUE, as systemd's EnvironmentFile= reads them. */
#include "daemon/options.h"

/*
 * A missing file is ignored. A setting of the file is removed from the environment.
 * -EINVAL: `ret_why`, of OPTIONS_WHY_SIZE, has the line and the mistake.
 */
int config_read(Options *options, const char *path, char *ret_why);
/* As config_read() for a file that the daemon wrote itself: the settings stay in the environment, too. */
int config_read_saved(Options *options, const char *path, char *ret_why);
