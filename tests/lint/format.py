"""The C files are formatted: './dev format' would change nothing."""

import re
import shutil
import subprocess

import tree

CLANG_FORMAT = 'clang-format-14'
STYLE = '.clang-format'
HINT = ("'./dev format' changes this; a table set by hand goes between /* clang-format off */ and on, "
        'with nothing else in those comments')


def check(root):
    names = tree.c_files(root)
    if not names or not shutil.which(CLANG_FORMAT):
        return None
    # Without the file clang-format would take a parent folder's style, or one of its own.
    if not (root / STYLE).is_file():
        return [f'{STYLE}: missing']
    done = subprocess.run([CLANG_FORMAT, '--dry-run', '-Werror', '--', *names], cwd=root, check=False,
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    places = re.findall(r'^(\S+?):(\d+):\d+: error', done.stderr, re.MULTILINE)
    # One problem a file: the others mostly follow from it.
    problems = [f'{name}:{line}: {HINT}' for name, line in dict(reversed(places)).items()]
    if done.returncode != 0 and not problems:
        problems.append(f'{CLANG_FORMAT} failed: {done.stderr.strip()}')
    return sorted(problems)


STYLE_TEXT = 'Language: Cpp\nIndentWidth: 8\nColumnLimit: 60\nAllowShortFunctionsOnASingleLine: None\n'

CASES = [
    ('good', {STYLE: STYLE_TEXT, 'shm/a.c': 'int f(void) {\n        return 1;\n}\n'}, [], None),
    ('another indent', {STYLE: STYLE_TEXT, 'shm/a.c': 'int f(void) {\n    return 1;\n}\n'}, [], 'shm/a.c:1:'),
    ('a table', {STYLE: STYLE_TEXT, 'tests/a.h': '/* clang-format off */\nint  x[] = { 1,\n 2 };\n'}, [], None),
    ('words in the mark', {STYLE: STYLE_TEXT, 'tests/a.h': '/* clang-format off: a table */\nint  x;\n'}, [],
     'tests/a.h:2:'),
    ('no style', {'shm/a.c': 'int x;\n'}, [], 'missing'),
]

if __name__ == '__main__':
    tree.main(check, CASES)
