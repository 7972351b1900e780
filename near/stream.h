#pragma once
/* Bytes to and from a server: by TCP, TLS, or a socket of this host. Nothing here waits. */
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define NEAR_WHY_SIZE 256

typedef struct Tls Tls;
typedef struct Stream Stream;

/* Files in PEM; `ca` NULL: the authorities of the system. `name` NULL: a server's certificate names its host. */
typedef struct TlsFiles {
        const char *ca, *certificate, *key, *name;
} TlsFiles;

/* `ret_why` has NEAR_WHY_SIZE bytes. The files are read once, here. */
int tls_open(Tls **ret, const TlsFiles *files, char *ret_why);
Tls *tls_free(Tls *tls);

/* Begins to connect. `address` is one, or the path of a socket; `host` is what it was found by. `tls` NULL: none. */
int stream_open(Stream **ret, const char *address, int port, const char *host, Tls *tls, char *ret_why);
Stream *stream_free(Stream *stream);
int stream_fd(const Stream *stream);

/* 1: connected; 0: not yet; else negative, with a reason. */
int stream_connect(Stream *stream, char *ret_why);
/* Whether it goes on with the next output that is possible; else with the next input. */
bool stream_wants_output(const Stream *stream);
/* Bytes; 0: none now; else negative, with a reason: the connection is no more. */
ssize_t stream_read(Stream *stream, void *buffer, size_t size, char *ret_why);
ssize_t stream_write(Stream *stream, const void *bytes, size_t size, char *ret_why);
