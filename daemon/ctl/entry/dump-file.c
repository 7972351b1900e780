#include "daemon/ctl/entry/dump-file.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "proto/cleanup.h"

#define BLOCK_SIZE                                                                                           \
        ((size_t) 1 << 20) /* a block is written once it is as large; a large value makes it larger */
#define ROOM_MIN ((size_t) 64 << 10) /* for a key, and for most values */
#define SYNC_SIZE ((uint64_t) 8 << 20) /* the disk begins with as much, while the next blocks are made */
#define BLOCK_MAX ((size_t) 64 << 20) /* larger than any value: a file that is damaged takes no more memory */

/*
 * Each step is a bijection of the sum and of the word, so that a change of one word always changes the sum; others do
 * but for one in 2^64. Not against people who change a file on purpose: only its owner can write it. There are four
 * sums, since a processor has four such steps in work at one time.
 */
static uint64_t add_word(uint64_t sum, uint64_t word) {
        sum ^= word;
        sum = sum << 29 | sum >> 35;
        return sum * UINT64_C(0x9e3779b97f4a7c15) + 1;
}

static uint64_t block_sum(const uint8_t *block, size_t size) {
        uint64_t a = size, b = size, c = size, d = size, words[4];

        for (; size >= sizeof(words); block += sizeof(words), size -= sizeof(words)) {
                memcpy(words, block, sizeof(words));
                a = add_word(a, words[0]);
                b = add_word(b, words[1]);
                c = add_word(c, words[2]);
                d = add_word(d, words[3]);
        }
        memset(words, 0, sizeof(words));
        memcpy(words, block, size);
        a = add_word(a, words[0]);
        b = add_word(b, words[1]);
        c = add_word(c, words[2]);
        d = add_word(d, words[3]);
        return add_word(add_word(add_word(a, b), c), d);
}

static CtlExit refuse_file(const DumpFile *file, const char *what) {
        return complain("'%s' %s%s", file->path, what, file->is_checked ? "" : "; nothing was loaded");
}

static CtlExit complain_write(const DumpFile *file, int error) {
        return complain("cannot write '%s': %s", file->path, strerror(error));
}

static void make_room(DumpBuffer *buffer, size_t room) {
        if (room <= buffer->room)
                return;
        buffer->block = must(realloc(buffer->block, room));
        buffer->room = room;
}

static CtlExit write_block(DumpFile *file) {
        DumpBlock head = { .magic = DUMP_MAGIC, .version = DUMP_VERSION, .size = (uint32_t) file->now.used };
        size_t size = sizeof(head) + file->now.used;

        head.number = file->number++;
        memcpy(file->now.block, &head, sizeof(head));
        head.sum = block_sum(file->now.block, size);
        memcpy(file->now.block, &head, sizeof(head));
        for (size_t done = 0; done < size;) {
                ssize_t n = write(file->fd, file->now.block + done, size - done);

                if (n < 0 && errno != EINTR)
                        return complain_write(file, errno);
                done += n > 0 ? (size_t) n : 0;
        }
        file->n_bytes += size;
        file->now.used = 0;
        if (file->n_bytes - file->n_begun >= SYNC_SIZE) {
                /* Its failures are those of fsync() at the end, which tells them. */
                (void) sync_file_range(file->fd, (off_t) file->n_begun,
                                       (off_t) (file->n_bytes - file->n_begun), SYNC_FILE_RANGE_WRITE);
                file->n_begun = file->n_bytes;
        }
        return CTL_DONE;
}

/* A file without a name, which a dump that is killed leaves nowhere. Some file systems have none: EOPNOTSUPP. */
static int open_unnamed(const char *path) {
        _cleanup_(proto_freep) char *copy = must(strdup(path));

        return open(dirname(copy), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
}

static int open_temporary(DumpFile *file) {
        if (asprintf(&file->temporary, "%s.XXXXXX", file->path) < 0)
                (void) must(file->temporary = NULL);
        file->fd = mkostemp(file->temporary, O_CLOEXEC); /* with mode 0600 */
        if (file->fd < 0)
                free(proto_steal(&file->temporary));
        return file->fd;
}

/* A name beside the last one, which rename() takes from an older file in one step. */
static int name_unnamed(DumpFile *file) {
        char number[32];

        (void) snprintf(number, sizeof(number), "/proc/self/fd/%d", file->fd);
        if (asprintf(&file->temporary, "%s.%d", file->path, (int) getpid()) < 0)
                (void) must(file->temporary = NULL);
        (void) unlink(file->temporary);
        return linkat(AT_FDCWD, number, AT_FDCWD, file->temporary, AT_SYMLINK_FOLLOW);
}

CtlExit dump_create(DumpFile *file, const char *path) {
        struct timespec now;
        uint64_t now_ms;

        file->path = path;
        file->fd = open_unnamed(path);
        if (file->fd < 0 && open_temporary(file) < 0)
                return complain_write(file, errno);
        (void) clock_gettime(CLOCK_REALTIME, &now);
        now_ms = (uint64_t) now.tv_sec * 1000 + (uint64_t) now.tv_nsec / 1000000;
        return dump_add(file, &(DumpRecord){ .kind = DUMP_BEGIN, .value_size = sizeof(now_ms) }, NULL,
                        &now_ms);
}

CtlExit dump_room(DumpFile *file, void **ret, size_t *ret_size) {
        size_t used;
        CtlExit r = file->now.used >= BLOCK_SIZE ? write_block(file) : CTL_DONE;

        make_room(&file->now, sizeof(DumpBlock) + BLOCK_SIZE + ROOM_MIN);
        used = sizeof(DumpBlock) + file->now.used + sizeof(DumpRecord);
        *ret = file->now.block + used;
        *ret_size = file->now.room - used;
        return r;
}

void dump_add_here(DumpFile *file, const DumpRecord *record) {
        memcpy(file->now.block + sizeof(DumpBlock) + file->now.used, record, sizeof(*record));
        file->now.used += sizeof(*record) + record->key_size + record->value_size;
        file->n_records++;
}

CtlExit dump_add(DumpFile *file, const DumpRecord *record, const void *key, const void *value) {
        size_t size = record->key_size + record->value_size, room;
        uint8_t *at;
        CtlExit r;

        r = dump_room(file, (void **) &at, &room);
        if (r)
                return r;
        make_room(&file->now, sizeof(DumpBlock) + file->now.used + sizeof(*record) + size);
        at = file->now.block + sizeof(DumpBlock) + file->now.used + sizeof(*record);
        if (record->key_size)
                memcpy(at, key, record->key_size);
        if (record->value_size)
                memcpy(at + record->key_size, value, record->value_size);
        dump_add_here(file, record);
        return CTL_DONE;
}

CtlExit dump_finish(DumpFile *file) {
        uint64_t n = file->n_records;
        CtlExit r;

        r = dump_add(file, &(DumpRecord){ .kind = DUMP_END, .value_size = sizeof(n) }, NULL, &n);
        r = r ?: write_block(file);
        if (r)
                return r;
        /* A crash of the system leaves the file that was there before, or this one. */
        if (fsync(file->fd) < 0 || (!file->temporary && name_unnamed(file) < 0) ||
            rename(file->temporary, file->path) < 0)
                return complain_write(file, errno);
        free(proto_steal(&file->temporary));
        return CTL_DONE;
}

CtlExit dump_open(DumpFile *file, const char *path) {
        struct stat status;

        file->path = path;
        file->fd =
                open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a fifo without a writer is not waited for */
        if (file->fd < 0 || fstat(file->fd, &status) < 0)
                return complain("cannot read '%s': %s", path, strerror(errno));
        if (!S_ISREG(status.st_mode)) /* it is read twice */
                return complain("'%s' is no file of its own: a dump is read twice", path);
        return CTL_DONE;
}

/* How many bytes were there, up to `size`; -1 after a complaint. */
static ssize_t read_bytes(DumpFile *file, void *buffer, size_t size) {
        size_t done = 0;

        while (done < size) {
                ssize_t n = read(file->fd, (uint8_t *) buffer + done, size - done);

                if (n == 0)
                        break;
                if (n < 0 && errno != EINTR) {
                        (void) complain("cannot read '%s': %s", file->path, strerror(errno));
                        return -1;
                }
                done += n > 0 ? (size_t) n : 0;
        }
        return (ssize_t) done;
}

static CtlExit read_block(DumpFile *file, DumpBuffer *buffer) {
        DumpBlock head;
        uint64_t sum;
        ssize_t n;

        n = read_bytes(file, &head, sizeof(head));
        if (n < 0)
                return CTL_FAILED;
        if (n < (ssize_t) sizeof(head))
                return refuse_file(file, file->number || n >= 8 ? "is cut off" : "is no dump of tslab");
        if (memcmp(head.magic, DUMP_MAGIC, sizeof(head.magic)) != 0)
                return refuse_file(file, file->number ? "is damaged" : "is no dump of tslab");
        if (head.version != DUMP_VERSION)
                return refuse_file(file,
                                   "is a dump of another version of tslab, which this one does not know");
        if (head.number != file->number || head.size > BLOCK_MAX)
                return refuse_file(file, "is damaged");
        make_room(buffer, sizeof(head) + head.size);
        n = read_bytes(file, buffer->block + sizeof(head), head.size);
        if (n < 0)
                return CTL_FAILED;
        if (n < (ssize_t) head.size)
                return refuse_file(file, "is cut off");
        sum = head.sum;
        head.sum = 0;
        memcpy(buffer->block, &head, sizeof(head));
        if (block_sum(buffer->block, sizeof(head) + head.size) != sum)
                return refuse_file(file, "is damaged");
        file->number++;
        file->n_read += sizeof(head) + head.size;
        buffer->used = head.size;
        return CTL_DONE;
}

static void *run_reader(void *userdata) {
        DumpFile *file = userdata;

        file->ahead_result = read_block(file, &file->ahead);
        return NULL;
}

static void wait_for_reader(DumpFile *file) {
        if (file->reads_ahead)
                (void) pthread_join(file->reader, NULL);
        file->reads_ahead = false;
}

/* In a file that was checked, a thread reads the next block meanwhile; the last one is known. */
static CtlExit next_block(DumpFile *file) {
        CtlExit r;

        if (file->reads_ahead) {
                DumpBuffer last = file->now;

                wait_for_reader(file);
                r = file->ahead_result;
                file->now = file->ahead;
                file->ahead = last;
        } else {
                r = read_block(file, &file->now);
        }
        file->at = 0;
        if (r == CTL_DONE && file->n_read < file->n_bytes)
                file->reads_ahead = pthread_create(&file->reader, NULL, run_reader, file) == 0;
        return r;
}

/* Whether the record is one that dump_add() makes; others come from programs that make such files on purpose. */
static bool is_sound(const DumpFile *file, const DumpRecord *record, const void *value) {
        uint64_t n;

        if ((record->kind == DUMP_BEGIN) != (file->n_records == 0))
                return false;
        switch (record->kind) {
        case DUMP_BEGIN:
                return record->key_size == 0 && record->value_size == sizeof(uint64_t);
        case DUMP_MAP:
                return record->key_size > 0 && record->key_size <= TSLAB_MAP_NAME_MAX &&
                       record->value_size == sizeof(DumpMap);
        case DUMP_VALUE:
                return record->key_size <= TSLAB_MAP_KEY_MAX;
        case DUMP_COUNTER:
                return record->key_size <= TSLAB_MAP_KEY_MAX && record->value_size == sizeof(int64_t);
        case DUMP_END:
                if (record->key_size != 0 || record->value_size != sizeof(n))
                        return false;
                memcpy(&n, value, sizeof(n));
                return n == file->n_records;
        default:
                return false;
        }
}

CtlExit dump_next(DumpFile *file, DumpRecord *ret, const void **ret_key, const void **ret_value) {
        const uint8_t *records;
        size_t left;

        *ret_value = NULL;
        if (file->has_ended)
                return CTL_DONE;
        if (file->at == file->now.used) {
                CtlExit r = next_block(file);

                if (r)
                        return r;
        }
        records = file->now.block + sizeof(DumpBlock);
        left = file->now.used - file->at;
        if (left < sizeof(*ret))
                return refuse_file(file, "is damaged");
        memcpy(ret, records + file->at, sizeof(*ret));
        left -= sizeof(*ret);
        if (ret->key_size > left || ret->value_size > left - ret->key_size)
                return refuse_file(file, "is damaged");
        *ret_key = records + file->at + sizeof(*ret);
        file->at += sizeof(*ret) + ret->key_size + ret->value_size;
        if (!is_sound(file, ret, (const uint8_t *) *ret_key + ret->key_size))
                return refuse_file(file, "is damaged");
        file->n_records++;
        file->has_ended = ret->kind == DUMP_END;
        *ret_value = (const uint8_t *) *ret_key + ret->key_size;
        return CTL_DONE;
}

void dump_rewind(DumpFile *file) {
        wait_for_reader(file);
        (void) lseek(file->fd, 0, SEEK_SET);
        file->now.used = file->at = 0;
        file->number = file->n_records = file->n_read = 0;
        file->has_ended = false;
}

CtlExit dump_check(DumpFile *file) {
        const void *key, *value;
        DumpRecord record;
        CtlExit r;
        uint8_t byte;

        do
                r = dump_next(file, &record, &key, &value);
        while (r == CTL_DONE && value);
        if (r == CTL_DONE && (file->at != file->now.used || read(file->fd, &byte, 1) != 0))
                r = refuse_file(file, "has more behind its end");
        file->n_bytes = file->n_read;
        dump_rewind(file);
        file->is_checked = true;
        return r;
}

void dump_deinit(DumpFile *file) {
        wait_for_reader(file);
        if (file->fd >= 0)
                (void) close(file->fd);
        if (file->temporary)
                (void) unlink(file->temporary);
        free(file->temporary);
        free(file->now.block);
        free(file->ahead.block);
        *file = (DumpFile) DUMP_FILE_INIT;
}
