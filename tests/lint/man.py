"""Manual pages render without warnings, refer to existing pages, and have a paragraph of its own for each list of errors:
man.py PAGE... (or --self-test).
"""

import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile

# scdoc's output has long lines and empty paragraphs.
ALLOWED = re.compile(r'STYLE: (input text line longer|whitespace at end|lower case character)|skipping paragraph macro|missing date|UNSUPP|referenced manual not found')

# The description of one error, with a line of it that begins with further errors.
GLUED = re.compile(r'^\.TP\n\.B .*\n(?:(?!\.).*\n)+?(\\-E[A-Z0-9]+)', re.MULTILINE)


def problems_of(page, names):
    done = subprocess.run(['man', '--warnings', '--encoding=UTF-8', '--local-file', page], env={**os.environ, 'MANWIDTH': '80'},
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    found = [f'{page}: {line}' for line in done.stderr.splitlines()]
    if done.returncode or not done.stdout.strip():
        found.append(f'{page}: is not rendered')
    lint = subprocess.run(['mandoc', '-T', 'lint', page], stdout=subprocess.PIPE, text=True, check=False)
    found += [line for line in lint.stdout.splitlines() if not ALLOWED.search(line)]
    text = re.sub(r'.\x08', '', done.stdout)
    for name, section in re.findall(r'\b(tslab[a-z._-]*)\((\d)\)', text):
        if f'{name}.{section}' not in names:
            found.append(f'{page}: there is no {name}({section})')
    with open(page, encoding='utf-8') as file:
        found += [f'{page}: {m[1]} is in the text of another error' for m in GLUED.finditer(file.read())]
    return found


def problems(pages):
    """The complaints of man and mandoc, and references to pages of ours that do not exist."""
    names = {os.path.basename(page) for page in pages}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return [problem for found in pool.map(lambda page: problems_of(page, names), pages) for problem in found]


def self_test():
    with tempfile.TemporaryDirectory() as folder:
        for name, text, expected in (
                ('good.1', '.TH good 1 2026-01-01\n.SH NAME\ngood \\- does good\n', []),
                ('macro.1', '.TH macro 1 2026-01-01\n.SH NAME\nmacro \\- x\n.NOSUCH y\n', ['NOSUCH']),
                ('call.3', '.TH call 3 2026-01-01\n.SH NAME\ncall \\- see tslab_x(3)\n', ['tslab_x(3)']),
                ('glued.3', '.TH glued 3 2026-01-01\n.SH NAME\nglued \\- x\n.SH ERRORS\n.TP\n.B \\-EINVAL\nbad\n\\-EROFS and more\n',
                 ['EROFS is in']),
                ('link.1', '.TH link 1 2026-01-01\n.SH NAME\nlink \\- see tslabx(8)\n', ['tslabx(8)'])):
            page = f'{folder}/{name}'
            with open(page, 'w', encoding='utf-8') as file:
                file.write(text)
            said = problems([page])
            if bool(said) != bool(expected) or not all(any(e in s for s in said) for e in expected):
                sys.exit(f'{name}: {said}')


if __name__ == '__main__':
    if sys.argv[1:] == ['--self-test']:
        self_test()
    elif wrong := problems(sys.argv[1:]):
        sys.exit('\n'.join(wrong))
