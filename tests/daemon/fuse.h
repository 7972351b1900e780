#pragma once
/*
 * A file system with one file of one byte, whose server does not answer: calls that ask it wait until fuse_end(). It
 * does not answer FUSE_FLUSH, for which close() asks. Once somebody has written to the file, it answers nothing.
 */
#include <stdbool.h>
#include <sys/types.h>

typedef struct FuseMount {
        char dir[32], file[48];
        pid_t server;
} FuseMount;

/* False: this process may not mount. */
bool fuse_mount(FuseMount *fs);
/* The death of the server ends all waits. */
void fuse_end(FuseMount *fs);
/* The system call that a process is in, to go by /proc; 0: none. */
int fuse_process_call(pid_t pid);
