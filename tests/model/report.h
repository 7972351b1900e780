#pragma once
/* Printing a schedule. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Step {
        unsigned actor, number;
        bool died, changed;
        bool late; /* a store that waits */
        bool out; /* no step: an earlier store goes out */
        bool stale; /* reads an earlier store than the last, or stores in front of one */
        const void *address, *caller;
        uint64_t before[2], after[2]; /* the cell */
} Step;

#define REPORT_NAME_MAX 64

const char *report_name(const void *address, char text[REPORT_NAME_MAX]);
void report_steps(const Step *steps, size_t n_steps);
