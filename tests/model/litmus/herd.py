#!/usr/bin/env python3
"""Puts the tests of test-litmus.c, as C11, and the kernels beside it to herd7: herd.py HERD7 LIBDIR.

Prints a line for each. The status is 1 where herd7 says otherwise than test-litmus.c, or than README.md. A test that is
not C11 (membarrier, mixed sizes) is named and left out.
"""

import pathlib
import re
import subprocess
import sys
import tempfile

FOLDER = pathlib.Path(__file__).parent
ORDERS = {'rlx': 'relaxed', 'acq': 'acquire', 'rel': 'release', 'acqrel': 'acq_rel', 'sc': 'seq_cst', 'after_rmw': 'seq_cst'}
CALLS = {'load': 'load', 'store': 'store', 'xchg': 'exchange', 'add': 'fetch_add', 'or': 'fetch_or'}
STATEMENT = re.compile(r'(?:R\((\d)\) = |\(void\) )?shm_(load|store|xchg|add|or)_(rlx|acq|rel|acqrel|sc)\(([XY])(?:, (\d))?\)')
FENCE = re.compile(r'shm_fence_(sc|acq|rel|after_rmw)\(\)')
TERM = re.compile(r'(?:R\((\d)\)|shm_load_rlx\(([XY])\)) == (\d)')


class Foreign(Exception):
    """It is not C11, or not this script's."""


def translate(statement):
    """The statement, and the number of the register that it sets."""
    if fence := FENCE.fullmatch(statement):
        return f'atomic_thread_fence(memory_order_{ORDERS[fence[1]]});', None
    found = STATEMENT.fullmatch(statement)
    if not found:
        raise Foreign(statement)
    register, call, order, where, value = found.groups()
    arguments = ', '.join([where.lower(), *([value] if value else []), f'memory_order_{ORDERS[order]}'])
    left = f'int r{register} = ' if register else '' if call == 'store' else f'int unused{where} = '
    return f'{left}atomic_{CALLS[call]}_explicit({arguments});', register


def as_c11(name, bodies, condition):
    owners, text = {}, f'C {name}\n{{ }}\n'
    for i, body in enumerate(bodies):
        lines = []
        for statement in filter(None, map(str.strip, body.split(';'))):
            line, register = translate(statement)
            lines.append('  ' + line)
            if register:
                owners[register] = i
        text += '\n'.join([f'P{i} (atomic_int* x, atomic_int* y) {{', *lines, '}', ''])
    terms = []
    for term in condition.split(' && '):
        if not (found := TERM.fullmatch(term)):
            raise Foreign(term)
        register, where, value = found.groups()
        terms.append(f'{owners[register]}:r{register}={value}' if register else f'{where.lower()}={value}')
    return text + 'exists (' + ' /\\ '.join(terms) + ')\n'


def tests():
    """Name, text and verdict; the text is the reason where there is none for herd7, and the verdict None."""
    source = (FOLDER / 'test-litmus.c').read_text()
    actors = dict(re.findall(r'^ACTOR\((\w+), (.*?)\)$', source, re.MULTILINE | re.DOTALL))
    posts = dict(re.findall(r'^POST\((\w+), (.*)\)$', source, re.MULTILINE))
    table = re.findall(r'\{ "([^"]+)", \{ ([\w, ]+) \}, (\w+), (true|false) \}', source)
    assert len(table) > 50
    for name, names, post, shown in table:
        try:
            text = as_c11(name, [actors[actor] for actor in names.split(', ')], posts[post])
        except Foreign as reason:
            yield name, f'not for herd7: {reason}', None
        else:
            yield name, text, 'Sometimes' if shown == 'true' else 'Never'
    for name, verdict in re.findall(r'^\| `([\w-]+)\.litmus` .*\| (Never|Sometimes) [\d ]+\|$', (FOLDER / 'README.md').read_text(), re.MULTILINE):
        yield name, (FOLDER / f'{name}.litmus').read_text(), verdict


def ask(herd, library, text):
    with tempfile.NamedTemporaryFile('w', suffix='.litmus') as file:
        file.write(text)
        file.flush()
        done = subprocess.run([herd, '-I', library, '-model', 'rc11.cat', file.name], capture_output=True, text=True, check=False)
    found = re.search(r'^Observation \S+ (\w+) (\d+ \d+)$', done.stdout, re.MULTILINE)
    return found.groups() if found else (done.stderr.strip() or 'nothing', '')


def main():
    n_wrong = 0
    for name, text, verdict in tests():
        if verdict is None:
            print(f'{name:26}{text}')
            continue
        said, counts = ask(*sys.argv[1:3], text)
        n_wrong += said != verdict
        print(f'{name:26}{said} {counts}' + ('' if said == verdict else f'  WRONG: {verdict} was expected'))
    return n_wrong > 0


if __name__ == '__main__':
    sys.exit(main())
