"""Files stay short enough to be read in one sitting, and keep to what no formatter decides."""

import re

import tree

LAYERS = ('shm/', 'proto/', 'libclient/', 'daemon/')
SOURCE_LINES = 400      # files have fewer lines than these
HEADER_LINES = 150
COLUMNS = 120           # the formatter breaks earlier; this is for what it cannot break


def check_length(name, n_lines):
    # Public headers are the reference manual, and as long as that takes.
    if not name.startswith(LAYERS) or tree.is_public(name):
        return []
    limit = SOURCE_LINES if name.endswith('.c') else HEADER_LINES
    return [f'{name}: {n_lines} lines, should be under {limit}'] if n_lines >= limit else []


def check_line(line):
    if '\t' in line:
        yield 'a tab; we indent by 8 spaces'
    if re.search(r'[ \r]$', line):
        yield 'a space at the end'
    if len(line) > COLUMNS:
        yield f'{len(line)} columns, at most {COLUMNS}'


def check(root):
    problems = []
    for name in tree.c_files(root):
        # As bytes: reading as text would hide carriage returns.
        text = (root / name).read_bytes().decode('utf-8', 'replace')
        lines = text.split('\n')
        if lines.pop():
            problems.append(f'{name}: no newline at the end of the file')
        problems += check_length(name, len(lines))
        for number, line in enumerate(lines, 1):
            problems += [f'{name}:{number}: {wrong}' for wrong in check_line(line)]
    return problems


CASES = [
    ('good', {'shm/a.c': 'int x;\n' * 399, 'shm/a.h': 'int x;\n' * 149}, [], None),
    ('the public header', {'libclient/tslab.h': 'int x;\n' * 600}, [], None),
    ('a long test', {'tests/unit/test-a.c': 'int x;\n' * 600}, [], None),
    ('a long source', {'daemon/ctl/a.c': 'int x;\n' * 400}, [], 'under 400'),
    ('a long header', {'proto/a.h': 'int x;\n' * 150}, [], 'under 150'),
    ('a tab', {'tests/a.c': '\tint x;\n'}, [], 'a tab'),
    ('a space', {'bench/a.c': 'int x; \n'}, [], 'at the end'),
    ('a carriage return', {'bench/a.c': 'int x;\r\n'}, [], 'at the end'),
    ('a wide line', {'shm/a.h': 'x' * 121 + '\n'}, [], '121 columns'),
    ('no newline', {'shm/a.h': 'int x;'}, [], 'no newline'),
]

if __name__ == '__main__':
    tree.main(check, CASES)
