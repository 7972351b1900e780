#pragma once
/* Finds the address of a host by its name, in a thread of its own: a name service that does not answer stops nobody. */
#include <netdb.h>

typedef struct LookupAnswer {
        int error; /* that getaddrinfo() returned */
        char address[NI_MAXHOST]; /* as a number */
} LookupAnswer;

/*
 * A descriptor from which one LookupAnswer can be read later; closing it gives the lookup up. Or a negative errno:
 *
 * -ETIMEDOUT   hundreds of them have no answer yet. They may never get one, as of a name server that takes a TCP
 *              connection and says nothing: only the end of the process ends them.
 */
int lookup_begin(const char *host);
