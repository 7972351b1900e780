"""Quoted includes are by path from the root and keep to the layers; public headers are included as users do."""

import os
import re

import tree

ALL = {'shm', 'proto', 'libclient', 'daemon', 'slab-alloc', 'near', 'examples', 'tests', 'bench', 'bindings'}

# Each folder, and the folders that it may include.
MAY_USE = {
    'shm': {'shm'},
    'proto': {'shm', 'proto'},
    'libclient': {'shm', 'proto', 'libclient'},
    'daemon': {'shm', 'proto', 'daemon'},
    'slab-alloc': {'shm', 'proto', 'libclient', 'slab-alloc'},
    # near: messages to a service manager, and text for a terminal
    'near': {'proto', 'near', 'shm/arena/text.h'},
    'examples': {'examples'},
    'bindings': {'bindings'},
    'tests': ALL,
    'bench': ALL,
}

# The public headers belong to libclient: layers below it and beside it do not know them. The verbs on entries of maps
# are a program like any other.
MAY_USE_PUBLIC = {'libclient', 'slab-alloc', 'near', 'examples', 'tests', 'bench', 'bindings', 'daemon/ctl/entry'}

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"\n]*)[>"]', re.MULTILINE)


def what_is_wrong(layer, folder, quote, path):
    first = path.split('/')[0]
    public = tree.PUBLIC_HEADER.fullmatch(os.path.basename(path)) is not None

    if quote == '<':
        if '/' in path and first in ALL:
            return f'<{path}> is ours: quote it'
        if public and not {layer, folder} & MAY_USE_PUBLIC:
            return f'{layer} may not use libclient, whose header <{path}> is'
        return None
    # The tools of a language build the folder of its binding alone, where the root is not known.
    if layer == 'bindings' and first not in ALL:
        return None
    if public and first not in ALL - {'libclient'}:
        return f'"{path}" is public: include <{os.path.basename(path)}>'
    if '/' not in path or first not in ALL:
        return f'"{path}" is not a path from the root'
    if '..' in path.split('/'):
        return f'"{path}" goes up'
    if first not in MAY_USE[layer] and path not in MAY_USE[layer]:
        return f'{layer} may not include "{path}"'
    return None


def check(root):
    problems = []
    for name in tree.c_files(root):
        layer = 'tests' if tree.is_test(name) else name.split('/')[0]
        if layer not in MAY_USE:
            problems.append(f'{name}: C files live in {", ".join(MAY_USE)}')
            continue
        text = tree.read(root, name)
        # Comments become spaces; strings stay, as the included names are strings.
        code = tree.TOKEN.sub(lambda m: re.sub(r'[^\n]', ' ', m.group()) if m['comment'] else m.group(), text)
        for match in INCLUDE.finditer(code):
            wrong = what_is_wrong(layer, os.path.dirname(name), *match.groups())
            if wrong:
                problems.append(f'{name}:{tree.line_of(code, match.start())}: {wrong}')
    return problems


def include(name, what):
    return {name: f'/* #include "nothing.h" */\n#include <stdint.h>\n#include <sys/mman.h>\n#include {what}\n'}


CASES = [
    ('down', include('libclient/a.c', '"proto/b.h"'), [], None),
    ('one header', include('near/a.c', '"shm/arena/text.h"'), [], None),
    ('beside', include('daemon/ctl/a.c', '"daemon/ctl/b.h"'), [], None),
    ('public', include('examples/a.c', '<tslab.h>'), [], None),
    ('public, by the verbs on entries', include('daemon/ctl/entry/a.c', '<tslab_map.h>'), [], None),
    ('tests', include('tests/unit/a.c', '"tests/util/b.h"'), [], None),
    ('tests of a library', include('slab-alloc/tests/a.c', '"tests/util/b.h"'), [], None),
    ('a binding', include('bindings/php/a.c', '"b.h"'), [], None),
    ('a room of a binding', include('bindings/php/a.c', '"session/b.h"'), [], None),
    ('a binding, below the library', include('bindings/php/a.c', '"shm/b.h"'), [], 'bindings may not include'),
    ('bench', include('bench/a.c', '"daemon/b.h"'), [], None),
    ('an example inside', include('examples/a.c', '"libclient/b.h"'), [], 'examples may not include'),
    ('up', include('shm/a.c', '"proto/b.h"'), [], 'shm may not include'),
    ('up from the middle', include('proto/a.c', '"daemon/b.h"'), [], 'proto may not include'),
    ('across', include('libclient/a.c', '"daemon/b.h"'), [], 'libclient may not include'),
    ('across, back', include('daemon/a.c', '"libclient/b.h"'), [], 'daemon may not include'),
    ('across, public', include('daemon/a.c', '<tslab.h>'), [], 'daemon may not use'),
    ('the library', include('slab-alloc/a.c', '"tests/util/b.h"'), [], 'slab-alloc may not include'),
    ('tests from below', include('shm/a.c', '"tests/util/b.h"'), [], 'shm may not include'),
    ('not from the root', include('shm/a.c', '"b.h"'), [], 'not a path'),
    ('not from the root, deeper', include('daemon/a.c', '"ctl/b.h"'), [], 'not a path'),
    ('dots', include('shm/a.c', '"shm/../daemon/b.h"'), [], 'goes up'),
    ('public, quoted', include('libclient/a.c', '"libclient/tslab_map.h"'), [], 'include <tslab_map.h>'),
    ('ours, in angles', include('libclient/a.c', '<shm/slab/slab.h>'), [], 'quote it'),
    ('no layer', {'util/a.c': ''}, [], 'C files live in'),
]

if __name__ == '__main__':
    tree.main(check, CASES)
