"""A room, which is a folder of a layer, includes only the rooms that ROOMS gives it; lint-layers is about the layers.

A module in the folder of the layer itself may have a line of its own there: main() and similar modules include rooms,
and leaves are included by them. tslabctl in daemon/ctl is a layer of its own: it speaks to the daemon by proto/ alone, and only
`leaks`, which reads the arena, `advice`, which needs the sizes in its format, and `base`, which has the counters, include shm.
"""

import graphlib

import circles
import tree

LAYERS = ('shm', 'proto', 'libclient', 'slab-alloc', 'daemon', 'daemon/ctl', 'near', 'examples', 'bench')

# The rooms of all layers, each with the other rooms that it may include.
ROOMS = {
    'shm/arch': 'shm/arch/x86_64 shm/arch/aarch64',
    'shm/arch/x86_64': '',
    'shm/arch/aarch64': '',
    'shm/clock': 'shm/arch',
    'shm/format': 'shm/arch',
    'shm/arena': 'shm/arch shm/clock shm/format',
    'shm/owner': 'shm/arch shm/clock shm/format shm/arena',
    'shm/slab': 'shm/arch shm/clock shm/format shm/arena',
    'shm/epoch': 'shm/arch shm/clock shm/format shm/arena shm/slab',
    'shm/cache': 'shm/arch shm/clock shm/format shm/arena shm/slab shm/epoch',
    'shm/map/leaf': 'shm/arch shm/clock shm/format shm/arena shm/slab shm/epoch shm/cache',
    'shm/map/trie': 'shm/arch shm/clock shm/format shm/arena shm/slab shm/epoch shm/cache shm/map/leaf',
    'shm/map/state': 'shm/arch shm/clock shm/format shm/arena shm/slab shm/epoch shm/cache shm/map/leaf shm/map/trie',
    'shm/map/evict': 'shm/arch shm/clock shm/format shm/arena shm/slab shm/epoch shm/cache shm/map/leaf shm/map/trie '
                     'shm/map/state',
    'shm/map/entry': 'shm/arch shm/clock shm/format shm/arena shm/slab shm/epoch shm/cache shm/map/leaf shm/map/trie '
                     'shm/map/state '
                     'shm/map/evict',
    'shm/near': 'shm/arch shm/clock shm/format shm/arena shm/slab shm/epoch shm/cache shm/map/leaf',
    'shm/maintain': 'shm/arch shm/clock shm/format shm/arena shm/slab shm/epoch shm/cache shm/map/leaf shm/map/trie '
                    'shm/map/state '
                    'shm/map/entry',
    'shm/keeper': 'shm/arch shm/clock shm/format shm/arena shm/slab shm/epoch shm/cache shm/map/state shm/owner shm/maintain',
    'shm/stats': 'shm/arch shm/clock shm/format shm/arena shm/slab shm/epoch shm/cache',

    'proto': '',

    'libclient/pool': '',
    'libclient/host': 'libclient/pool',
    'libclient': 'libclient/pool libclient/host',
    'slab-alloc': '',
    'slab-alloc/tests': '',

    'daemon': '',
    'daemon/work': 'daemon',
    'daemon/peer': 'daemon daemon/work',
    'daemon/takeover': 'daemon daemon/work daemon/peer',
    'daemon/request': 'daemon daemon/work daemon/peer',
    'daemon/manager': 'daemon daemon/work daemon/peer daemon/takeover daemon/request',
    'daemon/main': 'daemon daemon/manager',

    'daemon/ctl/base': 'shm/arena shm/format',
    'daemon/ctl/view': 'daemon/ctl/base',
    'daemon/ctl/output': 'daemon/ctl/base daemon/ctl/view',
    'daemon/ctl/advice': 'daemon/ctl/base daemon/ctl/view shm/format',
    'daemon/ctl/leaks': 'daemon/ctl/base daemon/ctl/view daemon/ctl/output shm/arena shm/epoch shm/cache shm/stats',
    'daemon/ctl/slabs': 'daemon/ctl/base daemon/ctl/view',
    'daemon/ctl/entry': 'daemon/ctl/base',
    'daemon/ctl/top': 'daemon/ctl/base daemon/ctl/view daemon/ctl/output',
    'daemon/ctl/verb': 'daemon/ctl/base daemon/ctl/view daemon/ctl/output daemon/ctl/advice daemon/ctl/leaks '
                       'daemon/ctl/slabs daemon/ctl/top daemon/ctl/entry',
    'daemon/ctl': 'daemon/ctl/base daemon/ctl/output daemon/ctl/verb',

    'near': '',

    'examples': '',
    'examples/demo': '',

    'bench/harness': '',
    'bench/allocators': 'bench/harness',
    'bench/workloads': 'bench/harness',
    'bench/keys': 'bench/harness bench/web',
    'bench/near': 'bench/harness',
    'bench/languages': '',
    'bench/web': 'bench/harness',
    'bench/main': 'bench/harness bench/workloads',
}


def layer_of(module):
    return max((layer for layer in LAYERS if module.startswith(layer + '/')), key=len, default=None)


def room_of(module, rooms):
    """The room of a module, which may be itself; None: it stands in a folder that the table does not know."""
    folder = module.rpartition('/')[0]
    return module if module in rooms else folder if folder in rooms else None


def is_checked(own, other):
    """lint-layers knows which layers a layer includes, but takes daemon/ctl for a part of daemon."""
    return other is not None and (own == other or 'daemon/ctl' in (own, other) and other != 'proto')


def check(root, table=None):
    rooms = {room: set(may.split()) for room, may in (ROOMS if table is None else table).items()}
    try:
        graphlib.TopologicalSorter(rooms).prepare()
    except graphlib.CycleError as e:
        return [f'ROOMS: a circle: {" -> ".join(reversed(e.args[1]))}']

    problems, seen = [], set()
    for name in tree.c_files(root):
        module = circles.module(name)
        layer, room = layer_of(module), room_of(module, rooms)
        if layer is None:
            continue
        seen |= {room, module.rpartition('/')[0]}
        if room is None:
            problems.append(f'{name}: ROOMS does not know the room {module.rpartition("/")[0]}')
            continue
        for path, line in circles.includes(root, name):
            other = room_of(circles.module(path), rooms)
            if is_checked(layer, layer_of(path)) and other != room and other not in rooms[room]:
                problems.append(f'{name}:{line}: {room} may not include "{path}"')
    if table is None:
        problems += [f'ROOMS: there is no {room}' for room in rooms if room not in seen]
    return problems


TABLE = {'shm/arch': '', 'shm/slab': 'shm/arch', 'shm/map': 'shm/arch shm/slab', 'daemon': '', 'daemon/work': 'daemon',
         'daemon/main': 'daemon daemon/work', 'daemon/ctl/view': '', 'daemon/ctl/leaks': 'daemon/ctl/view shm/map'}


def one(name, path, table=None):
    return {name: f'/* #include "shm/z/z.h" */\n#include <errno.h>\n#include "{path}"\n'}, [table or TABLE]


CASES = [
    ('below', *one('shm/map/a.c', 'shm/slab/b.h'), None),
    ('beside', *one('shm/map/a.c', 'shm/map/b.h'), None),
    ('above', *one('shm/slab/a.h', 'shm/map/b.h'), 'shm/slab/a.h:3: shm/slab may not'),
    ('another layer', *one('daemon/work/a.c', 'shm/map/b.h'), None),
    ('an unknown room', *one('shm/other/a.c', 'shm/map/b.h'), 'does not know the room shm/other'),
    ('an unknown room is included', *one('shm/map/a.c', 'shm/other/b.h'), 'may not include "shm/other/b.h"'),
    ('a leaf', *one('daemon/work/a.c', 'daemon/log.h'), None),
    ('a leaf above its place', *one('daemon/log.c', 'daemon/work/b.h'), 'daemon may not'),
    ('main', *one('daemon/main.c', 'daemon/work/b.h'), None),
    ('main from below', *one('daemon/work/a.c', 'daemon/main.h'), 'daemon/work may not'),
    ('tslabctl and proto', *one('daemon/ctl/view/a.c', 'proto/b.h'), None),
    ('tslabctl and the arena', *one('daemon/ctl/view/a.c', 'shm/map/b.h'), 'daemon/ctl/view may not'),
    ('leaks and the arena', *one('daemon/ctl/leaks/a.c', 'shm/map/b.h'), None),
    ('leaks and more of the arena', *one('daemon/ctl/leaks/a.c', 'shm/slab/b.h'), 'daemon/ctl/leaks may not'),
    ('tslabctl and the daemon', *one('daemon/ctl/view/a.c', 'daemon/log.h'), 'daemon/ctl/view may not'),
    ('the daemon and tslabctl', *one('daemon/work/a.c', 'daemon/ctl/view/b.h'), 'daemon/work may not'),
    ('a test', *one('tests/unit/a.c', 'shm/map/b.h'), None),
    ('a circle in the table', *one('shm/a/a.c', 'shm/b/b.h', {'shm/a': 'shm/b', 'shm/b': 'shm/a'}), 'ROOMS: a circle'),
]

if __name__ == '__main__':
    tree.main(check, CASES)
