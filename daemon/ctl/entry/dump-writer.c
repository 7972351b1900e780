#include "daemon/ctl/entry/dump-writer.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "proto/cleanup.h"

#define BLOCK_SIZE                                                                                           \
        ((size_t) 1 << 20) /* a block is written once it is as large; a large value makes it larger */
#define ROOM_MIN ((size_t) 64 << 10) /* for a key, and for most values */
#define SYNC_SIZE ((uint64_t) 8 << 20) /* the disk begins with as much, while the next blocks are made */

static CtlExit complain_write(const DumpWriter *writer, int error) {
        return complain("cannot write '%s': %s", writer->path, strerror(error));
}

static int write_bytes(int fd, const uint8_t *bytes, size_t size) {
        while (size > 0) {
                ssize_t n = write(fd, bytes, size);

                if (n < 0 && errno != EINTR)
                        return errno;
                bytes += n > 0 ? n : 0;
                size -= n > 0 ? (size_t) n : 0;
        }
        return 0;
}

static void *write_behind(void *userdata) {
        DumpWriter *writer = userdata;
        DumpBlock *head = (DumpBlock *) writer->behind.block;
        size_t size = sizeof(*head) + writer->behind.used;

        head->sum = dump_block_sum(writer->behind.block, size);
        writer->error = write_bytes(writer->fd, writer->behind.block, size);
        if (writer->error)
                return NULL;
        writer->n_bytes += size;
        if (writer->n_bytes - writer->n_begun >= SYNC_SIZE) {
                /* Its failures are those of fsync() at the end, which tells them. */
                (void) sync_file_range(writer->fd, (off_t) writer->n_begun,
                                       (off_t) (writer->n_bytes - writer->n_begun), SYNC_FILE_RANGE_WRITE);
                writer->n_begun = writer->n_bytes;
        }
        return NULL;
}

static CtlExit wait_for_thread(DumpWriter *writer) {
        if (writer->is_writing)
                (void) pthread_join(writer->thread, NULL);
        writer->is_writing = false;
        return writer->error ? complain_write(writer, writer->error) : CTL_DONE;
}

static CtlExit write_block(DumpWriter *writer) {
        DumpBuffer full = writer->now;
        CtlExit r = wait_for_thread(writer);

        if (r)
                return r;
        *(DumpBlock *) full.block = (DumpBlock){ .magic = DUMP_MAGIC,
                                                 .version = DUMP_VERSION,
                                                 .size = (uint32_t) full.used,
                                                 .number = writer->number++ };
        writer->now = writer->behind;
        writer->now.used = 0;
        writer->behind = full;
        writer->is_writing = pthread_create(&writer->thread, NULL, write_behind, writer) == 0;
        if (!writer->is_writing)
                (void) write_behind(writer);
        return CTL_DONE;
}

/* A file without a name, which a dump that is killed leaves nowhere. Some file systems have none: EOPNOTSUPP. */
static int open_unnamed(const char *path) {
        _cleanup_(proto_freep) char *copy = must(strdup(path));

        return open(dirname(copy), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
}

static int open_temporary(DumpWriter *writer) {
        if (asprintf(&writer->temporary, "%s.XXXXXX", writer->path) < 0)
                (void) must(writer->temporary = NULL);
        writer->fd = mkostemp(writer->temporary, O_CLOEXEC); /* with mode 0600 */
        if (writer->fd < 0)
                free(proto_steal(&writer->temporary));
        return writer->fd;
}

/* A name beside the last one, which rename() takes from an older file in one step. */
static int name_unnamed(DumpWriter *writer) {
        char number[32];

        (void) snprintf(number, sizeof(number), "/proc/self/fd/%d", writer->fd);
        if (asprintf(&writer->temporary, "%s.%d", writer->path, (int) getpid()) < 0)
                (void) must(writer->temporary = NULL);
        (void) unlink(writer->temporary);
        return linkat(AT_FDCWD, number, AT_FDCWD, writer->temporary, AT_SYMLINK_FOLLOW);
}

CtlExit dump_create(DumpWriter *writer, const char *path) {
        struct timespec now;
        uint64_t now_ms;

        writer->path = path;
        writer->fd = open_unnamed(path);
        if (writer->fd < 0 && open_temporary(writer) < 0)
                return complain_write(writer, errno);
        (void) clock_gettime(CLOCK_REALTIME, &now);
        now_ms = (uint64_t) now.tv_sec * 1000 + (uint64_t) now.tv_nsec / 1000000;
        return dump_add(writer, &(DumpRecord){ .kind = DUMP_BEGIN, .value_size = sizeof(now_ms) }, NULL,
                        &now_ms);
}

CtlExit dump_room(DumpWriter *writer, void **ret, size_t *ret_size) {
        size_t used;
        CtlExit r = writer->now.used >= BLOCK_SIZE ? write_block(writer) : CTL_DONE;

        dump_buffer_grow(&writer->now, sizeof(DumpBlock) + BLOCK_SIZE + ROOM_MIN);
        used = sizeof(DumpBlock) + writer->now.used + sizeof(DumpRecord);
        *ret = writer->now.block + used;
        *ret_size = writer->now.room - used;
        return r;
}

void dump_add_here(DumpWriter *writer, const DumpRecord *record) {
        memcpy(writer->now.block + sizeof(DumpBlock) + writer->now.used, record, sizeof(*record));
        writer->now.used += sizeof(*record) + record->key_size + record->value_size;
        writer->n_records++;
}

CtlExit dump_add(DumpWriter *writer, const DumpRecord *record, const void *key, const void *value) {
        size_t size = record->key_size + record->value_size, room;
        uint8_t *at;
        CtlExit r;

        r = dump_room(writer, (void **) &at, &room);
        if (r)
                return r;
        dump_buffer_grow(&writer->now, sizeof(DumpBlock) + writer->now.used + sizeof(*record) + size);
        at = writer->now.block + sizeof(DumpBlock) + writer->now.used + sizeof(*record);
        if (record->key_size)
                memcpy(at, key, record->key_size);
        if (record->value_size)
                memcpy(at + record->key_size, value, record->value_size);
        dump_add_here(writer, record);
        return CTL_DONE;
}

CtlExit dump_finish(DumpWriter *writer) {
        uint64_t n = writer->n_records;
        CtlExit r;

        r = dump_add(writer, &(DumpRecord){ .kind = DUMP_END, .value_size = sizeof(n) }, NULL, &n);
        r = r ?: write_block(writer);
        r = r ?: wait_for_thread(writer);
        if (r)
                return r;
        /* A crash of the system leaves the file that was there before, or this one. */
        if (fsync(writer->fd) < 0 || (!writer->temporary && name_unnamed(writer) < 0) ||
            rename(writer->temporary, writer->path) < 0)
                return complain_write(writer, errno);
        free(proto_steal(&writer->temporary));
        return CTL_DONE;
}

void dump_writer_deinit(DumpWriter *writer) {
        if (writer->is_writing)
                (void) pthread_join(writer->thread, NULL);
        if (writer->fd >= 0)
                (void) close(writer->fd);
        if (writer->temporary)
                (void) unlink(writer->temporary);
        free(writer->temporary);
        dump_buffer_deinit(&writer->now);
        dump_buffer_deinit(&writer->behind);
        *writer = (DumpWriter) DUMP_WRITER_INIT;
}
