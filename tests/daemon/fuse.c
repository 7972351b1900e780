#include "tests/daemon/fuse.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/util/parent.h"
#include "tests/util/test.h"

#define FILE_ID 2U

static void answer(int fuse, uint64_t unique, int error, const void *body, size_t size) {
        char data[4096];
        struct fuse_out_header header = { .len = (uint32_t) (sizeof(header) + size),
                                          .error = error,
                                          .unique = unique };

        memcpy(data, &header, sizeof(header));
        memcpy(data + sizeof(header), body, size);
        (void) !write(fuse, data, header.len);
}

static struct fuse_attr attributes_of(uint64_t id) {
        return (struct fuse_attr){ .ino = id,
                                   .size = id == FILE_ID,
                                   .nlink = 1,
                                   .mode = id == FILE_ID ? S_IFREG | 0666 : S_IFDIR | 0755 };
}

static void serve_request(int fuse, const struct fuse_in_header *in) {
        static bool silent;
        struct fuse_init_out init = { .major = FUSE_KERNEL_VERSION, .minor = 31, .max_write = 4096 };
        struct fuse_entry_out entry = { .nodeid = FILE_ID, .attr = attributes_of(FILE_ID) };
        struct fuse_attr_out attributes = { .attr = attributes_of(in->nodeid) };
        struct fuse_open_out opened = {};

        if (silent)
                return;
        switch (in->opcode) {
        case FUSE_INIT:
                answer(fuse, in->unique, 0, &init, sizeof(init));
                break;
        case FUSE_LOOKUP:
                answer(fuse, in->unique, 0, &entry, sizeof(entry));
                break;
        case FUSE_GETATTR:
                answer(fuse, in->unique, 0, &attributes, sizeof(attributes));
                break;
        case FUSE_OPEN:
                answer(fuse, in->unique, 0, &opened, sizeof(opened));
                break;
        case FUSE_READ:
                answer(fuse, in->unique, 0, "", 1);
                break;
        case FUSE_FLUSH:
        case FUSE_INTERRUPT:
        case FUSE_FORGET:
        case FUSE_BATCH_FORGET:
                break;
        case FUSE_WRITE:
                silent = true;
                break;
        default:
                answer(fuse, in->unique, -ENOSYS, "", 0);
        }
}

static void serve(int fuse) {
        static char data[FUSE_MIN_READ_BUFFER * 4];

        for (;;) {
                ssize_t n = read(fuse, data, sizeof(data));

                if (n >= (ssize_t) sizeof(struct fuse_in_header))
                        serve_request(fuse, (const struct fuse_in_header *) (const void *) data);
                else if (n < 0 && errno != EINTR && errno != ENOENT)
                        _exit(0);
        }
}

bool fuse_mount(FuseMount *fs) {
        char options[96];
        int fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC);

        if (fuse < 0)
                return false;
        strcpy(fs->dir, "/tmp/tslab-fuse-XXXXXX");
        assert_non_null(mkdtemp(fs->dir));
        snprintf(fs->file, sizeof(fs->file), "%s/f", fs->dir);
        snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=%u,group_id=%u", fuse, geteuid(),
                 getegid());
        if (mount("tslab-test", fs->dir, "fuse", MS_NOSUID | MS_NODEV, options) < 0) {
                close(fuse);
                rmdir(fs->dir);
                return false;
        }
        fs->server = fork();
        assert_true(fs->server >= 0);
        if (fs->server == 0) {
                end_with_parent();
                serve(fuse);
        }
        close(fuse);
        return true;
}

void fuse_end(FuseMount *fs) {
        if (fs->server <= 0)
                return;
        (void) kill(fs->server, SIGKILL);
        (void) waitpid(fs->server, NULL, 0);
        fs->server = 0;
        assert_int_equal(umount2(fs->dir, MNT_DETACH), 0);
        assert_int_equal(rmdir(fs->dir), 0);
}

int fuse_process_call(pid_t pid) {
        char path[64], text[16] = "";
        int fd;

        snprintf(path, sizeof(path), "/proc/%d/syscall", (int) pid);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd >= 0) {
                (void) !read(fd, text, sizeof(text) - 1);
                close(fd);
        }
        return atoi(text);
}
