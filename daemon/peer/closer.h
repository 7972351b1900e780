#pragma once
/*
 * Closes descriptors that peers sent. A close() asks the file system, and that of FUSE asks a process: a hostile one
 * never answers, and the caller then waits without end, even for SIGKILL. So descriptors other than memfds are closed
 * by helper threads, which do nothing else.
 */
#include <stdbool.h>

/* Whether there is room for all descriptors of a message. */
bool closer_has_room(void);
/* Whether a thread closes this descriptor, now or later. Nobody else may: its number could be another file's then. */
bool closer_holds(int fd);

/* From now on proto/socket.h closes received descriptors this way. */
void closer_init(void);
