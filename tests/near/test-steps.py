"""tslab-near is killed, or stands still for longer than the bound, at instructions of its own: where it is told of a
change, renews the cover, loses its connection, and finds another primary. No copy is read that is older than the bound.

    test-steps.py TSLABD TSLABCTL TSLAB_NEAR EXAMPLE [unittest arguments]

A first run says which instructions of the program an event leads through, in the order in which each is met first. The
calls of libtslab have tests/crash/test-near.c.
"""

import errno
import os
import shutil
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'util'))
import redis  # noqa: E402
import side  # noqa: E402
import tslab  # noqa: E402
from daemon import Daemon, wait_for  # noqa: E402
from servers import TSLAB_NEAR, Counted, Near, Redis  # noqa: E402
from stepper import CAN_STEP, Stepper, instructions  # noqa: E402

TSLABD, TSLABCTL = map(os.path.abspath, sys.argv[1:3])
BOUND_MS = 300
POINTS = 100 if side.FULL else 10       # each event has so many, each for a kill and a stop


@unittest.skipUnless(CAN_STEP and shutil.which('objdump'), 'breakpoints are for x86-64, with binutils')
class Fixture(unittest.TestCase):
    N_SERVERS = 1

    def setUp(self):
        self.servers = [Redis() for _ in range(self.N_SERVERS)]
        for server in self.servers:
            self.addCleanup(server.end)
        self.primary, self.version = self.servers[0].client(), 0
        self.daemon = self.enterContext(Daemon(TSLABD, '--size=16M'))
        others = [f'--server=127.0.0.1:{server.port}' for server in self.servers[1:]]
        self.near = Near(self.daemon, self.servers[0], '--bound', str(BOUND_MS), *others)
        self.addCleanup(self.near.end)
        self.engine = Counted(self.primary)
        self.cache = tslab.NearCache(self.engine, self.enterContext(tslab.open(self.daemon.socket)), prefix='p:')

    def get(self):
        return self.cache.get('k')

    def change(self):
        self.version += 1
        self.value = str(self.version).encode()
        self.primary.set('p:k', self.value)

    def is_settled(self):
        """The primary of now is heard, and the value of now is read without a question."""
        if all(one['name'] != 'tslab-near' for one in self.primary.client_list()):
            return False
        self.get()
        n = self.engine.n
        return self.get() == self.value and self.engine.n == n

    def n_pings(self):
        """How often the primary was asked whether all was told."""
        return self.primary.info('commandstats').get('cmdstat_ping', {'calls': 0})['calls']

    def begin(self, event):
        event()
        self.n_pings_before = self.n_pings()

    def is_over(self):
        """The event, and renewals of the cover behind it."""
        return self.n_pings() >= self.n_pings_before + 3 and self.is_settled()

    def record(self, event):
        """The instructions that it goes through because of an event."""
        self.settle()
        met = []
        with Stepper(self.near.process, TSLAB_NEAR) as stepper:
            stepper.plant(instructions(TSLAB_NEAR))
            self.begin(event)
            while (found := stepper.run(self.is_over)) is not None:
                met.append(found)
        return met

    def settle(self):
        self.change()
        wait_for(self.is_settled)

    def meet(self, address, event, is_death):
        """Whether the process came there."""
        self.settle()
        with Stepper(self.near.process, TSLAB_NEAR) as stepper:
            stepper.plant([address])
            self.begin(event)
            if stepper.run(self.is_over) is None:
                return False
            if is_death:
                stepper.kill()
                self.near.wait()
            self.change()
            time.sleep(BOUND_MS / 1000)
            self.assertEqual(self.get(), self.value)
        if is_death:
            self.near.start()
        wait_for(self.is_settled_with_new_values)
        return True

    def is_settled_with_new_values(self):
        self.assertEqual(self.get(), self.value)
        return self.is_settled()

    def go_through(self, event):
        try:
            addresses = self.record(event)
        except OSError as e:
            if e.errno not in (errno.EPERM, errno.EACCES, errno.EIO):
                raise
            self.skipTest('this system lets no process trace another one, or write into its code')
        names = instructions(TSLAB_NEAR)
        points = addresses[::len(addresses) // POINTS + 1]
        n = sum(self.meet(point, event, is_death) for point in points for is_death in (False, True))
        print(f'{len(addresses)} instructions of {len(set(map(names.get, addresses)))} functions; killed or stopped {n} times '
              f'at {len(points)}', flush=True)
        self.assertGreater(n, 0)
        self.daemon.ctl(TSLABCTL, 'check')


class ChangeTest(Fixture):
    def test_a_change(self):
        self.go_through(self.change)


class LinkTest(Fixture):
    def cut(self):
        for one in self.primary.client_list():
            if one['name'] == 'tslab-near':
                self.primary.client_kill_filter(_id=one['id'])
        self.change()

    def test_a_lost_connection(self):
        self.go_through(self.cut)


class FailoverTest(Fixture):
    N_SERVERS = 2

    def fail_over(self):
        self.servers.reverse()
        old, self.primary = self.primary, self.servers[0].client()
        self.engine._engine = self.primary
        self.primary.slaveof()
        self.change()
        old.slaveof('127.0.0.1', self.servers[0].port)

    def test_another_primary(self):
        self.servers[1].client().slaveof('127.0.0.1', self.servers[0].port)
        self.go_through(self.fail_over)


side.main()
