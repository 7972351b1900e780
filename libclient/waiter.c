/*
 * Waiters: waits for claims of which a file descriptor tells the end
 *
 * Purpose: an event loop waits for any number of claims, and a thread of the library looks after them.
 *
 * Waits whose keys share a futex word stand in one group. A change of a claim marks that word, then wakes the arena's
 * word for threads that wait for many (shm/map/state/wait.c, invariant 3). So the thread sleeps on one word, and after
 * it woke looks at the waits of those groups alone whose words changed.
 *
 * Invariants
 *   1. A wait is in its group or, once it is over, in the list of those that are over; the descriptor is readable while
 *      that list has any.
 *   2. A look at the claims of a group comes after shm_wait_begin() of its word. The value that this returned is kept:
 *      as long as the word has it, nothing has ended a claim of the group since.
 *   3. All waits are looked at now and then, for time limits, and for claims that end without a wake: see
 *      libclient/map-claim.c, invariant 2. The thread spends at most a fiftieth of its time on that.
 *   4. The thread, like a caller, is inside the pool for each look only, so that tslab_close() need not wait for it.
 *
 * Who may do what: any thread adds, cancels and asks, under the lock; so does the waiter's own thread.
 *
 * Crash: nothing is in the arena but the marks of words, which cost a system call at most, and a count of waits for
 *   people, which goes with the entry of the client.
 */
#include <tslab_map.h>

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "libclient/map-claim.h"
#include "libclient/pool/registry.h"
#include "proto/deadline.h"
#include "shm/arena/client.h"
#include "shm/map/state/wait.h"

#define LOOK_SHARE 50 /* one in so many parts of the time goes to looks at all waits */
#define STACK_SIZE (128L << 10)

typedef struct Group Group;

typedef struct Wait {
        struct Wait *next,
                **link; /* in its group or in the list of waits that are over; free waits by `next` */
        Group *group; /* NULL: it is over, or free */
        struct tslab_map *map; /* NULL: it is free */
        uint8_t *key;
        ShmMapKey k;
        tslab_handle version;
        uint64_t deadline;
        uint32_t index, generation; /* its number; the generation rises with each use */
        uint32_t noted; /* client + 1 with the claim, as the client table shows it to people; 0: not noted */
        int result;
} Wait;

struct Group {
        Group *next;
        uint32_t *word; /* NULL: of maps without a name */
        uint32_t value;
        bool is_changed; /* the word had another value than the one that was kept */
        Wait *waits;
};

struct tslab_waiter {
        struct tslab *pool;
        uint64_t process; /* PoolLocal.waiters of the process that opened it */
        int fd;
        pthread_mutex_t lock;
        pthread_cond_t changed; /* there are waits, or the waiter is being closed */
        pthread_t thread;
        bool has_thread, is_closing;
        Group *groups;
        Wait *over, **over_end, *unused;
        Wait **waits; /* by index */
        uint32_t n_waits, n_alive; /* alive: in a group */
};

static bool is_own_waiter(const struct tslab_waiter *waiter) {
        /* ORDER: rlx; zeros in a forked child. */
        return shm_load_rlx(&waiter->pool->local->waiters) == waiter->process;
}

static void list_remove(struct tslab_waiter *waiter, Wait *wait) {
        *wait->link = wait->next;
        if (wait->next)
                wait->next->link = wait->link;
        else if (waiter->over_end == &wait->next)
                waiter->over_end = wait->link;
}

static void group_add(Group *group, Wait *wait) {
        wait->group = group;
        wait->next = group->waits;
        wait->link = &group->waits;
        if (wait->next)
                wait->next->link = &wait->next;
        group->waits = wait;
}

/* `waits_for` is 0 as the wait ends. A reader, and a process that has changed nothing yet, has no place to say it. */
static void note_task(const struct tslab_waiter *waiter, Wait *wait, uint32_t waits_for) {
        struct tslab *pool = waiter->pool;
        int more = (waits_for != 0) - (wait->noted != 0);

        if (wait->noted == waits_for || pool->is_reader || !pool->local->joined || pool_begin(pool) < 0)
                return;
        if (shm_client_note_wait(&pool->arena, pool->local->client, more, waits_for))
                wait->noted = waits_for;
        pool_end(pool);
}

/* The descriptor counts 1 while waits are over. */
static void tell_descriptor(struct tslab_waiter *waiter) {
        uint64_t one = 1;

        if (!waiter->over)
                (void) !write(waiter->fd, &one, sizeof(one));
}

static void end_wait(struct tslab_waiter *waiter, Wait *wait, int result) {
        list_remove(waiter, wait);
        note_task(waiter, wait, 0);
        tell_descriptor(waiter);
        wait->group = NULL;
        wait->result = result;
        wait->next = NULL;
        wait->link = waiter->over_end;
        *waiter->over_end = wait;
        waiter->over_end = &wait->next;
        waiter->n_alive--;
}

/* The word's group; NULL: no memory. Groups stay: there are few. */
static Group *find_group(struct tslab_waiter *waiter, uint32_t *word) {
        Group *group = waiter->groups;

        while (group && group->word != word)
                group = group->next;
        if (group)
                return group;
        group = calloc(1, sizeof(*group));
        if (!group)
                return NULL;
        group->word = word;
        group->next = waiter->groups;
        waiter->groups = group;
        return group;
}

/* Sets a word's mark, unless the pool is closed: then its words may be no memory. */
static int begin_word(struct tslab *pool, uint32_t *word, uint32_t *ret) {
        int r = pool_begin(pool);

        if (r)
                return r;
        /* ORDER: acq; before the looks. */
        *ret = pool->is_reader ? shm_load_acq(word) : shm_wait_begin(word);
        pool_end(pool);
        return 0;
}

/* Keeps the value of the group's word. With another one than before, the waits of the group are to be looked at. */
static void begin_group(struct tslab_waiter *waiter, Group *group) {
        uint32_t value = group->value;

        if (group->word && begin_word(waiter->pool, group->word, &value) == 0 && value != group->value)
                group->is_changed = true;
        group->value = value;
}

/* The result of a wait; 1: it goes on. */
static int look_at_wait(const struct tslab_waiter *waiter, Wait *wait) {
        ShmClaim claim;
        int r;

        r = map_look_at_claim(wait->map, &wait->k, wait->version, NULL, NULL, &claim);
        if (r == 1 && proto_deadline_left(wait->deadline) == 0)
                return -ETIMEDOUT;
        if (r == 1)
                note_task(waiter, wait, claim.client + 1);
        return r;
}

static void look_at_group(struct tslab_waiter *waiter, Group *group) {
        Wait *next;
        int r;

        group->is_changed = false;
        for (Wait *wait = group->waits; wait; wait = next) {
                next = wait->next;
                r = look_at_wait(waiter, wait);
                if (r <= 0)
                        end_wait(waiter, wait, r);
        }
}

/* Between two groups other threads get the lock. */
static void look_at_waits(struct tslab_waiter *waiter, bool all) {
        for (Group *group = waiter->groups; group; group = group->next)
                if (group->waits)
                        begin_group(waiter, group);
        for (Group *group = waiter->groups; group && !waiter->is_closing; group = group->next) {
                if (!group->waits || !(all || group->is_changed || !group->word))
                        continue;
                look_at_group(waiter, group);
                pthread_mutex_unlock(&waiter->lock);
                pthread_mutex_lock(&waiter->lock);
        }
}

static uint64_t sleep_usec(const struct tslab *pool) {
        return pool->is_reader ? HOST_SLEEP_ALONE_USEC : pool->host->sleep_usec;
}

/* Looks, then sleeps. Returns when all waits are to be looked at next. */
static uint64_t run_once(struct tslab_waiter *waiter, uint64_t all_usec) {
        uint32_t *word = shm_wait_polled(&waiter->pool->arena), value = 0;
        uint64_t begun = proto_now_usec(), now, usec;
        bool all = begun >= all_usec;
        int r;

        r = begin_word(waiter->pool, word, &value);
        look_at_waits(waiter, all || r < 0);
        now = proto_now_usec();
        if (all) {
                usec = (now - begun) * LOOK_SHARE;
                all_usec = now + (usec > sleep_usec(waiter->pool) ? usec : sleep_usec(waiter->pool));
        }
        if (r == 0 && waiter->n_alive > 0 && !waiter->is_closing) {
                usec = all_usec > now ? all_usec - now : 1;
                usec = usec < HOST_SLEEP_USEC ? usec : HOST_SLEEP_USEC;
                pthread_mutex_unlock(&waiter->lock);
                (void) shm_wait_sleep(word, value, usec * 1000);
                pthread_mutex_lock(&waiter->lock);
        }
        return all_usec;
}

static void *serve_waits(void *userdata) {
        struct tslab_waiter *waiter = userdata;
        uint64_t all_usec = 0;

        (void) pthread_setname_np(pthread_self(), "tslab-waiter");
        pthread_mutex_lock(&waiter->lock);
        while (!waiter->is_closing)
                if (waiter->n_alive == 0)
                        pthread_cond_wait(&waiter->changed, &waiter->lock);
                else
                        all_usec = run_once(waiter, all_usec);
        pthread_mutex_unlock(&waiter->lock);
        return NULL;
}

static int start_thread(struct tslab_waiter *waiter) {
        sigset_t all, before;
        pthread_attr_t attr;
        int r;

        if (waiter->has_thread)
                return 0;
        (void) sigfillset(&all);
        (void) pthread_attr_init(&attr);
        (void) pthread_attr_setstacksize(
                &attr, (size_t) (STACK_SIZE > PTHREAD_STACK_MIN ? STACK_SIZE : PTHREAD_STACK_MIN));
        (void) pthread_sigmask(SIG_SETMASK, &all, &before);
        r = pthread_create(&waiter->thread, &attr, serve_waits, waiter);
        (void) pthread_sigmask(SIG_SETMASK, &before, NULL);
        (void) pthread_attr_destroy(&attr);
        waiter->has_thread = r == 0;
        return r ? -EAGAIN : 0;
}

/* The number of this process, made with its first waiter. */
static uint64_t number_process(struct tslab *pool) {
        uint64_t none = 0;

        /* ORDER: rlx; a number, which says nothing of other memory. */
        if (shm_load_rlx(&pool->local->waiters) == 0)
                /* ORDER: acqrel; see above. */
                (void) shm_cas_acqrel(&pool->local->waiters, &none, registry_token());
        return shm_load_rlx(&pool->local->waiters); /* ORDER: rlx; see above. */
}

_public_ int tslab_waiter_open(struct tslab_waiter **ret, struct tslab *pool) {
        struct tslab_waiter *waiter;

        if (pool_is_closed(pool))
                return -EBADF;
        waiter = calloc(1, sizeof(*waiter));
        if (!waiter)
                return -ENOMEM;
        waiter->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (waiter->fd < 0) {
                free(waiter);
                return -errno;
        }
        waiter->pool = pool;
        waiter->process = number_process(pool);
        waiter->over_end = &waiter->over;
        (void) pthread_mutex_init(&waiter->lock, NULL);
        (void) pthread_cond_init(&waiter->changed, NULL);
        *ret = waiter;
        return 0;
}

static void stop_thread(struct tslab_waiter *waiter) {
        pthread_mutex_lock(&waiter->lock);
        waiter->is_closing = true;
        pthread_cond_signal(&waiter->changed);
        pthread_mutex_unlock(&waiter->lock);
        if (pool_begin(waiter->pool) == 0) {
                shm_wait_poke(shm_wait_polled(&waiter->pool->arena));
                pool_end(waiter->pool);
        }
        (void) pthread_join(waiter->thread, NULL);
}

_public_ struct tslab_waiter *tslab_waiter_close(struct tslab_waiter *waiter) {
        Group *next;

        if (!waiter)
                return NULL;
        /* A forked child has no such thread, and the lock may be one that its parent's thread held. */
        if (is_own_waiter(waiter) && waiter->has_thread)
                stop_thread(waiter);
        (void) close(waiter->fd);
        for (Group *group = waiter->groups; group; group = next) {
                next = group->next;
                free(group);
        }
        for (uint32_t i = 0; i < waiter->n_waits; i++) {
                if (is_own_waiter(waiter))
                        note_task(waiter, waiter->waits[i], 0);
                free(waiter->waits[i]->key);
                free(waiter->waits[i]);
        }
        free(waiter->waits);
        free(waiter);
        return NULL;
}

_public_ int tslab_waiter_fd(struct tslab_waiter *waiter) {
        return waiter->fd;
}

static Wait *new_wait(struct tslab_waiter *waiter) {
        Wait *wait = waiter->unused, **waits = waiter->waits;
        uint32_t n = waiter->n_waits;

        if (wait) {
                waiter->unused = wait->next;
                return wait;
        }
        if ((n & (n - 1)) == 0) { /* powers of 2 are full */
                waits = realloc(waits, (n ? 2 * (size_t) n : 1) * sizeof(Wait *));
                if (!waits)
                        return NULL;
                waiter->waits = waits;
        }
        wait = calloc(1, sizeof(*wait));
        if (!wait)
                return NULL;
        wait->index = waiter->n_waits++;
        waits[wait->index] = wait;
        return wait;
}

static void free_wait(struct tslab_waiter *waiter, Wait *wait) {
        free(wait->key);
        wait->key = NULL;
        wait->map = NULL;
        wait->noted = 0;
        wait->generation++;
        wait->next = waiter->unused;
        waiter->unused = wait;
}

static uint64_t number_of(const Wait *wait) {
        return (uint64_t) wait->generation << 32 | wait->index;
}

/* A key that is larger than any of the map has no claim. */
static int wait_init(Wait *wait, struct tslab_map *map, const void *key, size_t key_size) {
        wait->map = map;
        if (!map_key_init(&wait->k, map, key, key_size))
                return 0;
        wait->key = malloc(key_size ?: 1);
        if (!wait->key)
                return -ENOMEM;
        memcpy(wait->key, wait->k.bytes, key_size);
        wait->k.bytes = wait->key;
        return 1;
}

/* Under the lock. */
static int add_wait(struct tslab_waiter *waiter, Wait *wait, const void *key, size_t key_size) {
        Group *group;
        uint32_t *word;
        int r;

        r = wait_init(wait, wait->map, key, key_size);
        if (r < 0)
                return r;
        word = r == 1 ? shm_wait_word(&wait->map->trie, wait->k.hash) : NULL;
        group = find_group(waiter, word);
        if (!group)
                return -ENOMEM;
        group_add(group, wait);
        waiter->n_alive++;
        begin_group(waiter, group);
        r = r == 1 ? look_at_wait(waiter, wait) : 0;
        if (r <= 0)
                end_wait(waiter, wait, r);
        else if (waiter->n_alive == 1)
                pthread_cond_signal(&waiter->changed);
        return 0;
}

_public_ int tslab_waiter_add(struct tslab_waiter *waiter, struct tslab_map *map, const void *key,
                              size_t key_size, tslab_handle version, uint32_t timeout_ms,
                              uint64_t *ret_wait) {
        Wait *wait;
        int r;

        if (!is_own_waiter(waiter))
                return -EBADF;
        pthread_mutex_lock(&waiter->lock);
        r = start_thread(waiter);
        wait = r == 0 ? new_wait(waiter) : NULL;
        if (wait) {
                wait->map = map;
                wait->version = version;
                wait->deadline = proto_deadline((uint64_t) timeout_ms * 1000);
                r = add_wait(waiter, wait, key, key_size);
                if (r == 0)
                        *ret_wait = number_of(wait);
                else
                        free_wait(waiter, wait);
        }
        pthread_mutex_unlock(&waiter->lock);
        return r == 0 && !wait ? -ENOMEM : r;
}

_public_ int tslab_waiter_cancel(struct tslab_waiter *waiter, uint64_t number) {
        uint32_t index = (uint32_t) number;
        Wait *wait = NULL;
        uint64_t one;

        if (!is_own_waiter(waiter))
                return -EBADF;
        pthread_mutex_lock(&waiter->lock);
        if (index < waiter->n_waits && waiter->waits[index]->map && number_of(waiter->waits[index]) == number)
                wait = waiter->waits[index];
        if (wait) {
                list_remove(waiter, wait);
                note_task(waiter, wait, 0);
                waiter->n_alive -= wait->group != NULL;
                if (!wait->group && !waiter->over)
                        (void) !read(waiter->fd, &one, sizeof(one));
                wait->group = NULL;
                free_wait(waiter, wait);
        }
        pthread_mutex_unlock(&waiter->lock);
        return wait ? 0 : -ENOENT;
}

_public_ int tslab_waiter_next(struct tslab_waiter *waiter, uint64_t *ret_wait, int *ret_result) {
        uint64_t one;
        Wait *wait;

        if (!is_own_waiter(waiter))
                return -EBADF;
        pthread_mutex_lock(&waiter->lock);
        wait = waiter->over;
        if (wait) {
                list_remove(waiter, wait);
                *ret_wait = number_of(wait);
                *ret_result = wait->result;
                free_wait(waiter, wait);
                if (!waiter->over)
                        (void) !read(waiter->fd, &one, sizeof(one));
        }
        pthread_mutex_unlock(&waiter->lock);
        return wait != NULL;
}
