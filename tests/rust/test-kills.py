"""Workers that are killed at random while they count, compute, put and take turns: nothing is lost, wrong or hung.

    test-kills.py CARGO SOURCE BUILD TSLABD
"""

import os
import random
import signal
import subprocess
import time

from rust import ARGUMENTS, LIBRARY, Daemon, Tree

SECONDS = 60        # for a worker to make a step
N_WORKERS = 4
KILLS = 10000 if os.environ.get('TSLAB_TEST_FULL') else 100
SEED = int(os.environ.get('TSLAB_TEST_SEED') or random.randrange(1 << 31))

program = Tree().program()


class Worker:
    def __init__(self, daemon, number):
        self.path = os.path.join(daemon.dir, f'worker-{number}')
        with open(self.path, 'wb') as out:
            self.process = subprocess.Popen([program, 'kill-worker', daemon.socket], env=daemon.environment, stdout=out)

    def size(self):
        return os.stat(self.path).st_size

    def steps(self):
        with open(self.path) as text:
            return text.read()

    def wait_until(self, size):
        end = time.monotonic() + SECONDS
        while self.size() < size:
            assert time.monotonic() < end, 'a worker hangs'
            assert self.process.poll() is None, f'a worker ended with {self.process.returncode}'
            time.sleep(0.005)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        assert self.process.wait() == -signal.SIGKILL, self.steps()[-100:]
        text = self.steps()
        os.unlink(self.path)
        return text


def tally(text, sums):
    assert 'W' not in text, 'a wrong value'
    assert 'H' not in text, 'a lock that nobody has'
    # A line is "+.": of the last one the "+" may be there alone, or be lost with the buffer.
    done = text.count('.')
    return sums[0] + done, sums[1] + done + 1


print('seed', SEED)
chance = random.Random(SEED)
with Daemon(ARGUMENTS[0], '--size=64M') as daemon:
    daemon.environment['LD_LIBRARY_PATH'] = LIBRARY
    workers, sums = [Worker(daemon, i) for i in range(N_WORKERS)], (0, 0)
    try:
        for i in range(KILLS):
            victim = chance.randrange(N_WORKERS)
            workers[victim].wait_until(1)       # it has to do something before it goes
            time.sleep(chance.random() * 0.02)
            sums = tally(workers[victim].kill(), sums)
            workers[victim] = Worker(daemon, N_WORKERS + i)
        for worker in workers:
            worker.wait_until(worker.size() + 9)
    finally:
        texts = [worker.kill() for worker in workers]
    for text in texts:
        sums = tally(text, sums)
    total = int(subprocess.run([program, 'kill-sum', daemon.socket], env=daemon.environment, stdout=subprocess.PIPE,
                               check=True, text=True).stdout)
    print(f'{KILLS} kills; {sums[0]} to {sums[1]} adds, {total} counted')
    assert sums[0] <= total <= sums[1], (sums, total)
