"""A folder is an idea, and has at most 25 files, so that its listing can be read. Pages and meson.build do not count."""

import collections
import os

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


def check(root, exceptions=None):
    exceptions = EXCEPTIONS if exceptions is None else exceptions
    count = collections.Counter(os.path.dirname(name) for name in tree.files(root) if not name.endswith(BESIDE))
    problems = [f'{folder or "."}: {n} files, at most {MOST}' for folder, n in sorted(count.items())
                if n > MOST and folder not in exceptions]
    return problems + [f'EXCEPTIONS: {folder} has {count[folder]} files and needs none'
                       for folder in exceptions if count[folder] <= MOST]


def planted(folder, n):
    return {f'{folder}/{i}.c': '' for i in range(n)}


CASES = [
    ('good', planted('shm', 25), [{}], None),
    ('with pages and a build file', {**planted('shm', 25), **{f'shm/{n}': '' for n in ('README.md', 'a.8.scd', 'meson.build')}},
     [{}], None),
    ('folders in a folder', {**planted('shm', 20), **planted('shm/map', 20)}, [{}], None),
    ('too many', planted('shm/map', 26), [{}], 'shm/map: 26 files'),
    ('an exception', planted('tests/unit', 40), [{'tests/unit': 'x'}], None),
    ('an exception for nothing', planted('tests/unit', 20), [{'tests/unit': 'x'}], 'needs none'),
]

if __name__ == '__main__':
    tree.main(check, CASES)
