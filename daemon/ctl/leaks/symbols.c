#include "daemon/ctl/leaks/symbols.h"

#include <elf.h>
#include <elfutils/libdwfl.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "daemon/ctl/base/complain.h"
#include "proto/cleanup.h"
#include "proto/text.h"

/* <linux/magic.h> lacks them. */
#define CONFIGFS_MAGIC 0x62656570
#ifndef FUSE_SUPER_MAGIC
#define FUSE_SUPER_MAGIC 0x65735546 /* since Linux 5.18 */
#endif

struct SymbolsFile {
        Dwfl *dwfl; /* NULL: the file is not trusted */
        Dwfl_Module *module;
};

/*
 * Reading a file of these has side effects, or waits for the process that serves it. Such a process also chooses the
 * owner that fstat() reports.
 */
static bool is_plain_file_system(int fd) {
        static const uint32_t others[] = {
                PROC_SUPER_MAGIC,   SYSFS_MAGIC,         DEBUGFS_MAGIC,    TRACEFS_MAGIC,  SECURITYFS_MAGIC,
                CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC, BPF_FS_MAGIC,     EFIVARFS_MAGIC, CONFIGFS_MAGIC,
                PSTOREFS_MAGIC,     SELINUX_MAGIC,       FUSE_SUPER_MAGIC,
        };
        struct statfs status;

        if (fstatfs(fd, &status) < 0)
                return false;
        for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); ++i)
                if ((uint32_t) status.f_type == others[i])
                        return false;
        return true;
}

/* A descriptor that only refers to the file: the open() of a device can do anything. */
static bool is_trusted(int path_fd) {
        struct stat status;

        return fstat(path_fd, &status) == 0 && S_ISREG(status.st_mode) &&
               (status.st_uid == 0 || status.st_uid == geteuid()) && is_plain_file_system(path_fd);
}

/* libdwfl would decompress any other file, which may take minutes and all memory, to look for an ELF file in it. */
static bool is_elf(int fd) {
        char magic[SELFMAG];

        return pread(fd, magic, sizeof(magic), 0) == (ssize_t) sizeof(magic) &&
               !memcmp(magic, ELFMAG, SELFMAG);
}

static int open_trusted(const char *path) {
        _cleanup_(proto_closep) int path_fd = -1;
        char link[32];
        int fd;

        if (path[0] != '/')
                return -1;
        path_fd = open(path, O_PATH | O_CLOEXEC);
        if (path_fd < 0 || !is_trusted(path_fd))
                return -1;
        (void) snprintf(link, sizeof(link), "/proc/self/fd/%d", path_fd);
        fd = open(link, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        if (fd < 0 || is_elf(fd))
                return fd;
        (void) close(fd);
        return -1;
}

static bool has_build_id(Dwfl_Module *module, const uint8_t *build_id, size_t size) {
        const unsigned char *found;
        GElf_Addr address;
        int n = dwfl_module_build_id(module, &found, &address);

        return (n > 0 ? (size_t) n : 0) == size && (size == 0 || !memcmp(found, build_id, size));
}

static Dwfl_Module *report_module(Dwfl *dwfl, const char *path, int fd) {
        Dwfl_Module *module;

        dwfl_report_begin(dwfl);
        /* libdwfl closes the descriptor after success. */
        module = dwfl_report_elf(dwfl, path, path, fd, 0, true);
        if (!module)
                (void) close(fd);
        (void) dwfl_report_end(dwfl, NULL, NULL);
        return module;
}

SymbolsFile *symbols_open(const char *path, const uint8_t *build_id, size_t build_id_size) {
        static char *debug_path;
        static const Dwfl_Callbacks callbacks = {
                .find_elf = dwfl_build_id_find_elf,
                .find_debuginfo = dwfl_standard_find_debuginfo,
                .section_address = dwfl_offline_section_address,
                .debuginfo_path = &debug_path,
        };
        SymbolsFile *file = must(calloc(1, sizeof(*file)));
        int fd = open_trusted(path);

        if (fd < 0)
                return file;
        file->dwfl = must(dwfl_begin(&callbacks));
        file->module = report_module(file->dwfl, path, fd);
        if (!file->module || !has_build_id(file->module, build_id, build_id_size)) {
                dwfl_end(file->dwfl);
                file->dwfl = NULL;
        }
        return file;
}

SymbolsFile *symbols_close(SymbolsFile *file) {
        if (file && file->dwfl)
                dwfl_end(file->dwfl);
        free(file);
        return NULL;
}

void symbols_find(SymbolsFile *file, uint64_t address, Symbol *ret) {
        /* the call is the instruction before the return address */
        GElf_Addr bias, call = address - 1;
        const char *name, *source;
        Dwfl_Line *line;
        GElf_Off offset;
        GElf_Sym symbol;

        *ret = (Symbol){};
        if (!file->dwfl || address == 0)
                return;
        name = dwfl_module_addrinfo(file->module, call, &offset, &symbol, NULL, NULL, &bias);
        if (name) {
                proto_text_clean(ret->name, sizeof(ret->name), name);
                ret->offset = offset + 1;
        }
        line = dwfl_module_getsrc(file->module, call);
        source = line ? dwfl_lineinfo(line, NULL, &ret->line, NULL, NULL, NULL) : NULL;
        if (source)
                proto_text_clean(ret->file, sizeof(ret->file), source);
}
