/* See the header. The code under test is linked with our shm_step(), madvise() and fallocate(). */
#include "tests/fuzz/arena-image.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "shm/arena/arena-map.h"
#include "shm/cache/cache.h"
#include "shm/arena/client.h"
#include "shm/map/leaf/leaf.h"
#include "shm/map/trie/trie.h"
#include "shm/slab/pages.h"
#include "shm/arena/root.h"
#include "tests/fuzz/arena-map.h"

#define GUARD ((size_t) 1 << 20)
#define N_COMMITTED 128U
#define N_THREADS 5U /* and record 0, and one that is free */
#define N_LATER 8U
#define ACCESSES_MAX 50000000U
#define CLOCK_BEGIN_MS 1000000U

typedef struct Later {
        uint32_t at; /* accesses still to come before it; 0: none */
        ImageStep step;
} Later;

static ShmArena image; /* the scribbling process's */
static uint8_t *saved; /* all up to the end of the slabs that are committed */
static size_t saved_size;
static Later later[N_LATER];
static uint32_t delay, n_later, n_accesses;
static bool in_operation;

/* The kernel */

static uint64_t image_offset(const void *address) {
        return (uint64_t) ((const uint8_t *) address - image.base);
}

static bool is_within(uint64_t offset, uint64_t size, uint64_t from, uint64_t end) {
        return offset >= from && size <= end && offset <= end - size;
}

static bool is_slabs(uint64_t offset, uint64_t size) {
        return is_within(offset, size, image_offset(image.slabs), image.size);
}

/* The caches of one record, behind the record itself. */
static bool is_caches(uint64_t offset, uint64_t size) {
        uint64_t records = image_offset(image.records), from;

        if (offset < records)
                return false;
        from = records + (offset - records) / image.record_stride * image.record_stride;
        return from < records + image.n_records * image.record_stride &&
               is_within(offset, size, from + sizeof(ShmRecord), from + image.record_stride);
}

/* Slabs, whole pages of their tags, shortcuts, and caches. */
static bool may_go(uint64_t offset, uint64_t size) {
        return is_slabs(offset, size) || is_caches(offset, size) ||
               is_within(offset, size, image_offset(image.tags), image_offset(image.slabs));
}

static const ShmArena *under_test;

int madvise(void *address, size_t size, int advice) {
        uint64_t offset = under_test ? (uint64_t) ((uint8_t *) address - under_test->base) : 0;

        if (under_test && advice == MADV_REMOVE)
                require(may_go(offset, size));
        else if (under_test && advice == MADV_POPULATE_WRITE)
                require(is_slabs(offset, size));
        return (int) syscall(SYS_madvise, address, size, advice);
}

/* Pages of words, tags and slabs. */
int fallocate(int fd, int mode, off_t offset, off_t size) {
        if (under_test && mode == 0)
                require(is_within((uint64_t) offset, (uint64_t) size, image_offset(image.lines), image.size));
        else if (under_test)
                require(may_go((uint64_t) offset, (uint64_t) size));
        return (int) syscall(SYS_fallocate, fd, mode, offset, size);
}

/* The pool's clock stands still, but for image_pass(). */
static uint64_t clock_ms;

int clock_gettime(clockid_t clock, struct timespec *ret) {
        if (clock != CLOCK_MONOTONIC_COARSE)
                return (int) syscall(SYS_clock_gettime, clock, ret);
        *ret = (struct timespec){ .tv_sec = (time_t) (clock_ms / 1000),
                                  .tv_nsec = (long) (clock_ms % 1000 * 1000000) };
        return 0;
}

void image_pass(uint32_t ms) {
        clock_ms += ms;
}

/* Making the image */

/* The pool key is random, which the handles are made of: an input is to do the same in each run. */
static void fix_keys(void) {
        memset(image.header->arena_id, 'i', sizeof(image.header->arena_id));
        memset(image.header->pool_key, 'k', sizeof(image.header->pool_key));
        memcpy(image.arena_id, image.header->arena_id, sizeof(image.arena_id));
        memcpy(image.pool_key, image.header->pool_key, sizeof(image.pool_key));
        image.key = (uint32_t) image.arena_id[1];
}

static void fill(ShmActor *actor, unsigned n) {
        static const size_t sizes[] = { 64, 200, 4096, 512, 1, 900 };
        uint64_t handles[20];

        for (unsigned i = 0; i < n; i++)
                require(shm_object_alloc(actor, sizes[i % 6], i % 3, NULL, &handles[i], NULL) == 0);
        for (unsigned i = 0; i < n; i += 1 + i % 3)
                require(shm_object_free(actor, handles[i]) == 0);
}

static void use(void) {
        const ShmPending pending = { .root = SHM_NOTE_NAMED_ROOT };
        ShmActor control, actors[N_THREADS];
        ShmClientInfo info = { .pid = 1, .comm = "fuzz" };
        uint64_t handle;
        uint32_t n;

        shm_actor_init_daemon(&control, &image);
        for (uint32_t done = 0; done < N_COMMITTED; done += n)
                require(shm_pages_commit(&control, N_COMMITTED - done, &n) == 0);
        for (unsigned i = 0; i < N_THREADS; i++) {
                if (i % 2 == 0)
                        require(shm_client_add(&image, &info) == 0);
                require(shm_actor_init(&actors[i], &image, info.index, i + 1) == 0);
                actors[i].mode = SHM_CACHE_ON;
                fill(&actors[i], 20);
        }
        image_map_make(&actors[0]);
        require(shm_object_alloc(&actors[1], 64, 0, &pending, &handle, NULL) == 0);
        require(shm_root_set(&image, "object", 0, handle) == 0);
        require(shm_record_mark_dead(&image, actors[4].id));
}

static void make(void) {
        const ShmGeometry geometry = { .slabs_size = IMAGE_N_SLABS * SHM_SLAB_SIZE,
                                       .n_records = IMAGE_N_RECORDS,
                                       .n_epochs = IMAGE_N_EPOCHS,
                                       .n_classes = IMAGE_N_CLASSES,
                                       .class_size = { 64, 512, 4096 } };

        clock_ms = CLOCK_BEGIN_MS;
        require(shm_arena_create(&image, &geometry, "fuzz") == 0);
        fix_keys();
        use();
        saved_size = (size_t) (image.slabs - image.base) + N_COMMITTED * SHM_SLAB_SIZE;
        saved = malloc(saved_size);
        require(saved);
        memcpy(saved, image.base, saved_size);
}

int image_reset(void) {
        if (!saved)
                make();
        n_later = delay = 0;
        clock_ms = CLOCK_BEGIN_MS;
        memcpy(image.base, saved, saved_size);
        require(syscall(SYS_fallocate, image.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                        (off_t) saved_size, (off_t) (image.size - saved_size)) == 0);
        return image.fd;
}

void image_repair_header(void) {
        memcpy(image.base, saved, offsetof(ShmHeader, n_slabs_ever));
}

/* Writing */

typedef struct Region {
        void *at;
        size_t size;
} Region;

static Region region(uint8_t which) {
        uint8_t *base = image.base;
        Region regions[] = {
                { base, sizeof(ShmHeader) },
                { base + offsetof(ShmHeader, n_slabs_ever), 20 * 64 },
                { image.clients, IMAGE_N_RECORDS * sizeof(ShmClient) },
                { image.records, IMAGE_N_RECORDS * image.record_stride },
                { image.changed, (size_t) ((uint8_t *) image.lines - (uint8_t *) image.changed) },
                { image.lines, IMAGE_N_SLABS * sizeof(ShmSlabLine) },
                { image.tags, IMAGE_N_SLABS * sizeof(ShmTags) },
                { image.slabs, N_COMMITTED * SHM_SLAB_SIZE },
        };

        return regions[which % (sizeof(regions) / sizeof(regions[0]))];
}

static void write_words(const ImageStep *s, unsigned n) {
        Region r = region(s->a);
        uint64_t *words = r.at, n_words = r.size / 8;

        for (unsigned i = 0; i < n; i++) {
                uint64_t *word = &words[(s->b + i) % n_words];

                *word = s->what == IMAGE_FLIP ? *word ^ s->value : s->value;
        }
}

static void write_cache(ShmRecord *record, uint32_t id, const ImageStep *s) {
        uint32_t index = s->b % shm_arena_n_caches(&image), count = (uint16_t) s->value;
        ShmCache *cache = shm_arena_cache_at(&image, id, index);

        record->used[index / 64] |= UINT64_C(1) << index % 64;
        cache->count = count;
        cache->held = (uint16_t) (s->value >> 16);
        for (uint32_t i = 0; i < count && i < SHM_CACHE_MAX; i++)
                cache->slots[i] = (uint32_t) (s->value >> 32) + i * (s->b >> 8);
}

static void write_intent(ShmRecord *record, const ImageStep *s) {
        uint32_t kind = s->b % 8, slab = s->b >> 8;

        record->intent_mask = s->value;
        if (kind == SHM_INTENT_FREE || kind == SHM_INTENT_TAKE)
                record->intent_what = (uint64_t) kind << 30 | (s->value & ~UINT64_C(0xc0000000));
        else
                record->intent_what =
                        shm_intent_other((ShmIntentKind) kind, slab, (uint32_t) (s->value >> 4));
}

/* The object that has this word, or the rest of its slab. */
static uint64_t word_owner(size_t offset) {
        uint32_t slab = (uint32_t) (offset / SHM_SLAB_SIZE);
        uint32_t class = slab_word_class(image.lines[slab].word) % IMAGE_N_CLASSES;
        SlotId id = slot_id(slab, (uint32_t) (offset % SHM_SLAB_SIZE) / image.classes[class].size);

        return shm_handle_make(image.key, id, *shm_slot_tag(&image, id));
}

static void write_sealed(const ImageStep *s) {
        size_t word = s->b % (N_COMMITTED * SHM_SLAB_SIZE / 8);
        uint64_t owner = word_owner(word * 8), value = s->value;
        SlotId id = slot_id((uint32_t) (value >> 6) % N_COMMITTED, value & 63);

        if (s->a & 1)
                value = shm_handle_make(image.key, id, *shm_slot_tag(&image, id)) ^
                        ((uint64_t) s->a << 24 & SHM_TRIE_KIND);
        ((uint64_t *) image.slabs)[word] = value ^ (s->a & 2 ? shm_trie_seal(owner) : shm_leaf_seal(owner));
}

static void apply(const ImageStep *s) {
        uint32_t id = s->a % IMAGE_N_RECORDS, slab = s->a % IMAGE_N_SLABS;
        ShmRecord *record = shm_arena_record(&image, id);
        ShmNote *note = &record->notes[s->b % SHM_NOTES_MAX];

        switch (s->what % _IMAGE_WRITE_N) {
        case IMAGE_STATE:
                image.lines[slab].word.high = s->value;
                break;
        case IMAGE_BITMAP:
                image.lines[slab].word.low = s->value;
                break;
        case IMAGE_TAG:
                image.tags[slab].tag[s->b % SHM_SLOTS_MAX] = (uint32_t) s->value;
                break;
        case IMAGE_CACHE:
                write_cache(record, id, s);
                break;
        case IMAGE_HEAD:
                image.heads[id].word = (s->b % 8) * (UINT64_C(1) << 56) | (s->value & 0xffffff);
                break;
        case IMAGE_INTENT:
                write_intent(record, s);
                break;
        case IMAGE_NOTE:
                note->handle = s->value ^ (uint64_t) image.key << 32;
                note->root = s->b & 1 ? image.header->roots[s->b / 2 % SHM_ROOTS_MAX].handle : s->value;
                break;
        case IMAGE_EPOCH:
                image.header->epochs[s->a % IMAGE_N_EPOCHS].word =
                        (uint64_t) (s->b & 7) << 56 | (s->value & 0xffffffffffffff);
                break;
        case IMAGE_SEALED:
                write_sealed(s);
                break;
        default:
                write_words(s, s->what == IMAGE_FILL ? 64 : 1);
        }
}

void image_write(const ImageStep *step) {
        if (step->what == IMAGE_LATER)
                delay = step->b + 1U;
        else if (delay == 0 || n_later == N_LATER)
                apply(step);
        else
                later[n_later++] = (Later){ .at = delay, .step = *step };
}

/* In front of each access. */
void shm_step(const void *address) {
        (void) address;
        if (!in_operation)
                return;
        require(++n_accesses < ACCESSES_MAX);
        for (uint32_t i = 0; i < n_later; i++)
                if (later[i].at > 0 && --later[i].at == 0)
                        apply(&later[i].step);
}

void image_begin_operation(void) {
        in_operation = true;
        n_accesses = 0;
}

void image_end_operation(void) {
        in_operation = false;
        n_later = delay = 0;
}

/* Mapping */

/* Room on both sides that nobody else gets meanwhile. */
static void move_between_guards(ShmArena *a) {
        static uint8_t *room;

        if (!room)
                room = mmap(NULL, a->size + 2 * GUARD, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                            -1, 0);
        require(room != MAP_FAILED);
        require(mremap(a->base, a->size, a->size, MREMAP_MAYMOVE | MREMAP_FIXED, room + GUARD) ==
                room + GUARD);
        shm_arena_move(a, room + GUARD);
}

int image_attach(ShmArena *arena) {
        int fd = dup(image.fd), r;

        require(fd >= 0);
        r = shm_arena_map(arena, fd, false);
        if (r) {
                close(fd);
                return r;
        }
        require(arena->size == image.size);
        move_between_guards(arena);
        under_test = arena;
        return 0;
}

/* The mapping there is closed to all again. */
void image_detach(ShmArena *arena) {
        uint8_t *base = arena->base;
        size_t size = arena->size;

        under_test = NULL;
        arena->base = NULL;
        shm_arena_deinit(arena);
        require(mmap(base, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) ==
                base);
}
