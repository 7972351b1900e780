"""A folder is an idea, and has at most 25 files, so that its listing can be read. Pages and meson.build do not count.

A name of a .c file says its module without the folder, so it is not in two folders, but for TWINS. Main programs, tests and
verbs are named by rule; a language's binding and slab-alloc are projects of their own.
"""

import collections
import os
import re

import tree

MOST = 25
BESIDE = ('.md', '.scd', 'meson.build')

# Folders that may have more: the reason.
EXCEPTIONS = {
    'libclient': 'three public headers and the list of symbols stand beside the sources',
    'examples/demo': 'one program, which no other code includes',
    'daemon/peer': 'thirteen modules, each with its header',
    'daemon/request': 'one file a request',
    'daemon/ctl/base': 'thirteen modules, each with its header',
    'bindings/python/tslab': 'one module an adapter, which users import by its name',
    'tests/model/case': 'one file a case of the explorer',
    'tests/api': 'one file a topic',
    'tests/daemon': 'one file a topic',
    'tests/crash': 'one file a scenario',
    'tests/unit/shm': 'one file a module',
    'tests/fuzz/corpus/arena': 'inputs',
}

# .c files whose name recurs: the reason.
TWINS = {
    'arena-map': 'what it maps: the real one, and one of lies',
    'arena': 'the fixture is called as the module',
    'call': 'a call of the daemon, and a request that it has not answered',
    'epoch': 'the public call, and the engine that does it',
    'map': 'the public call, and the engine that does it',
    'memory': 'a short word for three things',
    'object': 'the public call, and the engine that does it',
    'options': 'each program has some',
    'process': 'the fixture is called as the module',
    'processor': 'one a processor',
    'role': 'the fixture plays the role that the daemon gives',
    'root': 'the public call, and the engine that does it',
    'table': 'text in columns, and a hash table',
}
BY_RULE = re.compile(r'bindings/|slab-alloc/|.*/(verb/|test-|main\.c)')


def check_twins(root, twins):
    folders = collections.defaultdict(list)
    for name in tree.files(root):
        if name.endswith('.c') and not BY_RULE.match(name):
            folders[os.path.basename(name)[:-2]].append(os.path.dirname(name))
    problems = [f'{places[1]}/{name}.c: {places[0]} has a file of that name, too' for name, places in sorted(folders.items())
                if len(places) > 1 and name not in twins]
    return problems + [f'TWINS: {name}.c needs none' for name in twins if len(folders[name]) < 2]


def check(root, exceptions=None, twins=None):
    exceptions = EXCEPTIONS if exceptions is None else exceptions
    count = collections.Counter(os.path.dirname(name) for name in tree.files(root) if not name.endswith(BESIDE))
    problems = [f'{folder or "."}: {n} files, at most {MOST}' for folder, n in sorted(count.items())
                if n > MOST and folder not in exceptions]
    problems += [f'EXCEPTIONS: {folder} has {count[folder]} files and needs none'
                 for folder in exceptions if count[folder] <= MOST]
    return problems + check_twins(root, TWINS if twins is None else twins)


def planted(folder, n):
    return {f'{folder}/{i}.h': '' for i in range(n)}


CASES = [
    ('good', planted('shm', 25), [{}, {}], None),
    ('with pages and a build file', {**planted('shm', 25), **{f'shm/{n}': '' for n in ('README.md', 'a.8.scd', 'meson.build')}},
     [{}, {}], None),
    ('folders in a folder', {**planted('shm', 20), **planted('shm/map', 20)}, [{}, {}], None),
    ('too many', planted('shm/map', 26), [{}, {}], 'shm/map: 26 files'),
    ('an exception', planted('tests/unit', 40), [{'tests/unit': 'x'}, {}], None),
    ('an exception for nothing', planted('tests/unit', 20), [{'tests/unit': 'x'}, {}], 'needs none'),
    ('twins', {'shm/a.c': '', 'near/a.c': ''}, [{}, {}], 'shm/a.c: near has a file of that name'),
    ('twins in a table', {'shm/a.c': '', 'near/a.c': ''}, [{}, {'a': 'x'}], None),
    ('no twins in a table', {'shm/a.c': ''}, [{}, {'a': 'x'}], 'TWINS: a.c needs none'),
    ('twins by rule', {'a/verb/x.c': '', 'b/x.c': '', 'a/test-y.c': '', 'b/test-y.c': '', 'a/main.c': '', 'b/main.c': '',
                       'bindings/z/x.c': '', 'slab-alloc/x.c': ''}, [{}, {}], None),
]

if __name__ == '__main__':
    tree.main(check, CASES)
