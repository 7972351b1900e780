"""Lines are short enough, and without tabs and spaces at their ends, which the formatter leaves in comments.

A file that is too long to be read in one sitting gets a warning only: where to cut is a question of ideas, not of lines.
"""

import pathlib
import re
import sys

import tree

LAYERS = ('shm/', 'proto/', 'libclient/', 'slab-alloc/', 'daemon/')
SOURCE_LINES = 400      # files should have fewer lines than these
HEADER_LINES = 150
COLUMNS = 120           # the formatter breaks lines earlier, but cannot break strings


def long_files(root):
    warnings = []
    for name in tree.c_files(root):
        # Public headers are the reference manual, and as long as that takes.
        if not name.startswith(LAYERS) or tree.is_public(name):
            continue
        n_lines = tree.read(root, name).count('\n')
        limit = SOURCE_LINES if name.endswith('.c') else HEADER_LINES
        if n_lines >= limit:
            warnings.append(f'warning: {name}: {n_lines} lines, should be under {limit}')
    return warnings


def check_line(line):
    if '\t' in line:
        yield 'a tab; we indent by 8 spaces'
    if re.search(r'[ \r]$', line):
        yield 'a space at the end'
    if len(line) > COLUMNS:
        yield f'{len(line)} columns, at most {COLUMNS}'


def check(root, what='lines'):
    if what == 'lengths':
        return long_files(root)
    problems = []
    for name in tree.c_files(root):
        # As bytes: reading as text would hide carriage returns.
        text = (root / name).read_bytes().decode('utf-8', 'replace')
        lines = text.split('\n')
        if lines.pop():
            problems.append(f'{name}: no newline at the end of the file')
        for number, line in enumerate(lines, 1):
            problems += [f'{name}:{number}: {wrong}' for wrong in check_line(line)]
    return problems


CASES = [
    ('good lines', {'shm/a.c': 'int x;\n'}, [], None),
    ('good', {'shm/a.c': 'int x;\n' * 399, 'shm/a.h': 'int x;\n' * 149}, ['lengths'], None),
    ('the public header', {'libclient/tslab.h': 'int x;\n' * 600}, ['lengths'], None),
    ('a long test', {'tests/unit/test-a.c': 'int x;\n' * 600}, ['lengths'], None),
    ('a long source', {'daemon/ctl/a.c': 'int x;\n' * 400}, ['lengths'], 'under 400'),
    ('a long source is no failure', {'daemon/ctl/a.c': 'int x;\n' * 400}, [], None),
    ('a long header', {'proto/a.h': 'int x;\n' * 150}, ['lengths'], 'under 150'),
    ('a tab', {'tests/a.c': '\tint x;\n'}, [], 'a tab'),
    ('a space', {'bench/a.c': 'int x; \n'}, [], 'at the end'),
    ('a carriage return', {'bench/a.c': 'int x;\r\n'}, [], 'at the end'),
    ('a wide line', {'shm/a.h': 'x' * 121 + '\n'}, [], '121 columns'),
    ('no newline', {'shm/a.h': 'int x;'}, [], 'no newline'),
]

if __name__ == '__main__':
    if sys.argv[1:] != ['--self-test']:
        print(*long_files(pathlib.Path(sys.argv[1])), sep='\n')
    tree.main(check, CASES)
