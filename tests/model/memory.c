/* See memory.h. */
#include "tests/model/memory.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/model/explore.h"
#include "tests/model/table.h"

#define LINE 64
#define WATCHES_MAX 128
#define LOG_SIZE (64 << 20)
#define CHANGED 0x80
#define OWN_MAX 8

typedef struct Own {
        uint8_t *base, *image;
        uint8_t *mirror;
        size_t size;
} Own;

static uint8_t *memory, *image, *private, *private_image;
/* All as it was before the step: most of it stays, and a comparison costs less than a copy and a hash. */
static uint8_t *mirror, *private_mirror;
static size_t memory_size, private_size;
static Own own[MODEL_ACTORS_MAX][OWN_MAX];
static uint64_t *line_hashes;
static uint8_t *cells; /* a bit for each actor that touched it, and CHANGED */
static uint8_t *watches[WATCHES_MAX];
static size_t n_watches;

/* Pieces as they were, each followed by where it was and how long. */
static uint8_t *log_base;
static size_t log_end;

typedef struct Tail {
        void *at;
        size_t size;
} Tail;

void model_memory(void *base, size_t size) {
        memory = base;
        memory_size = size;
}

void model_private(void *base, size_t size) {
        private = base;
        private_size = size;
}

void model_own(unsigned actor, void *base, size_t size) {
        Own *o = own[actor];

        while (o->size > 0 && o->base != base)
                if (++o == own[actor] + OWN_MAX)
                        abort();
        o->base = base;
        o->size = size;
}

void model_watch(void *line) {
        if (n_watches == WATCHES_MAX)
                abort();
        watches[n_watches++] = line;
}

void *memory_base(size_t *ret_size) {
        *ret_size = memory_size;
        return memory;
}

void memory_forget(void) {
        n_watches = log_end = 0;
        memory = private = NULL;
        memory_size = private_size = 0;
        for (Own *o = own[0]; o < own[MODEL_ACTORS_MAX]; o++)
                o->size = 0;
}

void memory_prepare(void) {
        free(image);
        free(mirror);
        free(private_image);
        free(private_mirror);
        free(line_hashes);
        free(cells);
        image = memcpy(malloc(memory_size), memory, memory_size);
        mirror = malloc(memory_size);
        private_image = memcpy(malloc(private_size), private, private_size);
        private_mirror = malloc(private_size);
        for (Own *o = own[0]; o < own[MODEL_ACTORS_MAX]; o++)
                if (o->size > 0) {
                        o->image = memcpy(realloc(o->image, o->size), o->base, o->size);
                        o->mirror = realloc(o->mirror, o->size);
                }
        line_hashes = calloc(memory_size / LINE, sizeof(uint64_t));
        cells = calloc((memory_size + private_size) / MEMORY_CELL + 1, 1);
        if (!log_base)
                log_base = mmap(NULL, LOG_SIZE, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

void memory_reset(void) {
        memcpy(mirror, memcpy(memory, image, memory_size), memory_size);
        memcpy(private_mirror, memcpy(private, private_image, private_size), private_size);
        for (Own *o = own[0]; o < own[MODEL_ACTORS_MAX]; o++)
                if (o->size > 0)
                        memcpy(o->mirror, memcpy(o->base, o->image, o->size), o->size);
        for (size_t i = 0; i < memory_size / LINE; i++)
                line_hashes[i] = table_hash(i * LINE, memory + i * LINE, LINE);
        log_end = 0;
}

bool memory_is_reset(void) {
        return memcmp(memory, image, memory_size) == 0;
}

static void push(void *at, const void *bytes, size_t size) {
        Tail tail = { at, size };

        if (size == 0)
                return;
        if (log_end + size + sizeof(tail) > LOG_SIZE)
                abort();
        memcpy(log_base + log_end, bytes, size);
        memcpy(log_base + log_end + size, &tail, sizeof(tail));
        log_end += size + sizeof(tail);
}

void memory_save(void *at, size_t size) {
        push(at, at, size);
}

size_t memory_mark(void) {
        return log_end;
}

void memory_undo(size_t mark) {
        Tail tail;

        while (log_end > mark) {
                memcpy(&tail, log_base + log_end - sizeof(tail), sizeof(tail));
                log_end -= tail.size + sizeof(tail);
                memcpy(tail.at, log_base + log_end, tail.size);
        }
}

/* SIZE_MAX: not in the memory. */
static size_t line_of(const void *address) {
        size_t off = (size_t) ((const uint8_t *) address - memory);

        return address && off < memory_size ? off / LINE : SIZE_MAX;
}

bool memory_has(const void *address) {
        return line_of(address) != SIZE_MAX;
}

void memory_save_line(const void *address) {
        size_t line = line_of(address);

        if (line != SIZE_MAX)
                memory_save(memory + line * LINE, LINE);
}

/* Whether the piece is not as its mirror, which then is brought up to date; both are saved as they were before. */
static bool piece_changed(uint8_t *at, uint8_t *before, size_t size) {
        if (size == 0 || memcmp(at, before, size) == 0)
                return false;
        push(at, before, size);
        push(before, before, size);
        memcpy(before, at, size);
        return true;
}

bool memory_private_changed(void) {
        return piece_changed(private, private_mirror, private_size);
}

bool memory_own_changed(unsigned actor) {
        bool changed = false;

        for (Own *o = own[actor]; o < own[actor + 1]; o++)
                changed |= piece_changed(o->base, o->mirror, o->size);
        return changed;
}

void memory_save_plain(void) {
        memory_save(private, private_size);
        for (size_t i = 0; i < n_watches; i++)
                memory_save_line(watches[i]);
        for (Own *o = own[0]; o < own[MODEL_ACTORS_MAX]; o++)
                memory_save(o->base, o->size);
}

uint64_t memory_rehash_line(const void *address) {
        size_t line = line_of(address);
        uint64_t old;

        if (line == SIZE_MAX || !piece_changed(memory + line * LINE, mirror + line * LINE, LINE))
                return 0;
        old = line_hashes[line];
        memory_save(&line_hashes[line], sizeof(old));
        line_hashes[line] = table_hash(line * LINE, memory + line * LINE, LINE);
        return line_hashes[line] - old;
}

uint64_t memory_rehash_step(const void *address) {
        uint64_t change = memory_rehash_line(address);

        for (size_t i = 0; i < n_watches; i++)
                change += memory_rehash_line(watches[i]);
        return change;
}

/* Whether some of the line is an actor's own memory, which is saved apart. */
static bool is_owned(const uint8_t *line) {
        for (const Own *o = own[0]; o < own[MODEL_ACTORS_MAX]; o++)
                if (line + LINE > o->base && line < o->base + o->size)
                        return true;
        return false;
}

const void *memory_unknown_change(void) {
        if (memcmp(memory, mirror, memory_size) == 0)
                return NULL;
        for (size_t at = 0; at < memory_size; at += LINE)
                if (memcmp(memory + at, mirror + at, LINE) != 0 && !is_owned(memory + at))
                        return memory + at;
        return NULL;
}

uint64_t memory_private_hash(void) {
        return table_hash(0, private, private_size);
}

uint64_t memory_own_hash(unsigned actor) {
        uint64_t h = 0;

        for (Own *o = own[actor]; o < own[actor + 1]; o++)
                h = table_hash(h, o->base, o->size);
        return h;
}

/* NULL: a fence, or of nobody else's concern. */
static uint8_t *cell_of(const void *address) {
        size_t off = (size_t) ((const uint8_t *) address - memory);
        size_t private_off = (size_t) ((const uint8_t *) address - private);

        if (address && off < memory_size)
                return &cells[off / MEMORY_CELL];
        return address && private_off < private_size ? &cells[(memory_size + private_off) / MEMORY_CELL]
                                                     : NULL;
}

/* Two actors or more touch it, one of them changes it. */
static bool is_shared(uint8_t cell) {
        unsigned actors = cell & (CHANGED - 1);

        return (cell & CHANGED) && (actors & (actors - 1)) != 0;
}

bool memory_commutes(const void *address) {
        uint8_t *cell = cell_of(address);

        return !cell || !is_shared(*cell);
}

bool memory_touch(const void *address, unsigned actor, bool changed) {
        uint8_t *cell = cell_of(address), old;

        if (!cell)
                return false;
        old = *cell;
        *cell |= (uint8_t) (1U << actor | (changed ? CHANGED : 0));
        return is_shared(*cell) && !is_shared(old);
}
