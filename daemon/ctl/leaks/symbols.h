#pragma once

/*
 * Names for addresses in program files, from their symbols and debug information. A client names the path. So a file is
 * opened only if it is regular, and root or the user owns it. It must not be on a file system of the kernel (as /proc)
 * or of a process (FUSE). If it has another build id than the client saw, there are no names.
 */

#include <stddef.h>
#include <stdint.h>

#define SYMBOLS_NAME_SIZE 128
#define SYMBOLS_FILE_SIZE 256

typedef struct SymbolsFile SymbolsFile;

typedef struct Symbol {
        char name[SYMBOLS_NAME_SIZE]; /* "": not known */
        uint64_t offset; /* in it */
        char file[SYMBOLS_FILE_SIZE]; /* "": not known */
        int line;
} Symbol;

/* Never NULL: a file that is not trusted yields no names. */
SymbolsFile *symbols_open(const char *path, const uint8_t *build_id, size_t build_id_size);
/* NULL-safe, returns NULL. */
SymbolsFile *symbols_close(SymbolsFile *file);

/* Finds the call that returns to `address`, an offset in the memory image of the file. */
void symbols_find(SymbolsFile *file, uint64_t address, Symbol *ret);
