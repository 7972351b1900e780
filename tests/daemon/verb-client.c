/*
 * A program that uses libtslab, for tests of tslabctl's verbs: does the commands on stdin, and answers
 * each. The end of stdin ends it, without freeing.
 *
 *      session SIZE N  allocates N objects, each in a function of its own name
 *      report SIZE N   the same, in another
 *      free            all of them
 *      churn SIZE N    allocates and frees one, N times
 *      thread SIZE N   as session, in a thread that then ends
 *      fork SIZE N     as report, in a child that then ends; its objects are nobody's to free
 *      put SIZE N      N values under keys 0 to N - 1 of a map, in a function of its own name
 *      evict SIZE N    the same, of a map that evicts
 *      delete 0 N      deletes them
 *      damage KEY 1    writes over the word of an entry in two pieces that names the second
 *      mimic 0 N       gives the map N more roots, whose names differ in a control character
 *      count KEY N     adds N to a counter of the same map
 *      limit KEY N     takes a token from a bucket of N of the same map
 *      tagged SIZE 1   puts a value with a tag under the key SIZE of the same map
 *      claim KEY MSEC  claims a key of the same map for MSEC; waits so long for another's claim of it
 *      await KEY MSEC  waits so long for any claim of that key, also for the next one
 *      drop KEY 1      deletes that key, or gives its claim up
 *      task KEY N      N waits for such a claim by a waiter, for an hour; 0 closes the waiter
 *      get SIZE N      looks them up, values of at most SIZE bytes; those that are absent, too
 *      lease SIZE N    N objects in an epoch that it leases for them
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <tslab.h>
#include <tslab_map.h>
#include <unistd.h>

#define HANDLES_MAX 200000

typedef struct Order {
        struct tslab *pool;
        size_t size, n;
} Order;

static tslab_handle handles[HANDLES_MAX];
static size_t n_handles;

/* Named, and not inlined: stacks are told apart by them. */
__attribute__((noinline)) int open_session(struct tslab *pool, size_t size);
__attribute__((noinline)) int write_report(struct tslab *pool, size_t size);
__attribute__((noinline)) int put_value(struct tslab_map *map, size_t key, const Order *order);

__attribute__((noinline)) int open_session(struct tslab *pool, size_t size) {
        void *object;
        int r = n_handles < HANDLES_MAX ? 0 : -1;

        if (r == 0)
                r = tslab_alloc(pool, size, TSLAB_EPOCH_CURRENT, &handles[n_handles], &object);
        n_handles += r == 0;
        return r;
}

__attribute__((noinline)) int write_report(struct tslab *pool, size_t size) {
        int r = n_handles < HANDLES_MAX ? 0 : -1;

        if (r == 0)
                r = tslab_alloc_pending(pool, size, TSLAB_EPOCH_CURRENT, &handles[n_handles], NULL);
        if (r == 0)
                r = tslab_publish(pool, handles[n_handles]);
        n_handles += r == 0;
        return r;
}

static int open_and_close(struct tslab *pool, size_t size) {
        int r = open_session(pool, size);

        return r == 0 ? tslab_free(pool, handles[--n_handles]) : r;
}

static int repeat(const Order *order, int (*make)(struct tslab *pool, size_t size)) {
        int r = 0;

        for (size_t i = 0; i < order->n && r == 0; i++)
                r = make(order->pool, order->size);
        return r;
}

static void *thread_main(void *userdata) {
        return (void *) (intptr_t) repeat(userdata, open_session);
}

static int in_thread(Order *order) {
        pthread_t thread;
        void *result;

        if (pthread_create(&thread, NULL, thread_main, order) || pthread_join(thread, &result))
                return -1;
        return (int) (intptr_t) result;
}

static int in_child(const Order *order) {
        int status;
        pid_t pid = fork();

        if (pid == 0)
                _exit(repeat(order, write_report) != 0);
        return pid < 0 || waitpid(pid, &status, 0) != pid || status != 0 ? -1 : 0;
}

__attribute__((noinline)) int put_value(struct tslab_map *map, size_t key, const Order *order) {
        static const char value[20000000];

        return order->size > sizeof(value)
                       ? -1
                       : tslab_map_put(map, &key, sizeof(key), value, order->size, TSLAB_EPOCH_CURRENT);
}

static int get_value(struct tslab_map *map, size_t key, const Order *order) {
        char value[4096];
        ssize_t n = order->size > sizeof(value)
                            ? -1
                            : tslab_map_get(map, &key, sizeof(key), value, order->size, NULL);

        return n >= 0 || n == -ENOENT ? 0 : -1;
}

static int delete_value(struct tslab_map *map, size_t key, const Order *order) {
        return tslab_map_delete(map, &key, sizeof(key));
}

/* Behind the head of the entry, and its key: the slab of the other piece is none. */
static int damage_value(const Order *order) {
        tslab_handle version;
        struct tslab_map *map;
        char value[4096];
        void *entry;
        int r;

        r = tslab_map_open(&map, order->pool, "values", NULL);
        if (r)
                return r;
        r = (int) tslab_map_get(map, &order->size, sizeof(order->size), value, sizeof(value), &version);
        tslab_map_close(map);
        if (r < 0)
                return r;
        r = tslab_get(order->pool, version, &entry, NULL);
        if (r == 0)
                ((uint32_t *) entry)[(32 + sizeof(order->size)) / 4] ^= 1U << 29;
        return r;
}

static int mimic_map(const Order *order) {
        char name[] = "map.values\1";
        tslab_handle handle;
        int r = tslab_root_get(order->pool, "map.values", &handle);

        for (size_t i = 0; i < order->n && r == 0; i++, name[sizeof(name) - 2]++)
                r = tslab_root_set(order->pool, name, 0, handle);
        return r;
}

static int each_key_of(const Order *order, const char *name, uint32_t evict,
                       int (*act)(struct tslab_map *map, size_t key, const Order *order)) {
        const struct tslab_map_options options = { .size = sizeof(options), .evict = evict };
        struct tslab_map *map;
        int r;

        r = tslab_map_open(&map, order->pool, name, &options);
        if (r)
                return r;
        for (size_t key = 0; key < order->n && r == 0; key++)
                r = act(map, key, order);
        tslab_map_close(map);
        return r;
}

static int each_key(const Order *order, int (*act)(struct tslab_map *map, size_t key, const Order *order)) {
        return each_key_of(order, "values", TSLAB_MAP_EVICT_NEVER, act);
}

static int count_one(struct tslab_map *map, size_t key, const Order *order) {
        return tslab_map_add(map, &order->size, sizeof(order->size), 1, 0, TSLAB_MAP_TTL_NONE, NULL);
}

static int limit_one(struct tslab_map *map, size_t key, const Order *order) {
        return key > 0 ? 0
                       : tslab_map_limit(map, &order->size, sizeof(order->size), 0.001, (uint32_t) order->n,
                                         1, NULL);
}

static int tagged_one(struct tslab_map *map, size_t key, const Order *order) {
        tslab_handle tag;
        const struct tslab_map_put_options options = {
                .size = sizeof(options), .epoch = TSLAB_EPOCH_CURRENT, .tags = &tag, .n_tags = 1
        };
        char *value = calloc(1, order->size);
        int r;

        if (!value)
                return -ENOMEM;
        r = tslab_map_tag(map, "tag", 3, TSLAB_EPOCH_CURRENT, &tag);
        if (r == 0)
                r = tslab_map_put_with(map, &order->size, sizeof(order->size), value, order->size, &options);
        free(value);
        return r;
}

static int claim_one(struct tslab_map *map, size_t key, const Order *order) {
        tslab_handle version;
        int r;

        if (key > 0)
                return 0;
        r = tslab_map_claim_for(map, &order->size, sizeof(order->size), TSLAB_EPOCH_CURRENT,
                                (uint32_t) order->n, &version);
        if (r == -EBUSY)
                r = tslab_map_wait(map, &order->size, sizeof(order->size), version, (uint32_t) order->n);
        return r == -ETIMEDOUT ? 0 : r;
}

static int await_one(struct tslab_map *map, size_t key, const Order *order) {
        int r = key > 0 ? 0 : tslab_map_wait(map, &order->size, sizeof(order->size), 0, (uint32_t) order->n);

        return r == -ETIMEDOUT ? 0 : r;
}

static int drop_one(struct tslab_map *map, size_t key, const Order *order) {
        int r = key > 0 ? 0 : tslab_map_delete(map, &order->size, sizeof(order->size));

        return r == -ENOENT ? 0 : r; /* a key with a claim is absent */
}

/* The map stays open for the waits. */
static int begin_tasks(const Order *order) {
        static struct tslab_waiter *waiter;
        static struct tslab_map *map;
        uint64_t wait;
        int r = 0;

        if (order->n == 0) {
                waiter = tslab_waiter_close(waiter);
                map = tslab_map_close(map);
                return 0;
        }
        if (!map)
                r = tslab_map_open(&map, order->pool, "values", NULL)
                            ?: tslab_waiter_open(&waiter, order->pool);
        for (size_t i = 0; i < order->n && r == 0; i++)
                r = tslab_waiter_add(waiter, map, &order->size, sizeof(order->size), 0, 3600000, &wait);
        return r;
}

static int in_lease(const Order *order) {
        uint32_t epoch;
        int r = tslab_epoch_lease(order->pool, "batch", &epoch);

        for (size_t i = 0; i < order->n && r == 0; i++)
                r = tslab_alloc(order->pool, order->size, epoch, &handles[n_handles], NULL);
        return r;
}

static int free_all(struct tslab *pool) {
        int r = 0;

        while (n_handles > 0 && r == 0)
                r = tslab_free(pool, handles[--n_handles]);
        return r;
}

static int do_line(struct tslab *pool, const char *line) {
        Order order = { .pool = pool };
        char word[16];

        if (!strcmp(line, "free\n"))
                return free_all(pool);
        if (sscanf(line, "%15s %zu %zu", word, &order.size, &order.n) != 3)
                return -1;
        if (!strcmp(word, "session"))
                return repeat(&order, open_session);
        if (!strcmp(word, "report"))
                return repeat(&order, write_report);
        if (!strcmp(word, "churn"))
                return repeat(&order, open_and_close);
        if (!strcmp(word, "put"))
                return each_key(&order, put_value);
        if (!strcmp(word, "evict"))
                return each_key_of(&order, "evicting", TSLAB_MAP_EVICT_SIEVE, put_value);
        if (!strcmp(word, "delete"))
                return each_key(&order, delete_value);
        if (!strcmp(word, "damage"))
                return damage_value(&order);
        if (!strcmp(word, "mimic"))
                return mimic_map(&order);
        if (!strcmp(word, "get"))
                return each_key(&order, get_value);
        if (!strcmp(word, "count"))
                return each_key(&order, count_one);
        if (!strcmp(word, "limit"))
                return each_key(&order, limit_one);
        if (!strcmp(word, "tagged"))
                return each_key(&order, tagged_one);
        if (!strcmp(word, "claim"))
                return each_key(&order, claim_one);
        if (!strcmp(word, "await"))
                return each_key(&order, await_one);
        if (!strcmp(word, "drop"))
                return each_key(&order, drop_one);
        if (!strcmp(word, "task"))
                return begin_tasks(&order);
        if (!strcmp(word, "lease"))
                return in_lease(&order);
        if (!strcmp(word, "thread"))
                return in_thread(&order);
        return strcmp(word, "fork") ? -1 : in_child(&order);
}

int main(int argc, char **argv) {
        struct tslab *pool;
        char line[128];
        bool opened;
        int r;

        r = tslab_open(&pool, argc > 1 ? argv[1] : NULL, NULL);
        opened = r == 0;
        if (opened)
                (void) printf("attached\n");
        while (r == 0 && fflush(stdout) == 0 && fgets(line, sizeof(line), stdin)) {
                r = do_line(pool, line);
                if (r == 0)
                        (void) printf("done\n");
        }
        if (r)
                (void) fprintf(stderr, "verb-client: %d\n", r);
        if (opened)
                tslab_close(pool);
        return r != 0;
}
