/*
 * Linux 6.18, tried with each pair of values: MADV_COLLAPSE of a memfd fails with EINVAL if `shmem_enabled` is "deny",
 * and if the file for 2 MiB, which 6.14 and later have, is "never"; if that is "advise", the mapping has to ask by
 * MADV_HUGEPAGE. All other values are the same to it.
 */
#include "shm/keeper/huge-obstacle.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define FOLDER "/sys/kernel/mm/transparent_hugepage/"
#define FOR_ALL FOLDER "shmem_enabled"
#define FOR_SIZE FOLDER "hugepages-2048kB/shmem_enabled"

/* Whether the value in brackets, which is the one that counts, is this one. */
static bool is_set(const char *root, const char *path, const char *value) {
        char full[PATH_MAX], line[128] = "";
        FILE *file;

        (void) snprintf(full, sizeof(full), "%s%s", root, path);
        file = fopen(full, "re");
        if (!file)
                return false;
        (void) fgets(line, sizeof(line), file);
        (void) fclose(file);
        return strstr(line, value) != NULL;
}

ShmHugeObstacle shm_huge_obstacle(const char *root) {
        if (is_set(root, FOR_ALL, "[deny]"))
                return SHM_HUGE_DENIED;
        return is_set(root, FOR_SIZE, "[never]") ? SHM_HUGE_SIZE_NEVER : SHM_HUGE_LACKS;
}

const char *shm_huge_obstacle_text(ShmHugeObstacle obstacle) {
        switch (obstacle) {
        case SHM_HUGE_DENIED:
                return FOR_ALL " is 'deny'";
        case SHM_HUGE_SIZE_NEVER:
                return FOR_SIZE " is 'never'";
        case SHM_HUGE_LACKS:
                break;
        }
        return "it is older than Linux 6.1, or has none for shared memory";
}
