#pragma once
/*
 * A tracer and the thread that it traces take turns. Where both stand on one processor, no other one is woken for each
 * turn. The tracer stays where it last ran; between two children the kernel puts it where it wants.
 */
#include <sys/types.h>

void processor_share(pid_t tid);
void processor_share_end(pid_t tid);
