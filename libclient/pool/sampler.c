/*
 * Sampling
 *
 * Purpose: to know later, also after this process died, which call allocated each object that still lives.
 *
 * Invariants
 *   1. An entry is written while its seq is odd: a reader that finds the same even seq twice has a whole one.
 *   2. An entry of a live object is replaced only where all entries looked at are of live objects: so the
 *      entries of long-lived objects remain in the end.
 *   3. A forked child has none of it: PoolLocal is zeroed there, and the map is not inherited.
 *
 * Who may do what: threads of this process write, one at a time.
 *
 * Crash: an entry with an odd seq is passed over.
 */
#include "libclient/pool/sampler.h"

#include <elf.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proto/samples.h"
#include "shm/arena/arena.h"
#include "shm/arena/clock.h"
#include "shm/cache/object.h"

#define PROBES 16U
#define ABOVE 3 /* frames that may stand above ours, of libraries that replace backtrace() as sanitizers do */
#define DEPTH (SAMPLES_FRAMES_MAX + 8) /* with our own, which are left out */
#define ADDRESS_MASK ((UINT64_C(1) << SAMPLES_MODULE_SHIFT) - 1)

typedef struct Module {
        uint64_t begin, end; /* its code's */
        uint64_t bias;
} Module;

struct Sampler {
        Lock lock;
        SamplesFile *file;
        int fd;
        uint64_t every;
        uint64_t n_allocs;
        uint32_t random;
        uint64_t self_begin, self_end; /* the code of this library; empty where it is part of a program */
        Module modules[SAMPLES_MODULES_MAX];
};

static uint64_t wanted_every(void) {
        const char *text = secure_getenv("TSLAB_SAMPLE");
        char *end;
        uint64_t n;

        if (!text || text[0] < '1' || text[0] > '9')
                return 0;
        errno = 0;
        n = strtoull(text, &end, 10);
        return errno == 0 && *end == 0 && n <= UINT32_MAX ? n : 0;
}

typedef struct Found {
        uint64_t address;
        const struct dl_phdr_info *info;
        Module module;
        SamplesModule described;
} Found;

static void describe_notes(SamplesModule *ret, const uint8_t *notes, size_t size) {
        size_t at = 0;

        while (at + sizeof(ElfW(Nhdr)) <= size) {
                const ElfW(Nhdr) *note = (const ElfW(Nhdr) *) (notes + at);
                size_t name = at + sizeof(*note), desc = name + (note->n_namesz + 3U) / 4 * 4;
                size_t end = desc + (note->n_descsz + 3U) / 4 * 4;

                if (end > size)
                        return;
                if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 &&
                    memcmp(notes + name, "GNU", 4) == 0 && note->n_descsz <= SAMPLES_BUILD_ID_MAX) {
                        ret->build_id_size = note->n_descsz;
                        memcpy(ret->build_id, notes + desc, note->n_descsz);
                }
                at = end;
        }
}

static void describe_module(Found *found, const struct dl_phdr_info *info) {
        ssize_t n;

        for (size_t i = 0; i < info->dlpi_phnum; i++)
                if (info->dlpi_phdr[i].p_type == PT_NOTE)
                        describe_notes(&found->described,
                                       (const uint8_t *) (info->dlpi_addr + info->dlpi_phdr[i].p_vaddr),
                                       info->dlpi_phdr[i].p_memsz);
        if (info->dlpi_name && info->dlpi_name[0]) {
                strncpy(found->described.path, info->dlpi_name, SAMPLES_PATH_SIZE - 1);
                return;
        }
        n = readlink("/proc/self/exe", found->described.path, SAMPLES_PATH_SIZE - 1);
        if (n < 0)
                strcpy(found->described.path, "?");
}

static int on_module(struct dl_phdr_info *info, size_t size, void *userdata) {
        Found *found = userdata;

        for (size_t i = 0; i < info->dlpi_phnum; i++) {
                const ElfW(Phdr) *p = &info->dlpi_phdr[i];
                uint64_t begin = info->dlpi_addr + p->p_vaddr;

                if (p->p_type != PT_LOAD || !(p->p_flags & PF_X) || found->address - begin >= p->p_memsz)
                        continue;
                found->module =
                        (Module){ .begin = begin, .end = begin + p->p_memsz, .bias = info->dlpi_addr };
                describe_module(found, info);
                return 1;
        }
        return 0;
}

/* A frame as it is kept; modules that were not met before are noted. Under the lock. */
static uint64_t locate_module(Sampler *s, uint64_t address) {
        Found found = { .address = address };
        uint32_t n = s->file->n_modules;

        n = n < SAMPLES_MODULES_MAX ? n : SAMPLES_MODULES_MAX;
        for (uint64_t i = 0; i < n; i++)
                if (address - s->modules[i].begin < s->modules[i].end - s->modules[i].begin)
                        return (i + 1) << SAMPLES_MODULE_SHIFT | (address - s->modules[i].bias);
        if (n == SAMPLES_MODULES_MAX || dl_iterate_phdr(on_module, &found) == 0)
                return address & ADDRESS_MASK;
        s->modules[n] = found.module;
        s->file->modules[n] = found.described;
        /* ORDER: rel; the module is there before it counts. */
        shm_store_rel(&s->file->n_modules, n + 1);
        return (uint64_t) (n + 1) << SAMPLES_MODULE_SHIFT | (address - found.module.bias);
}

/* xorshift; not 0 */
static SamplesEntry *any_entry(Sampler *s) {
        s->random ^= s->random << 13;
        s->random ^= s->random >> 17;
        s->random ^= s->random << 5;
        return &s->file->entries[s->random % SAMPLES_N];
}

/*
 * Chooses the entry for the next sample: one that was never used, or one of a freed object, if a few
 * looks find one. It looks at random places: in a row, entries of long-lived objects would stand side by
 * side and be overwritten together.
 */
static SamplesEntry *choose_entry(Sampler *s, const ShmArena *arena) {
        SamplesEntry *entry;

        for (uint32_t i = 0; i < PROBES; i++) {
                entry = any_entry(s);
                if (entry->seq == 0 || !shm_object_live(arena, entry->handle))
                        return entry;
        }
        s->file->n_lost++;
        return entry;
}

static void write_entry(Sampler *s, SamplesEntry *entry, const SamplesEntry *new) {
        uint32_t seq = entry->seq | 1;

        /* ORDER: rlx; the fence keeps it before the stores below. */
        shm_store_rlx(&entry->seq, seq);
        shm_fence_sc(); /* ORDER: sc; odd before anything of the entry changes. */
        entry->size = new->size;
        entry->handle = new->handle;
        entry->usec = new->usec;
        entry->tid = new->tid;
        entry->n_frames = new->n_frames;
        memcpy(entry->frames, new->frames, sizeof(entry->frames));
        /* ORDER: rel; all of the entry is there before it is even. */
        shm_store_rel(&entry->seq, seq + 1 != 0 ? seq + 1 : 2);
        s->file->n_taken++;
}

static bool is_self(const Sampler *s, const void *address) {
        return (uint64_t) (uintptr_t) address - s->self_begin < s->self_end - s->self_begin;
}

void sampler_note_slow(struct tslab *pool, tslab_handle handle, size_t size) {
        Sampler *s = pool->local->sampler;
        SamplesEntry entry = { .handle = handle, .size = (uint32_t) size };
        void *stack[DEPTH];
        int n, i = 0;

        /* ORDER: rlx; which ones are taken does not matter. */
        if (shm_add_rlx(&s->n_allocs, 1) % s->every != 0)
                return;
        n = backtrace(stack, DEPTH);
        while (i < n && i < ABOVE && !is_self(s, stack[i]))
                i++;
        i = i < n && is_self(s, stack[i]) ? i : 0;
        while (i < n && is_self(s, stack[i]))
                i++;
        entry.usec = shm_now_usec();
        entry.tid = lock_own_number();

        (void) lock_take(&s->lock);
        for (; i < n && entry.n_frames < SAMPLES_FRAMES_MAX; i++)
                entry.frames[entry.n_frames++] = locate_module(s, (uint64_t) (uintptr_t) stack[i]);
        write_entry(s, choose_entry(s, &pool->arena), &entry);
        lock_release(&s->lock);
}

/* Frames of libtslab itself stand on top of every stack: they are left out where it is a shared library. */
static void find_self(Sampler *s) {
        Found found = { .address = (uint64_t) (uintptr_t) sampler_note_slow };
        void *stack[1];

        if (dl_iterate_phdr(on_module, &found) != 0 && strstr(found.described.path, "libtslab")) {
                s->self_begin = found.module.begin;
                s->self_end = found.module.end;
        }
        (void) backtrace(stack, 1); /* loads its library now, not within an allocation */
}

static Sampler *sampler_new(uint64_t every) {
        Sampler *s = calloc(1, sizeof(*s));

        if (!s)
                return NULL;
        s->every = every;
        s->random = 1;
        s->file = MAP_FAILED;
        s->fd = -1;
        if (shm_arena_memfd("tslab-samples", sizeof(SamplesFile), F_SEAL_SHRINK | F_SEAL_GROW, &s->fd) == 0)
                s->file = mmap(NULL, sizeof(SamplesFile), PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, 0);
        if (s->file == MAP_FAILED || madvise(s->file, sizeof(SamplesFile), MADV_DONTFORK) < 0)
                return sampler_free(s);
        (void) madvise(s->file, sizeof(SamplesFile), MADV_DONTDUMP);
        s->file->magic = SAMPLES_MAGIC;
        s->file->every = (uint32_t) every;
        find_self(s);
        return s;
}

Sampler *sampler_free(Sampler *s) {
        if (!s)
                return NULL;
        if (s->file != MAP_FAILED)
                munmap(s->file, sizeof(SamplesFile));
        if (s->fd >= 0)
                (void) close(s->fd);
        free(s);
        return NULL;
}

static int offer_samples(struct tslab *pool, const Sampler *s) {
        _cleanup_(proto_reply_freep) ProtoReply *reply = NULL;
        ProtoRequest request = PROTO_REQUEST_INIT;
        Tslab__Samples samples = TSLAB__SAMPLES__INIT;

        samples.every = (uint32_t) s->every;
        request.body_case = TSLAB__REQUEST__BODY_SAMPLES;
        request.samples = &samples;
        return proto_call_with_fd(pool->call, &request, s->fd, pool->timeout_usec, &reply);
}

/* The number goes first: a child that is forked in between closes no other file of that number. */
static void close_file(Sampler *s) {
        int fd = s->fd;

        s->fd = -1;
        shm_compiler_barrier(); /* see above */
        if (fd >= 0)
                (void) close(fd);
}

Sampler *sampler_forget(Sampler *s) {
        if (!s)
                return NULL;
        close_file(s);
        free(s);
        return NULL;
}

void sampler_close(struct tslab *pool) {
        if (pool->local->sampler)
                close_file(pool->local->sampler);
        else
                pool->inherited_sampler = sampler_forget(pool->inherited_sampler);
}

void sampler_begin(struct tslab *pool) {
        uint64_t every = wanted_every();
        Sampler *s;

        pool->inherited_sampler = sampler_forget(pool->inherited_sampler);
        if (every == 0 || pool->is_reader)
                return;
        s = sampler_new(every);
        if (s && offer_samples(pool, s) != 0)
                s = sampler_free(s);
        pool->local->sampler = pool->inherited_sampler = s;
}

void sampler_offer(struct tslab *pool) {
        if (pool->local->sampler)
                (void) offer_samples(pool, pool->local->sampler);
}
