"""Workers that are killed at random while they count, compute, save sessions and take turns: nothing is lost or hung."""

import os
import random
import signal
import subprocess
import time

from daemon import SECONDS
from php import PHP, pool, run, settings

N_WORKERS = 4
KILLS = 10000 if os.environ.get('TSLAB_TEST_FULL') else 40
SEED = int(os.environ.get('TSLAB_TEST_SEED') or random.randrange(1 << 31))

# Each worker tells of a step before it and after it, so that the sums have bounds.
WORKER = r'''
$pool = Tslab\Pool::open();
$map = $pool->map('kills');
$cache = new Tslab\Cache($pool, 'computed', null, ['evict' => 'sieve', 'limit_bytes' => 1 << 20]);
$out = fopen('php://stdout', 'w');
for ($i = 0;; $i++) {
        fwrite($out, '+');
        $map->add('sum');
        fwrite($out, '.');
        $key = 'key' . random_int(0, 50);
        $value = $cache->getOrCompute($key, fn($k) => [$k, str_repeat('x', random_int(0, 3000))]);
        if ($value[0] !== $key)
                fwrite($out, 'W');
        if ($i % 3 == 0)
                $cache->delete($key);
        $id = 'session' . random_int(0, 9);
        $map->put($id, str_repeat($id, random_int(1, 400)), 60);
        $found = $map->get($id);
        if (str_replace($id, '', $found) !== '')
                fwrite($out, 'W');
        $lock = $map->lock('turn');
        if ($lock->acquire(20)) {
                $mine = (string) getmypid();
                $map->put('owner', $mine);
                usleep(100);
                if ($map->get('owner') !== $mine)
                        fwrite($out, 'W');
                $lock->release();
        } else {
                fwrite($out, 'H');
        }
}
'''


class Worker:
    def __init__(self, daemon, folder, number):
        self.path = os.path.join(folder, f'worker-{number}')
        with open(self.path, 'wb') as out:
            self.process = subprocess.Popen([PHP, *settings(daemon), '-r', WORKER], env=daemon.environment, stdout=out)

    def steps(self):
        with open(self.path) as text:
            return text.read()

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        assert self.process.wait() == -signal.SIGKILL, self.steps()[-100:]


print('seed', SEED)
chance = random.Random(SEED)
with pool() as daemon:
    workers = [Worker(daemon, daemon.dir, i) for i in range(N_WORKERS)]
    dead = []
    try:
        for i in range(KILLS):
            victim = chance.randrange(N_WORKERS)
            # It has to do something before it goes.
            end = time.monotonic() + SECONDS
            while not workers[victim].steps() and time.monotonic() < end:
                time.sleep(0.01)
            time.sleep(chance.random() * 0.02)
            workers[victim].kill()
            dead.append(workers[victim])
            workers[victim] = Worker(daemon, daemon.dir, N_WORKERS + i)
        # The workers that live go on: nobody hangs.
        for worker in workers:
            before, end = len(worker.steps()), time.monotonic() + SECONDS
            while len(worker.steps()) < before + 3:
                assert time.monotonic() < end, 'a worker hangs'
                time.sleep(0.01)
    finally:
        for worker in workers:
            worker.kill()
    texts = [worker.steps() for worker in dead + workers]
    for text in texts:
        assert 'W' not in text, 'a wrong value'
        assert 'H' not in text, 'a lock that nobody has'
    begun, done = sum(text.count('+') for text in texts), sum(text.count('.') for text in texts)
    total = int(run(daemon, "echo unpack('q', Tslab\\Pool::open()->map('kills')->get('sum'))[1];"))
    print(f'{KILLS} kills; {done} to {begun} adds, {total} counted')
    assert done <= total <= begun, (done, total, begun)
