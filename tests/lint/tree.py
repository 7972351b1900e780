"""Functions that all lints use: the files of a tree, C text without comments and strings, and the self-test."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

SKIP = 77  # meson's exit code for a test that does not apply

# Headers that are installed, by base name.
PUBLIC_HEADER = re.compile(r'(tslab(_\w+)?|slab_alloc|slab_alloc_internal|slab_diagnostics|slab_stats|epoch_domain)\.h')

TOKEN = re.compile(r'(?P<comment>/\*.*?\*/|//[^\n]*)'
                   r'|"(?:\\.|[^"\\\n])*"'
                   r"|'(?:\\.|[^'\\\n])*'", re.DOTALL)


def files(root):
    """Paths relative to root of all files that are, or could be, committed."""
    if (root / '.git').exists():
        try:
            # The tree may belong to another user, as it does in a container.
            names = subprocess.run(
                ['git', '-c', 'safe.directory=*', '-C', str(root), 'ls-files', '-z',
                 '--cached', '--others', '--exclude-standard'],
                check=True, stdout=subprocess.PIPE).stdout.decode().split('\0')
            return sorted(n for n in set(names) if n and (root / n).is_file())
        except FileNotFoundError:
            pass

    found = []
    for folder, below, names in os.walk(root):
        below[:] = [b for b in below if not b.startswith(('.git', 'build', '__pycache__'))]
        found += [os.path.relpath(os.path.join(folder, n), root) for n in names]
    return sorted(found)


def c_files(root):
    return [f for f in files(root) if f.endswith(('.c', '.h'))]


def is_test(name):
    return name.startswith('tests/') or '/tests/' in name


def read(root, name):
    return (root / name).read_text(encoding='utf-8', errors='replace')


def is_public(name):
    return name.startswith(('libclient/', 'slab-alloc/')) and PUBLIC_HEADER.fullmatch(os.path.basename(name)) is not None


def blank(text):
    """The text with spaces for comments and strings, every character keeping its place."""
    return TOKEN.sub(lambda m: re.sub(r'[^\n]', ' ', m.group()), text)


def comments(text):
    """(first line, last line, words) of each comment, lines counted from 1."""
    for match in TOKEN.finditer(text):
        if match.group('comment'):
            first = line_of(text, match.start())
            bare = re.sub(r'^\s*(/\*+|//|\*(?!/))|\*/\s*$', ' ', match.group(), flags=re.MULTILINE)
            yield first, first + match.group().count('\n'), ' '.join(bare.split())


def line_of(text, position):
    return text.count('\n', 0, position) + 1


def self_test(check, cases):
    """Each case: its name, the planted files, the arguments of check, and a part of the expected problem (None: none)."""
    failed = 0
    for name, planted, args, expected in cases:
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for path, text in planted.items():
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(text, encoding='utf-8')
            problems = check(root, *args)
        good = any(expected in p for p in problems) if expected else not problems
        if not good:
            print(f'self-test "{name}": expected {expected!r}, got {problems}')
            failed += 1
    print(f'{len(cases)} cases, {failed} failed')
    return 1 if failed or not cases else 0


def main(check, cases):
    """check(root, arguments...) returns a list of problems, or None where there is nothing to check yet."""
    if sys.argv[1:] == ['--self-test']:
        sys.exit(self_test(check, cases))

    problems = check(pathlib.Path(sys.argv[1]), *sys.argv[2:])
    if problems is None:
        sys.exit(SKIP)
    print('\n'.join(problems))
    sys.exit(1 if problems else 0)
