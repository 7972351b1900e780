#pragma once
/* The settings file of a pool: lines NAME=VALUE, as systemd's EnvironmentFile= reads them. */
#include "daemon/options.h"

/*
 * A file that is not there says nothing. What it sets is not taken from the environment any more.
 * -EINVAL with the line and what is wrong in `ret_why`, of OPTIONS_WHY_SIZE.
 */
int config_read(Options *options, const char *path, char *ret_why);
