/*
 * A server of Redis or Valkey, by PHP's streams: redis://USER:PASSWORD@HOST:PORT/DATABASE, rediss:// by TLS, or
 * unix://USER:PASSWORD@/SOCKET?db=DATABASE. valkey:// and valkeys:// are the same.
 *
 * A connection stays open when a request ends. A request that ends by an error of PHP between a question and its answer
 * leaves the link busy, and the next one closes it: it would take that answer for its own. A forked child makes
 * connections of its own, since their ids contain the number of the process. It closes its copies of the parent's
 * connections without TLS's closing message, which would end them for the parent, too.
 *
 * No question is sent twice, since the lost answer may be that of a change that was made. Before each question
 * the code checks whether the server has closed the connection.
 */
#include "engine.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <ext/standard/url.h>
#include <php_network.h>

#define LINE_SIZE 512
#define PART_SIZE 8192 /* bytes of a question between two looks at the clock */
#define TEXT_MAX (512 << 20) /* as the servers have it */
#define PORT ":6379"

static const struct {
        const char *begin;
        const char *transport;
} schemes[] = {
        { "redis://", "tcp://" },   { "valkey://", "tcp://" }, { "rediss://", "tls://" },
        { "valkeys://", "tls://" }, { "unix://", "unix://" },
};

static zend_string *decoded(const char *text, size_t size) {
        zend_string *result = zend_string_init(text, size, false);

        ZSTR_LEN(result) = php_raw_url_decode(ZSTR_VAL(result), ZSTR_LEN(result));
        return result;
}

/* Reads USER:PASSWORD@, and returns the part after it; NULL: there is a user without a password. */
static const char *read_user(Engine *engine, const char *url) {
        size_t size = strcspn(url, "/?");
        const char *at = memrchr(url, '@', size), *colon;

        if (!at)
                return url;
        colon = memchr(url, ':', (size_t) (at - url));
        if (!colon)
                return NULL;
        if (colon > url)
                engine->user = decoded(url, (size_t) (colon - url));
        engine->password = decoded(colon + 1, (size_t) (at - colon - 1));
        return at + 1;
}

static int read_database(Engine *engine, const char *text) {
        char *end;

        if (*text == 0)
                return 0;
        errno = 0;
        engine->database = ZEND_STRTOL(text, &end, 10);
        return *end || errno || engine->database < 0 ? -EINVAL : 0;
}

static int read_place(Engine *engine, const char *transport, const char *place) {
        bool is_unix = strcmp(transport, "unix://") == 0;
        size_t size = strcspn(place, is_unix ? "?" : "/");
        const char *left = place + size, *bracket;
        smart_str address = { 0 };

        bracket = memchr(place, ']', size);
        bracket = bracket ? bracket : place;
        smart_str_appends(&address, transport);
        smart_str_appendl(&address, place, size);
        if (!is_unix && !memchr(bracket, ':', size - (size_t) (bracket - place)))
                smart_str_appends(&address, PORT);
        smart_str_0(&address);
        engine->address = address.s;

        if (size == 0)
                return -EINVAL;
        if (is_unix)
                return strncmp(left, "?db=", 4) == 0 ? read_database(engine, left + 4) : *left ? -EINVAL : 0;
        return read_database(engine, left + (*left == '/'));
}

static int read_url(Engine *engine, const char *url) {
        const char *place;

        for (size_t i = 0; i < sizeof(schemes) / sizeof(*schemes); i++) {
                size_t size = strlen(schemes[i].begin);

                if (strncmp(url, schemes[i].begin, size) != 0)
                        continue;
                place = read_user(engine, url + size);
                return place ? read_place(engine, schemes[i].transport, place) : -EINVAL;
        }
        return -EINVAL;
}

static EngineLink *link_of(zend_string *id) {
        EngineLink *link = zend_hash_find_ptr(&TSLAB_G(links), id);
        zend_string *name;

        if (link)
                return link;
        link = pecalloc(1, sizeof(*link), true);
        link->pid = getpid();
        link->fd = -1;
        name = zend_string_init(ZSTR_VAL(id), ZSTR_LEN(id), true);
        zend_hash_add_ptr(&TSLAB_G(links), name, link);
        zend_string_release_ex(name, true);
        return link;
}

static void release(zend_string *text) {
        if (text)
                zend_string_release(text);
}

/*
 * A file without a name takes all, in a chroot without /dev, too. Where there is no descriptor left for it, it gets
 * that of the connection itself.
 */
static void leave_to_parent(int fd) {
        int taker = memfd_create("tslab-left", MFD_CLOEXEC);

        if (taker < 0) {
                (void) close(fd);
                taker = memfd_create("tslab-left", MFD_CLOEXEC);
        }
        if (taker >= 0 && taker != fd) {
                (void) dup3(taker, fd, O_CLOEXEC);
                (void) close(taker);
        }
}

/*
 * Lets nothing that is written to copies of a parent's connections leave this process, as the farewell that OpenSSL
 * writes when PHP ends: their descriptors become those of a file that takes all.
 */
void php_tslab_engine_leave_to_parent(void) {
        EngineLink *link;

        ZEND_HASH_FOREACH_PTR(&TSLAB_G(links), link) {
                if (php_tslab_is_own(link->pid) || link->fd < 0)
                        continue;
                leave_to_parent(link->fd);
                link->fd = -1;
        }
        ZEND_HASH_FOREACH_END();
}

/* The connection of this process. A child that was forked inside of a session leaves that of its parent alone. */
static void engine_own(Engine *engine) {
        release(engine->id);
        engine->pid = getpid();
        engine->id = strpprintf(0, "tslab:%ld:%s", (long) engine->pid, ZSTR_VAL(engine->url));
        engine->link = link_of(engine->id);
        engine->stream = NULL;
}

/* NULL: the URL is none. Connects when it is asked first. */
Engine *php_tslab_engine_new(const char *url, double timeout) {
        Engine *engine = ecalloc(1, sizeof(*engine));

        engine->timeout = timeout;
        if (read_url(engine, url) < 0)
                return php_tslab_engine_free(engine);
        engine->url = zend_string_init(url, strlen(url), false);
        engine_own(engine);
        return engine;
}

/* Returns NULL; NULL-safe. The connection stays open. */
Engine *php_tslab_engine_free(Engine *engine) {
        if (!engine)
                return NULL;
        release(engine->address);
        release(engine->user);
        release(engine->password);
        release(engine->url);
        release(engine->id);
        efree(engine);
        return NULL;
}

void php_tslab_engine_close(Engine *engine) {
        if (engine->stream)
                php_stream_pclose(engine->stream);
        engine->stream = NULL;
        engine->link->fd = -1;
}

static int engine_fail(Engine *engine, const char *what, const char *detail) {
        snprintf(engine->error, sizeof(engine->error), "%s: %s%s", ZSTR_VAL(engine->address), what, detail);
        php_tslab_engine_close(engine);
        return -EHOSTDOWN;
}

/* Adds a command to those that are sent at once. */
void php_tslab_engine_add(smart_str *commands, size_t n, const zend_string *const *parts) {
        smart_str_append_printf(commands, "*%zu\r\n", n);
        for (size_t i = 0; i < n; i++) {
                smart_str_append_printf(commands, "$%zu\r\n", ZSTR_LEN(parts[i]));
                smart_str_append(commands, parts[i]);
                smart_str_appends(commands, "\r\n");
        }
}

/* Begins the time that a question has, with a connection if it needs one. */
static void engine_begin(Engine *engine) {
        engine->end_ms = php_tslab_now_ms() + (uint64_t) (engine->timeout * 1000) + 1;
}

/* The time that is left. False: none is. */
static bool engine_left(const Engine *engine, struct timeval *ret) {
        uint64_t now = php_tslab_now_ms();

        if (now >= engine->end_ms)
                return false;
        ret->tv_sec = (time_t) ((engine->end_ms - now) / 1000);
        ret->tv_usec = (suseconds_t) ((engine->end_ms - now) % 1000 * 1000);
        return true;
}

/* PHP's streams wait so long for each packet: an answer in a hundred of them has the time that is left of one. */
static bool engine_wait_less(Engine *engine) {
        struct timeval left;

        if (!engine_left(engine, &left))
                return false;
        php_stream_set_option(engine->stream, PHP_STREAM_OPTION_READ_TIMEOUT, 0, &left);
        return true;
}

static int read_bytes(Engine *engine, char *ret, size_t size) {
        php_stream *stream = engine->stream;

        while (size > 0) {
                ssize_t n;

                if (stream->readpos == stream->writepos && !engine_wait_less(engine))
                        return -EHOSTDOWN;
                n = php_stream_read(stream, ret, size);
                if (n <= 0)
                        return -EHOSTDOWN;
                ret += n;
                size -= (size_t) n;
        }
        return 0;
}

/* Reads a line, without its end. */
static int read_line(Engine *engine, char line[LINE_SIZE]) {
        for (size_t size = 0; size < LINE_SIZE; size++) {
                if (read_bytes(engine, &line[size], 1) < 0)
                        return -EHOSTDOWN;
                if (line[size] == '\n' && size >= 2 && line[size - 1] == '\r') {
                        line[size - 1] = 0;
                        return 0;
                }
        }
        return -EHOSTDOWN;
}

static int write_bytes(Engine *engine, const char *data, size_t size) {
        while (size > 0) {
                size_t part = MIN(size, PART_SIZE);

                if (!engine_wait_less(engine) ||
                    php_stream_write(engine->stream, data, part) != (ssize_t) part)
                        return -EHOSTDOWN;
                data += part;
                size -= part;
        }
        return 0;
}

static int read_text(Engine *engine, size_t size, zend_string **ret) {
        zend_string *text = zend_string_alloc(size + 2, false);

        if (read_bytes(engine, ZSTR_VAL(text), size + 2) < 0) {
                zend_string_efree(text);
                return -EHOSTDOWN;
        }
        ZSTR_LEN(text) = size;
        ZSTR_VAL(text)[size] = 0;
        *ret = text;
        return 0;
}

static int read_reply(Engine *engine, EngineReply *ret) {
        char line[LINE_SIZE], *end;

        if (read_line(engine, line) < 0)
                return -EHOSTDOWN;
        *ret = (EngineReply){ .type = *line };
        switch (*line) {
        case '-':
                ret->text = zend_string_init(line + 1, strlen(line + 1), false);
                return 0;
        case '+':
                return 0;
        case ':':
        case '$':
                ret->number = ZEND_STRTOL(line + 1, &end, 10);
                if (*end || ret->number > (*line == '$' ? TEXT_MAX : ZEND_LONG_MAX))
                        return -EHOSTDOWN;
                return *line == '$' && ret->number >= 0 ? read_text(engine, (size_t) ret->number, &ret->text)
                                                        : 0;
        default:
                return -EHOSTDOWN;
        }
}

void php_tslab_engine_free_replies(EngineReply *replies, size_t n) {
        for (size_t i = 0; i < n; i++) {
                release(replies[i].text);
                replies[i].text = NULL;
        }
}

/* Sends commands, and reads n answers. Frees `commands`. After an error there are no answers. */
static int engine_exchange(Engine *engine, smart_str *commands, EngineReply *ret, size_t n) {
        int r;

        memset(ret, 0, n * sizeof(*ret));
        engine->link->is_busy = true;
        r = write_bytes(engine, ZSTR_VAL(commands->s), ZSTR_LEN(commands->s));
        smart_str_free(commands);
        for (size_t i = 0; i < n && r == 0; i++)
                r = read_reply(engine, &ret[i]);
        if (r < 0) {
                php_tslab_engine_free_replies(ret, n);
                return engine_fail(engine, "no answer", "");
        }
        engine->link->is_busy = false;
        return 0;
}

static void add_words(smart_str *commands, size_t n, const char *const *words) {
        zend_string *parts[3];

        for (size_t i = 0; i < n; i++)
                parts[i] = zend_string_init(words[i], strlen(words[i]), false);
        php_tslab_engine_add(commands, n, (const zend_string *const *) parts);
        for (size_t i = 0; i < n; i++)
                zend_string_release(parts[i]);
}

/* Copies the value of a line "NAME:value" of an answer to INFO. */
static void read_field(const EngineReply *info, const char *name, char *ret, size_t size) {
        const char *at = info->type == '$' && info->text ? strstr(ZSTR_VAL(info->text), name) : NULL;

        *ret = 0;
        if (at)
                snprintf(ret, size, "%.*s", (int) strcspn(at + strlen(name), "\r\n"), at + strlen(name));
}

/* Logs in, and asks for the server at the other end, once for each connection. */
static int engine_greet(Engine *engine) {
        const char *login[3] = { "AUTH" }, *info[2] = { "INFO" };
        char database[24], role[16];
        smart_str commands = { 0 };
        EngineReply replies[4];
        size_t n = 0, n_login = 1;
        int r;

        if (engine->password) {
                if (engine->user)
                        login[n_login++] = ZSTR_VAL(engine->user);
                login[n_login++] = ZSTR_VAL(engine->password);
                add_words(&commands, n_login, login);
                n++;
        }
        if (engine->database) {
                snprintf(database, sizeof(database), ZEND_LONG_FMT, engine->database);
                add_words(&commands, 2, (const char *const[]){ "SELECT", database });
                n++;
        }
        for (int i = 0; i < 2; i++) {
                info[1] = i == 0 ? "server" : "replication";
                add_words(&commands, 2, info);
        }
        r = engine_exchange(engine, &commands, replies, n + 2);
        if (r < 0)
                return r;
        for (size_t i = 0; i < n && r == 0; i++)
                if (replies[i].type == '-')
                        r = engine_fail(engine, "", ZSTR_VAL(replies[i].text));
        read_field(&replies[n], "run_id:", engine->link->server, sizeof(engine->link->server));
        read_field(&replies[n + 1], "role:", role, sizeof(role));
        php_tslab_engine_free_replies(replies, n + 2);
        if (r == 0 && strcmp(role, "slave") == 0)
                r = engine_fail(engine, "a replica, whose values may be old: name the primary", "");
        return r;
}

static void engine_set_up(Engine *engine) {
        php_socket_t fd;
        int one = 1;

        php_stream_auto_cleanup(engine->stream);
        engine->stream->flags |= PHP_STREAM_FLAG_SUPPRESS_ERRORS;
        if (php_stream_cast(engine->stream, PHP_STREAM_AS_FD_FOR_SELECT | PHP_STREAM_CAST_INTERNAL,
                            (void *) &fd, 0) != SUCCESS)
                return;
        engine->link->fd = fd;
        /* A program that this one starts would keep it open. */
        (void) fcntl(fd, F_SETFD, FD_CLOEXEC);
        /* A question that is longer than a packet does not wait for the answer of TCP to its first part. */
        (void) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

/* Connects, unless there is a connection that lives and is not busy. */
static int engine_connect(Engine *engine) {
        struct timeval timeout;
        zend_string *error = NULL;
        int code, r;

        if (!php_tslab_is_own(engine->pid)) {
                php_tslab_engine_leave_to_parent();
                engine_own(engine);
        }
        if (!engine->stream && php_stream_from_persistent_id(ZSTR_VAL(engine->id), &engine->stream) ==
                                       PHP_STREAM_PERSISTENT_SUCCESS)
                engine_set_up(engine);
        if (engine->stream) {
                if (!engine->link->is_busy &&
                    php_stream_set_option(engine->stream, PHP_STREAM_OPTION_CHECK_LIVENESS, 0, NULL) ==
                            PHP_STREAM_OPTION_RETURN_OK)
                        return 0;
                php_tslab_engine_close(engine);
        }
        if (!engine_left(engine, &timeout))
                return engine_fail(engine, "no answer", "");
        engine->stream = php_stream_xport_create(ZSTR_VAL(engine->address), ZSTR_LEN(engine->address), 0,
                                                 STREAM_XPORT_CLIENT | STREAM_XPORT_CONNECT,
                                                 ZSTR_VAL(engine->id), &timeout, NULL, &error, &code);
        if (!engine->stream) {
                r = engine_fail(engine, "",
                                error  ? ZSTR_VAL(error)
                                : code ? strerror(code)
                                       : "no connection");
                release(error);
                return r;
        }
        release(error);
        engine_set_up(engine);
        return engine_greet(engine);
}

/*
 * Sends commands at once, and reads their n answers, which the caller frees. Frees `commands`. -EHOSTDOWN: there is no
 * answer, and commands may have been carried out, or not; `error` says more.
 */
int php_tslab_engine_ask(Engine *engine, smart_str *commands, EngineReply *ret, size_t n) {
        int r;

        engine_begin(engine);
        r = engine_connect(engine);
        if (r < 0) {
                smart_str_free(commands);
                return r;
        }
        return engine_exchange(engine, commands, ret, n);
}
