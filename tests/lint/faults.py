"""Every planted fault of tests/model/faults.py and tests/near/faults.py can still be planted, and its test is there.

Whether the test goes red is for those scripts themselves, which take long.
"""

import ast
import pathlib
import sys

import tree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / 'mutate'))
import plant

LIST = 'tests/model/faults.py'
NEAR = 'tests/near/faults.py'


def faults(root, name):
    """(line, entry) of each of the list."""
    if not (root / name).is_file():
        return []
    for node in ast.parse(tree.read(root, name)).body:
        if isinstance(node, ast.Assign) and [t.id for t in node.targets if isinstance(t, ast.Name)] == ['FAULTS']:
            return [(entry.lineno, ast.literal_eval(entry)) for entry in node.value.elts]
    return []


def missing_text(root, source, texts):
    """The first line of what the source does not have (again); None: all of it is there."""
    if not (root / source).is_file():
        return source
    text = tree.read(root, source)
    for old, new in zip(texts[::2], texts[1::2]):
        text = plant.replace(text, old, new)
        if text is None:
            return old.strip().splitlines()[0]
    return None


def test_source(place):
    """The file of a test that faults.py builds by itself."""
    group = place.split('/')[0]
    if group.startswith('unit-'):
        return f'tests/unit/shm/test-{group.removeprefix("unit-")}.c'
    return f'tests/model/case/{group}.h'


def has_test(root, place, tests):
    if not place.startswith('meson:'):
        return (root / test_source(place)).is_file()
    function = place.rpartition('/')[2].removesuffix('-weak')    # a case under a weak memory has its name
    return any(function in text for text in tests)


def has_near_test(root, place):
    file, _, case = place.rpartition(':')
    source = root / f'tests/near/test-{file or "history"}.py'
    return source.is_file() and all(f'{word}(' in source.read_text() for word in case.split('.'))


def all_faults(root, tests):
    """(where, name, whether its test is there, source, texts) of each."""
    for line, (name, place, source, *texts) in faults(root, LIST):
        yield f'{LIST}:{line}: {name}', name, has_test(root, place, tests) or place, source, texts
    for line, (name, place, source, *texts) in faults(root, NEAR):
        folder = 'bindings/python/tslab/' if source.endswith('.py') else 'near/'
        yield f'{NEAR}:{line}: {name}', name, has_near_test(root, place) or place, folder + source, texts


def check(root):
    problems, names = [], set()
    tests = [tree.read(root, name) for name in tree.files(root)
             if name.startswith('tests/') and name.endswith(('.c', '.h'))]
    for where, name, there, source, texts in all_faults(root, tests):
        missing = missing_text(root, source, texts)
        if missing is not None:
            problems.append(f'{where}: {source} no longer has {missing!r}')
        if len(texts) % 2 or texts[::2] == texts[1::2]:
            problems.append(f'{where}: nothing is replaced')
        if there is not True:
            problems.append(f'{where}: no test {there}')
        if name in names:
            problems.append(f'{where}: named twice')
        names.add(name)
    return problems


SOUND = {'shm/a.c': 'if (x)\n        y();\n', 'tests/model/case/set.h': '', 'tests/unit/shm/test-set.c': '',
         'tests/daemon/test-a.c': 'static void test_a(void **state) {}\n'}


def listed(*entries):
    return {**SOUND, LIST: f'FAULTS = [{", ".join(map(repr, entries))}]\n'}


def near(*entries):
    return {'near/a.c': 'x;\n', 'tests/near/test-history.py': 'class ATest(Case):\n    def test_b(self): pass\n',
            LIST: 'FAULTS = []\n', NEAR: f'FAULTS = [{", ".join(map(repr, entries))}]\n'}


CASES = [
    ('good', listed(('a', 'set', 'shm/a.c', 'if (x)', 'if (1)'), ('b', 'unit-set', 'shm/a.c', 'y();', ''),
                    ('c', 'set/case', 'shm/a.c', 'x', 'z', 'if (z)', ''), ('d', 'meson:a/test_a', 'shm/a.c', 'x', '0')),
     [], None),
    ('another layout, another comment', {**listed(('a', 'set', 'shm/a.c', 'if (x) /* why */ y();', ''),
                                                 ('b', 'set', 'shm/a.c', 'if ( x )', '')),
                                         'shm/a.c': 'if (x)\n        y(); /* if (x) y(); */\n'}, [], None),
    ('in a comment alone', {**listed(('a', 'set', 'shm/a.c', 'if (x) z();', '')),
                            'shm/a.c': 'if (x)\n        y(); /* if (x)  z(); */\n'}, [], 'no longer has'),
    ('changed', listed(('a', 'set', 'shm/a.c', 'if (z)', 'if (1)')), [], "no longer has 'if (z)'"),
    ('changed at the second', listed(('a', 'set', 'shm/a.c', 'x', 'z', '(x)', '')), [], "no longer has '(x)'"),
    ('no source', listed(('a', 'set', 'shm/b.c', 'x', 'z')), [], 'shm/b.c no longer has'),
    ('no case', listed(('a', 'sets', 'shm/a.c', 'x', 'z')), [], 'no test sets'),
    ('no unit test', listed(('a', 'unit-sets', 'shm/a.c', 'x', 'z')), [], 'no test unit-sets'),
    ('no function', listed(('a', 'meson:a/test_b', 'shm/a.c', 'x', 'z')), [], 'no test meson:a/test_b'),
    ('a weak case', listed(('a', 'meson:a/test_a-weak', 'shm/a.c', 'x', 'z')), [], None),
    ('no fault', listed(('a', 'set', 'shm/a.c', 'x', 'x')), [], 'nothing is replaced'),
    ('near', near(('a', 'ATest.test_b', 'a.c', 'x', 'z')), [], None),
    ('near, changed', near(('a', 'ATest.test_b', 'a.c', 'y', 'z')), [], "near/a.c no longer has 'y'"),
    ('near, Python', {**near(('a', 'ATest.test_b', 'a.py', 'x', 'z')), 'bindings/python/tslab/a.py': 'x = 1\n'}, [], None),
    ('near, no test', near(('a', 'trouble:ATest.test_b', 'a.c', 'x', 'z')), [], 'no test trouble:ATest.test_b'),
    ('twice', listed(('a', 'set', 'shm/a.c', 'x', 'z'), ('a', 'set', 'shm/a.c', 'y', 'z')), [], 'named twice'),
]

if __name__ == '__main__':
    tree.main(check, CASES)
