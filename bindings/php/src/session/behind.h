#pragma once
/*
 * Sessions in an engine behind the pool, for a request.
 */
#include "engine.h"

#include <tslab_near.h>

enum { BEHIND_DIGEST_SIZE = 41 };

typedef struct Behind {
        Engine *engine;
        TslabMap *near; /* the copies */
        zend_string *prefix; /* the engine's keys begin with it */
        bool is_stale; /* while the engine is away, values are read as this host heard them last */
} Behind;

Behind *php_tslab_behind_new(Engine *engine, TslabPool *pool, zend_string *prefix, zend_string *near,
                             bool is_stale);
Behind *php_tslab_behind_free(Behind *behind);
int php_tslab_behind_get(Behind *behind, zend_string *id, zend_string **ret);
int php_tslab_behind_put(Behind *behind, zend_string *id, zend_string *value, const char *digest,
                         uint64_t ttl_ms);
int php_tslab_behind_touch(Behind *behind, zend_string *id, uint64_t ttl_ms);
int php_tslab_behind_remove(Behind *behind, zend_string *id);
void php_tslab_behind_digest(zend_string *value, char ret[BEHIND_DIGEST_SIZE]);
void php_tslab_behind_log(Behind *behind, const char *what);
