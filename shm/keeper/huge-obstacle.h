#pragma once
/* The reason for which the kernel makes no huge pages of shared memory: a file that the administrator may write to. */

typedef enum ShmHugeObstacle {
        SHM_HUGE_LACKS, /* none is found: the kernel is too old, or has none for shared memory */
        SHM_HUGE_DENIED, /* shmem_enabled is "deny" */
        SHM_HUGE_SIZE_NEVER, /* hugepages-2048kB/shmem_enabled is "never" */
} ShmHugeObstacle;

/* To be asked after the kernel refused. `root` stands before /sys. It is "" except in tests. */
ShmHugeObstacle shm_huge_obstacle(const char *root);
/* The reason in words, which name the file. */
const char *shm_huge_obstacle_text(ShmHugeObstacle obstacle);
