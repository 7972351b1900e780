"""tslab-near is killed, doubled and stopped beside workers that read and write: no read is older than the bound, and nothing
grows. In full, it is killed 1000 times."""

import os
import random
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'util'))

import side  # noqa: E402
from hosts import TSLABCTL, Case, Near, World, wait_for  # noqa: E402
from servers import Redis  # noqa: E402

KILLS = 1000 if side.FULL else 30
STOP_SECONDS = 10 if side.FULL else 2
BOUND_MS = 300


class DaemonFixture(Case):
    def setUp(self):
        self.redis = Redis()
        self.addCleanup(self.redis.end)
        self.world = self.enterContext(World([[self.redis.port]] * 2, [self.redis.port], BOUND_MS))
        self.host = self.world.hosts[0]


class KillTest(DaemonFixture):
    def sizes(self):
        """Everything that might grow."""
        self.world.wait_covered()
        with self.redis.client() as client:
            sizes = {'connections': client.info()['connected_clients']}
        for host in self.world.hosts:
            stats = host.stats()
            here = {'descriptors': len(os.listdir(f'/proc/{host.daemon.process.pid}/fd')),
                    'epochs': len([epoch for epoch in stats['epochs'] if epoch['state'] != 'free'])}
            here |= {name: stats[name] for name in ('clients', 'threads', 'live_objects', 'committed_bytes',
                                                    'metadata_bytes')}
            sizes |= {f'{host.name} {name}': size for name, size in here.items()}
        return sizes

    def grown(self, before):
        after = self.sizes()
        print(before, after, sep='\n')
        return [name for name, size in before.items() if after[name] > size * 1.25 + 5]

    def test_kills_at_random_moments(self):
        before = self.sizes()
        for _ in range(KILLS):
            near = random.choice(self.world.hosts).near
            time.sleep(random.choice([0.002, 0.02, 0.1]) * random.random())
            near.kill()
            near.start()
        wait_for(lambda: not self.grown(before), 'all that was left behind has gone')
        self.expect_fresh(self.world)
        for host in self.world.hosts:
            check = host.daemon.ctl(TSLABCTL, 'check')
            self.assertTrue(check['ok'], check)
            self.assertEqual((check['lost_slots'], check['doubled_slots']), (0, 0))

    def test_two_daemons(self):
        other = Near(self.host.daemon, [self.redis.port], BOUND_MS)
        self.addCleanup(other.end)
        for _ in range(5):
            time.sleep(0.3)
            self.host.near.kill()           # the other one begins
            self.world.wait_covered()
            self.host.near.start()
            time.sleep(0.3)
            other.kill()
            self.world.wait_covered()
            other.start()
        self.expect_fresh(self.world)


class StopTest(DaemonFixture):
    def test_a_daemon_that_stands_still(self):
        """It goes on as if nothing had been, and another one waits for its place meanwhile."""
        other = Near(self.host.daemon, [self.redis.port], BOUND_MS)
        self.addCleanup(other.end)
        for near in self.host.near, other:
            near.signal(signal.SIGSTOP)
            time.sleep(STOP_SECONDS)
            self.assertFalse(near is self.host.near and self.host.is_covered())
            near.signal(signal.SIGCONT)
            self.world.wait_covered()
            time.sleep(0.3)
        self.expect_fresh(self.world)

    def test_stops_at_random_moments(self):
        """Also between a look at the clock and the renewal of the cover."""
        for _ in range(KILLS):
            near = random.choice(self.world.hosts).near
            time.sleep(0.02 * random.random())
            near.signal(signal.SIGSTOP)
            time.sleep(BOUND_MS / 1000 * random.choice([0.1, 1.2]))
            near.signal(signal.SIGCONT)
        self.world.wait_covered()
        self.expect_fresh(self.world)


side.main()
