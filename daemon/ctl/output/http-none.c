/* In place of http.c where tslabctl is built without metrics over HTTP (meson option `metrics`). */
#include "daemon/ctl/output/http.h"

#include <errno.h>

bool http_host_is_local(const char *host) {
        return false;
}

int http_listen(const char *where) {
        return -EOPNOTSUPP;
}

int http_serve(int listen_fd, HttpRender *render, bool until_idle) {
        return -EOPNOTSUPP;
}
