#pragma once
/*
 * A server of Redis or Valkey, for a request.
 */
#include "php_tslab.h"

#include <Zend/zend_smart_str.h>

/* A connection, which stays open when a request ends, as this process knows it. */
typedef struct EngineLink {
        pid_t pid; /* the process whose connection it is; a forked child has a copy */
        int fd; /* -1: none */
        bool is_busy; /* a question was sent, and its answer was not read to the end */
        char server[41]; /* the run id of the server at its other end; "": not known */
        uint64_t asks_again_ms; /* the server gave no answer: it is not asked before */
        uint64_t next_log_ms;
} EngineLink;

typedef struct Engine {
        zend_string *address; /* as PHP's streams have it */
        zend_string *user, *password; /* NULL: none */
        zend_string *url;
        pid_t pid; /* the process that `id`, `link` and `stream` are of */
        zend_string *id; /* names the connection among those that stay open */
        zend_long database;
        double timeout; /* seconds for an answer, with all that has to be done for it */
        uint64_t end_ms; /* when these are over */
        php_stream *stream; /* NULL: not used in this request yet */
        EngineLink *link;
        char error[256]; /* the last one */
} Engine;

/* An answer: `text` is NULL but for strings, and for errors ('-'). */
typedef struct EngineReply {
        char type;
        zend_long number;
        zend_string *text;
} EngineReply;

Engine *php_tslab_engine_new(const char *url, double timeout);
Engine *php_tslab_engine_free(Engine *engine);
void php_tslab_engine_add(smart_str *commands, size_t n, const zend_string *const *parts);
int php_tslab_engine_ask(Engine *engine, smart_str *commands, EngineReply *ret, size_t n);
void php_tslab_engine_close(Engine *engine);
void php_tslab_engine_free_replies(EngineReply *replies, size_t n);
void php_tslab_engine_leave_to_parent(void);
