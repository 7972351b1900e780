"""Probes are nops, docs/tracing.md lists them all, and they fire: at a breakpoint, and in the page's own programs.

    test-probes.py TSLABCTL TSLABD CTL-CLIENT SOURCE-FOLDER LIBTSLAB [unittest arguments]
"""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import unittest

LIBTSLAB = os.path.abspath(sys.argv.pop(5))
sys.path.insert(0, os.path.join(os.path.abspath(sys.argv[4]), 'tests/util'))

from daemon import SECONDS, wait_for
from verb import SOURCE, TSLABD, VERB_CLIENT, VerbTest, main

PAGE = (pathlib.Path(SOURCE) / 'docs/tracing.md').read_text()
# A nop, and an instruction that ends the process by SIGTRAP.
NOP, TRAP = {'x86_64': (b'\x90', b'\xcc'), 'aarch64': (b'\x1f\x20\x03\xd5', b'\0\0\x20\xd4')}[os.uname().machine]
NOTE = re.compile(r'Name: (\w+)\s+Location: (0x[0-9a-f]+), Base: (0x[0-9a-f]+)')


def probes(file):
    """(name, offset in the file) of each. The linker may have moved the file since the notes were written."""
    notes = subprocess.run(['readelf', '-nW', file], stdout=subprocess.PIPE, text=True, check=True).stdout
    sections = subprocess.run(['readelf', '-SW', file], stdout=subprocess.PIPE, text=True, check=True).stdout
    base = int(re.search(r' \.stapsdt\.base +\w+ +(\w+)', sections).group(1), 16)
    text, at = (int(x, 16) for x in re.search(r' \.text +\w+ +(\w+) (\w+)', sections).groups())
    return [(name, int(place, 16) - int(was, 16) + base - text + at) for name, place, was in NOTE.findall(notes)]


def mapped_at(pid, file, offset):
    """The address at which the process has that part of the file."""
    for line in pathlib.Path(f'/proc/{pid}/maps').read_text().splitlines():
        addresses, access, start, _, _, *path = line.split()
        first, end = (int(x, 16) for x in addresses.split('-'))
        start = int(start, 16)
        if path and os.path.realpath(path[0]) == os.path.realpath(file) and 'x' in access:
            if start <= offset < start + end - first:
                return first + offset - start
    raise AssertionError(f'{pid} does not execute {file}')


def listed():
    """{name: where it is} of the page."""
    return dict(re.findall(r'^\| `(\w+)` \|.*\| ([^|]+) \|$', PAGE, re.MULTILINE))


@unittest.skipUnless(os.environ['PROBES'] == 'yes', 'a build without probes: sys/sdt.h is not there')
class Probes(VerbTest):
    def test_all_are_listed(self):
        page = listed()
        library, daemon = ({name for name, _ in probes(file)} for file in (LIBTSLAB, TSLABD))
        self.assertEqual(set(page), library | daemon)
        self.assertEqual({name for name, where in page.items() if where == 'libtslab'}, library - daemon)
        self.assertGreaterEqual(len(page), 12)

    def test_each_is_a_nop(self):
        for file in (LIBTSLAB, TSLABD):
            content = pathlib.Path(file).read_bytes()
            for name, offset in probes(file):
                with self.subTest(file=file, probe=name):
                    self.assertEqual(content[offset:offset + len(NOP)], NOP)

    def breakpoint(self, process, file, probe):
        with open(f'/proc/{process.pid}/mem', 'r+b', buffering=0) as memory:
            for name, offset in probes(file):
                if name == probe:
                    memory.seek(mapped_at(process.pid, file, offset))
                    memory.write(TRAP)

    def test_a_breakpoint_is_passed(self):
        """A client whose probe ends it is ended by the first call that passes there, and by none before."""
        for probe, before, order in (('refill', 'put 64 0', 'session 64 1'), ('evict', 'put 8 10', 'evict 4096 8000'),
                                     ('claim_sleep', 'claim 99 60000', 'claim 99 1')):
            with self.subTest(probe=probe):
                first, client = self.client(), self.client()
                self.breakpoint(client.process, LIBTSLAB, probe)
                first.do(before)
                client.do('put 64 0')
                print(order, file=client.process.stdin, flush=True)
                self.assertEqual(client.process.wait(SECONDS), -signal.SIGTRAP)


def can_trace():
    """Whether bpftrace is there, and the kernel lets it."""
    if not shutil.which('bpftrace'):
        return False
    done = subprocess.run(['bpftrace', '-e', f'uprobe:{VERB_CLIENT}:main {{ exit(); }} BEGIN {{ exit(); }}'],
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False, timeout=SECONDS)
    return done.returncode == 0


def programs():
    """The page's, about the files of this build."""
    for program in re.findall(r'```bpftrace\n(.*?)```', PAGE, re.DOTALL):
        yield re.sub(r'usdt:\S+?(libtslab|tslabd)[^:]*:',
                     lambda m: f'usdt:{LIBTSLAB if m.group(1) == "libtslab" else TSLABD}:', program)


@unittest.skipUnless(os.environ['PROBES'] == 'yes', 'a build without probes: sys/sdt.h is not there')
@unittest.skipUnless(os.geteuid() == 0 and can_trace(), 'bpftrace is not there, or may not look')
class Page(VerbTest):
    def traced(self, program, act):
        """The output of the program, which looked at act()."""
        with subprocess.Popen(['bpftrace', '-e', program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              text=True) as tracer:
            try:
                line = tracer.stdout.readline()
                self.assertRegex(line, 'Attaching [0-9]+ probe')
                # It says so before it does; then each place has a breakpoint, one after the other.
                wait_for(lambda: self.is_watched(program))
                # Only then has each breakpoint its program, without which what happens there is lost.
                wait_for(lambda: 'poll' in pathlib.Path(f'/proc/{tracer.pid}/wchan').read_text(encoding='ascii'))
                act()
                return self.ended(tracer)
            finally:
                tracer.kill()

    @staticmethod
    def ended(tracer):
        """Its output. It forgets a signal that comes while it does not wait for events."""
        for _ in range(10 * SECONDS):
            tracer.send_signal(signal.SIGINT)
            try:
                return tracer.communicate(timeout=0.1)[0]
            except subprocess.TimeoutExpired:
                pass
        raise AssertionError('bpftrace does not end')

    def setUp(self):
        super().setUp()
        self.first = self.client()

    def is_watched(self, program):
        """Whether all places of all probes that the program names are breakpoints."""
        n_names = 0
        for file, process in (LIBTSLAB, self.first.process), (TSLABD, self.daemon.process):
            names = re.findall(rf'usdt:{re.escape(file)}:(?:tslab:)?(\w+)', program)
            n_names += len(names)
            with open(f'/proc/{process.pid}/mem', 'rb', buffering=0) as memory:
                for name, offset in probes(file) if names else ():
                    memory.seek(mapped_at(process.pid, file, offset))
                    if name in names and memory.read(len(NOP)) == NOP:
                        return False
        self.assertGreater(n_names, 0, program)
        return True

    def test_the_programs_of_the_page(self):
        refills, waits, daemon = programs()

        text = self.traced(refills, lambda: self.first.do('session 64 1000'))
        self.assertRegex(text, r'@slots\[64\]')

        self.first.do('claim 1 60000')
        text = self.traced(waits, lambda: self.client().do('claim 1 50'))
        self.assertRegex(text, r'@usec\[map\.values\]')

        text = self.traced(daemon, self.come_and_die)
        self.assertRegex(text, r'client \d+ is process \d+ of user 0\n')
        self.assertRegex(text, r'record \d+: thread \d+ is dead\n')
        self.assertRegex(text, r'record \d+ is repaired\n')

    def come_and_die(self):
        client = self.client()
        client.do('session 64 10')
        n = len(self.json('clients'))
        client.kill()
        wait_for(lambda: len(self.json('clients')) == n - 1)


if __name__ == '__main__':
    main()
