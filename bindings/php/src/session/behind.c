/*
 * Sessions in an engine behind the pool, which several hosts share: Redis or Valkey. A change is made in the engine. A
 * read takes this host's copy from the near cache, which tslab-near(8) keeps coherent, and asks the engine where there
 * is none. docs/near-cache.md has the promises; Python's SessionStore(behind=...) has the same keys and values.
 *
 * The copy is dropped after a change, and before and after a logout: a worker that is killed in between leaves a copy
 * that tslab-near drops when the engine tells of the change. If the pool fails, the engine is asked for all.
 */
#include "behind.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <ext/standard/sha1.h>

#define AGAIN_MS 1000 /* an engine that gave no answer is not asked before */
#define HEARD_MS 50 /* for tslab-near to hear of a change of this process */
#define LOG_MS 60000
#define SMALL 4096
#define WAIT_MS 50 /* for the answer to another worker's question */

static const struct tslab_near_claim no_claim;

/* The version of a session is the digest of its value: two saves of one value are the same save. */
#define REPLACE                                                                                              \
        "local value = redis.call('GET', KEYS[1])\n"                                                         \
        "if (value and redis.sha1hex(value) or '') ~= ARGV[1] then return 0 end\n"                           \
        "redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])\n"                                               \
        "return 1"

/* Calls CALL with the near cache in `map->near`, as WITH_MAP does. */
#define WITH_NEAR(map, r, CALL)                                                                              \
        do {                                                                                                 \
                struct tslab_map *live_;                                                                     \
                WITH_MAP(map, live_, r, CALL);                                                               \
        } while (0)

Behind *php_tslab_behind_new(Engine *engine, TslabPool *pool, zend_string *prefix, zend_string *near,
                             bool is_stale) {
        Behind *behind = ecalloc(1, sizeof(*behind));

        behind->engine = engine;
        behind->near = php_tslab_near_get(pool, near, is_stale);
        behind->prefix = zend_string_copy(prefix);
        behind->is_stale = is_stale;
        if (!is_stale)
                engine->link->asks_again_ms = 0; /* each request has one try */
        return behind;
}

/* Returns NULL; NULL-safe. */
Behind *php_tslab_behind_free(Behind *behind) {
        if (!behind)
                return NULL;
        php_tslab_engine_free(behind->engine);
        zend_string_release(behind->prefix);
        efree(behind);
        return NULL;
}

/* Says what the engine's last error was, at most once in a minute for each connection. */
void php_tslab_behind_log(Behind *behind, const char *what) {
        uint64_t now = php_tslab_now_ms();
        char *text;

        if (now < behind->engine->link->next_log_ms)
                return;
        behind->engine->link->next_log_ms = now + LOG_MS;
        spprintf(&text, 0, "tslab: %s: %s", what, behind->engine->error);
        php_log_err(text);
        efree(text);
}

void php_tslab_behind_digest(zend_string *value, char ret[BEHIND_DIGEST_SIZE]) {
        unsigned char digest[20];
        PHP_SHA1_CTX context;

        PHP_SHA1Init(&context);
        PHP_SHA1Update(&context, (unsigned char *) ZSTR_VAL(value), ZSTR_LEN(value));
        PHP_SHA1Final(digest, &context);
        make_sha1_digest(ret, digest);
}

static zend_string *name_of(const Behind *behind, zend_string *id) {
        return zend_string_concat2(ZSTR_VAL(behind->prefix), ZSTR_LEN(behind->prefix), ZSTR_VAL(id),
                                   ZSTR_LEN(id));
}

/* The near cache */

/* 0: the copy. -ENODATA: known to be absent. Otherwise the engine is to be asked, with the claim. */
static int copy_look(Behind *behind, zend_string *name, uint32_t wait_ms, zend_string **ret,
                     struct tslab_near_claim *ret_claim) {
        TslabMap *near = behind->near;
        struct tslab_map_info info;
        zend_string *large = NULL;
        char small[SMALL];
        size_t size = sizeof(small);
        ssize_t r;

        *ret_claim = no_claim;
        WITH_NEAR(
                near, r,
                tslab_near_get(near->near, ZSTR_VAL(name), ZSTR_LEN(name), small, size, wait_ms, ret_claim));
        while (r == -EMSGSIZE && php_tslab_map_describe(near, name, &info) == 0) {
                size = MAX(size * 2, info.value_size);
                if (large)
                        zend_string_efree(large);
                large = zend_string_alloc(size, false);
                WITH_NEAR(near, r,
                          tslab_near_get(near->near, ZSTR_VAL(name), ZSTR_LEN(name), ZSTR_VAL(large), size,
                                         wait_ms, ret_claim));
        }
        if (r >= 0) {
                *ret = zend_string_init(large ? ZSTR_VAL(large) : small, (size_t) r, false);
                r = 0;
        } else if (r != -ENOENT && r != -ENODATA) {
                *ret_claim = no_claim;
                php_tslab_log_seldom(&near->next_log_ms, "the engine is asked instead of near cache",
                                     ZSTR_VAL(near->name), (int) r);
        }
        if (large)
                zend_string_efree(large);
        return (int) r;
}

/* -EREMCHG: the answer may be old. */
static int copy_fill(Behind *behind, zend_string *name, const struct tslab_near_claim *claim,
                     zend_string *value, uint64_t ttl_ms) {
        const char *server = behind->engine->link->server;
        TslabMap *near = behind->near;
        int r;

        WITH_NEAR(near, r,
                  tslab_near_fill(near->near, ZSTR_VAL(name), ZSTR_LEN(name), claim, *server ? server : NULL,
                                  value ? ZSTR_VAL(value) : NULL, value ? ZSTR_LEN(value) : 0, ttl_ms));
        return *server ? r : 0;
}

static void copy_give_up(Behind *behind, zend_string *name, const struct tslab_near_claim *claim) {
        TslabMap *near = behind->near;
        int r;

        if (claim->copy)
                WITH_NEAR(near, r, tslab_near_give_up(near->near, ZSTR_VAL(name), ZSTR_LEN(name), claim));
}

/* The copy, and the value that this host heard last. */
static void copy_forget(Behind *behind, zend_string *name) {
        TslabMap *near = behind->near;
        int r;

        WITH_NEAR(near, r, tslab_near_drop(near->near, ZSTR_VAL(name), ZSTR_LEN(name)));
        if (r < 0)
                php_tslab_log_seldom(&near->next_log_ms, "a copy could not be dropped: near cache",
                                     ZSTR_VAL(near->name), r);
}

/* The value that this host heard last, if nothing was heard against it. */
static int copy_last(Behind *behind, zend_string *name, zend_string **ret) {
        TslabMap *near = behind->near;
        size_t size;
        void *value;
        int r;

        WITH_NEAR(near, r, tslab_near_last(near->near, ZSTR_VAL(name), ZSTR_LEN(name), &value, &size));
        if (r < 0)
                return r;
        *ret = zend_string_init(value, size, false);
        free(value);
        return 0;
}

/* The engine */

/* Notes that the engine gave no answer, or refused. */
static int engine_refused(Behind *behind, EngineReply *replies, size_t n) {
        for (size_t i = 0; i < n; i++) {
                if (replies[i].type != '-')
                        continue;
                snprintf(behind->engine->error, sizeof(behind->engine->error), "%s",
                         ZSTR_VAL(replies[i].text));
                php_tslab_engine_free_replies(replies, n);
                return -EREMOTEIO;
        }
        return 0;
}

static int engine_question(Behind *behind, smart_str *commands, EngineReply *ret, size_t n) {
        int r = php_tslab_engine_ask(behind->engine, commands, ret, n);

        if (r == 0)
                return engine_refused(behind, ret, n);
        behind->engine->link->asks_again_ms = php_tslab_now_ms() + AGAIN_MS;
        return r;
}

static void add_command(smart_str *commands, const char *word, zend_string *name) {
        zend_string *first = zend_string_init(word, strlen(word), false);

        php_tslab_engine_add(commands, 2, (const zend_string *const[]){ first, name });
        zend_string_release(first);
}

static uint64_t copy_ttl_ms(zend_long left) {
        return left < 0 || (uint64_t) left > TSLAB_MAP_TTL_MAX ? TSLAB_MAP_TTL_NONE : (uint64_t) MAX(left, 1);
}

static int engine_get(Behind *behind, zend_string *name, const struct tslab_near_claim *claim,
                      zend_string **ret) {
        smart_str commands = { 0 };
        EngineReply replies[2];
        int r;

        add_command(&commands, "GET", name);
        add_command(&commands, "PTTL", name);
        r = engine_question(behind, &commands, replies, 2);
        if (r < 0) {
                copy_give_up(behind, name, claim);
                return r;
        }
        /* -2 is the lifetime of an absent key: it may have ended between the two questions. */
        if ((replies[0].text == NULL) == (replies[1].number == -2))
                r = copy_fill(behind, name, claim, replies[0].text, copy_ttl_ms(replies[1].number));
        else
                copy_give_up(behind, name, claim);
        if (r == -EREMCHG) {
                php_tslab_engine_free_replies(replies, 2);
                return r;
        }
        *ret = replies[0].text;
        return *ret ? 0 : -ENOENT;
}

/* Asks again, by a new connection, if another server has replaced the one that answered. */
static int engine_get_newest(Behind *behind, zend_string *name, const struct tslab_near_claim *claim,
                             zend_string **ret) {
        int r = engine_get(behind, name, claim, ret);

        if (r != -EREMCHG)
                return r;
        php_tslab_engine_close(behind->engine);
        r = engine_get(behind, name, &no_claim, ret);
        return r;
}

/* Changes */

static void copy_begin_change(Behind *behind, zend_string *name, struct tslab_near_claim *ret_claim) {
        zend_string *value;

        (void) php_tslab_map_remove(behind->near, name, 0);
        if (copy_look(behind, name, 0, &value, ret_claim) == 0)
                zend_string_release(value);
}

/* So that this host knows what it changed, should the engine go away. Another worker may have done that by now. */
static void copy_read_back(Behind *behind, zend_string *name) {
        struct tslab_near_claim claim;
        zend_string *value = NULL;
        int r = copy_look(behind, name, WAIT_MS, &value, &claim);

        if (r != 0 && r != -ENODATA)
                (void) engine_get_newest(behind, name, &claim, &value);
        if (value)
                zend_string_release(value);
}

/*
 * Makes a change of a key in the engine: *ret_number is what it answers, or 1. The copy goes on an error, too: the
 * change may have come to pass; but the last value stays then.
 *
 * An answer to a question from after tslab-near has heard of the change may be kept; that of an earlier one would be
 * dropped with the change.
 */
static int engine_change(Behind *behind, zend_string *name, smart_str *command, zend_long *ret_number) {
        struct tslab_near_claim claim = no_claim;
        EngineReply reply;
        bool is_heard;
        int r;

        if (behind->is_stale)
                copy_begin_change(behind, name, &claim);
        r = engine_question(behind, command, &reply, 1);
        if (r < 0) {
                (void) php_tslab_map_remove(behind->near, name, 0);
                return r;
        }
        *ret_number = reply.type == ':' ? reply.number : 1;
        php_tslab_engine_free_replies(&reply, 1);
        is_heard = *ret_number && claim.copy &&
                   php_tslab_map_wait_claim(behind->near, name, claim.copy, HEARD_MS / 1e3,
                                            TSLAB_SIGNALS_LATER) == 0;
        copy_forget(behind, name);
        if (is_heard)
                copy_read_back(behind, name);
        return 0;
}

/* The calls of the session handler */

/* Where copies are covered, the engine is there again. */
static bool is_away(Behind *behind, const struct tslab_near_claim *claim) {
        if (claim->cover || php_tslab_now_ms() >= behind->engine->link->asks_again_ms)
                return false;
        if (!*behind->engine->error) /* another request asked */
                snprintf(behind->engine->error, sizeof(behind->engine->error),
                         "%s: no answer within the last second", ZSTR_VAL(behind->engine->address));
        return true;
}

static int session_get(Behind *behind, zend_string *name, zend_string **ret) {
        struct tslab_near_claim claim;
        int r;

        r = copy_look(behind, name, WAIT_MS, ret, &claim);
        if (r == 0 || r == -ENODATA)
                return r == 0 ? 0 : -ENOENT;
        r = is_away(behind, &claim) ? -EHOSTDOWN : engine_get_newest(behind, name, &claim, ret);
        if (r == 0 || r == -ENOENT || !behind->is_stale)
                return r;
        php_tslab_behind_log(behind, "sessions are read as they were");
        return copy_last(behind, name, ret) == 0 ? 0 : r;
}

/* -ENOENT: it is absent. -EHOSTDOWN, -EREMOTEIO: the engine gave no answer, or refused; nobody knows. */
int php_tslab_behind_get(Behind *behind, zend_string *id, zend_string **ret) {
        zend_string *name = name_of(behind, id);
        int r = session_get(behind, name, ret);

        zend_string_release(name);
        return r;
}

/* `digest` is that of the value before, "" for none, or NULL for whatever it is. -EAGAIN: it is another one. */
int php_tslab_behind_put(Behind *behind, zend_string *id, zend_string *value, const char *digest,
                         uint64_t ttl_ms) {
        zend_string *name = name_of(behind, id), *ttl = zend_long_to_str(ttl_ms),
                    *word = zend_string_init(digest ? "EVAL" : "SET", digest ? 4 : 3, false),
                    *old = zend_string_init(digest ? digest : "PX", digest ? strlen(digest) : 2, false),
                    *script = zend_string_init(ZEND_STRL(REPLACE), false), *one = zend_long_to_str(1);
        smart_str command = { 0 };
        zend_long number;
        int r;

        if (digest)
                php_tslab_engine_add(
                        &command, 7,
                        (const zend_string *const[]){ word, script, one, name, old, value, ttl });
        else
                php_tslab_engine_add(&command, 5,
                                     (const zend_string *const[]){ word, name, value, old, ttl });
        r = engine_change(behind, name, &command, &number);
        zend_string_release(one);
        zend_string_release(script);
        zend_string_release(old);
        zend_string_release(word);
        zend_string_release(ttl);
        zend_string_release(name);
        return r == 0 && number == 0 ? -EAGAIN : r;
}

/* 0: the copy says that most of the lifetime is left. -ENOENT: the session is absent. -EAGAIN: neither is known. */
static int copy_is_fresh(Behind *behind, zend_string *name, uint64_t ttl_ms) {
        struct tslab_near_claim claim;
        struct tslab_map_info info;
        zend_string *value;
        int r;

        r = copy_look(behind, name, 0, &value, &claim);
        copy_give_up(behind, name, &claim);
        if (r == 0)
                zend_string_release(value);
        if (r < 0)
                return r == -ENODATA ? -ENOENT : -EAGAIN;
        r = php_tslab_map_describe(behind->near, name, &info);
        return r == 0 && info.ttl_left_ms > ttl_ms / 8 * 7 ? 0 : -EAGAIN;
}

/* Begins a lifetime anew; the engine is asked only once an eighth of it is over. */
int php_tslab_behind_touch(Behind *behind, zend_string *id, uint64_t ttl_ms) {
        zend_string *name = name_of(behind, id), *word, *ttl;
        smart_str command = { 0 };
        zend_long number = 0;
        int r;

        r = copy_is_fresh(behind, name, ttl_ms);
        if (r == -EAGAIN && is_away(behind, &no_claim)) {
                r = -EHOSTDOWN;
        } else if (r == -EAGAIN) {
                word = zend_string_init(ZEND_STRL("PEXPIRE"), false);
                ttl = zend_long_to_str(ttl_ms);
                php_tslab_engine_add(&command, 3, (const zend_string *const[]){ word, name, ttl });
                zend_string_release(ttl);
                zend_string_release(word);
                r = engine_change(behind, name, &command, &number);
                if (r == 0 && number == 0)
                        r = -ENOENT;
        }
        zend_string_release(name);
        return r;
}

/* Ends a session: where the engine gives no answer, at least on this host. */
int php_tslab_behind_remove(Behind *behind, zend_string *id) {
        zend_string *name = name_of(behind, id);
        smart_str command = { 0 };
        zend_long number;
        int r;

        copy_forget(behind, name);
        add_command(&command, "DEL", name);
        r = engine_change(behind, name, &command, &number);
        copy_forget(behind, name);
        zend_string_release(name);
        return r;
}
