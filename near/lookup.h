#pragma once
/* Finds the address of a host by its name, in a thread of its own: a name service that does not answer stops nobody. */
#include <netdb.h>

typedef struct LookupAnswer {
        int error; /* that getaddrinfo() returned */
        char address[NI_MAXHOST]; /* as a number */
} LookupAnswer;

/* A descriptor from which one LookupAnswer can be read later; closing it gives the lookup up. Or a negative errno. */
int lookup_begin(const char *host);
