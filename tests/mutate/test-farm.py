#!/usr/bin/env python3
"""A project of two files is mutated: each mutant has its result, and no process or change is left."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import mutate

MESON = '''project('small', 'c', default_options: 'buildtype=release')
test('unit-sum', executable('test-sum', 'sum.c', 'test-sum.c'), suite: 'unit', timeout: 6)
'''
SUM = '''static volatile int more = 1;
int sum(int a, int b) {
        int unused = 0;
        if (!b)
                return 100;
        while (more) {
                a += b;
                more = 0;
        }
        return a;
}
'''
# The result of each line's mutants.
RESULTS = {3: ('same', None), 4: ('killed', 'exit status 1'), 5: ('survived', None), 6: ('killed', 'exit status 1'),
           7: ('killed', 'exit status 1'), 8: ('killed', 'hang'), 10: ('killed', 'exit status 1')}
# The test leaves a process behind, which holds the pipe open.
TEST = '''#include <unistd.h>
int sum(int a, int b);
int main(void) {
        if (fork() == 0) {
                setsid();
                execlp("sleep", "sleep", MARK, (char *) 0);
        }
        return sum(2, 3) != 5;
}
'''
PROGRAM = pathlib.Path(__file__).resolve().parent / 'mutate.py'


def running(mark):
    return subprocess.run(['pgrep', '-fx', f'sleep {mark}'], stdout=subprocess.DEVNULL, check=False).returncode == 0


class FarmTest(unittest.TestCase):
    def test_small_project(self):
        mark = str(100000 + os.getpid())
        with tempfile.TemporaryDirectory() as name:
            root, told = pathlib.Path(name) / 'tree', pathlib.Path(name) / 'told.json'
            root.mkdir()
            files = {'meson.build': MESON, 'sum.c': SUM, 'test-sum.c': TEST.replace('MARK', f'"{mark}"')}
            for file, text in files.items():
                (root / file).write_text(text)
            done = subprocess.run([sys.executable, PROGRAM, '--root', root, '--build', f'{name}/build', '--files', 'sum.c',
                                   '--suites', 'unit', '--seed', '1', '--n', '100', '--json', told],
                                  capture_output=True, text=True, check=False)
            self.assertEqual({f.name: f.read_text() for f in root.iterdir()}, files)
            results = json.loads(told.read_text())['mutants']
        self.assertEqual({r['line']: (r['result'], r['how']) for r in results}, RESULTS, done.stderr)
        self.assertIn('+                return ', done.stdout)
        self.assertIn('all: 5 of 6 killed, 83 %', done.stdout)
        self.assertEqual(done.returncode, 1)
        self.assertFalse(running(mark))


class FilesTest(unittest.TestCase):
    def test_folders(self):
        with tempfile.TemporaryDirectory() as name:
            root = pathlib.Path(name).resolve()
            for file in ('shm/a.c', 'shm/a.h', 'shm/map/b.c', 'libclient/c.c', 'examples/demo/d.c'):
                (root / file).parent.mkdir(parents=True, exist_ok=True)
                (root / file).touch()
            self.assertEqual(mutate.c_files(root, ['shm']), ['shm/a.c', 'shm/map/b.c'])
            self.assertEqual(mutate.c_files(root, ['shm/map/b.c', 'shm']), ['shm/map/b.c', 'shm/a.c'])
            self.assertEqual(mutate.c_files(root, ['libclient']), ['libclient/c.c'])
            self.assertEqual(mutate.c_files(root, ['examples']), ['examples/demo/d.c'])


if __name__ == '__main__':
    sys.dont_write_bytecode = True
    unittest.main()
