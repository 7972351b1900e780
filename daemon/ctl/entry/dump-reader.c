#include "daemon/ctl/entry/dump-reader.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLOCK_MAX ((size_t) 64 << 20) /* larger than any value: a file that is damaged takes no more memory */

CtlExit dump_open(DumpReader *reader, const char *path) {
        struct stat status;

        reader->path = path;
        reader->fd =
                open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a fifo without a writer is not waited for */
        if (reader->fd < 0 || fstat(reader->fd, &status) < 0)
                return complain("cannot read '%s': %s", path, strerror(errno));
        if (!S_ISREG(status.st_mode)) /* it is read twice */
                return complain("'%s' is no file of its own: a dump is read twice", path);
        reader->size = (uint64_t) status.st_size;
        return CTL_DONE;
}

/* How many bytes were there, up to `size`, or -1. */
static ssize_t read_bytes(int fd, void *buffer, size_t size) {
        size_t done = 0;

        while (done < size) {
                ssize_t n = read(fd, (uint8_t *) buffer + done, size - done);

                if (n == 0)
                        break;
                if (n < 0 && errno != EINTR)
                        return -1;
                done += n > 0 ? (size_t) n : 0;
        }
        return (ssize_t) done;
}

const char *dump_read_block(DumpReader *reader, DumpBuffer *buffer, bool *ret_end) {
        DumpBlock head;
        ssize_t n = read_bytes(reader->fd, &head, sizeof(head));

        *ret_end = n == 0 && reader->number > 0;
        if (*ret_end)
                return NULL;
        if (n < 0)
                return "cannot be read";
        if (n < (ssize_t) sizeof(head))
                return reader->number || n >= (ssize_t) sizeof(head.magic) ? "is cut off"
                                                                           : "is no dump of tslab";
        if (memcmp(head.magic, DUMP_MAGIC, sizeof(head.magic)) != 0)
                return reader->number ? "is damaged" : "is no dump of tslab";
        if (head.version != DUMP_VERSION)
                return "is a dump of another version of tslab, which this one does not know";
        if (head.number != reader->number || head.size > BLOCK_MAX)
                return "is damaged";
        dump_buffer_grow(buffer, sizeof(head) + head.size);
        memcpy(buffer->block, &head, sizeof(head));
        n = read_bytes(reader->fd, buffer->block + sizeof(head), head.size);
        if (n < 0)
                return "cannot be read";
        if (n < (ssize_t) head.size)
                return "is cut off";
        buffer->used = head.size;
        reader->number++;
        reader->n_bytes += sizeof(head) + head.size;
        return NULL;
}

bool dump_sum_is_right(const DumpBuffer *buffer) {
        DumpBlock *head = (DumpBlock *) buffer->block;
        uint64_t told = head->sum, sum;

        head->sum = 0;
        sum = dump_block_sum(buffer->block, sizeof(*head) + buffer->used);
        head->sum = told;
        return sum == told;
}

void dump_rewind(DumpReader *reader) {
        (void) lseek(reader->fd, 0, SEEK_SET);
        reader->number = reader->n_bytes = 0;
}

void dump_reader_deinit(DumpReader *reader) {
        if (reader->fd >= 0)
                (void) close(reader->fd);
        *reader = (DumpReader) DUMP_READER_INIT;
}
