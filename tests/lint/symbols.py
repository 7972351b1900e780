"""A library exports exactly the names in its version script; public headers document each name, and a test calls it.

        symbols.py ROOT LIBRARY [SCRIPT [FOLDER OF TESTS]]      libclient/libtslab.sym and tests/api/ where not given

Skipped as long as there is no version script.
"""

import pathlib
import re
import subprocess

import tree

SCRIPT = 'libclient/libtslab.sym'


def parse_script(text, script):
    """Names under global:, and the problems of the script."""
    names, problems, section = [], [], 'global'
    text = re.sub(r'\}[^;{}]*;', '}', tree.blank(text))  # a later version names its parent there
    for token in re.findall(r'global:|local:|[^\s;{}]+(?=\s*;)', text):
        if token in ('global:', 'local:'):
            section = token[:-1]
        elif section == 'local':
            if token != '*':
                problems.append(f'{script}: under local: only "*", not "{token}"')
            section = 'global'
        elif re.fullmatch(r'\w+', token):
            names.append(token)
        else:
            problems.append(f'{script}: "{token}" is not a name')
    if not re.search(r'\blocal:\s*\*\s*;', text):
        problems.append(f'{script}: "local: *;" is missing')
    return names, problems


def exported(library):
    lines = subprocess.run(['nm', '--dynamic', '--defined-only', '--format=posix', str(library)],
                           check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    # Type A: the version itself.
    return {line.split()[0].split('@')[0] for line in lines if line.split()[1] != 'A'}


def check_exports(named, library, script):
    if not library.exists():
        return [f'{library}: not built']
    found = exported(library)
    return ([f'{library}: {n} is exported and not in {script}' for n in sorted(found - named)]
            + [f'{library}: {n} is in {script} and not exported' for n in sorted(named - found)])


def is_documented(text, name):
    """True or False, or None where the header does not declare the name."""
    # A directive ends the declaration before it.
    code = re.sub(r'^[ \t]*#(?:.*\\\n)*.*', lambda m: re.sub(r'[^\n]', ';', m.group()), tree.blank(text), flags=re.M)
    match = re.search(rf'\b{name}\s*[(;\[]', code)
    if not match:
        return None
    after = max(code.rfind(c, 0, match.start()) for c in ';{}') + 1
    start = after + len(code[after:]) - len(code[after:].lstrip())
    return re.search(r'\*/[ \t]*\n?[ \t]*\Z', text[:start]) is not None


def check_headers(root, named):
    headers = {h: tree.read(root, h) for h in tree.c_files(root) if tree.is_public(h)}
    problems = []
    for name in sorted(named):
        seen = {h: is_documented(text, name) for h, text in headers.items()}
        if not any(d is not None for d in seen.values()):
            problems.append(f'{name}: no public header declares it')
        elif not any(seen.values()):
            where = next(h for h, d in seen.items() if d is not None)
            problems.append(f'{where}: {name} without a comment immediately above')
    return problems


def check_calls(root, named, folder):
    tests = [tree.read(root, t) for t in tree.c_files(root) if t.startswith(folder)]
    if not tests:
        return []
    called = set(re.findall(r'\b(\w+)\(', '\n'.join(map(tree.blank, tests))))
    return [f'{folder}: nobody calls {n}' for n in sorted(named - called)]


def check(root, library=None, script=SCRIPT, tests='tests/api/'):
    if not (root / script).exists():
        return None
    names, problems = parse_script(tree.read(root, script), script)
    problems += [f'{script}: {n} is named twice' for n in sorted({n for n in names if names.count(n) > 1})]
    if library:
        # Relative to the tree only in the self-test.
        library = root / pathlib.Path(library)
        if library.suffix == '.c':
            source, library = library, library.with_suffix('.so')
            subprocess.run(['cc', '-shared', '-fPIC', f'-Wl,--version-script={root / script}', '-o', library, source],
                           check=True)
        problems += check_exports(set(names), library, script)
    return problems + check_headers(root, set(names)) + check_calls(root, set(names), tests)


def planted(script='tslab_open; tslab_get;', header='/* Gets. */\nint tslab_get(void);\n', code='', local='local: *;'):
    return {
        SCRIPT: f'TSLAB_0 {{ /* no; */ global: {script} {local} }};\n',
        'libclient/tslab.h': f'#include <x.h>\n/* Opens. */\nint\ntslab_open(int);\n\n{header}',
        'a.c': 'int tslab_open(int x) { return x; }\nint tslab_get(void) { return 1; }\n' + code,
    }


CASES = [
    ('good', planted(code='int hidden;\n'), ['a.c'], None),
    ('two versions', planted(local='local: *; }; TSLAB_1 { tslab_b; } TSLAB_0; X {', code='int tslab_b;\n',
                             header='/* B. */\nextern int tslab_b;\n/* Gets. */\nint tslab_get(void);\n'),
     ['a.c'], None),
    ('not exported', planted('tslab_open; tslab_get; tslab_x;'), ['a.c'], 'tslab_x is in'),
    ('exported', planted(local='', code='int more;\n', script='tslab_open; tslab_g*;'), ['a.c'], 'tslab_get is exported'),
    ('a wildcard', planted('tslab_*;'), [], 'is not a name'),
    ('no local', planted(local=''), [], 'is missing'),
    ('named twice', planted('tslab_open; tslab_open; tslab_get;'), [], 'named twice'),
    ('not built', planted(), ['b.so'], 'not built'),
    ('undeclared', planted(header=''), [], 'no public header'),
    ('undocumented', planted(header='int tslab_get(void);\n'), [], 'without a comment'),
    ('a gap', planted(header='/* Gets. */\n\nint tslab_get(void);\n'), [], 'without a comment'),
    ('called', {**planted(), 'tests/api/test-a.c': 'int main(void) { return tslab_open(tslab_get()); }\n'}, [], None),
    ('not called', {**planted(), 'tests/api/test-a.c': '/* tslab_get() */\nint x = tslab_open(1);\n'}, [],
     'nobody calls tslab_get'),
    ('a comment elsewhere', planted(header='/* X. */\nint x;\nint tslab_get(void);\n'), [], 'without a comment'),
]

if __name__ == '__main__':
    tree.main(check, CASES)
