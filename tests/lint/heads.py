"""A .c file of shm, libclient or slab-alloc that touches an atomic opens with a comment of these parts, in this order:

        Purpose             one sentence
        Invariants          numbered, so that others can cite one
        Who may do what     which thread or process takes which step
        Crash               the state that a death after each step leaves, and the function that repairs it

It touches an atomic where it calls a wrapper of shm/arch/atomic.h, which all end in their memory order.
"""

import re

import orders
import tree

FOLDERS = ('shm/', 'libclient/', 'slab-alloc/')
PARTS = ('Purpose', 'Invariants', 'Who may do what', 'Crash')


def parts_of(text):
    """The parts of the comment that the text opens with."""
    head = tree.TOKEN.match(text.lstrip())
    if not head or not head['comment']:
        return []
    return re.findall(rf'^ \* ({"|".join(PARTS)})\b', head.group(), re.MULTILINE)


def check(root):
    problems = []
    for name in tree.c_files(root):
        if not name.startswith(FOLDERS) or not name.endswith('.c'):
            continue
        text = tree.read(root, name)
        if not orders.WRAPPER.search(tree.blank(text)):
            continue
        parts = parts_of(text)
        missing = [part for part in PARTS if part not in parts]
        if missing:
            problems.append(f'{name}: touches an atomic, and its head has no {", ".join(missing)}')
        elif parts != list(PARTS):
            problems.append(f'{name}: the parts of its head stand in another order than {", ".join(PARTS)}')
    return problems


USE = '\n#include "shm/arch/atomic.h"\nint f(void) {\n        return shm_load_acq(&w);\n}\n'


def head(*parts):
    return '/*\n * Slabs\n *\n' + ''.join(f' * {part}: x.\n' for part in parts) + ' */'


CASES = [
    ('good', {'shm/a.c': head(*PARTS) + USE}, [], None),
    ('no head', {'shm/a.c': USE}, [], 'no Purpose, Invariants, Who may do what, Crash'),
    ('a part missing', {'libclient/a.c': head(*PARTS[:3]) + USE}, [], 'no Crash'),
    ('another order', {'shm/slab/a.c': head(*reversed(PARTS)) + USE}, [], 'another order'),
    ('not at the top', {'shm/a.c': '#include <errno.h>\n' + head(*PARTS) + USE}, [], 'no Purpose'),
    ('in a sentence', {'shm/a.c': '/* Purpose, Invariants, Who may do what, Crash */' + USE}, [], 'no Purpose'),
    ('no atomic', {'shm/a.c': 'int x; /* shm_load_acq(&w) */\n'}, [], None),
    ('a header', {'shm/a.h': USE}, [], None),
    ('the daemon', {'daemon/a.c': USE}, [], None),
]

if __name__ == '__main__':
    tree.main(check, CASES)
