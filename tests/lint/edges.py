"""The state machines of shm/README.md have the edges that the code has, no more and no fewer."""

import re

import tree

PAGE = 'shm/README.md'

# The text after which a machine's table follows, the file with its array, and the prefixes of states and events there.
MACHINES = [
    ('## The slab word', 'shm/format/slab-word.c', 'SLAB_', 'SLAB_OP_'),
    ('## Records', 'shm/arena/record.c', 'SHM_RECORD_', 'SHM_RECORD_EV_'),
    ('## Epochs', 'shm/format/epoch-word.c', 'SHM_EPOCH_', 'SHM_EPOCH_EV_'),
    ('## Closing', 'shm/maintain/close.c', 'SHM_CLOSE_', 'SHM_CLOSE_EV_'),
    ('## Death and repair', 'shm/maintain/repair.c', 'SHM_REPAIR_', 'SHM_REPAIR_EV_'),
]


def words(cell):
    return [word.strip() for word in cell.split(',')]


def edges_of_row(edge, events):
    """A row "A, B → C | event" is two edges; so is "A → B, C → D"."""
    arrows = words(edge) if edge.count('→') > 1 else [edge]
    for arrow in arrows:
        before, after = arrow.split('→')
        yield from ((b, e, a) for b in words(before) for a in words(after) for e in words(events))


def edges_of_page(text, heading):
    table = text.partition(heading + '\n')[2] or text.partition(heading + ' ')[2]
    rows = re.search(r'^\| edge \|.*\n\|[- |]*\n((?:\|.*\n)*)', table, re.MULTILINE)
    cells = [row.strip('|').split('|') for row in rows.group(1).splitlines()] if rows else []
    return {edge for row in cells for edge in edges_of_row(row[0], row[1])}


def edges_of_code(text, state, event):
    found = re.findall(rf'\{{ {state}(\w+), {event}(\w+), {state}(\w+) \}}', text)
    return {(before, name.lower().replace('_', ' '), after) for before, name, after in found}


def check(root, machines=None):
    if not (root / PAGE).exists():
        return None
    text = tree.read(root, PAGE)
    problems = []
    for heading, source, state, event in machines or MACHINES:
        said, done = edges_of_page(text, heading), edges_of_code(tree.read(root, source), state, event)
        if not done:
            problems.append(f'{source}: no array of edges was found')
        problems += [f'{PAGE}: {heading}: {b} → {a} by "{e}" is not in {source}' for b, e, a in sorted(said - done)]
        problems += [f'{PAGE}: {heading}: {b} → {a} by "{e}" is missing' for b, e, a in sorted(done - said)]
    return problems


CODE = 'E edges[] = {\n        { S_A, S_EV_GO_ON, S_B }, { S_B, S_EV_END, S_A },\n        { S_A, S_EV_END, S_A },\n};\n'
ONE = [[('## One', 'a.c', 'S_', 'S_EV_')]]


def case(rows):
    return {PAGE: '## One\n\n| edge | event | by |\n| --- | --- | --- |\n' + rows + '\n## Two\n', 'a.c': CODE}


CASES = [
    ('good', case('| A → B | go on | x |\n| B → A, A → A | end | x |\n'), ONE, None),
    ('shorter', case('| A → B | go on | x |\n| A, B → A | end | x |\n'), ONE, None),
    ('one too many', case('| A → B | go on | x |\n| A, B → A | end, go on | x |\n'), ONE, 'is not in a.c'),
    ('missing', case('| A → B | go on | x |\n'), ONE, 'is missing'),
    ('no array', case('| A → B | go on | x |\n') | {'a.c': ''}, ONE, 'no array'),
]

if __name__ == '__main__':
    tree.main(check, CASES)
