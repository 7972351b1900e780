"""The public headers can be read by a tool that knows no preprocessor's macros: all constants are enumerators.

        constants.py CC FOLDER HEADER...

cffi reads the headers as a program in another language would, and has the value of each constant that the C compiler has.
"""

import pathlib
import re
import subprocess
import sys
import tempfile

try:
    import cffi
except ImportError:
    print('skipped: no cffi')
    sys.exit(77)

STANDARD = {'stdbool.h': '', 'stddef.h': '', 'sys/types.h': '', 'stdint.h': '#define UINT32_MAX 0xffffffff\n#define UINT64_MAX 0xffffffffffffffff\n'}


def preprocess(cc, folder, headers, empty):
    for name, text in STANDARD.items():
        (empty / name).parent.mkdir(exist_ok=True)
        (empty / name).write_text(text)
    source = ''.join(f'#include <{h}>\n' for h in headers)
    return subprocess.run([*cc, '-E', '-P', '-nostdinc', '-D__extension__=', '-I', empty, '-I', folder, '-'], input=source,
                          stdout=subprocess.PIPE, text=True, check=True).stdout


def compiled(cc, folder, headers, names, where):
    source = ''.join(f'#include <{h}>\n' for h in headers)
    lines = ''.join(f'        printf("{n} %llu\\n", (unsigned long long) {n});\n' for n in names)
    (where / 'values.c').write_text(f'#include <stdio.h>\n{source}int main(void) {{\n{lines}        return 0;\n}}\n')
    subprocess.run([*cc, '-I', folder, where / 'values.c', '-o', where / 'values'], check=True)
    printed = subprocess.run([where / 'values'], stdout=subprocess.PIPE, text=True, check=True).stdout
    return {n: int(v) for n, v in (line.split() for line in printed.splitlines())}


def main(cc, folder, *headers):
    problems = []
    for header in headers:
        text = (pathlib.Path(folder) / header).read_text(encoding='utf-8')
        problems += [f'{header}: {m} is a macro' for m in re.findall(r'^#define (\w+)', text, re.MULTILINE)]
    with tempfile.TemporaryDirectory() as where:
        where = pathlib.Path(where)
        (where / 'empty').mkdir()
        ffi = cffi.FFI()
        ffi.cdef(preprocess(cc.split(), folder, headers, where / 'empty'))
        seen = {}
        for kind in ffi.list_types()[0] + [f'enum {n}' for n in re.findall(r'enum (\w+) {', preprocess(
                cc.split(), folder, headers, where / 'empty'))]:
            if kind.startswith('enum '):
                seen.update(ffi.typeof(kind).relements)
        values = compiled(cc.split(), folder, headers, seen, where)
    problems += [f'{n} is {seen[n]}, and {values[n]} in C' for n in seen if seen[n] != values[n]]
    if len(seen) < 20:
        problems.append(f'only {len(seen)} constants were found')
    print('\n'.join(problems) or f'{len(seen)} constants')
    return bool(problems)


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
