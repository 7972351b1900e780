"""Static functions have names that say the noun: two words at least, and no name twice in a folder.

A name is searched for, and read in a stack trace, without its file. A name of one word needs a line in ONE_WORD below;
there is room for MOST_ONE_WORD of them. Tests and examples are programs of a file or two, and may do as they like. The
headers in bench/allocators implement one interface, so their names are the same on purpose.
"""

import collections
import os
import re

import tree

FOLDERS = ('shm/', 'proto/', 'libclient/', 'slab-alloc/', 'daemon/', 'near/', 'bench/')
APART = ('examples/', 'bench/allocators/')

MOST_ONE_WORD = 4
# (file, name): why one word is enough.
ONE_WORD = {}

ATTRIBUTE = re.compile(r'__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)|^[ \t]*#(?:.*\\\n)*.*', re.MULTILINE)
STATIC = re.compile(r'^(?:_Noreturn )?static\b[^;{}()=]*?\b(\w+)\s*\((?:[^;{}()]|\([^;{}()]*\))*\)\s*\{', re.MULTILINE)


def static_functions(text):
    """(name, line) of each static function that the text defines."""
    code = ATTRIBUTE.sub(lambda m: re.sub(r'[^\n]', ' ', m.group()), tree.blank(text))
    return [(m[1], tree.line_of(code, m.start())) for m in STATIC.finditer(code)]


def check(root, exceptions=None):
    exceptions = ONE_WORD if exceptions is None else exceptions
    problems, places, unused = [], collections.defaultdict(dict), set(exceptions)
    for name in tree.c_files(root):
        if not name.startswith(FOLDERS) or name.startswith(APART) or tree.is_test(name):
            continue
        for function, line in static_functions(tree.read(root, name)):
            others = places[os.path.dirname(name), function]
            if others and name not in others:
                problems.append(f'{name}:{line}: {next(iter(others))} has a static {function}() too')
            others[name] = line
            if '_' not in function and (name, function) not in exceptions:
                problems.append(f'{name}:{line}: {function}() does not say the noun')
            unused.discard((name, function))
    if len(exceptions) > MOST_ONE_WORD:
        problems.append(f'{len(exceptions)} names of one word, at most {MOST_ONE_WORD}')
    return problems + [f'ONE_WORD: {name} has no static {function}()' for name, function in sorted(unused)]


def static(name, rest='(int a) {\n        return a;\n}\n'):
    return f'static int {name}{rest}'


ONE = {('shm/a.c', 'max'): 'as in mathematics'}
MANY = {(f'shm/{c}.c', 'max'): 'x' for c in 'abcde'}

CASES = [
    ('good', {'shm/a.c': static('slab_take'), 'shm/b.c': static('slab_give')}, [], None),
    ('another folder', {'shm/a.c': static('slab_take'), 'shm/slab/a.c': static('slab_take')}, [], None),
    ('twins', {'shm/a.c': static('slab_take'), 'shm/b.c': static('slab_take')}, [], 'shm/b.c:1: shm/a.c'),
    ('twins in a header', {'shm/a.h': static('slab_take'), 'shm/b.c': '\n' + static('slab_take')}, [], 'shm/b.c:2:'),
    ('declared and defined', {'shm/a.c': static('slab_take', '(int a);\n') + static('slab_take')}, [], None),
    ('one word', {'daemon/ctl/a.c': static('take')}, [], 'take()'),
    ('over several lines', {'proto/a.c': 'static const struct tslab\n        *take(int a,\n              int b) {\n}\n'}, [],
     'take()'),
    ('a callback as an argument', {'proto/a.c': static('take', '(int (*f)(int), void *p) {\n}\n')}, [], 'take()'),
    ('with an attribute', {'shm/a.c': '__attribute__((format(printf, 1, 2))) static int f_g(void) {\n}\n'
                                      'static __attribute__((noinline)) int take(void) {\n}\n'}, [], 'a.c:3: take()'),
    ('not static', {'shm/a.c': 'int take(void) {\n}\n'}, [], None),
    ('a table', {'shm/a.c': 'static const int table[] = { 1 };\nstatic int x = f(1);\n'}, [], None),
    ('a comment', {'shm/a.c': '/*\nstatic int take(void) {\n*/\n'}, [], None),
    ('a test', {'tests/unit/a.c': static('take'), 'tests/unit/b.c': static('take')}, [], None),
    ('a test of a library', {'slab-alloc/tests/a.c': static('take')}, [], None),
    ('an example', {'examples/a.c': static('take')}, [], None),
    ('an allocator', {'bench/allocators/a.h': static('f_g'), 'bench/allocators/b.h': static('f_g')}, [], None),
    ('an exception', {'shm/a.c': static('max')}, [ONE], None),
    ('an exception for nothing', {'shm/a.c': static('slab_max')}, [ONE], 'no static max()'),
    ('too many exceptions', {f'shm/{c}.c': static('max') for c in 'abcde'}, [MANY], 'at most 4'),
]

if __name__ == '__main__':
    tree.main(check, CASES)
