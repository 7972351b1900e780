"""No module includes itself by way of others.

A module is a .c file and the header of its name. It includes a module where either of its files includes that module's
header. Every circle is named once, by the shortest way around.
"""

import collections
import re

import tree

FOLDERS = ('shm/', 'proto/', 'libclient/', 'slab-alloc/', 'daemon/', 'near/', 'examples/', 'bench/')

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]*)"', re.MULTILINE)


def module(name):
    return name.rpartition('.')[0]


def includes(root, name):
    """The project's headers that a file includes, with their lines."""
    text = tree.read(root, name)
    # Comments become spaces; strings stay, as the included names are strings.
    code = tree.TOKEN.sub(lambda m: re.sub(r'[^\n]', ' ', m.group()) if m['comment'] else m.group(), text)
    return [(match[1], tree.line_of(code, match.start())) for match in INCLUDE.finditer(code)]


def graph(root):
    """module -> the modules that it includes."""
    edges = collections.defaultdict(set)
    for name in tree.c_files(root):
        if name.startswith(FOLDERS):
            edges[module(name)] |= {module(path) for path, _ in includes(root, name)} - {module(name)}
    return edges


def way(edges, start, end):
    """The shortest way from one module to another, both included; None where there is none."""
    before, queue = {start: None}, collections.deque([start])
    while queue:
        at = queue.popleft()
        for to in sorted(edges.get(at, ())):
            if to == end:
                found = [end]
                while at is not None:
                    found.append(at)
                    at = before[at]
                return found[::-1]
            if to not in before:
                before[to] = at
                queue.append(to)
    return None


def circles(edges):
    """Each circle as a list of modules: the shortest one through every module that is on one, each once."""
    found = {}
    for start in sorted(edges):
        circle = way(edges, start, start)
        if circle:
            found.setdefault(frozenset(circle), circle)
    return list(found.values())


def check(root):
    return [f'a circle: {" -> ".join(circle)}' for circle in circles(graph(root))]


def files(**included):
    """shm/NAME.h, or shm/NAME.c for NAME_c, that includes shm/X.h of each X in the list."""
    return {f'shm/{name[:-2] + ".c" if name.endswith("_c") else name + ".h"}':
            '/* #include "shm/z.h" */\n' + ''.join(f'#include "shm/{x}.h"\n' for x in of.split())
            for name, of in included.items()}


CASES = [
    ('good', files(a='', b='a', c='a b', a_c='a', c_c='c b a'), [], None),
    ('two headers', files(a='b', b='a'), [], 'shm/a -> shm/b -> shm/a'),
    ('a source and a header', files(a='', a_c='a b', b='a'), [], 'shm/a -> shm/b -> shm/a'),
    ('two sources', files(a='', a_c='a b', b='', b_c='b a'), [], 'shm/a -> shm/b -> shm/a'),
    ('three', files(a='b', b='c', c='a'), [], 'shm/a -> shm/b -> shm/c -> shm/a'),
    ('in a comment', {'shm/a.h': '/*\n#include "shm/b.h"\n*/\n', 'shm/b.h': '#include "shm/a.h"\n'}, [], None),
    ('between folders', {'daemon/a.h': '#include "daemon/work/b.h"\n', 'daemon/work/b.h': '#include "daemon/a.h"\n'}, [],
     'daemon/a -> daemon/work/b -> daemon/a'),
]

if __name__ == '__main__':
    tree.main(check, CASES)
