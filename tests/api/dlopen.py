"""A running program can load the libraries with dlopen(), though other libraries have taken the static TLS memory.

libtslab.so takes 64 bytes of it at most. libtslab-bundled.so takes none, and needs no library but the C library.

        dlopen.py CC LIBRARY BUNDLED HEADERS
"""

import pathlib
import re
import subprocess
import sys
import tempfile

LOADER = '''
#include <dlfcn.h>
#include <stdio.h>
#include <tslab_map.h>
#define CALL(name) ((__typeof__(&name)) dlsym(library, #name))
int main(int argc, char **argv) {
        void *library = NULL;
        tslab_handle handle;
        struct tslab *pool;
        void *object;
        for (int i = 1; i < argc; i++) {
                library = dlopen(argv[i], RTLD_NOW);
                if (!library)
                        return printf("%s\\n", dlerror()), 1;
        }
        if (CALL(tslab_create)(&pool, NULL) != 0 || CALL(tslab_alloc)(pool, 100, TSLAB_EPOCH_CURRENT, &handle, &object) != 0)
                return puts("no object"), 1;
        return CALL(tslab_free)(pool, handle) != 0 || CALL(tslab_close)(pool) != NULL;
}
'''
TAKER = '__thread char bytes[%d] __attribute__((tls_model("initial-exec")));\nchar *get_bytes(void) { return bytes; }\n'
LIBRARIES = {'libc.so.6', 'ld-linux-x86-64.so.2', 'ld-linux-aarch64.so.1'}


def read(library, *flags):
    return subprocess.run(['readelf', '-W', *flags, library], stdout=subprocess.PIPE, text=True, check=True).stdout


def problems_of(library, bundled):
    static = re.search(r'^ +TLS +(?:0x\w+ +){4}(0x\w+)', read(library, '-l'), re.MULTILINE)
    if not static or int(static[1], 16) > 64:
        yield f'{library}: {static and int(static[1], 16)} bytes for each thread, at most 64'
    if bundled and 'STATIC_TLS' in read(library, '-d'):
        yield f'{library}: cannot be loaded where the C library is musl'
    for name in re.findall(r'NEEDED.*\[(.*)\]', read(library, '-d')):
        if bundled and name not in LIBRARIES:
            yield f'{library}: needs {name}'


def loaded(cc, headers, where, libraries):
    (where / 'loader.c').write_text(LOADER)
    subprocess.run([*cc, '-I', headers, where / 'loader.c', '-o', where / 'loader'], check=True)
    for library, taken in libraries:
        (where / 'taker.c').write_text(TAKER % taken)
        subprocess.run([*cc, '-fPIC', '-shared', where / 'taker.c', '-o', where / 'taker.so'], check=True)
        r = subprocess.run([where / 'loader', where / 'taker.so', library], stdout=subprocess.PIPE, text=True, check=False)
        print(f'{library} beside {taken} bytes: {r.stdout.strip() or r.returncode}')
        if r.returncode != 0:
            yield f'{library}: not beside {taken} bytes: {r.stdout.strip()}'


def main(cc, library, bundled, headers):
    with tempfile.TemporaryDirectory() as where:
        problems = [*problems_of(library, False), *problems_of(bundled, True),
                    *loaded(cc.split(), headers, pathlib.Path(where), [(library, 1200), (bundled, 1200), (bundled, 1600)])]
    print('\n'.join(problems))
    return bool(problems)


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
