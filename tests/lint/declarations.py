"""A header declares only functions that the .c file of its name defines.

So the includes of a module name the modules that it calls, and lint-circles sees a ring of calls. A header of a table, as
of the verbs of a program, declares one function of each file of its folder: it is in TABLES. Some headers are yet to be
parted; they are in PARTS, with the files of their folder that they declare, too.
"""

import collections
import os
import re

import tree

FOLDERS = ('shm/', 'proto/', 'libclient/', 'slab-alloc/', 'daemon/', 'near/', 'bench/')

TABLES = ('bench/near/near-rows.h', 'bench/web/web.h', 'daemon/ctl/verb/verb.h', 'daemon/request/request.h')

PARTS = {
    'bench/allocators/boost.h': 'boost-pool.cpp boost-rbtree.cpp',
    'daemon/ctl/leaks/leaks.h': 'leaks-text.c leaks-json.c',
    'daemon/peer/session.h': 'call.c',
    'shm/map/entry/map.h': 'put.c map-scan.c',
    'shm/map/trie/trie.h': 'trie-walk.c trie-change.c trie-scan.c',
    'shm/slab/pages.h': 'pages-trim.c',
    'slab-alloc/state.h': 'epochs.c',
}

# Other libraries' functions, and those that tests give to the engine.
FOREIGN = {'shm_step', '__tsan_acquire', '__tsan_release'}

TYPE = r'^(?!static|typedef|return|extern "C")[A-Za-z_][\w \t*(),]*?[ *]'
DECLARED = re.compile(TYPE + r'(\w+)\([^;{}]*?\)[^;{}()]*;', re.MULTILINE)
DEFINED = re.compile(TYPE + r'(\w+)\([^;{}]*?\)\s*\{', re.MULTILINE)


def functions(pattern, root, name):
    text = tree.blank(tree.read(root, name))
    return [(match[1], tree.line_of(text, match.start(1))) for match in pattern.finditer(text)]


def check(root, tables=TABLES, parts=None):
    parts = PARTS if parts is None else parts
    names = [n for n in tree.files(root) if n.startswith(FOLDERS) and not tree.is_test(n)]
    defined = {n: {f for f, _ in functions(DEFINED, root, n)} for n in names if n.endswith(('.c', '.cpp'))}
    problems, needed = [], collections.defaultdict(set)
    for name in names:
        if not name.endswith('.h') or tree.is_public(name):
            continue
        folder, own = os.path.dirname(name), name[:-2] + '.c'
        may = [os.path.join(folder, part) for part in parts.get(name, '').split()]
        for function, line in functions(DECLARED, root, name):
            where = [n for n in defined if function in defined[n]]
            if own in where or function in FOREIGN or name in tables and any(os.path.dirname(n) == folder for n in where):
                continue
            needed[name].update(set(where) & set(may))
            if not set(where) & set(may):
                problems.append(f'{name}:{line}: {function}() is of {", ".join(where) or "no file"}, not of {own}')
    problems += [f'PARTS: {name} does not declare functions of {part}' for name in parts
                 for part in parts[name].split() if os.path.join(os.path.dirname(name), part) not in needed[name]]
    return problems


GOOD = {'shm/a.h': 'int a(int x);\nvoid *aa(void);\n/* int z(void); */\nstatic inline int i(void) {\n        return a(0);\n}\n',
        'shm/a.c': 'int a(int x) {\n}\n\nvoid *aa(void) {\n}\n'}
OTHER = {**GOOD, 'shm/b.c': 'int b(int x) {\n}\n', 'shm/a.h': GOOD['shm/a.h'] + 'int b(int x);\n'}

CASES = [
    ('good', GOOD, [(), {}], None),
    ('of another file', OTHER, [(), {}], 'shm/a.h:7: b() is of shm/b.c'),
    ('of no file', {'shm/a.h': 'int b(int x);\n'}, [(), {}], 'b() is of no file'),
    ('a table', OTHER, [('shm/a.h',), {}], None),
    ('a table of another folder', {'shm/a.h': 'int b(int x);\n', 'proto/b.c': 'int b(int x) {\n}\n'}, [('shm/a.h',), {}],
     'b() is of proto/b.c'),
    ('in parts', OTHER, [(), {'shm/a.h': 'b.c'}], None),
    ('in parts no more', GOOD, [(), {'shm/a.h': 'b.c'}], 'PARTS: shm/a.h does not declare'),
    ('a type', {'shm/a.h': 'typedef int A(int x);\nstruct B {\n        int (*f)(int x);\n};\n'}, [(), {}], None),
    ('a test', {'tests/a.h': 'int b(int x);\n'}, [(), {}], None),
]

if __name__ == '__main__':
    tree.main(check, CASES)
