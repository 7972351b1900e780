/*
 * Arenas
 *
 * Purpose: making, mapping and checking arenas.
 *
 * Invariants
 *   1. `magic` is stored last: an arena that has it is complete.
 *   2. Seals, size and geometry are checked before anything is mapped, and used from the private copy afterwards.
 *
 * Who may do what: the process that makes an arena writes its header once; everybody else reads it.
 *
 * Crash: an arena without its magic is refused, and the kernel frees it with its last descriptor.
 *
 * Kernel facts (6.1 to 6.18): a new memfd has mode 0777, and a read-only descriptor of it can be
 * reopened for writing through /proc/self/fd unless its mode forbids it, so its mode becomes 0600.
 * F_SEAL_FUTURE_WRITE would make dropping pages fail with EPERM and is never set. Under
 * mlockall(MCL_FUTURE) the kernel would populate all of a readable mapping, so mappings begin PROT_NONE.
 */
#include "shm/arena/arena.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shm/arena/clock.h"
#include "shm/arch/descriptor.h"
#include "shm/arch/processor.h"
#include "shm/format/epoch-word.h"

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

const char *shm_machine_lacks(void) {
        if (!processor_has_cas16())
                return PROCESSOR_LACKS;
        /* Committing, trimming and closing go by pages, and count slabs. */
        return sysconf(_SC_PAGESIZE) == SHM_SLAB_SIZE ? NULL : "this kernel's pages are not of 4 KiB";
}

/* FNV-1a over the numbers of the format with which this program was built. */
static uint64_t format_hash(void) {
        static const uint64_t facts[] = {
                sizeof(ShmHeader),  sizeof(ShmClient),   sizeof(ShmRecordHead), sizeof(ShmRecord),
                sizeof(ShmCache),   sizeof(ShmSlabLine), sizeof(ShmTags),       SHM_SLAB_SIZE,
                SHM_SET_LEVELS_MAX, SLAB_GEN_SHIFT,      SHM_FORMAT_VERSION,    SHM_ENTRY_FORMAT,
                sizeof(ShmHolds),   sizeof(ShmMapSweep), SHM_HUGE_SIZE,         sizeof(ShmShortcuts),
        };
        uint64_t hash = UINT64_C(0xcbf29ce484222325);

        for (size_t i = 0; i < sizeof(facts) / sizeof(facts[0]); i++)
                hash = (hash ^ facts[i]) * UINT64_C(0x100000001b3);
        return hash;
}

static void classes_init(ShmArena *arena, const ShmGeometry *g) {
        uint32_t class = 0;

        arena->n_classes = g->n_classes;
        for (uint32_t i = 0; i < g->n_classes; i++) {
                uint32_t n = SHM_SLAB_SIZE / g->class_size[i];

                n = n > SHM_SLOTS_MAX ? SHM_SLOTS_MAX : n;
                arena->classes[i] = (ShmClass){
                        .size = g->class_size[i],
                        .n_slots = n,
                        .share = (SHM_SLAB_COST + n - 1) / n,
                        .tail_mask = n == SHM_SLOTS_MAX ? 0 : UINT64_MAX << n,
                };
        }
        arena->size_max = g->class_size[g->n_classes - 1];
        for (uint32_t i = 0; i < SHM_GRANULES_MAX; i++) {
                while (class < g->n_classes - 1 && arena->classes[class].size < (i + 1) * SHM_CLASS_GRANULE)
                        class += 1;
                arena->class_of[i] = (uint8_t) class;
        }
}

static void view_init(ShmArena *arena, uint8_t *base, const ShmGeometry *g, const ShmOffsets *o) {
        arena->base = base;
        arena->size = o->total;
        arena->header = (ShmHeader *) base;
        arena->clients = (ShmClient *) (base + o->clients);
        arena->heads = (ShmRecordHead *) (base + o->heads);
        arena->records = base + o->records;
        arena->changed = (uint64_t *) (base + o->changed);
        arena->sets = (uint64_t *) (base + o->sets);
        arena->lines = (ShmSlabLine *) (base + o->lines);
        arena->tags = (ShmTags *) (base + o->tags);
        arena->shortcuts = (ShmShortcuts *) (base + o->shortcuts);
        arena->slabs = base + o->slabs;
        arena->record_stride = o->record_stride;
        arena->shape = o->shape;
        arena->n_slabs = (uint32_t) (g->slabs_size / SHM_SLAB_SIZE);
        arena->n_records = g->n_records;
        arena->n_epochs = g->n_epochs;
        arena->set_maps = 2 + g->n_epochs + g->n_epochs * g->n_classes;
        classes_init(arena, g);
}

/* The kernel would send SIGXFSZ then, which ends most programs. */
static bool exceeds_file_limit(uint64_t size) {
        struct rlimit limit;

        return getrlimit(RLIMIT_FSIZE, &limit) == 0 && size > limit.rlim_cur;
}

int shm_arena_memfd(const char *name, uint64_t size, int seals, int *ret_fd) {
        int fd, r;

        if (exceeds_file_limit(size))
                return -EFBIG;
        fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
        if (fd < 0)
                return -errno;
        fd = shm_descriptor_above_streams(fd);
        if (fd < 0)
                return fd;
        if (fchmod(fd, 0600) < 0 || ftruncate(fd, (off_t) size) < 0 || fcntl(fd, F_ADD_SEALS, seals) < 0) {
                r = -errno;
                close(fd);
                return r;
        }
        *ret_fd = fd;
        return 0;
}

static int make_memfd(const char *pool, uint64_t size, int *ret) {
        char name[64] = "tslab";

        if (pool) {
                strcat(name, ":");
                strncat(name, pool, SHM_POOL_NAME_SIZE);
        }
        return shm_arena_memfd(name, size, SEALS, ret);
}

/* All epochs are open, in era 1; epoch 0 is current. */
static void header_init_epochs(ShmHeader *h) {
        for (uint32_t i = 0; i < h->n_epochs; i++) {
                h->epochs[i].word =
                        shm_epoch_word_encode((ShmEpochWord){ .state = SHM_EPOCH_OPEN, .era = 1 });
                h->epochs[i].floor_era = 1;
                h->epochs[i].opened_usec = h->created_usec;
        }
        h->epoch_current.value = shm_epoch_number(0, 1);
}

static void header_init(ShmHeader *h, const ShmGeometry *g, const ShmOffsets *o, const char *pool) {
        h->format_version = SHM_FORMAT_VERSION;
        h->header_size = sizeof(ShmHeader);
        h->format_hash = format_hash();
        h->total_size = o->total;
        h->slabs_size = g->slabs_size;
        h->n_slabs = (uint32_t) (g->slabs_size / SHM_SLAB_SIZE);
        h->n_records = g->n_records;
        h->n_epochs = g->n_epochs;
        h->n_classes = g->n_classes;
        memcpy(h->class_size, g->class_size, sizeof(h->class_size));
        h->created_usec = shm_now_usec();
        if (pool)
                strncpy((char *) h->pool_name, pool, sizeof(h->pool_name) - 1);
        h->commit_allowance.value = SHM_ALLOWANCE_MAX;
        h->n_records_ever.value = 1;
        header_init_epochs(h);
}

static void unmap_some(uint8_t *address, size_t size) {
        if (size > 0)
                (void) munmap(address, size);
}

/* At an address at which the kernel can map huge pages of the file, if there is one. */
static uint8_t *map_aligned(int fd, size_t size) {
        uint8_t *room = MAP_FAILED, *base;

        if (size >= SHM_HUGE_SIZE)
                room = mmap(NULL, size + SHM_HUGE_SIZE, PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (room == MAP_FAILED)
                return mmap(NULL, size, PROT_NONE, MAP_SHARED | MAP_NORESERVE, fd, 0);
        base = room + (-(uintptr_t) room & (SHM_HUGE_SIZE - 1));
        /* Where memory that is mapped is locked, room and arena may be too much, and one of them not. */
        if (mmap(base, size, PROT_NONE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, fd, 0) == MAP_FAILED) {
                (void) munmap(room, size + SHM_HUGE_SIZE);
                return mmap(NULL, size, PROT_NONE, MAP_SHARED | MAP_NORESERVE, fd, 0);
        }
        unmap_some(room, (size_t) (base - room));
        unmap_some(base + size, SHM_HUGE_SIZE - (size_t) (base - room));
        return base;
}

int shm_arena_map_fd(int fd, size_t size, bool read_only, uint8_t **ret) {
        int protection = read_only ? PROT_READ : PROT_READ | PROT_WRITE;
        const char *dump = getenv("TSLAB_DUMP");
        uint8_t *base;
        int r;

        base = map_aligned(fd, size);
        if (base == MAP_FAILED)
                return -errno;
        /* A core dump would read the whole arena, and so allocate all of its pages. */
        if (!dump || strcmp(dump, "1") != 0)
                madvise(base, size, MADV_DONTDUMP);
        if (mprotect(base, size, protection) < 0) {
                r = -errno;
                munmap(base, size);
                return r;
        }
        *ret = base;
        return 0;
}

int shm_arena_create(ShmArena *ret, const ShmGeometry *geometry, const char *pool) {
        const char *why;
        ShmArena arena = { .fd = -1, .wake_fd = -1 };
        uint8_t random[32];
        uint8_t *base;
        ShmOffsets offsets;
        int r;

        if (shm_machine_lacks())
                return -EOPNOTSUPP;
        r = shm_geometry_check(geometry, &why);
        if (r)
                return r;
        if (getrandom(random, sizeof(random), 0) != sizeof(random))
                return -EIO;

        shm_geometry_offsets(geometry, &offsets);
        r = make_memfd(pool, offsets.total, &arena.fd);
        if (r)
                return r;
        r = shm_arena_map_fd(arena.fd, offsets.total, false, &base);
        if (r) {
                close(arena.fd);
                return r;
        }
        view_init(&arena, base, geometry, &offsets);
        header_init(arena.header, geometry, &offsets, pool);
        memcpy(arena.header->arena_id, random, 16);
        memcpy(arena.header->pool_key, random + 16, 16);
        memcpy(arena.arena_id, random, 16);
        memcpy(arena.pool_key, random + 16, 16);
        arena.key = (uint32_t) arena.arena_id[1];
        /* ORDER: rel, pairs with shm_arena_map(); an arena with its magic is complete. */
        shm_store_rel(&arena.header->magic, SHM_MAGIC);
        *ret = arena;
        return 0;
}

static int header_check(const ShmHeader *h, const struct stat *st, ShmGeometry *ret,
                        ShmOffsets *ret_offsets) {
        const char *why;
        ShmGeometry g = {
                .slabs_size = h->slabs_size,
                .n_records = h->n_records,
                .n_epochs = h->n_epochs,
                .n_classes = h->n_classes,
        };

        if (h->magic != SHM_MAGIC || h->format_version != SHM_FORMAT_VERSION ||
            h->format_hash != format_hash())
                return SHM_ARENA_E_FORMAT;

        memcpy(g.class_size, h->class_size, sizeof(g.class_size));
        if (shm_geometry_check(&g, &why) || h->n_slabs != g.slabs_size / SHM_SLAB_SIZE)
                return SHM_ARENA_E_DAMAGED;
        shm_geometry_offsets(&g, ret_offsets);
        if (h->total_size != ret_offsets->total || (uint64_t) st->st_size != ret_offsets->total)
                return SHM_ARENA_E_DAMAGED;
        *ret = g;
        return 0;
}

/* Reads and checks the header, which may be forged, and the seals and the size of the file, before any mapping. */
static int header_read(int fd, ShmHeader *ret, ShmGeometry *ret_geometry, ShmOffsets *ret_offsets) {
        struct stat st;
        int seals;
        ssize_t n;

        if (fstat(fd, &st) < 0)
                return -errno;
        if (!S_ISREG(st.st_mode))
                return SHM_ARENA_E_FORMAT;
        n = pread(fd, ret, sizeof(*ret), 0);
        if (n < 0)
                return -errno;
        if (n != sizeof(*ret))
                return SHM_ARENA_E_FORMAT;
        seals = fcntl(fd, F_GET_SEALS);
        if (seals < 0 && errno != EINVAL) /* EINVAL: no memfd */
                return -errno;
        if (seals < 0 || (seals & SEALS) != SEALS)
                return SHM_ARENA_E_DAMAGED;
        return header_check(ret, &st, ret_geometry, ret_offsets);
}

int shm_arena_read_id(int fd, uint64_t ret_id[2]) {
        uint64_t start[offsetof(ShmHeader, pool_key) / sizeof(uint64_t)];
        ssize_t n = pread(fd, start, sizeof(start), 0);

        if (n < 0)
                return -errno;
        if (n != sizeof(start) || start[0] != SHM_MAGIC)
                return SHM_ARENA_E_FORMAT;
        memcpy(ret_id, start + offsetof(ShmHeader, arena_id) / sizeof(uint64_t), 2 * sizeof(*ret_id));
        return 0;
}

int shm_arena_map(ShmArena *ret, int fd, bool read_only) {
        ShmArena arena = { .fd = fd, .wake_fd = -1, .read_only = read_only };
        ShmGeometry geometry;
        ShmOffsets offsets;
        ShmHeader *header;
        uint8_t *base;
        int r;

        if (shm_machine_lacks())
                return -EOPNOTSUPP;
        header = malloc(sizeof(*header));
        if (!header)
                return -ENOMEM;
        r = header_read(fd, header, &geometry, &offsets);
        if (r == 0)
                r = shm_arena_map_fd(fd, offsets.total, read_only, &base);
        if (r == 0) {
                view_init(&arena, base, &geometry, &offsets);
                memcpy(arena.arena_id, header->arena_id, sizeof(arena.arena_id));
                memcpy(arena.pool_key, header->pool_key, sizeof(arena.pool_key));
                arena.key = (uint32_t) arena.arena_id[1];
                *ret = arena;
        }
        free(header);
        return r;
}

void shm_arena_deinit(ShmArena *arena) {
        if (arena->base)
                munmap(arena->base, arena->size);
        if (arena->fd >= 0)
                close(arena->fd);
        if (arena->wake_fd >= 0)
                close(arena->wake_fd);
        *arena = (ShmArena){ .fd = -1, .wake_fd = -1 };
}

uint64_t shm_arena_resident_size(const ShmArena *arena) {
        struct stat st;

        return fstat(arena->fd, &st) < 0 ? 0 : (uint64_t) st.st_blocks * 512;
}
