/*
 * Runs a fuzz target over files without a fuzzer: `fuzz-NAME [--changes=N] PATH...`, where a PATH is a
 * file or a folder of files. It also runs all prefixes of each file, and all changes of a single byte of the
 * first N, 1024 where not given. It prints how many inputs it ran; none at all is a failure.
 */

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FOLDERS_OPEN 16

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned long n_files, n_inputs, n_changed = 1024;

/*
 * In memory of its own and of just that size, so that a sanitizer sees the first byte read beyond
 * it.
 */
static void run_input(const uint8_t *data, size_t size) {
        uint8_t *copy = malloc(size ?: 1);

        if (!copy)
                abort();
        if (size > 0)
                memcpy(copy, data, size);
        (void) LLVMFuzzerTestOneInput(copy, size);
        free(copy);
        ++n_inputs;
}

static void run_variants(uint8_t *data, size_t size) {
        for (size_t i = 0; i <= size; ++i)
                run_input(data, i);

        for (size_t i = 0; i < size && i < n_changed; ++i) {
                uint8_t byte = data[i];

                for (unsigned int change = 1; change < 256; ++change) {
                        data[i] = byte ^ (uint8_t) change;
                        run_input(data, size);
                }
                data[i] = byte;
        }
}

static int run_file(const char *path, const struct stat *st, int type, struct FTW *ftw) {
        size_t size = (size_t) st->st_size;
        uint8_t *data;
        FILE *file;

        (void) ftw;
        if (type == FTW_D || type == FTW_DP)
                return 0;

        file = fopen(path, "re");
        data = malloc(size ?: 1);
        if (!file || !data || fread(data, 1, size, file) != size) {
                fprintf(stderr, "fuzz: cannot read %s: %s\n", path, strerror(errno));
                exit(EXIT_FAILURE);
        }
        (void) fclose(file);

        run_variants(data, size);
        free(data);
        ++n_files;
        return 0;
}

int main(int argc, char **argv) {
        for (int i = 1; i < argc; ++i) {
                if (strncmp(argv[i], "--changes=", 10) == 0) {
                        n_changed = strtoul(argv[i] + 10, NULL, 10);
                        continue;
                }
                if (nftw(argv[i], run_file, FOLDERS_OPEN, FTW_PHYS) != 0) {
                        fprintf(stderr, "fuzz: cannot read %s: %s\n", argv[i], strerror(errno));
                        return EXIT_FAILURE;
                }
        }

        printf("%lu files, %lu inputs\n", n_files, n_inputs);
        return n_files > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
