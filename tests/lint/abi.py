"""The library's binary interface is that of libclient/tslab.abi: functions, their arguments, and the layout of structs.

    abi.py ROOT LIBRARY             reports each difference, by abidiff of Debian's abigail-tools
    abi.py ROOT LIBRARY --renew     writes the file anew, after a change that is meant

Skipped without abidiff, and on other processors than the file's.
"""

import pathlib
import platform
import shutil
import subprocess
import sys
import tempfile

import tree

BASELINE, HEADERS = 'libclient/tslab.abi', 'libclient'
PUBLIC = 'tslab*.h'
PROCESSOR = 'x86_64'


def write(root, library, path):
    root = pathlib.Path(root)
    # Not --headers-dir: in the folder there are the library's own headers as well.
    headers = [option for header in sorted((root / HEADERS).glob(PUBLIC)) for option in ('--header-file', header)]
    subprocess.run(['abidw', *headers, '--drop-private-types', '--no-show-locs', '--no-comp-dir-path',
                    '--no-corpus-path', '--no-elf-needed', '--type-id-style', 'hash', '--exported-interfaces-only',
                    '--out-file', path, library], check=True)


def check(root, library):
    if not shutil.which('abidiff') or platform.machine() != PROCESSOR:
        return None
    # Two files are compared, as only abidw leaves private types out where there are no locations.
    with tempfile.NamedTemporaryFile(suffix='.abi') as now:
        write(root, library, now.name)
        done = subprocess.run(['abidiff', root / BASELINE, now.name], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode & 3:
        return [f'{library}: abidiff failed: {done.stdout}']
    if done.returncode == 0:
        return []
    return [*done.stdout.splitlines(),
            f'{library}: another interface than {BASELINE}. If that is meant, say so in NEWS.md, and run '
            f'tests/lint/abi.py . {library} --renew']


HEADER = 'struct tslab_x { int a, b; };\nint tslab_f(struct tslab_x *x);\n'
CASES = [
    ('the same', HEADER, 'int tslab_f(struct tslab_x *x) { return x->b; }', None),
    ('a member more', HEADER.replace('int a', 'int c, a'), 'int tslab_f(struct tslab_x *x) { return x->b; }', 'type size'),
    ('another argument', HEADER.replace('_f(', '_f(long n, '), 'int tslab_f(long n, struct tslab_x *x) { return x->b; }',
     "parameter 1 of type"),
    ('a function less', HEADER, 'int x;', "Removed"),
    ('a function more', HEADER, 'int tslab_f(struct tslab_x *x) { return x->b; }\nint tslab_g(void) { return 1; }', 'Added'),
]


def self_test():
    if not shutil.which('abidiff'):
        return tree.SKIP
    failures = []
    for name, header, code, expected in CASES:
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / HEADERS).mkdir()
            for library, h, c in ('old', HEADER, CASES[0][2]), ('new', header, code):
                (root / HEADERS / 'tslab.h').write_text(h)
                (root / f'{library}.c').write_text(f'#include "{HEADERS}/tslab.h"\n{c}\n')
                subprocess.run(['cc', '-g', '-shared', '-fPIC', f'-I{root}', '-o', root / f'{library}.so',
                                root / f'{library}.c'], check=True)
                if library == 'old':
                    write(root, root / 'old.so', root / BASELINE)
            found = '\n'.join(check(root, root / 'new.so') or [])
            if (expected or '') not in found or bool(found) != bool(expected):
                failures.append(f'{name}: {found or "nothing"}')
    print('\n'.join(failures))
    return 1 if failures else 0


if __name__ == '__main__':
    if sys.argv[1:] == ['--self-test']:
        sys.exit(self_test())
    if sys.argv[3:] == ['--renew']:
        root = pathlib.Path(sys.argv[1])
        sys.exit(write(root, sys.argv[2], root / BASELINE))
    tree.main(check, [])
