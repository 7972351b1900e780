/*
 * session.save_handler = tslab. The value of a session is what session.serialize_handler made, as it is.
 *
 *      session.save_path = "pool=web;map=sessions;lock=claim;wait=30"
 *
 * lock=claim: one request at a time has a session. The lock is a claim, so it is free as soon as its process is killed;
 * others wait for `wait` seconds at most. lock=version: requests run side by side, and the second save is refused. In
 * both, a save is refused if another request has changed the session since it was read, as after a lock was lost.
 * lock=none: the last save counts.
 *
 * Sessions end by lifetimes, so there is nothing for gc to do. If the pool fails, a request has an empty session, keeps
 * its id, and saves nothing.
 */
#include "php_tslab.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include <ext/session/php_session.h>

enum { LOCK_CLAIM, LOCK_VERSION, LOCK_NONE };

typedef struct Session {
        TslabMap *map;
        int lock;
        double wait;
        zend_string *id; /* the session that was read; NULL: none */
        tslab_handle version; /* its version then; 0: it was absent */
        bool is_unread; /* the pool failed, so nothing may be saved */
        zend_string *lock_key;
        tslab_handle claim; /* 0: not locked */
} Session;

/* Returns the part after "NAME=", or NULL. */
static const char *setting(const char *part, size_t size, const char *name, size_t *ret_size) {
        size_t n = strlen(name);

        if (size <= n || memcmp(part, name, n) != 0 || part[n] != '=')
                return NULL;
        *ret_size = size - n - 1;
        return part + n + 1;
}

static int read_lock(const char *text, size_t size, int *ret) {
        static const char *const names[] = { "claim", "version", "none" };

        for (int i = 0; i < 3; i++) {
                if (size == strlen(names[i]) && memcmp(text, names[i], size) == 0) {
                        *ret = i;
                        return 0;
                }
        }
        return -EINVAL;
}

static int read_setting(Session *session, const char *part, size_t size, zend_string **pool,
                        zend_string **map) {
        const char *value;
        char *end;
        size_t n;

        if ((value = setting(part, size, "pool", &n))) {
                zend_string_release(*pool);
                *pool = zend_string_init(value, n, false);
        } else if ((value = setting(part, size, "map", &n))) {
                zend_string_release(*map);
                *map = zend_string_init(value, n, false);
        } else if ((value = setting(part, size, "lock", &n))) {
                return read_lock(value, n, &session->lock);
        } else if ((value = setting(part, size, "wait", &n))) {
                session->wait = strtod(value, &end);
                return end == value + n && n > 0 && session->wait >= 0 ? 0 : -EINVAL;
        } else if (size > 0) {
                return -EINVAL;
        }
        return 0;
}

static int read_path(Session *session, const char *path) {
        const struct tslab_map_options options = { .size = sizeof(options) };
        zend_string *pool = zend_string_init(TSLAB_G(pool), strlen(TSLAB_G(pool)), false);
        zend_string *map = zend_string_init(ZEND_STRL("sessions"), false);
        int r = 0;

        while (*path && r == 0) {
                size_t size = strcspn(path, ";");

                r = read_setting(session, path, size, &pool, &map);
                path += size + (path[size] == ';');
        }
        if (r == 0)
                session->map = php_tslab_map_get(php_tslab_pool_get(pool), map, &options);
        zend_string_release(pool);
        zend_string_release(map);
        return r;
}

static void session_unlock(Session *session) {
        if (session->claim)
                (void) php_tslab_map_remove(session->map, session->lock_key, session->claim);
        session->claim = 0;
        if (session->lock_key)
                zend_string_release(session->lock_key);
        session->lock_key = NULL;
}

static void session_forget(Session *session) {
        session_unlock(session);
        if (session->id)
                zend_string_release(session->id);
        session->id = NULL;
}

static void session_log(Session *session, const char *what, int r) {
        php_tslab_log_seldom(&session->map->next_log_ms, what, ZSTR_VAL(session->map->name), r);
}

PS_OPEN_FUNC(tslab) {
        Session *session = ecalloc(1, sizeof(*session));

        session->wait = 30;
        if (read_path(session, save_path) < 0) {
                php_error_docref(
                        NULL, E_WARNING,
                        "session.save_path must be like \"pool=web;map=sessions;lock=claim;wait=30\"; lock is "
                        "claim, version or none, wait a number of seconds");
                efree(session);
                PS_SET_MOD_DATA(NULL);
                return FAILURE;
        }
        PS_SET_MOD_DATA(session);
        return SUCCESS;
}

PS_CLOSE_FUNC(tslab) {
        Session *session = PS_GET_MOD_DATA();

        if (!session)
                return SUCCESS;
        session_forget(session);
        efree(session);
        PS_SET_MOD_DATA(NULL);
        return SUCCESS;
}

static int session_lock(Session *session, zend_string *id) {
        session->lock_key = zend_string_concat2(ZEND_STRL("lock:"), ZSTR_VAL(id), ZSTR_LEN(id));
        return php_tslab_lock_acquire(session->map, session->lock_key, session->wait, 0, &session->claim);
}

PS_READ_FUNC(tslab) {
        struct tslab_map_info info = { .size = sizeof(info) };
        Session *session = PS_GET_MOD_DATA();
        int r = 0;

        session_forget(session);
        session->id = zend_string_copy(key);
        session->version = 0;
        session->is_unread = false;
        if (session->lock == LOCK_CLAIM)
                r = session_lock(session, key);
        if (r == -ETIMEDOUT) {
                php_error_docref(NULL, E_WARNING, "another request has had the session for %g seconds",
                                 session->wait);
                return FAILURE;
        }
        if (r == 0)
                r = php_tslab_map_get_value(session->map, key, val, &info);
        if (r == 0) {
                session->version = info.version;
                return SUCCESS;
        }
        if (r != -ENOENT) {
                session->is_unread = true;
                session_log(session, "a session could not be read, and will not be saved: map", r);
        }
        *val = ZSTR_EMPTY_ALLOC();
        return SUCCESS;
}

static bool is_read(const Session *session, zend_string *key) {
        return session->id && zend_string_equals(session->id, key);
}

static uint32_t lifetime_ms(zend_long seconds) {
        uint32_t ms;

        return php_tslab_ttl_ms((double) seconds, &ms) == 0 ? ms : 1;
}

PS_WRITE_FUNC(tslab) {
        Session *session = PS_GET_MOD_DATA();
        bool may_check = session->lock != LOCK_NONE && is_read(session, key);
        struct tslab_map_info info;
        int r;

        if (session->is_unread)
                return SUCCESS; /* told when it was read */
        r = php_tslab_map_put_value(session->map, key, ZSTR_VAL(val), ZSTR_LEN(val),
                                    may_check ? TSLAB_MAP_REPLACE : TSLAB_MAP_PUT,
                                    may_check ? session->version : 0, lifetime_ms(maxlifetime));
        if (r == -EAGAIN) {
                php_error_docref(
                        NULL, E_WARNING,
                        "another request has changed or ended the session since this one read it; its changes "
                        "are not saved");
                return FAILURE;
        }
        if (r < 0) {
                session_log(session, "a session could not be saved: map", r);
                return FAILURE;
        }
        if (may_check) /* for a second save of this request */
                session->version = php_tslab_map_describe(session->map, key, &info) == 0 ? info.version : 0;
        return SUCCESS;
}

PS_UPDATE_TIMESTAMP_FUNC(tslab) {
        Session *session = PS_GET_MOD_DATA();
        int r;

        if (session->is_unread)
                return SUCCESS;
        r = php_tslab_map_prolong(session->map, key, lifetime_ms(maxlifetime));
        if (r == -ENOENT && !(is_read(session, key) && session->version))
                return ps_write_tslab(mod_data, key, val, maxlifetime); /* a new one, without contents */
        if (r < 0 && r != -ENOENT) /* it ended meanwhile, by a logout perhaps: it stays ended */
                session_log(session, "the lifetime of a session could not be prolonged: map", r);
        return SUCCESS;
}

PS_DESTROY_FUNC(tslab) {
        Session *session = PS_GET_MOD_DATA();
        int r;

        r = php_tslab_map_remove(session->map, key, 0);
        if (is_read(session, key))
                session->version = 0;
        if (r < 0 && r != -ENOENT) {
                session_log(session, "a session could not be ended: map", r);
                return FAILURE;
        }
        return SUCCESS;
}

PS_GC_FUNC(tslab) {
        *nrdels = 0;
        return 0;
}

static int session_find(Session *session, zend_string *id) {
        struct tslab_map_info info;

        return php_tslab_map_describe(session->map, id, &info);
}

PS_CREATE_SID_FUNC(tslab) {
        Session *session = PS_GET_MOD_DATA();
        zend_string *id;

        for (int i = 0;; i++) {
                id = php_session_create_id(mod_data);
                if (!id || !session || i == 3 || session_find(session, id) != 0)
                        return id;
                zend_string_release(id);
        }
}

/* An id that cannot be looked for is taken, so that a pool that fails ends no session. */
PS_VALIDATE_SID_FUNC(tslab) {
        Session *session = PS_GET_MOD_DATA();

        return session_find(session, key) == -ENOENT ? FAILURE : SUCCESS;
}

static const ps_module ps_mod_tslab = { PS_MOD_UPDATE_TIMESTAMP(tslab) };

void php_tslab_session_init(void) {
        php_session_register_module(&ps_mod_tslab);
}
