#pragma once
/*
 * Counts how cache lines would go from processor to processor, if each actor had a processor with an endless cache:
 * by ownership, as MESI has it. Only one actor runs at a time. (Counted, as few machines have 64 processors; contention
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
/* Lines that calls of one thread use. */
typedef struct LinesWatched {
        uint64_t n_lines; /* each counts once a call */
        uint64_t n_cold; /* none of the 1000 calls before had used it */
} LinesWatched;

/* Watches this memory from the next call on; no other thread may use it. */
void lines_watch(const void *begin, size_t size);
void lines_watch_call(void); /* another call begins */
/* The sums since the last lines_watch_end(). The lines of earlier calls stay known. */
LinesWatched lines_watch_end(void);
/* Nanoseconds that a line takes from one processor of this machine to another, measured. */
double lines_transfer_ns(void);
/* Prints each line that more than one actor has written since lines_begin(). */
void lines_print(void);
