#pragma once
/*
 * Children of a test. They do not assert, since a failed assertion would go on as the parent: they return 0, or the
 * line that failed.
 */
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define CHECK(condition)                                                                                     \
        do {                                                                                                 \
                if (!(condition))                                                                            \
                        return __LINE__;                                                                     \
        } while (0)

typedef int (*TestChild)(void *userdata);

typedef enum TestFork {
        TEST_FORK, /* fork() */
        TEST_FORK_BARE, /* _Fork(), without handlers */
        TEST_CLONE, /* clone(), behind the back of the C library */
        _TEST_FORK_N,
} TestFork;

/* Starts a child, which exits without cleaning up. */
pid_t test_child_start(TestFork how, TestChild child, void *userdata);
/* Its exit status; negative: the signal that ended it. */
int test_child_wait(pid_t pid);
int test_child_run(TestFork how, TestChild child, void *userdata);

/* Bytes of memory that this process's pools hold (st_blocks of their memfds). */
uint64_t test_pool_memory(void);
