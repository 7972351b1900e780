#pragma once

/*
 * Names for addresses in files of code, by their symbols and debug information. A path is what a
 * client said: a file is looked into only where it belongs to root or to us, is a regular one, and
 * has the build id that the client saw. Else there are no names.
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

/* Never NULL: of a file that is not looked into, nothing is known. */
SymbolsFile *symbols_open(const char *path, const uint8_t *build_id, size_t build_id_size);
/* NULL-safe, returns NULL. */
SymbolsFile *symbols_close(SymbolsFile *file);

/* Of the call that returns to `address`, an offset in the file's memory image. */
void symbols_find(SymbolsFile *file, uint64_t address, Symbol *ret);
