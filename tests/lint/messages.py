"""The daemon uses every one of its message ids, and the journal's catalog explains these ids and no others."""

import re

import tree

IDS = 'daemon/message-id.h'
CATALOG = 'systemd/tslab.catalog'

DEFINE = re.compile(r'^#define (MESSAGE_\w+) "([0-9a-f]{32})"$', re.MULTILINE)
ENTRY = re.compile(r'^-- ([0-9a-f]{32})\n((?:[A-Z][\w-]*: .*\n)+)\n(.+)', re.MULTILINE)


def check(root):
    if not (root / IDS).exists():
        return None
    ids = DEFINE.findall(tree.read(root, IDS))
    entries = {m[0]: m[1] for m in ENTRY.findall(tree.read(root, CATALOG))}
    sources = [tree.read(root, f) for f in tree.c_files(root) if f.startswith('daemon/') and f != IDS]
    problems = []

    for name, number in ids:
        if number not in entries:
            problems.append(f'{CATALOG}: {name} ({number}) is not explained')
        elif 'Subject: ' not in entries[number] or 'Defined-By: tslab\n' not in entries[number]:
            problems.append(f'{CATALOG}: {name} has no subject, or is not ours')
        if not any(re.search(rf'\b{name}\b', text) for text in sources):
            problems.append(f'{IDS}: {name} is not used')
    numbers = [number for _, number in ids]
    problems += [f'{IDS}: {n} is there twice' for n in set(numbers) if numbers.count(n) > 1]
    problems += [f'{CATALOG}: {n} is no message of the daemon' for n in entries if n not in numbers]
    return problems


A, B = 'a' * 32, 'b' * 32


def case(ids, catalog):
    return {IDS: ''.join(f'#define MESSAGE_{n} "{i}"\n' for n, i in ids),
            CATALOG: '# comment\n' + ''.join(f'\n-- {i}\n{head}\nText.\n' for i, head in catalog),
            'daemon/a.c': 'int a = MESSAGE_ONE;\n'}


HEAD = 'Subject: Something\nDefined-By: tslab\n'

CASES = [
    ('good', case([('ONE', A)], [(A, HEAD)]), [], None),
    ('not explained', case([('ONE', A)], []), [], 'not explained'),
    ('no subject', case([('ONE', A)], [(A, 'Defined-By: tslab\n')]), [], 'no subject'),
    ('not used', case([('ONE', A), ('TWO', B)], [(A, HEAD), (B, HEAD)]), [], 'TWO is not used'),
    ('twice', case([('ONE', A), ('ONE', A)], [(A, HEAD)]), [], 'twice'),
    ('no message', case([('ONE', A)], [(A, HEAD), (B, HEAD)]), [], 'no message'),
]

if __name__ == '__main__':
    tree.main(check, CASES)
