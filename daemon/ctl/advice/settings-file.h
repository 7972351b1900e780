#pragma once

/*
 * Merges settings into a settings file, tslab.conf(5), which may be of root's. All other lines stay byte for byte.
 *
 * The file appears as a whole: a new file beside it is written to the disk, and the two change places. The old one then
 * has a name of its own, which no file had before. Owner, mode and access control list stay. Directories that other
 * users may change are refused, and so is a file that is a symbolic link, or no regular file.
 */

#include <limits.h>
#include <stddef.h>

#include "daemon/ctl/base/complain.h"

#define SETTING_VALUE_SIZE 128
#define SETTINGS_BACKUP_SIZE (PATH_MAX + NAME_MAX)

typedef struct SettingsChange {
        const char *name, *value;
        /* -- */
        char was[SETTING_VALUE_SIZE]; /* the value in the file before; empty: the file did not have the setting */
        size_t line; /* number of the line that counts, from 1; 0: none */
} SettingsChange;

/*
 * *n becomes the number of changes that the file did not have yet, which then stand first. *ret_backup, of
 * SETTINGS_BACKUP_SIZE: the path of the old file, or "" if there was none, or nothing to change. CTL_FAILED or
 * CTL_USAGE after a complaint: nothing was written.
 */
CtlExit settings_file_merge(const char *path, SettingsChange *changes, size_t *n, char *ret_backup);
