"""A private pool in a cgroup that is smaller than the pool: out of memory is an error, and never a kill."""

import subprocess
import sys
import unittest

import cgroup

PROGRAM = sys.argv.pop(1)
LIMIT = 96 << 20


class Limit(unittest.TestCase):
    def test_private_pool_in_small_cgroup(self):
        with cgroup.limited(LIMIT) as folder:
            done = subprocess.run([*cgroup.into(folder), PROGRAM], stdout=subprocess.PIPE, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout)
        filled = sum(int(line.split()[0]) for line in done.stdout.splitlines() if 'objects' in line)
        self.assertGreater(filled * 4096, LIMIT // 2, done.stdout)

    def test_program_takes_memory_itself(self):
        own = 80
        with cgroup.limited(LIMIT) as folder:
            done = subprocess.run([*cgroup.into(folder), PROGRAM, str(own)], stdout=subprocess.PIPE, text=True,
                                  check=False)
        self.assertIn(f'has {own} MiB itself', done.stdout)
        self.assertEqual(done.returncode, 0, done.stdout)


if __name__ == '__main__':
    unittest.main()
