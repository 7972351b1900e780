"""Each counter of threads is counted somewhere, and Python's package shows it.

The table is SHM_COUNTERS in shm/format/counters.h. The compiler sees to the fields of the daemon's reply and of
`struct tslab_stats`, and tslabctl's numbers are made of the table.
"""

import re

import tree

TABLE = 'shm/format/counters.h'
ROW = re.compile(r'^ +X\((\w+), (\w+),', re.MULTILINE)
SHOWN = ('proto/tslab.proto', 'libclient/tslab.h', 'bindings/python/tslab/stats.py')
ENGINE = ('shm/', 'libclient/')


def check(root):
    if not (root / TABLE).exists():
        return None
    rows = ROW.findall(tree.read(root, TABLE))
    code = '\n'.join(tree.blank(tree.read(root, name)) for name in tree.c_files(root)
                     if name.startswith(ENGINE) and name != TABLE)
    problems = [f'{name}: does not have the counter {field}' for name in SHOWN if (root / name).exists()
                for _, field in rows if not re.search(rf'\b{field}\b', tree.read(root, name))]
    for name, field in rows:
        # The largest sizes are counted by shm_actor_count_too_large(), which computes their place.
        if not name.endswith('_MAX') and not re.search(rf'\bSHM_COUNT_{name}\b', code):
            problems.append(f'{TABLE}: nothing counts {field}')
    return problems


def planted(rows='        X(STALE, frees_stale, "", "x") \\\n', shown='frees_stale', code='f(SHM_COUNT_STALE);\n'):
    return {TABLE: f'#define SHM_COUNTERS(X) \\\n{rows}\n', 'shm/a.c': code, 'bindings/python/tslab/stats.py': shown}


CASES = [
    ('good', planted(), [], None),
    ('not in Python', planted(shown='frees'), [], 'does not have the counter frees_stale'),
    ('not counted', planted(code='/* SHM_COUNT_STALE */\n'), [], 'nothing counts frees_stale'),
    ('a largest size', planted('        X(TOO_MAX, too_bytes, "", "x")\n', 'too_bytes', ''), [], None),
]

if __name__ == '__main__':
    tree.main(check, CASES)
