/*
 * The core's system calls: the functions here are linked instead of libc's. Each call on slabs is a step;
 * pages of a slab may be made and dropped only while it is BUSY, and so may those of tags, which are zeros then.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "shm/epoch/attention.h"
#include "shm/slab/tags.h"
#include "tests/model/seam.h"
#include "tests/model/world.h"

static void expect_busy(uint32_t slab, const char *what) {
        SlabState state = slab_word_state(world_arena.lines[slab].word);

        if (state != SLAB_BUSY)
                model_fail("%s of slab %u while it is %s", what, slab, slab_state_to_string(state));
}

static uint32_t slab_of_tags(uint64_t offset) {
        return (uint32_t) ((offset - (uint64_t) ((uint8_t *) world_arena.tags - world_arena.base)) /
                           sizeof(ShmTags));
}

static void make_tags(uint64_t offset, uint64_t size) {
        uint32_t first = slab_of_tags(offset), last = slab_of_tags(offset + size - 1);

        for (uint32_t page = first / SHM_TAGS_PER_PAGE; page <= last / SHM_TAGS_PER_PAGE && page < 64; page++)
                world.tag_pages |= UINT64_C(1) << page;
}

/* A step for each cell that changes. */
static void drop_tags(uint64_t offset) {
        uint32_t first = slab_of_tags(offset);

        for (uint32_t slab = first; slab < first + SHM_TAGS_PER_PAGE; slab++) {
                ShmPair *tags = (ShmPair *) world_arena.tags[slab].tag;

                model_step(tags, MODEL_LOCKED, 0);
                expect_busy(slab, "tags are dropped");
                *tags = (ShmPair){};
        }
        if (first / SHM_TAGS_PER_PAGE < 64)
                world.tag_pages &= ~(UINT64_C(1) << first / SHM_TAGS_PER_PAGE);
}

/* A page of caches. A step for each cell that changes. */
static void drop_caches(uint64_t offset, uint64_t size) {
        uint32_t record = (uint32_t) ((offset - (uint64_t) (world_arena.records - world_arena.base)) /
                                      world_arena.record_stride);
        ShmPair *cell = (ShmPair *) (world_arena.base + offset), *end = cell + size / sizeof(*cell);

        if (!(shm_arena_record(&world_arena, record)->attention & SHM_ATTENTION_FREEZE) &&
            shm_record_owner(&world_arena, record).state != SHM_RECORD_LEFT)
                model_fail("caches of record %u are dropped, and it is not frozen", record);
        for (; cell < end; cell++)
                if (cell->low != 0 || cell->high != 0) {
                        model_step(cell, MODEL_LOCKED, 0);
                        *cell = (ShmPair){};
                }
}

/* A step for each word that changes. */
static void change_shortcut_pages(uint64_t offset, uint64_t size, bool make) {
        uint64_t *word = (uint64_t *) (world_arena.base + offset), *end = word + size / sizeof(*word);
        uint64_t first =
                (offset - (uint64_t) ((uint8_t *) world_arena.shortcuts - world_arena.base)) / SHM_SLAB_SIZE;

        model_step(&world.shortcut_pages, MODEL_LOCKED, 0);
        for (uint64_t page = first; page < first + size / SHM_SLAB_SIZE && page < 64; page++)
                if (make)
                        world.shortcut_pages |= UINT64_C(1) << page;
                else
                        world.shortcut_pages &= ~(UINT64_C(1) << page);
        for (; !make && word < end; word++)
                if (*word != 0) {
                        model_step(word, MODEL_LOCKED, 0);
                        *word = 0;
                }
}

static void change_pages(uint64_t offset, uint64_t size, bool make) {
        uint64_t base = (uint64_t) (world_arena.slabs - world_arena.base);
        uint32_t first, n;

        if (offset < base && offset >= (uint64_t) ((uint8_t *) world_arena.shortcuts - world_arena.base)) {
                change_shortcut_pages(offset, size, make);
                return;
        }
        if (offset < base) {
                bool tags = offset >= (uint64_t) ((uint8_t *) world_arena.tags - world_arena.base);

                if (make && tags)
                        make_tags(offset, size);
                else if (tags)
                        drop_tags(offset);
                else if (!make)
                        drop_caches(offset, size);
                return;
        }
        first = (uint32_t) ((offset - base) / SHM_SLAB_SIZE);
        n = (uint32_t) (size / SHM_SLAB_SIZE);
        model_step(&world.pages, MODEL_LOCKED, 0);
        for (uint32_t slab = first; slab < first + n && slab < 64; slab++) {
                expect_busy(slab, make ? "pages are made" : "pages are dropped");
                if (make)
                        world.pages |= UINT64_C(1) << slab;
                else
                        world.pages &= ~(UINT64_C(1) << slab);
        }
}

int fallocate(int fd, int flags, off_t offset, off_t size) {
        bool slabs = offset >= world_arena.slabs - world_arena.base;

        (void) fd;
        if (slabs)
                model_step(&world.n_populate_errors, MODEL_LOCKED, 0);
        if (slabs && flags == 0 && world.n_populate_errors > 0) {
                world.n_populate_errors--;
                errno = world.populate_errno;
                return -1;
        }
        change_pages((uint64_t) offset, (uint64_t) size, !(flags & FALLOC_FL_PUNCH_HOLE));
        return 0;
}

int madvise(void *address, size_t size, int advice) {
        if (advice == MADV_REMOVE)
                change_pages((uint64_t) ((uint8_t *) address - world_arena.base), size, false);
        return 0;
}

/*
 * A membarrier that fails is none. It may, where a filter is loaded that refuses it, or memory is short. The one for
 * the caller's own process fails then, too.
 */
static int membarrier(int command) {
        bool own = command == MEMBARRIER_CMD_PRIVATE_EXPEDITED;

        if (world.n_membarrier_errors == 0) {
                own &&world_is_own() ? model_barrier_all() : model_barrier();
                return 0;
        }
        model_step(&world.n_membarrier_errors, MODEL_LOAD, 0);
        if (world.n_membarrier_errors != UINT32_MAX && !own)
                world.n_membarrier_errors--;
        errno = EPERM;
        return -1;
}

long syscall(long number, ...) {
        va_list arguments;
        int command;

        va_start(arguments, number);
        command = va_arg(arguments, int);
        va_end(arguments);
        return number == SYS_membarrier ? membarrier(command) : 0;
}

int sched_yield(void) {
        model_wait();
        return 0;
}

/* Nothing is random, and time passes only when a case says so: schedules must be the same each time. */
ssize_t getrandom(void *ret_bytes, size_t size, unsigned flags) {
        (void) flags;
        memset(ret_bytes, 1, size);
        return (ssize_t) size;
}

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *time, struct timespec *ret_left) {
        (void) clock, (void) flags, (void) time, (void) ret_left;
        world_pass_time();
        return 0;
}

int clock_gettime(clockid_t clock, struct timespec *ret) {
        *ret = (struct timespec){ .tv_sec = 1000000 };
        if (clock == CLOCK_MONOTONIC)
                ret->tv_nsec = (long) world.passed_usec * 1000;
        return 0;
}
