/*
 * session.save_handler = tslab. The value of a session is what session.serialize_handler made, as it is.
 *
 *      session.save_path = "pool=web;map=sessions;lock=claim;wait=30"
 *      session.save_path = "pool=web;behind=redis://web:word@db:6379;while_away=fail;timeout=0.5"
 *
 * lock=claim: one request at a time has a session. The lock is a claim, so it is free as soon as its process is killed;
 * others wait for `wait` seconds at most. lock=version: requests run side by side, and the second save is refused. In
 * both, a save is refused if another request has changed the session since it was read, as after a lock was lost.
 * lock=none: the last save counts.
 *
 * Sessions end by lifetimes, so there is nothing for gc to do. If the pool fails, a request has an empty session, keeps
 * its id, and saves nothing. With an engine behind the pool that is so if the engine fails; locks are of this host, and
 * a request that cannot take one as the pool fails goes on without.
 */
#include "behind.h"

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
        Behind *behind; /* NULL: the sessions are in the pool */
        char digest[BEHIND_DIGEST_SIZE]; /* in place of the version; "": it was absent */
        bool is_unread; /* the pool failed, so nothing may be saved */
        zend_string *lock_key;
        tslab_handle claim; /* 0: not locked */
        pid_t claimant; /* a child that is forked meanwhile does not end it */
        pid_t opener; /* nor does such a child save anything as it ends: its parent goes on with the session */
} Session;

/* Returns the part after "NAME=", or NULL. */
static const char *setting(const char *part, size_t size, const char *name, size_t *ret_size) {
        size_t n = strlen(name);

        if (size <= n || memcmp(part, name, n) != 0 || part[n] != '=')
                return NULL;
        *ret_size = size - n - 1;
        return part + n + 1;
}

static int read_choice(const char *text, size_t size, const char *const *names, int n, int *ret) {
        for (int i = 0; i < n; i++) {
                if (size == strlen(names[i]) && memcmp(text, names[i], size) == 0) {
                        *ret = i;
                        return 0;
                }
        }
        return -EINVAL;
}

static int read_seconds(const char *text, size_t size, double *ret) {
        const char *end;

        *ret = zend_strtod(text, &end); /* in no locale */
        return end == text + size && size > 0 && *ret >= 0 && *ret < 1e9 ? 0 : -EINVAL;
}

enum { PATH_POOL, PATH_MAP, PATH_BEHIND, PATH_PREFIX, PATH_NEAR, N_PATH };

/* session.save_path */
typedef struct Path {
        zend_string *texts[N_PATH];
        int lock, while_away;
        double wait, timeout;
} Path;

static int read_setting(Path *path, const char *part, size_t size) {
        static const char *const texts[] = { "pool", "map", "behind", "prefix", "near" };
        static const char *const locks[] = { "claim", "version", "none" };
        static const char *const while_away[] = { "fail", "stale" };
        const char *value;
        size_t n;

        for (int i = 0; i < N_PATH; i++) {
                value = setting(part, size, texts[i], &n);
                if (value) {
                        zend_string_release(path->texts[i]);
                        path->texts[i] = zend_string_init(value, n, false);
                        return 0;
                }
        }
        if ((value = setting(part, size, "lock", &n)))
                return read_choice(value, n, locks, 3, &path->lock);
        if ((value = setting(part, size, "while_away", &n)))
                return read_choice(value, n, while_away, 2, &path->while_away);
        if ((value = setting(part, size, "wait", &n)))
                return read_seconds(value, n, &path->wait);
        if ((value = setting(part, size, "timeout", &n)))
                return read_seconds(value, n, &path->timeout) < 0 || path->timeout == 0 ? -EINVAL : 0;
        return size > 0 ? -EINVAL : 0;
}

static int session_open(Session *session, const Path *path) {
        const struct tslab_map_options options = { .size = sizeof(options) };
        TslabPool *pool = php_tslab_pool_get(path->texts[PATH_POOL]);
        Engine *engine;

        session->map = php_tslab_map_get(pool, path->texts[PATH_MAP], &options);
        session->lock = path->lock;
        session->wait = path->wait;
        session->opener = getpid();
        if (ZSTR_LEN(path->texts[PATH_BEHIND]) == 0)
                return 0;
        engine = php_tslab_engine_new(ZSTR_VAL(path->texts[PATH_BEHIND]), path->timeout);
        if (!engine)
                return -EINVAL;
        session->behind = php_tslab_behind_new(engine, pool, path->texts[PATH_PREFIX], path->texts[PATH_NEAR],
                                               path->while_away);
        return 0;
}

static int read_path(Session *session, const char *text) {
        const char *const fallbacks[N_PATH] = { TSLAB_G(pool), "sessions", "", "session:", "near" };
        Path path = { .wait = 30, .timeout = 0.5 };
        int r = 0;

        for (int i = 0; i < N_PATH; i++)
                path.texts[i] = zend_string_init(fallbacks[i], strlen(fallbacks[i]), false);
        while (*text && r == 0) {
                size_t size = strcspn(text, ";");

                r = read_setting(&path, text, size);
                text += size + (text[size] == ';');
        }
        if (r == 0)
                r = session_open(session, &path);
        for (int i = 0; i < N_PATH; i++)
                zend_string_release(path.texts[i]);
        return r;
}

static void session_unlock(Session *session) {
        if (session->claim && php_tslab_is_own(session->claimant))
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
        char text[128];

        if (session->behind && (r == -EHOSTDOWN || r == -EREMOTEIO)) {
                php_tslab_behind_log(session->behind, what);
                return;
        }
        snprintf(text, sizeof(text), "%s: map", what);
        php_tslab_log_seldom(&session->map->next_log_ms, text, ZSTR_VAL(session->map->name), r);
}

PS_CLOSE_FUNC(tslab) {
        Session *session = PS_GET_MOD_DATA();

        if (!session)
                return SUCCESS;
        session_forget(session);
        session->behind = php_tslab_behind_free(session->behind);
        efree(session);
        PS_SET_MOD_DATA(NULL);
        return SUCCESS;
}

PS_OPEN_FUNC(tslab) {
        Session *session;

        (void) ps_close_tslab(mod_data); /* a reset opens it again */
        session = ecalloc(1, sizeof(*session));
        if (read_path(session, save_path) < 0) {
                php_error_docref(
                        NULL, E_WARNING,
                        "session.save_path must be like \"pool=web;map=sessions;lock=claim;wait=30\"; lock is "
                        "claim, version or none, wait a number of seconds; with an engine, also "
                        "\"behind=redis://USER:PASSWORD@HOST:PORT;prefix=session:;near=near;while_away=fail;"
                        "timeout=0.5\", where while_away is fail or stale");
                efree(session);
                PS_SET_MOD_DATA(NULL);
                return FAILURE;
        }
        PS_SET_MOD_DATA(session);
        return SUCCESS;
}

static int session_lock(Session *session, zend_string *id) {
        session->lock_key = zend_string_concat2(ZEND_STRL("lock:"), ZSTR_VAL(id), ZSTR_LEN(id));
        session->claimant = getpid();
        /* The handler of a signal may end the session, so it runs after the wait. */
        return php_tslab_lock_acquire(session->map, session->lock_key, session->wait, 0, TSLAB_SIGNALS_LATER,
                                      &session->claim);
}

static int session_get(Session *session, zend_string *id, zend_string **ret) {
        struct tslab_map_info info = { .size = sizeof(info) };
        int r;

        if (session->behind) {
                r = php_tslab_behind_get(session->behind, id, ret);
                if (r == 0)
                        php_tslab_behind_digest(*ret, session->digest);
                return r;
        }
        r = php_tslab_map_get_value(session->map, id, ret, &info);
        if (r == 0)
                session->version = info.version;
        return r;
}

PS_READ_FUNC(tslab) {
        Session *session = PS_GET_MOD_DATA();
        int r = 0;

        session_forget(session);
        session->id = zend_string_copy(key);
        session->version = 0;
        *session->digest = 0;
        session->is_unread = false;
        if (session->lock == LOCK_CLAIM)
                r = session_lock(session, key);
        if (r == -ETIMEDOUT) {
                php_error_docref(NULL, E_WARNING, "another request has had the session for %g seconds",
                                 session->wait);
                return FAILURE;
        }
        if (r < 0 && session->behind) {
                session_log(session, "a session is not locked", r);
                r = 0;
        }
        if (r == 0)
                r = session_get(session, key, val);
        if (r == 0)
                return SUCCESS;
        if (r != -ENOENT) {
                session->is_unread = true;
                session_log(session, "a session could not be read, and will not be saved", r);
        }
        *val = ZSTR_EMPTY_ALLOC();
        return SUCCESS;
}

static bool is_read(const Session *session, zend_string *key) {
        return session->id && zend_string_equals(session->id, key);
}

static uint64_t lifetime_ms(zend_long seconds) {
        uint64_t ms;

        return php_tslab_ttl_ms((double) seconds, &ms) == 0 ? ms : 1;
}

/* Saves a value, and notes its version for a second save of this request. */
static int session_put(Session *session, zend_string *id, zend_string *value, uint64_t ttl_ms) {
        bool may_check = session->lock != LOCK_NONE && is_read(session, id);
        struct tslab_map_info info;
        int r;

        if (session->behind) {
                r = php_tslab_behind_put(session->behind, id, value, may_check ? session->digest : NULL,
                                         ttl_ms);
                if (r == 0 && may_check)
                        php_tslab_behind_digest(value, session->digest);
                return r;
        }
        r = php_tslab_map_put_value(session->map, id, ZSTR_VAL(value), ZSTR_LEN(value),
                                    may_check ? TSLAB_MAP_REPLACE : TSLAB_MAP_PUT,
                                    may_check ? session->version : 0, ttl_ms);
        if (r == 0 && may_check)
                session->version = php_tslab_map_describe(session->map, id, &info) == 0 ? info.version : 0;
        return r;
}

/* Where no code of the program runs. A child that asks for it does save. */
static bool is_end_of_child(const Session *session) {
        return !php_tslab_is_own(session->opener) && !EG(current_execute_data);
}

PS_WRITE_FUNC(tslab) {
        Session *session = PS_GET_MOD_DATA();
        int r;

        if (session->is_unread || is_end_of_child(session))
                return SUCCESS; /* told when it was read */
        r = session_put(session, key, val, lifetime_ms(maxlifetime));
        if (r == -EAGAIN) {
                php_error_docref(
                        NULL, E_WARNING,
                        "another request has changed or ended the session since this one read it; its changes "
                        "are not saved");
                return FAILURE;
        }
        if (r < 0) {
                session_log(session, "a session could not be saved", r);
                return FAILURE;
        }
        return SUCCESS;
}

PS_UPDATE_TIMESTAMP_FUNC(tslab) {
        Session *session = PS_GET_MOD_DATA();
        int r;

        if (session->is_unread || is_end_of_child(session))
                return SUCCESS;
        r = session->behind ? php_tslab_behind_touch(session->behind, key, lifetime_ms(maxlifetime))
                            : php_tslab_map_prolong(session->map, key, lifetime_ms(maxlifetime));
        if (r == -ENOENT && !(is_read(session, key) && (session->version || *session->digest)))
                return ps_write_tslab(mod_data, key, val, maxlifetime); /* a new one, without contents */
        if (r < 0 && r != -ENOENT) /* it ended meanwhile, by a logout perhaps: it stays ended */
                session_log(session, "the lifetime of a session could not be prolonged", r);
        return SUCCESS;
}

PS_DESTROY_FUNC(tslab) {
        Session *session = PS_GET_MOD_DATA();
        int r;

        r = session->behind ? php_tslab_behind_remove(session->behind, key)
                            : php_tslab_map_remove(session->map, key, 0);
        if (is_read(session, key)) {
                session->version = 0;
                *session->digest = 0;
        }
        if (r < 0 && r != -ENOENT) {
                session_log(session, "a session could not be ended", r);
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
        zend_string *value;
        int r;

        if (!session->behind)
                return php_tslab_map_describe(session->map, id, &info);
        r = php_tslab_behind_get(session->behind, id, &value);
        if (r == 0)
                zend_string_release(value);
        return r;
}

PS_CREATE_SID_FUNC(tslab) {
        Session *session = PS_GET_MOD_DATA();
        zend_string *id;

        /* With an engine, a new id is looked for when it is read: one by chance alone is worth no question. */
        for (int i = 0;; i++) {
                id = php_session_create_id(mod_data);
                if (!id || !session || session->behind || i == 3 || session_find(session, id) != 0)
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
