"""Pages for users, followed word by word: each section in a new virtual environment, with packages that pip fetches.

    test-pages.py TSLABD TSLABCTL TSLAB_NEAR PACKAGE-FOLDER HEADERS LIBRARY-FOLDER PAGE [unittest arguments]

A section is one test, named after its heading: `test-pages.py … Pages.test_celery_results` runs one alone. Programs are the
blocks whose text before names a file; a console's lines that begin with `$ ` are commands, and the others are printed by
them. The commands before the first section are those of each. Lines of pip come first and have the network; the others are
in a network and a process namespace of their own, so that a page may name ports, and nothing outlives it.
"""

import contextlib
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

PROGRAMS = [pathlib.Path(a).resolve() for a in sys.argv[1:4]]
SOURCE, HEADERS, LIBRARY, PAGE = (pathlib.Path(a).resolve() for a in sys.argv[4:8])
LICENCE = '/usr/share/doc/libprotobuf-c-dev/copyright'
BLOCK = re.compile(r'^(?:`(?P<file>[\w./-]+)`[^\n]*(?:\n[^\n`]+)*\n\n)?```(?P<kind>\w+)\n(?P<text>.*?)^```$',
                   re.MULTILINE | re.DOTALL)
OF_PIP = 'python3 -m venv', '. venv/', 'pip install '
MARK = 'the output of command'
OWN = ['unshare', *([] if os.geteuid() == 0 else ['--map-root-user']), '--net', '--pid', '--fork', '--kill-child',
       '--mount-proc', 'sh', '-c', 'ip link set lo up && exec "$@"', 'sh']
SECONDS, PIP_SECONDS = 300, 900
NEEDED = 'redis-server', 'curl', 'ip', 'unshare'
SKIPPED = 77


def parts(text):
    """The commands before the first section; and of each section its heading, programs and commands, with their outputs."""
    first, *sections = re.split(r'^## ', text, flags=re.MULTILINE)
    for section in sections:
        heading, _, body = section.partition('\n')
        blocks = [(b['file'], b['kind'], b['text']) for b in BLOCK.finditer(body)]
        yield heading, {file: text for file, kind, text in blocks if file}, list(commands(first)) + list(commands(body))


def commands(text):
    for block in BLOCK.finditer(text):
        if block['kind'] == 'console':
            for command in re.split(r'^\$ ', block['text'], flags=re.MULTILINE)[1:]:
                line, _, output = command.partition('\n')
                yield line, output


class Pages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        missing = [name for name in NEEDED if not shutil.which(name)]
        if missing or subprocess.run([*OWN, 'true'], capture_output=True, check=False).returncode:
            raise unittest.SkipTest(f'there is no {", ".join(missing) or "namespace for us"}')
        cls.tools = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix='tslab-test-')))
        for program in PROGRAMS:
            (cls.tools / program.name).symlink_to(program)
        cls.environment = {k: v for k, v in os.environ.items() if not k.startswith(('PYTHON', 'TSLAB_', 'LD_'))}
        cls.environment.update(PATH=f'{cls.tools}:{os.environ["PATH"]}', PIP_DISABLE_PIP_VERSION_CHECK='1', LC_ALL='C.UTF-8',
                               PIP_ROOT_USER_ACTION='ignore', PIP_QUIET='1', PYTHONDONTWRITEBYTECODE='1')
        if subprocess.run([sys.executable, '-m', 'pip', 'download', '--no-deps', '--dest', cls.tools / 'fetched', 'cachelib'],
                          env=cls.environment, stdin=subprocess.DEVNULL, check=False, timeout=PIP_SECONDS).returncode:
            raise unittest.SkipTest('pip fetches no packages')
        cls.build()

    @classmethod
    def build(cls):
        """The wheel, as `./dev wheel --whole` makes it."""
        shutil.copytree(SOURCE, cls.tools / 'source')
        subprocess.run([sys.executable, '-m', 'pip', 'wheel', '--no-deps', '--no-build-isolation', '--wheel-dir', cls.tools,
                        cls.tools / 'source'], check=True, env={
                            **cls.environment, 'TSLAB_LIBRARY': str(LIBRARY / 'libtslab-bundled.so.0'),
                            'TSLAB_LICENSES': LICENCE, 'CFLAGS': f'-I{HEADERS}', 'LDFLAGS': f'-L{LIBRARY}'})
        cls.wheel, = cls.tools.glob('tslab-*.whl')

    def script(self, folder, lines, prefix=()):
        """The output of each command."""
        script = '\n'.join(f'echo; echo {shlex.quote(f"{MARK} {i}")}\n{line}' for i, line in enumerate(lines))
        with open(folder / 'errors.log', 'wb') as errors, open(folder / 'output.log', 'w+b') as output:
            with contextlib.suppress(subprocess.TimeoutExpired):
                subprocess.run([*prefix, 'bash', '-c', f'set -m\n{script}\necho; echo {MARK}'], cwd=folder, check=False,
                               stdout=output, stderr=errors, env=self.environment, timeout=SECONDS)
            output.seek(0)
            return [text.partition('\n')[2] for text in re.split(rf'\n{MARK}', output.read().decode())[1:-1]]

    def follow(self, programs, lines):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix='tslab-test-')))
        shutil.copy(self.wheel, folder)
        for name, text in programs.items():
            (folder / name).write_text(text, encoding='utf-8')
        of_pip = [line for line, _ in lines if line.startswith(OF_PIP)]
        subprocess.run(['bash', '-e', '-c', '\n'.join(of_pip)], cwd=folder, env=self.environment, check=True,
                       stdin=subprocess.DEVNULL, timeout=PIP_SECONDS)
        rest = [('. venv/bin/activate', ''), *(line for line in lines if not line[0].startswith(OF_PIP))]
        outputs = self.script(folder, [line for line, _ in rest], OWN)
        logs = '\n'.join(f'{path.name}:\n{path.read_text(errors="replace")[-3000:]}' for path in folder.iterdir()
                         if path.suffix == '.log')
        self.assertEqual(list(zip((line for line, _ in rest), outputs)), rest, logs)


def name_of(heading):
    return 'test_' + re.sub(r'\W+', '_', heading).strip('_').lower()


def add_tests():
    for heading, programs, lines in parts(PAGE.read_text(encoding='utf-8')):
        assert programs and any(output for _, output in lines), f'{heading}: no program, or nothing is printed'
        setattr(Pages, name_of(heading), lambda self, programs=programs, lines=lines: self.follow(programs, lines))


if __name__ == '__main__':
    add_tests()
    program = unittest.main(argv=[sys.argv[0], *sys.argv[8:]], exit=False)
    result = program.result
    sys.exit(1 if not result.wasSuccessful() else SKIPPED if not result.testsRun else 0)
