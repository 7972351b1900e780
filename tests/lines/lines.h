#pragma once
/*
 * Counts how cache lines would go from processor to processor, if each actor had one with a cache without end: by
 * ownership, as MESI has it. Only one actor runs at a time. (Counted, as few machines have 64 processors; contention
 * that makes an operation try again is not in it.)
 */
#include <stdint.h>

#define LINES_ACTORS_MAX 64

typedef struct LinesCount {
        uint64_t
                n_transfers; /* a line was read or written that another actor had written, or written that others had */
        uint64_t n_hottest; /* n_transfers of one line: the one that moved most */
        uint64_t n_lines; /* lines that more than one actor has written */
        const char *hottest; /* the function that wrote it last */
} LinesCount;

/* Accesses of this thread are the actor's from now on; -1: nobody's, and not counted. */
void lines_set_actor(int actor);
/* Counts begin with 0; where each line is stays known. */
void lines_begin(void);
LinesCount lines_end(void);
/* Nanoseconds that a line takes from one processor of this machine to another, measured. */
double lines_transfer_ns(void);
/* Prints each line that more than one actor has written since lines_begin(). */
void lines_print(void);
