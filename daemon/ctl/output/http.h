#pragma once

/*
 * A server of one page, /metrics, on a socket that listens already. Only a program that names this machine is
 * answered: a browser says the name of the page's server, so no page from elsewhere can read the answer.
 */

#include <stdbool.h>
#include <stddef.h>

/* The body, which is freed; NULL: it cannot be made. `open`: as OpenMetrics. */
typedef char *HttpRender(bool open, size_t *ret_size);

/* Whether the name, maybe with a port, is localhost or an address. */
bool http_host_is_local(const char *host);

/* A listening socket at [ADDRESS:]PORT; without an address, at 127.0.0.1. -EINVAL: it is none; -EADDRINUSE, ... */
int http_listen(const char *where);
/*
 * Answers until SIGTERM or SIGINT, or until nobody was connected for a while. 0; -ENOTSOCK: `listen_fd` is no listening
 * socket; ...
 */
int http_serve(int listen_fd, HttpRender *render, bool until_idle);
