"""A copy of the tree with a build folder of its own, in which mutants are built and tested one after another."""

import collections
import contextlib
import ctypes
import hashlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / 'lint'))
import tree  # noqa: E402

BUILD_SECONDS = 1200
SKIPPED = 77
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
CLONE_NEWNS, MS_BIND, MS_REC, MS_PRIVATE = 0x20000, 1 << 12, 1 << 14, 1 << 18


# As 'dev test' has them.
SANITIZE = ('-Db_sanitize=address,undefined', '-Db_lundef=false')
SANITIZERS = {'ASAN_OPTIONS': 'detect_leaks=1:strict_string_checks=1:abort_on_error=1',
              'UBSAN_OPTIONS': 'print_stacktrace=1:halt_on_error=1:abort_on_error=1'}
ADDR_NO_RANDOMIZE = 0x40000


# ---- processes

def become_reaper():
    """Processes that a test leaves become children of this one, which ends with its own parent."""
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))


def sanitize():
    """The sanitizers of gcc 12 give up at random where addresses have more random bits than they know of."""
    os.environ.update(SANITIZERS)
    ctypes.CDLL(None).personality(ADDR_NO_RANDOMIZE)


def own_tmp(folder):
    """Tests that are killed leave folders in /tmp: it becomes a folder of ours, where that is allowed."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    libc = ctypes.CDLL(None)
    if not folder.is_relative_to('/tmp') and libc.unshare(CLONE_NEWNS) == 0:
        libc.mount(None, b'/', None, MS_REC | MS_PRIVATE, None)
        libc.mount(bytes(folder), b'/tmp', None, MS_BIND, None)


def children():
    return [int(pid) for task in pathlib.Path('/proc/self/task').iterdir()
            for pid in (task / 'children').read_text().split()]


def end_children():
    """Until there are none: the children of a dead child come here."""
    while pids := children():
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)


def run(command, seconds, **options):
    """Exit status and output; status None: it took too long. No process that it started is left."""
    with tempfile.TemporaryFile() as output:  # no pipe: processes left behind would hold it open
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                                   start_new_session=True, **options)
        try:
            status = process.wait(seconds)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            process.kill()
            process.wait()
            end_children()
        output.seek(0)
        return status, output.read().decode('utf-8', 'replace')


# ---- a copy

class Failure(Exception):
    """No mutant can be tried: the tree does not configure or build."""


class Test:
    def __init__(self, told, sources):
        self.name, self.command, self.workdir = told['name'], told['cmd'], told['workdir']
        self.env, self.timeout = told['env'], told['timeout'] or None
        self.suites = [suite.split(':')[-1] for suite in told['suite']]
        self.targets = told['depends']
        self.sources = sources  # a change to one of these can change the test's result


class Copy:
    def __init__(self, root, folder, suites, options=(), n_jobs=1):
        self.root, self.tree, self.build = root, folder / 'tree', folder / 'build'
        self.suites, self.options, self.n_jobs = suites, options, n_jobs
        self.left_out = {'slow', 'no-asan'} if options else {'slow'}
        self.tests = []
        self.seconds = {}  # how long each passing test takes
        self.kills = collections.Counter()

    def sync(self):
        """Writes only files that differ, so that ninja builds no others. Returns a digest of the whole tree."""
        digest, names = hashlib.sha256(repr((self.suites, self.options)).encode()), tree.files(self.root)
        for name in names:
            source, copy = self.root / name, self.tree / name
            text = source.read_bytes()
            digest.update(f'{name}\0{len(text)}\0'.encode() + text)
            if not copy.is_file() or copy.read_bytes() != text:
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, copy)
        for name in set(tree.files(self.tree)) - set(names):
            (self.tree / name).unlink()
        return digest.hexdigest()

    def configure(self):
        if not (self.build / 'build.ninja').is_file():
            status, output = run(['meson', 'setup', '--prefix=/usr', *self.options, self.build, self.tree], BUILD_SECONDS)
            if status != 0:
                raise Failure(output)
        # Also after a meson.build has changed.
        status, output = run(['ninja', '-C', self.build, 'build.ninja'], BUILD_SECONDS)
        if status != 0:
            raise Failure(output)
        self.read_tests()

    def ask(self, *command):
        return subprocess.run(command, cwd=self.build, check=True, capture_output=True, text=True).stdout

    def told(self, what):
        """A part of meson's description of the configured build."""
        return json.loads((self.build / 'meson-info' / f'intro-{what}.json').read_text())

    def from_build(self, path):
        return os.path.relpath(path, self.build)

    def from_tree(self, path):
        return os.path.relpath(self.build / path, self.tree)

    def read_tests(self):
        self.files = {target['id']: [self.from_build(name) for name in target['filename']]
                      for target in self.told('targets')}
        inputs = {}
        for told in self.told('tests'):
            suites = {suite.split(':')[-1] for suite in told['suite']}
            if self.left_out & suites or not suites & set(self.suites):
                continue
            for target in told['depends']:
                if target not in inputs:
                    inputs[target] = {self.from_tree(path) for path in
                                      self.ask('ninja', '-t', 'inputs', *self.files[target]).splitlines()}
            self.tests.append(Test(told, set().union(*(inputs[target] for target in told['depends']))))

    def compile(self, paths):
        status, _ = run(['ninja', '-C', self.build, f'-j{self.n_jobs}', *paths], BUILD_SECONDS)
        return status == 0

    def compile_for(self, tests):
        return self.compile(sorted({path for test in tests for target in test.targets for path in self.files[target]}))

    # ---- tests

    def limit(self, test):
        """Seconds after which a test counts as hanging; generous, as other work may go on at the same time."""
        known = self.seconds.get(test.name)
        return test.timeout if known is None else min(test.timeout or 3600, 20 + 10 * known)

    def fails(self, test):
        """How, or None."""
        env = {**os.environ, 'MALLOC_PERTURB_': '85', **test.env}
        status, _ = run(test.command, self.limit(test), cwd=test.workdir or self.build, env=env)
        if status is None:
            return 'hang'
        return None if status in (0, SKIPPED) else f'signal {-status}' if status < 0 else f'exit status {status}'

    def measure(self, digest, paths):
        """How long each test takes that a change to these files reaches. A test that fails without a mutant is left out."""
        told = self.build / 'mutate-seconds.json'
        known = json.loads(told.read_text()) if told.is_file() else {}
        known = known if known.get('digest') == digest else {'digest': digest, 'seconds': {}}
        seconds, tests = known['seconds'], [test for test in self.tests if test.sources & set(paths)]
        if not self.compile_for(tests):
            raise Failure('the tree does not build: ./dev build tells more')
        for test in tests:
            begin = time.monotonic()
            if test.name not in seconds and (how := self.fails(test)):
                print(f'mutate: {test.name} fails without a mutant ({how}): left out', file=sys.stderr, flush=True)
            else:
                seconds.setdefault(test.name, time.monotonic() - begin)
        told.write_text(json.dumps(known))
        return seconds

    def tests_of(self, suite, path):
        """The tests that a change to this file reaches; tests that killed most in little time come first."""
        found = [test for test in self.tests
                 if suite in test.suites and path in test.sources and test.name in self.seconds]
        return sorted(found, key=lambda test: self.seconds[test.name] / (1 + self.kills[test.name]))

    # ---- mutants

    def objects(self, path):
        """The object files that are compiled from a file."""
        told = self.ask('ninja', '-t', 'query', self.from_build(self.tree / path))
        return [line.strip() for line in told.partition('outputs:')[2].splitlines() if line.strip().endswith('.o')]

    def code(self, paths):
        """A digest of the machine code of these objects."""
        digest = hashlib.sha256()
        with tempfile.NamedTemporaryFile() as bare:
            for path in paths:
                subprocess.run(['objcopy', '--strip-debug', self.build / path, bare.name], check=True)
                digest.update(pathlib.Path(bare.name).read_bytes())
        return digest.digest()

    def wanted_objects(self, path):
        reached = set().union(*(test.sources for test in self.tests))
        return [name for name in self.objects(path) if self.from_tree(name) in reached]

    def run_tests(self, path):
        """The mutant's fate, the test that killed it, how, and the number of tests that ran."""
        n = 0
        for suite in self.suites:
            tests = self.tests_of(suite, path)
            if tests and not self.compile_for(tests):
                return 'unbuilt', None, None, n
            for test in tests:
                n += 1
                if how := self.fails(test):
                    self.kills[test.name] += 1
                    return 'killed', test.name, how, n
        return 'survived', None, None, n

    def try_mutant(self, mutant):
        path, objects = self.tree / mutant.path, self.wanted_objects(mutant.path)
        path.write_text(mutant.text, encoding='utf-8')
        if not self.compile(objects):
            raise Failure(f'{mutant.path} does not build without a mutant')
        code = self.code(objects)
        path.write_text(mutant.apply(), encoding='utf-8')
        try:
            if not self.compile(objects):
                return 'unbuilt', None, None, 0
            if self.code(objects) == code:
                return 'same', None, None, 0
            return self.run_tests(mutant.path)
        finally:
            path.write_text(mutant.text, encoding='utf-8')
