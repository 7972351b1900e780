#include "daemon/ctl/leaks/symbols.h"

#include <elfutils/libdwfl.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/ctl/base/complain.h"

struct SymbolsFile {
        Dwfl *dwfl; /* NULL: the file is not trusted */
        Dwfl_Module *module;
};

static int open_trusted(const char *path) {
        struct stat status;
        int fd;

        if (path[0] != '/')
                return -1;
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        if (fd < 0)
                return -1;
        if (fstat(fd, &status) < 0 || !S_ISREG(status.st_mode) ||
            (status.st_uid != 0 && status.st_uid != geteuid())) {
                (void) close(fd);
                return -1;
        }
        return fd;
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
                (void) snprintf(ret->name, sizeof(ret->name), "%s", name);
                ret->offset = offset + 1;
        }
        line = dwfl_module_getsrc(file->module, call);
        source = line ? dwfl_lineinfo(line, NULL, &ret->line, NULL, NULL, NULL) : NULL;
        if (source)
                (void) snprintf(ret->file, sizeof(ret->file), "%s", source);
}
