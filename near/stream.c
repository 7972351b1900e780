#include "near/stream.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

struct Tls {
        SSL_CTX *context;
        char *name;
        SSL_SESSION *session; /* the last one: a connection that resumes it costs the server no signature */
};

struct Stream {
        int fd;
        bool is_open; /* the socket is connected */
        bool wants_output;
        SSL *ssl; /* NULL: none */
        Tls *tls;
};

static int refuse_tls(char *ret_why, const char *what, const char *detail) {
        const char *reason = ERR_reason_error_string(ERR_peek_last_error());

        (void) snprintf(ret_why, NEAR_WHY_SIZE, "TLS: %s%s%.100s: %.100s", what, detail ? " " : "",
                        detail ?: "", reason ?: "failed");
        ERR_clear_error();
        return -EINVAL;
}

static int keep_session(SSL *ssl, SSL_SESSION *session) {
        Tls *tls = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));

        SSL_SESSION_free(tls->session);
        tls->session = session;
        return 1; /* it is kept here */
}

static int load_files(Tls *tls, const TlsFiles *files, char *ret_why) {
        if (files->ca ? SSL_CTX_load_verify_locations(tls->context, files->ca, NULL) != 1
                      : SSL_CTX_set_default_verify_paths(tls->context) != 1)
                return refuse_tls(ret_why, "authorities", files->ca);
        if (!files->certificate)
                return 0;
        if (SSL_CTX_use_certificate_chain_file(tls->context, files->certificate) != 1)
                return refuse_tls(ret_why, "certificate", files->certificate);
        if (SSL_CTX_use_PrivateKey_file(tls->context, files->key ?: files->certificate, SSL_FILETYPE_PEM) !=
                    1 ||
            SSL_CTX_check_private_key(tls->context) != 1)
                return refuse_tls(ret_why, "private key", files->key ?: files->certificate);
        return 0;
}

int tls_open(Tls **ret, const TlsFiles *files, char *ret_why) {
        Tls *tls = calloc(1, sizeof(*tls));
        int r = -ENOMEM;

        (void) snprintf(ret_why, NEAR_WHY_SIZE, "out of memory");
        if (tls && (tls->context = SSL_CTX_new(TLS_client_method()))) {
                (void) SSL_CTX_set_min_proto_version(tls->context, TLS1_2_VERSION);
                (void) SSL_CTX_set_mode(tls->context,
                                        SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
                (void) SSL_CTX_set_session_cache_mode(tls->context,
                                                      SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
                SSL_CTX_sess_set_new_cb(tls->context, keep_session);
                (void) SSL_CTX_set_app_data(tls->context, tls);
                SSL_CTX_set_verify(tls->context, SSL_VERIFY_PEER, NULL);
                tls->name = files->name ? strdup(files->name) : NULL;
                r = load_files(tls, files, ret_why);
        }
        if (r)
                (void) tls_free(tls);
        else
                *ret = tls;
        return r;
}

Tls *tls_free(Tls *tls) {
        if (!tls)
                return NULL;
        SSL_SESSION_free(tls->session);
        SSL_CTX_free(tls->context);
        free(tls->name);
        free(tls);
        return NULL;
}

/* The peer has to have a certificate of this name, or address. */
static int expect_name(SSL *ssl, const char *name) {
        struct in6_addr address;

        if (inet_pton(AF_INET, name, &address) == 1 || inet_pton(AF_INET6, name, &address) == 1)
                return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name);
        return SSL_set1_host(ssl, name) == 1 && SSL_set_tlsext_host_name(ssl, name) == 1;
}

static int begin_tls(Stream *stream, const char *host, char *ret_why) {
        Tls *tls = stream->tls;

        stream->ssl = SSL_new(tls->context);
        if (!stream->ssl || SSL_set_fd(stream->ssl, stream->fd) != 1 ||
            expect_name(stream->ssl, tls->name ?: host) != 1)
                return refuse_tls(ret_why, "cannot begin", NULL);
        if (tls->session)
                (void) SSL_set_session(stream->ssl, tls->session);
        return 0;
}

static int connect_unix(int *ret_fd, const char *path) {
        struct sockaddr_un address = { .sun_family = AF_UNIX };

        if (snprintf(address.sun_path, sizeof(address.sun_path), "%s", path) >=
            (int) sizeof(address.sun_path))
                return -ENAMETOOLONG;
        *ret_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (*ret_fd < 0 || connect(*ret_fd, (const struct sockaddr *) &address, sizeof(address)) < 0)
                return -errno;
        return 0;
}

static int connect_tcp(int *ret_fd, const char *address, int port) {
        const struct addrinfo hints = { .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
                                        .ai_socktype = SOCK_STREAM };
        struct addrinfo *list;
        char service[8];
        int r = 0;

        (void) snprintf(service, sizeof(service), "%u", (unsigned) port & 0xffffU);
        if (getaddrinfo(address, service, &hints, &list))
                return -EINVAL;
        *ret_fd = socket(list->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (*ret_fd < 0)
                r = -errno;
        else {
                (void) setsockopt(*ret_fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
                if (connect(*ret_fd, list->ai_addr, list->ai_addrlen) < 0 && errno != EINPROGRESS)
                        r = -errno;
        }
        freeaddrinfo(list);
        return r;
}

int stream_open(Stream **ret, const char *address, int port, const char *host, Tls *tls, char *ret_why) {
        bool is_path = address[0] == '/';
        Stream *stream;
        int r = -ENOMEM;

        stream = calloc(1, sizeof(*stream));
        if (stream) {
                *stream = (Stream){ .fd = -1, .tls = is_path ? NULL : tls, .wants_output = true };
                r = is_path ? connect_unix(&stream->fd, address) : connect_tcp(&stream->fd, address, port);
        }
        if (r)
                (void) snprintf(ret_why, NEAR_WHY_SIZE, "%s", strerror(-r));
        else if (stream->tls)
                r = begin_tls(stream, host, ret_why);
        if (r)
                (void) stream_free(stream);
        else
                *ret = stream;
        return r;
}

Stream *stream_free(Stream *stream) {
        if (!stream)
                return NULL;
        SSL_free(stream->ssl);
        if (stream->fd >= 0)
                (void) close(stream->fd);
        free(stream);
        return NULL;
}

int stream_fd(const Stream *stream) {
        return stream->fd;
}

bool stream_wants_output(const Stream *stream) {
        return stream->wants_output;
}

static const char *tls_trouble(const Stream *stream, int error, char *text, size_t size) {
        long verified = SSL_get_verify_result(stream->ssl);
        const char *reason = ERR_reason_error_string(ERR_peek_last_error());

        if (verified != X509_V_OK)
                (void) snprintf(text, size, "TLS: the server's certificate: %s",
                                X509_verify_cert_error_string(verified));
        else if (error == SSL_ERROR_ZERO_RETURN || (error == SSL_ERROR_SYSCALL && !reason))
                (void) snprintf(text, size, "the server closed the connection");
        else
                (void) snprintf(text, size, "TLS: %.200s", reason ?: strerror(errno));
        ERR_clear_error();
        return text;
}

/* OpenSSL says how a call ended. 0: again later, after the input or output that it waits for; else negative. */
static int tls_result(Stream *stream, int n, char *ret_why) {
        int error = SSL_get_error(stream->ssl, n);

        stream->wants_output = error == SSL_ERROR_WANT_WRITE;
        if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE)
                return 0;
        (void) tls_trouble(stream, error, ret_why, NEAR_WHY_SIZE);
        return -ECONNRESET;
}

int stream_connect(Stream *stream, char *ret_why) {
        socklen_t size = sizeof(int);
        int error = 0, n;

        if (!stream->is_open && getsockopt(stream->fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0)
                error = errno;
        if (error && error != ECONNRESET) { /* after a reset, the server's last words are read yet */
                (void) snprintf(ret_why, NEAR_WHY_SIZE, "%s", strerror(error));
                return -error;
        }
        stream->is_open = true;
        stream->wants_output = false;
        if (!stream->ssl)
                return 1;
        ERR_clear_error();
        errno = 0;
        n = SSL_connect(stream->ssl);
        return n == 1 ? 1 : tls_result(stream, n, ret_why);
}

static ssize_t plain_result(ssize_t n, bool is_read, char *ret_why) {
        if (n > 0 || (n == 0 && !is_read))
                return n;
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return 0;
        (void) snprintf(ret_why, NEAR_WHY_SIZE, "%s",
                        n == 0 ? "the server closed the connection" : strerror(errno));
        return n == 0 ? -ECONNRESET : -errno;
}

ssize_t stream_read(Stream *stream, void *buffer, size_t size, char *ret_why) {
        int n;

        if (!stream->ssl)
                return plain_result(read(stream->fd, buffer, size), true, ret_why);
        ERR_clear_error();
        errno = 0;
        n = SSL_read(stream->ssl, buffer, (int) size);
        return n > 0 ? n : tls_result(stream, n, ret_why);
}

ssize_t stream_write(Stream *stream, const void *bytes, size_t size, char *ret_why) {
        int n;

        if (!stream->ssl)
                return plain_result(write(stream->fd, bytes, size), false, ret_why);
        ERR_clear_error();
        errno = 0;
        n = SSL_write(stream->ssl, bytes, (int) size);
        return n > 0 ? n : tls_result(stream, n, ret_why);
}
