"""Each system call of the daemon, and of a client, fails, once or from then on: the daemon goes on or ends and says why,
nobody hangs, no object is lost, no descriptor stays open.

test-inject.py TSLABD TSLABCTL INJECT-CLIENT INJECT.SO [PART] [CALL:FIRST:N:ERROR]

PART is one of the scenarios; with a last argument only that failure is tried, and all is shown. The ordinary run tries
some failures at random, TSLAB_TEST_FULL=1 all.
"""

import array
import concurrent.futures
import contextlib
import errno
import fcntl
import math
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

SECONDS = 60
SECONDS_LASTING = 3             # for a daemon that cannot work, as its system calls fail for good
SECONDS_COUNTED = 1             # until what is open for a moment has been closed
N_SAMPLED = 50
TSLABD, TSLABCTL, CLIENT, INJECT = map(os.path.abspath, sys.argv[1:5])
UNDER_ASAN = b'__asan_init' in open(TSLABD, 'rb').read()
SHOWS = len(sys.argv) > 6

# x86-64. The numbers of calls that fail in another way than by EIO, and how.
ERRORS = {
    'ENOMEM': {9: 'mmap', 10: 'mprotect', 11: 'munmap', 12: 'brk', 25: 'mremap', 28: 'madvise', 47: 'recvmsg',
               233: 'epoll_ctl', 324: 'membarrier'},
    'EMFILE': {2: 'open', 32: 'dup', 41: 'socket', 72: 'fcntl', 257: 'openat', 288: 'accept4', 282: 'signalfd',
               289: 'signalfd4', 290: 'eventfd2', 291: 'epoll_create1', 292: 'dup3', 293: 'pipe2',
               319: 'memfd_create', 283: 'timerfd_create', 434: 'pidfd_open'},
    'ENOSPC': {285: 'fallocate', 77: 'ftruncate', 83: 'mkdir', 82: 'rename', 1: 'write'},
    'ENOBUFS': {46: 'sendmsg'},
    'EACCES': {4: 'stat', 21: 'access', 49: 'bind', 262: 'newfstatat', 87: 'unlink', 90: 'chmod'},
    'EAGAIN': {56: 'clone', 435: 'clone3'},
}
NUMBERS = {nr: getattr(errno, e) for e, calls in ERRORS.items() for nr in calls}
# They make threads and processes, and cannot be counted.
UNCOUNTED = [56, 435]
# A program that cannot write cannot say so.
WRITES = [1, 20]
POLL = [7]
MEMORY = [9, 10, 11, 12, 25, 28]
# The kernel has no reason to refuse futex, rseq and rt_sigprocmask, which the C library takes for granted (a
# pthread_create() that could not block signals gives its caller a mask of garbage), sigaltstack, which sanitizers do, nor getpid, getuid and their like. A sanitizer ends the program when memory is refused, or clone, by which it looks
# for leaks, or sched_getaffinity, as a thread begins; and it takes the buffer of a file for lost that could not lseek.
UNTRIED = [202, 334, 14, 131, 39, 102, 104, 107, 108, 110, 186, 231] + (MEMORY + [56, 8, 204] if UNDER_ASAN else [])
ALWAYS = 1 << 30


class Broken(Exception):
    """A promise is broken."""


def need(condition, text):
    if not condition:
        raise Broken(text)


def wait_until(condition, text, seconds=SECONDS):
    end = time.monotonic() + seconds
    while not condition():
        need(time.monotonic() < end, f'waited in vain: {text}')
        time.sleep(0.003)


class Program:
    """A process and what it says on stderr; `order` is for inject.c."""

    def __init__(self, pool, command, order=None, **how):
        self.log = tempfile.TemporaryFile()
        if order:
            command = ['env', f'LD_PRELOAD={INJECT}', f'TSLAB_INJECT={order}', *command]
        self.process = subprocess.Popen(command, env=how.pop('env', pool.environment), stderr=self.log, **how)
        self.pid = self.process.pid
        pool.programs.append(self)

    def text(self):
        return os.pread(self.log.fileno(), 1 << 20, 0).decode(errors='replace')

    def ended(self):
        return self.process.poll() is not None

    def wait(self, what):
        try:
            return self.process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            raise Broken(f'{what} hangs') from None

    def fds(self):
        """The files of all descriptors, sorted."""
        names = []
        for fd in os.listdir(f'/proc/{self.pid}/fd'):
            with contextlib.suppress(FileNotFoundError):        # closed meanwhile
                names.append(os.readlink(f'/proc/{self.pid}/fd/{fd}'))
        return sorted(names)


class Client(Program):
    def __init__(self, pool):
        super().__init__(pool, [CLIENT, pool.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def do(self, line):
        """None, or the error."""
        self.process.stdin.write(line + '\n')
        self.process.stdin.flush()
        answer = self.process.stdout.readline().strip()
        need(answer, f'a client ended at "{line}"')
        return None if answer.endswith(': done') else answer

    def end(self):
        self.process.stdin.close()
        return self.wait('a client')


class Pool:
    """A runtime directory, and a manager of services that keeps descriptors."""

    def __init__(self, order=None):
        self.order = None if order is None or order.startswith('count') else order
        self.dir = tempfile.mkdtemp(prefix='tslab-test-')
        self.path = f'{self.dir}/default.sock'
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith('TSLAB_')}
        self.environment.update(TSLAB_RUNTIME_DIR=self.dir, NOTIFY_SOCKET=f'{self.dir}/notify',
                                ASAN_OPTIONS='verify_asan_link_order=0:' + os.environ.get('ASAN_OPTIONS', ''))
        self.notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self.notify.bind(f'{self.dir}/notify')
        with open(f'{self.dir}/config', 'w', encoding='ascii') as config:
            config.write('TSLAB_RETAIN=256K\n')
        self.programs = []
        self.arena = -1
        self.is_ready = False
        self.failed = []        # the steps that failed
        self.lasting = bool(self.order) and int(self.order.split(':')[2]) > 1

    def close(self):
        for program in self.programs:
            program.process.kill()
            program.process.wait()
            program.log.close()
        self.forget_arena()
        self.notify.close()
        shutil.rmtree(self.dir)

    def forget_arena(self):
        if self.arena >= 0:
            os.close(self.arena)
        self.arena = -1

    def pump(self):
        """Hears the daemon."""
        while True:
            try:
                text, fds, _, _ = socket.recv_fds(self.notify, 4096, 4)
            except BlockingIOError:
                return
            self.is_ready |= b'READY=1' in text
            if b'FDNAME=arena' in text and fds:
                self.forget_arena()
                self.arena = fds.pop()
            for fd in fds:
                os.close(fd)

    def start(self, order=None, adopt=None, socket_too=False):
        """A daemon, until it is ready or has ended."""
        command = [TSLABD, '--size=2M', '--log-level=info', f'--config={self.dir}/config']
        passed = []
        listener = None
        if socket_too:
            if os.path.exists(self.path):
                os.unlink(self.path)
            listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            listener.bind(self.path)
            listener.listen()
            passed.append(('socket', listener.fileno()))
        if adopt:
            command.append(f'--adopt={adopt.pid}')
        elif self.arena >= 0:
            passed.append(('arena', self.arena))
        environment = dict(self.environment)
        how = {}
        if passed:
            environment.update(LISTEN_FDS=str(len(passed)), LISTEN_FDNAMES=':'.join(name for name, _ in passed))
            high = [fcntl.fcntl(fd, fcntl.F_DUPFD, 50) for _, fd in passed]
            if order:
                command = ['env', f'LD_PRELOAD={INJECT}', f'TSLAB_INJECT={order}', *command]
            command = ['sh', '-c', 'LISTEN_PID=$$ exec "$@"', 'sh', *command]
            order = None
            how = {'pass_fds': range(3, 3 + len(high)), 'preexec_fn': lambda: [os.dup2(fd, 3 + i) for i, fd in enumerate(high)]}
        self.is_ready = False
        self.daemon = Program(self, command, order, env=environment, **how)
        if passed:
            for fd in high:
                os.close(fd)
        if listener:
            listener.close()
        if not self.wait_working(lambda: self.pump() or self.is_ready or self.daemon.ended(), 'the daemon starts or ends'):
            self.stop_lasting()

    def count_fds(self, n_max):
        """The descriptors that stay open in the daemon. A check of the store has some open until the manager hears it."""
        result = math.inf
        end = time.monotonic() + (SECONDS if n_max is not None else SECONDS_COUNTED)
        while result > (n_max or 0) and time.monotonic() < end and not self.daemon.ended():
            self.pump()
            time.sleep(0.003)
            result = min(result, len(self.daemon.fds()))
        need(n_max is None or result <= n_max or self.daemon.ended(),
             f'more than {n_max} descriptors stay open: {self.daemon.fds()}')
        return result

    def is_failing(self, calls):
        return self.order and int(self.order.split(':')[0]) in calls

    def seconds(self):
        return SECONDS_LASTING if self.lasting else SECONDS

    def wait_working(self, condition, text):
        """False: not in a short while, and the daemon, whose calls fail for good, says that it cannot work."""
        try:
            wait_until(condition, text, self.seconds())
            return True
        except Broken:
            need(self.lasting, f'the daemon hangs; waited in vain: {text}')
        wait_until(lambda: condition() or self.complains(), f'{text}, or the daemon complains')
        return condition()

    def complains(self):
        return re.search(r'^tslabd: (err|warning|notice): ', self.daemon.text(), re.M)

    def stop_lasting(self):
        """A daemon that cannot work ends at least."""
        self.note('the daemon', self.daemon.text())
        self.stop()

    def wait_repaired(self, client, other):
        if not self.wait_working(lambda: self.go_on(client) or not self.is_known(other), 'a dead client is repaired'):
            self.stop_lasting()
            self.succeed(client)
            wait_until(lambda: not self.is_known(other), 'a dead client is repaired')

    def note(self, step, error):
        if SHOWS and error:
            print(f'{step}: {error}')
        need(not error or os.strerror(errno.EUCLEAN) not in error, f'a client was given up: {error}')
        if error:
            self.failed.append(f'{step}: {error}')

    def ctl(self, *arguments):
        """True if it worked."""
        try:
            done = subprocess.run([TSLABCTL, '--socket', self.path, *arguments], capture_output=True, text=True,
                                  stdin=subprocess.DEVNULL, env=self.environment, timeout=self.seconds(), check=False)
        except subprocess.TimeoutExpired:
            need(self.lasting, f'tslabctl {arguments} hangs')
            self.note(f'tslabctl {" ".join(arguments)}', 'hangs')
            return False
        need(done.returncode in (0, 1, 3), f'tslabctl {arguments} ended with {done.returncode}: {done.stderr}')
        if done.returncode:
            need('tslabctl: ' in done.stderr, f'tslabctl {arguments} failed without a word: {done.stdout}')
            self.note(f'tslabctl {" ".join(arguments)}', done.stderr.strip())
        self.output = done.stdout
        return done.returncode == 0

    def check(self):
        need(self.ctl('check'), f'check: {self.output} {self.failed[-1:]}')

    def look_at_end(self):
        """A daemon that has ended has said why."""
        status, text = self.daemon.process.returncode, self.daemon.text()
        if status == 0 and self.lasting:
            return              # stop_lasting()
        need(status == 1 or status == 2 and 'config: ' in text, f'the daemon ended with {status}: {text}')
        need(self.is_failing(WRITES) or re.search(r'^tslabd: (err|.*config): ', text, re.M),
             f'the daemon ended without a reason: {text}')
        self.note('the daemon ended', text)

    def stop(self):
        """0 or 1; or it had ended by itself."""
        if not self.daemon.ended():
            self.daemon.process.send_signal(signal.SIGTERM)
        if self.daemon.wait('the daemon') != 0:
            self.look_at_end()
        self.pump()

    def go_on(self, client):
        """Where the daemon has ended, the next takes its place."""
        self.pump()
        if not self.daemon.ended():
            return
        self.look_at_end()
        self.succeed(client)

    def succeed(self, client):
        self.lasting = False
        adopts = self.arena < 0 and not client.do('verify')
        self.start(adopt=client if adopts else None)
        need(not self.daemon.ended(), f'the next daemon ended: {self.daemon.text()}')

    def is_known(self, client):
        return not self.ctl('clients', '--json') or f'"pid":{client.pid},' in self.output


# ---- Scenarios

def use(pool, client, *lines):
    for line in lines:
        pool.note(line, client.do(line))
        pool.go_on(client)


def ask(pool, client, *commands):
    for command in commands:
        pool.ctl(*command.split())
        pool.go_on(client)


def kill_one(pool, client):
    """Another client is killed with objects, caches and a leased epoch, and repaired."""
    other = Client(pool)
    use(pool, other, 'open', 'alloc 20', 'lease')
    other.process.kill()
    other.wait('a killed client')
    pool.wait_repaired(client, other)


def serve(pool, client):
    """All that a daemon does."""
    use(pool, client, 'open', 'alloc 200', 'put 20', 'close', 'alloc 40', 'put 10', 'thread', 'fork', 'lease', 'revoke', 'others')
    reader = Client(pool)
    use(pool, reader, 'reader')
    monitor = Program(pool, [TSLABCTL, '--socket', pool.path, 'monitor'], stdout=subprocess.DEVNULL)
    kill_one(pool, client)
    ask(pool, client, 'status', 'stats', 'clients', 'roots', 'leaks', 'slabs', 'epoch list', 'epoch reserve x', 'epoch label 0 y')
    pool.daemon.process.send_signal(signal.SIGHUP)
    ask(pool, client, 'epoch advance', 'epoch close 1', 'trim', 'suggest', 'metrics', 'check')
    monitor.process.terminate()
    monitor.wait('monitor')
    reader.do('detach')
    need(reader.end() == 0, 'a reader crashed')


def finish(pool, client, n_fds):
    """Nothing is left open, and nothing is lost, as the next daemon and the client see it."""
    # Where poll() fails for good, a check of the store that began after that does not end: two pipes, and no further check.
    pipes = 2 if pool.lasting and pool.is_failing(POLL) and n_fds is not None else 0
    result = 0 if pool.daemon.ended() else pool.count_fds(n_fds + pipes if pipes else n_fds)
    pool.stop()
    pool.succeed(client)
    if client.do('verify'):         # the client may not even be attached
        need(pool.failed, 'objects are lost')
        need(client.do('open') != 'open: ' + os.strerror(errno.EALREADY), f'objects are lost; {pool.failed}')
    pool.check()
    need(not client.do('free'), 'cannot free')
    need(client.do('detach') is None and client.end() == 0, 'the client crashed')
    pool.check()
    pool.stop()
    need(pool.daemon.process.returncode == 0, pool.daemon.text())
    return result


def run_first(pool, order, n_fds):
    """The first daemon of a pool."""
    pool.start(order)
    client = Client(pool)
    if pool.daemon.ended():
        pool.look_at_end()
        pool.forget_arena()
        pool.lasting = False
        pool.start()
    serve(pool, client)
    return finish(pool, client, n_fds)


def leave_behind(pool):
    """The remains of a daemon that was killed: a client with objects, and one that has died."""
    pool.start()
    client, other = Client(pool), Client(pool)
    for line in ('open', 'alloc 200', 'put 20', 'close', 'lease'):
        need(not client.do(line), line)
    need(not other.do('open') and not other.do('alloc 20') and not other.do('lease'), 'alloc')
    pool.daemon.process.kill()
    other.process.kill()
    pool.daemon.wait('a killed daemon')
    other.wait('a killed client')
    pool.pump()         # its first check of the store sends the memory once more, after READY=1
    return client, other


def run_next(pool, order, n_fds, adopts):
    client, other = leave_behind(pool)
    if adopts:
        pool.forget_arena()
    pool.start(order, adopt=client if adopts else None, socket_too=not adopts)
    need('refused' not in pool.daemon.text(), f'a descriptor was given up: {pool.daemon.text()}')
    pool.go_on(client)
    pool.wait_repaired(client, other)
    use(pool, client, 'alloc 40', 'put 10', 'close', 'others')
    ask(pool, client, 'clients', 'trim', 'check')
    return finish(pool, client, n_fds)


def run_store(pool, order, n_fds):
    """A daemon that is given the arena and a socket by the manager of services."""
    return run_next(pool, order, n_fds, False)


def run_adopt(pool, order, n_fds):
    """A daemon that takes the arena from a client."""
    return run_next(pool, order, n_fds, True)


def run_lost(pool, order, n_fds):
    """A daemon that is not told of the memory that clients of the last one still use: it begins no empty pool."""
    client, other = leave_behind(pool)
    pool.forget_arena()
    pool.start(order)
    need(pool.daemon.ended(), f'a new pool beside clients of the last one: {pool.daemon.text()}')
    pool.look_at_end()
    pool.lasting = False
    pool.start()
    need(pool.daemon.ended(), f'after the failure, a new pool beside clients of the last one: {pool.daemon.text()}')
    pool.go_on(client)
    need(pool.ctl('clients'), 'no daemon')
    wait_until(lambda: not pool.is_known(other), 'a dead client is repaired')
    return finish(pool, client, n_fds)


LINES = ('left open alloc 200 put 20 close alloc 40 lease revoke others thread fork alloc 20 put 10 verify free detach left '
         'reader detach left')


def run_client(pool, order, n_fds):
    """A client, from its start to its end."""
    del n_fds
    pool.lasting = False        # the client's calls fail, not the daemon's
    pool.start()
    lines = re.sub(r' (?=[a-z])', '\n', LINES) + '\n'
    client = Program(pool, [CLIENT, pool.path], order, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        text, _ = client.process.communicate(lines, SECONDS)
    except subprocess.TimeoutExpired:
        raise Broken('the client hangs') from None
    need(client.process.returncode == 0, f'the client ended with {client.process.returncode}: {text} {client.text()}')
    if SHOWS:
        print(text)
    left = re.findall(r'^left (.*) (.*)$', text, re.M)
    need('verify: Input/output error' not in text, text)
    need(len({n_fds for n_fds, _ in left} - {'0'}) <= 1, f'descriptors that stay open: {left}')
    need(pool.is_failing(MEMORY) or not {n_maps for _, n_maps in left} - {'0'}, f'mappings that stay: {left}')
    for line in text.splitlines():
        if not line.endswith(': done') and not line.startswith('left '):
            pool.note('client', line)
    wait_until(lambda: not pool.is_known(client), 'the client is gone')
    pool.check()
    pool.stop()
    need(pool.daemon.process.returncode == 0, pool.daemon.text())


SCENARIOS = {'first': run_first, 'store': run_store, 'adopt': run_adopt, 'lost': run_lost, 'client': run_client}


# Failures that once did harm: always tried.
ONCE_HARMFUL = {
    'first': ['46:3:1:105',                                 # READY=1 was lost
              f'1:16:{ALWAYS}:28'],                         # a thread was not told to end
    'store': ['434:2:1:24',                                 # used a client that was freed
              '72:6:1:24',                                  # took the kept memory for damaged
              '51:1:1:5'],                                  # gave the socket of systemd up
    'adopt': ['7:1:1:12'],                                  # gave a client up
    'lost': ['257:5:1:24', '217:1:1:5', '17:1:1:5',         # began an empty pool beside clients
             '18:1:1:5'],                                   # so did the next daemon
    'client': ['9:1:1:12', '28:1:1:12'],                    # used a lock that was not there
}


def try_one(part, order, n_fds):
    """None, or the broken promise; and the steps that failed."""
    pool = Pool(order)
    try:
        result = SCENARIOS[part](pool, order, n_fds)
    except (Broken, OSError) as e:
        return f'{part} {order}: {e}\nsteps that failed: {pool.failed}\n', pool.failed
    finally:
        if SHOWS:
            for program in pool.programs:
                print(program.text(), end='')
        pool.close()
    return result if order is None or order.startswith('count:') else None, pool.failed


def is_tried(order):
    return int(order.split(':')[0]) not in UNTRIED


def count_calls(part):
    """All failures to try, and how many descriptors the daemon has open in the end."""
    with tempfile.NamedTemporaryFile() as counts:
        n_fds, failed = try_one(part, f'count:{counts.name}', None)
        assert not isinstance(n_fds, str) and (not failed or part == 'lost'), (n_fds, failed)
        numbers = array.array('I', counts.read())
    # EACCES says that a process is another user's, and none of those that have the memory.
    errors = {**NUMBERS, 262: errno.EIO} if part == 'lost' else NUMBERS
    points = [f'{nr}:{i}:1:{errors.get(nr, errno.EIO)}' for nr, n in enumerate(numbers) for i in range(1, n + 1)]
    points += [f'{nr}:{i}:{ALWAYS}:{errors.get(nr, errno.EIO)}' for nr, n in enumerate(numbers)
               for i in {1, 2, n // 2 + 1, n} if 0 < i <= n]
    points += [f'{nr}:1:1:{NUMBERS[nr]}' for nr in UNCOUNTED]
    return [order for order in points if is_tried(order)], n_fds


def main():
    parts = sys.argv[5:6] or list(SCENARIOS)
    if SHOWS:
        _, n_fds = count_calls(parts[0]) if sys.argv[6] != 'none' else (0, None)
        broken, failed = try_one(parts[0], None if sys.argv[6] == 'none' else sys.argv[6], n_fds)
        print(broken, failed)
        return 1 if broken else 0
    seed = int(os.environ.get('TSLAB_TEST_SEED') or random.randrange(1 << 32))
    print(f'TSLAB_TEST_SEED={seed}')
    n_broken = 0
    with concurrent.futures.ProcessPoolExecutor(os.cpu_count()) as workers:
        for part in parts:
            points, n_fds = count_calls(part)
            n_all = len(points)
            if not os.environ.get('TSLAB_TEST_FULL'):
                points = random.Random(seed).sample(points, min(n_all, N_SAMPLED))
                points += filter(is_tried, ONCE_HARMFUL.get(part, []))
            runs = [workers.submit(try_one, part, order, n_fds) for order in points]
            n_met = 0
            for run in concurrent.futures.as_completed(runs):
                broken, failed = run.result()
                n_met += bool(failed)
                if broken:
                    n_broken += 1
                    print(broken, flush=True)
            print(f'{part}: {len(points)} of {n_all} failures tried, {n_met} were met by steps that failed')
    return 1 if n_broken else 0


if __name__ == '__main__':
    sys.exit(main())
