"""Clients in other pid namespaces than their daemon: containers that share nothing but the folder of its socket.

test-containers.py TSLABD TSLABCTL CLIENT LIBTSLAB [TEST]
"""

import ctypes
import errno
import fcntl
import glob
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../util'))
import wire
from cgroup import into, limited

MIB = 1 << 20
SECONDS = 60
SKIPPED = 77
PROFILE = os.environ.get('TSLAB_TEST_SECCOMP', 'REFUSED')       # a container engine's seccomp.json
OTHER_UID = 4321
MAPPED_UID = 100000                             # root of a user namespace

# For the shell that is process 1 of a container: options of /proc, the folder that it shares, the programs.
SETUP = r'''
set -e
mount -t proc -o "$1" proc /proc
mount -t tmpfs -o size=64k tmpfs /dev/shm
mount -t tmpfs -o mode=755 tmpfs /run
mkdir /run/tslab /run/bin
mount --bind "$2" /run/tslab
mount --bind "$3" /run/bin
eval "$4"
mount -t tmpfs tmpfs /tmp
mount -o remount,bind,ro /
shift 4
exec 9<&0
"$@" <&9 9<&- &
wait $!
'''


# ---- Run in the container, and in no other place

def enter_user_namespace(outer):
    """Root here is user `outer` of the namespace above."""
    libc = ctypes.CDLL(None, use_errno=True)
    pid = os.getpid()
    wait, go = os.pipe()
    helper = os.fork()
    if helper == 0:
        os.close(go)
        if not os.read(wait, 1):
            os._exit(1)
        for name in ('uid_map', 'gid_map'):
            with open(f'/proc/{pid}/{name}', 'w', encoding='ascii') as file:
                file.write(f'0 {outer} 1000')
        os._exit(0)
    if libc.unshare(0x10000000):                # CLONE_NEWUSER
        raise OSError(ctypes.get_errno(), 'unshare')
    os.write(go, b'.')
    assert os.waitpid(helper, 0)[1] == 0
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)


class ArgCompare(ctypes.Structure):
    _fields_ = [('arg', ctypes.c_uint), ('op', ctypes.c_int), ('a', ctypes.c_uint64), ('b', ctypes.c_uint64)]


OPS = {'SCMP_CMP_NE': 1, 'SCMP_CMP_LT': 2, 'SCMP_CMP_LE': 3, 'SCMP_CMP_EQ': 4, 'SCMP_CMP_GE': 5, 'SCMP_CMP_GT': 6,
       'SCMP_CMP_MASKED_EQ': 7}
SCMP_ALLOW = 0x7fff0000
SCMP_ERRNO = 0x00050000


# Docker's documentation lists these as refused to processes without capabilities. A C library goes on without clone3.
REFUSED = [
    {'action': 'SCMP_ACT_ERRNO', 'names': '''acct add_key bpf clock_adjtime clock_settime create_module delete_module
     fanotify_init finit_module get_kernel_syms get_mempolicy init_module io_uring_enter io_uring_register
     io_uring_setup ioperm iopl kcmp kexec_file_load kexec_load keyctl lookup_dcookie mbind mount move_pages nfsservctl
     open_by_handle_at perf_event_open personality pidfd_getfd pivot_root process_madvise process_vm_readv
     process_vm_writev ptrace query_module quotactl reboot request_key set_mempolicy setns settimeofday stime swapon
     swapoff sysfs _sysctl umount umount2 unshare uselib userfaultfd ustat vm86 vm86old'''.split()},
    {'action': 'SCMP_ACT_ERRNO', 'errnoRet': 38, 'names': ['clone3']},
]


# As kernels before 6.9 and 6.5 are: no pidfs, and no SO_PEERPIDFD.
BEFORE_PIDFS = [{'action': 'SCMP_ACT_ERRNO', 'errnoRet': errno.ENOSYS, 'names': ['fstatfs']}]
BEFORE_PEERPIDFD = [{'action': 'SCMP_ACT_ERRNO', 'errnoRet': errno.ENOPROTOOPT, 'names': ['getsockopt'],
                     'args': [{'index': 2, 'value': 77, 'op': 'SCMP_CMP_EQ'}]}]


def load_profile(name):
    """A container engine's file, as for a process without capabilities, or one of the lists above."""
    lib = ctypes.CDLL('libseccomp.so.2')
    lib.seccomp_init.restype = ctypes.c_void_p
    lib.seccomp_rule_add_array.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int, ctypes.c_uint,
                                           ctypes.POINTER(ArgCompare)]
    lib.seccomp_load.argtypes = [ctypes.c_void_p]
    profile = {'defaultAction': 'SCMP_ACT_ALLOW', 'syscalls': globals().get(name)}
    if not profile['syscalls']:
        with open(name, encoding='utf-8') as file:
            profile = json.load(file)
    context = lib.seccomp_init(SCMP_ALLOW if profile['defaultAction'] == 'SCMP_ACT_ALLOW'
                               else SCMP_ERRNO | profile.get('defaultErrnoRet', 1))
    for rule in profile['syscalls']:
        includes = rule.get('includes', {})
        if includes.get('caps') or 'amd64' not in includes.get('arches', ['amd64']):
            continue
        action = SCMP_ALLOW if rule['action'] == 'SCMP_ACT_ALLOW' else SCMP_ERRNO | rule.get('errnoRet', 1)
        compares = [ArgCompare(a['index'], OPS[a['op']], a['value'], a.get('valueTwo', 0))
                    for a in rule.get('args') or []]
        for call in rule['names']:
            nr = lib.seccomp_syscall_resolve_name(call.encode())
            if nr >= 0:
                lib.seccomp_rule_add_array(context, action, nr, len(compares), (ArgCompare * len(compares))(*compares))
    assert lib.seccomp_load(context) == 0


def claim(entry):
    """A reader that says that it is the client of this entry."""
    raw = wire.Raw('/run/tslab/default.sock', role=1)
    raw.call(17, wire.field(2, entry))
    print('claimed', flush=True)
    sys.stdin.read()


def run_inside(how, argument, *command):
    if how == '--claim':
        claim(int(argument))
        sys.exit(0)
    if how == '--user':
        enter_user_namespace(int(argument))
    else:
        load_profile(argument)
    os.execvp(command[0], command)


if sys.argv[1] in ('--user', '--seccomp', '--claim'):
    run_inside(*sys.argv[1:])


# ---- The tests

TSLABCTL = os.path.abspath(sys.argv[2])
NAMESPACES = ['unshare', '--fork', '--kill-child', '--mount', '--propagation=private', '--ipc', '--net', '--uts',
              '--cgroup']
TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ITSELF = [sys.executable, os.path.abspath(__file__)]
# In a container, which sees its own /tmp: the tree of sources, or a profile, may be in that of the host.
ITSELF_INSIDE = [sys.executable, f'/run/bin/daemon/{os.path.basename(__file__)}']
PROFILE_INSIDE = '/run/bin/seccomp.json' if os.path.exists(PROFILE) else PROFILE


def wait_until(condition, text):
    end = time.monotonic() + SECONDS
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f'waited in vain: {text}')
        time.sleep(0.002)


def mount_of(cgroup):
    """A command, by which the container sees its cgroup as the highest one."""
    if cgroup is None:
        return ':'
    folder = '/sys/fs/cgroup'
    if (cgroup / 'memory.max').exists():
        return f'mount -t tmpfs tmpfs {folder}; mount -t cgroup2 cgroup {folder}'
    return f'mount -t tmpfs tmpfs {folder}; mkdir {folder}/memory; mount -t cgroup -o memory cgroup {folder}/memory'


class Container:
    """A command in namespaces of its own."""

    def __init__(self, pool, command, proc='nosuid', uid=None, outer_uid=None, profile=None, own_pids=True, passed=(),
                 cgroup=None, **how):
        if profile is not None:
            command = [*ITSELF_INSIDE, '--seccomp', profile, *command]
        if uid is not None:
            command = ['setpriv', f'--reuid={uid}', f'--regid={uid}', '--clear-groups', *command]
        command = ['sh', '-c', SETUP, 'container', proc, pool.shared, pool.programs, mount_of(cgroup), *command]
        command = [*NAMESPACES, *(['--pid'] if own_pids else []), *command]
        if outer_uid is not None:
            command = [*ITSELF, '--user', str(outer_uid), *command]
        if cgroup is not None:
            command = [*into(cgroup), *command]
        self.log = tempfile.TemporaryFile()
        environment = dict(pool.environment, **how.pop('env', {}))
        self.process = subprocess.Popen(command, env=environment, stderr=self.log, pass_fds=passed,
                                        start_new_session=True, **how)
        pool.containers.append(self)

    def text(self):
        return os.pread(self.log.fileno(), 1 << 20, 0).decode(errors='replace')

    def kill(self):
        """All its processes at once."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


class Client(Container):
    """Does the commands of inject-client.c."""

    def __init__(self, pool, **how):
        super().__init__(pool, ['/run/bin/client', '/run/tslab/default.sock'], stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE, text=True, **how)

    def answer(self, line):
        self.process.stdin.write(line + '\n')
        self.process.stdin.flush()
        answer = self.process.stdout.readline().strip()
        if not answer:
            raise AssertionError(f'a client ended at "{line}": {self.text()}')
        return answer.partition(': ')[2]

    def do(self, *lines):
        for line in lines:
            answer = self.answer(line)
            if answer != 'done':
                raise AssertionError(f'{line}: {answer}; {self.text()}')

    def end(self):
        self.process.stdin.close()
        if self.process.wait(SECONDS) != 0:
            raise AssertionError(f'a client failed: {self.text()}')
        self.process.stdout.close()


class Pool:
    """A daemon in a container, and a manager of services that keeps its descriptors."""

    def __init__(self, **how):
        self.how = how
        self.dir = tempfile.mkdtemp(prefix='tslab-test-')
        os.chmod(self.dir, 0o755)
        self.shared = f'{self.dir}/shared'
        self.programs = f'{self.dir}/bin'
        os.mkdir(self.shared)
        os.chmod(self.shared, 0o777)
        os.mkdir(self.programs)
        for source, name in zip(sys.argv[1:5], ('tslabd', 'tslabctl', 'client', 'libtslab.so.0')):
            shutil.copy(source, f'{self.programs}/{name}')
        for folder, names in ('daemon', os.path.basename(__file__)), ('util', '*.py'):
            os.mkdir(f'{self.programs}/{folder}')
            for path in glob.glob(f'{TESTS}/{folder}/{names}'):
                shutil.copy(path, f'{self.programs}/{folder}')
        if PROFILE_INSIDE != PROFILE:
            shutil.copy(PROFILE, f'{self.programs}/seccomp.json')
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith('TSLAB_')}
        self.environment.update(TSLAB_RUNTIME_DIR='/run/tslab', LD_LIBRARY_PATH='/run/bin')
        self.notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self.notify.bind(f'{self.shared}/notify')
        os.chmod(f'{self.shared}/notify', 0o777)
        self.containers = []
        self.kept = []                          # names and descriptors
        self.is_ready = False

    def close(self):
        for container in self.containers:
            container.kill()
            container.log.close()
            for pipe in (container.process.stdin, container.process.stdout):
                if pipe:
                    pipe.close()
        self.forget()
        self.notify.close()
        shutil.rmtree(self.dir)

    def forget(self, name=None):
        for kept in [k for k in self.kept if name in (None, k[0])]:
            os.close(kept[1])
            self.kept.remove(kept)

    def pump(self):
        """Hears the daemon."""
        while True:
            try:
                text, fds, _, _ = socket.recv_fds(self.notify, 4096, 4)
            except BlockingIOError:
                return
            lines = text.decode().split('\n')
            name = next((line[len('FDNAME='):] for line in lines if line.startswith('FDNAME=')), '')
            self.is_ready |= 'READY=1' in lines
            if 'FDSTOREREMOVE=1' in lines:
                self.forget(name)
            for fd in fds:
                if 'FDSTORE=1' in lines and not any(os.path.sameopenfile(fd, kept) for _, kept in self.kept):
                    self.kept.append((name, fd))
                else:
                    os.close(fd)

    def names(self):
        """Memory and clients. Twice a minute the daemon also stores a pipe for a moment, to see whether there is room."""
        self.pump()
        return sorted(name for name, _ in self.kept if name != 'probe')

    def start(self, *options):
        """The next daemon gets what the last one left."""
        command = ['/run/bin/tslabd', '--size=4M', '--mode=0666', '--log-level=info', *options]
        low = [os.dup(fd) for _, fd in self.kept]
        environment = {'NOTIFY_SOCKET': '/run/tslab/notify'}
        if self.kept:
            environment.update(LISTEN_FDS=str(len(low)), LISTEN_FDNAMES=':'.join(name for name, _ in self.kept))
            command = ['sh', '-c', 'LISTEN_PID=$$ exec "$@"', 'sh', *command]
        high = [os.dup2(fd, 100 + i, inheritable=False) for i, fd in enumerate(low)]
        self.is_ready = False
        places = range(3, 3 + len(high))
        self.daemon = Container(self, command, passed=places, env=environment,
                                preexec_fn=lambda: [os.dup2(fd, 3 + i) for i, fd in enumerate(high)], **self.how)
        for fd in low + high:
            os.close(fd)
        wait_until(lambda: self.pump() or self.is_ready or self.daemon.process.poll() is not None, 'a daemon')
        if not self.is_ready:
            raise AssertionError(f'the daemon ended: {self.daemon.text()}')

    def text(self, *arguments):
        """From a container of the daemon's user, as users of other namespaces are no operators."""
        ctl = Container(self, ['/run/bin/tslabctl', *arguments], stdout=subprocess.PIPE, text=True, **self.how)
        self.containers.remove(ctl)
        output, _ = ctl.process.communicate(timeout=SECONDS)
        if ctl.process.returncode != 0:
            raise AssertionError(f'{arguments}: {ctl.text()}')
        ctl.log.close()
        return output

    def ctl(self, *arguments):
        return json.loads(self.text('--json', *arguments))

    def clients(self):
        return [c for c in self.ctl('clients') if not c['control_only']]

    def stopped(self, is_stopped):
        os.killpg(self.daemon.process.pid, signal.SIGSTOP if is_stopped else signal.SIGCONT)

    def kill(self):
        """The daemon, which is gone once its lock is free: the process that is waited for is its parent."""
        self.daemon.kill()
        wait_until(self.is_unlocked, 'the end of the daemon')

    def is_unlocked(self):
        with open(f'{self.shared}/default.lock') as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
        return True

    def wait_clients(self, n):
        wait_until(lambda: len(self.clients()) == n, f'{n} clients')

    def check(self):
        check = self.ctl('check')
        assert check['ok'] and not check['lost_slots'], check


class TestContainers(unittest.TestCase):
    def pool(self, **how):
        pool = Pool(**how)
        self.addCleanup(pool.close)
        pool.start()
        return pool

    def work(self, pool, client):
        client.do('open', 'alloc 200', 'put 20', 'thread', 'fork', 'lease', 'others', 'verify')
        pool.check()

    def test_two_containers(self):
        """A client of a namespace beside the daemon's is like any other."""
        pool = self.pool()
        client, reader = Client(pool, env={'TSLAB_SAMPLE': '1'}), Client(pool)
        self.work(pool, client)
        self.assertIn('Process ? (client): 1 of 1 allocations sampled', pool.text('leaks'))
        reader.do('reader')
        self.assertEqual([(c['pid'], c['comm']) for c in pool.clients()], [(0, 'client'), (0, 'client')])
        self.assertEqual([e['owner_pid'] for e in pool.ctl('epoch', 'list') if e['label'] == 'leased'], [None])
        self.assertEqual(len(pool.names()), 3, pool.names())
        client.do('free', 'detach')
        reader.do('detach')
        pool.wait_clients(0)
        self.assertEqual(pool.names(), ['arena'])
        client.end()
        reader.end()
        pool.check()

    def test_samples_of_the_dead(self):
        """They stay, and are not those of the client that has the same place in the table by now."""
        pool = self.pool()
        places = set()
        for sampling, gone in (('1', [False]), ('1', [True, False]), ('0', [True, True])):
            client = Client(pool, env={'TSLAB_SAMPLE': sampling})
            client.do('open', 'alloc 1')
            places.add(pool.clients()[0]['client'])
            self.assertEqual([c['gone'] for c in pool.ctl('leaks')['clients']], gone)
            client.kill()
            pool.wait_clients(0)
        self.assertEqual(len(places), 1)

    def test_kill_a_namespace(self):
        """Objects that it published stay; slots that it cached come back at once."""
        pool = self.pool()
        other, client = Client(pool), Client(pool)
        other.do('open', 'alloc 20')
        monitor = subprocess.Popen([TSLABCTL, '--json', '--socket', f'{pool.shared}/default.sock', 'monitor'],
                                   stdout=subprocess.PIPE, text=True, env=pool.environment)
        self.addCleanup(monitor.wait)
        self.addCleanup(monitor.kill)
        wait_until(lambda: pool.text('epoch', 'advance') and select.select([monitor.stdout], [], [], 0)[0], 'an event')
        self.work(pool, client)
        index = pool.clients()[-1]['client']
        client.do('alloc 1')                    # its cache holds slots
        began = time.time()
        client.kill()
        pool.wait_clients(1)
        events = []
        while not events or events[-1]['kind'] != 'leave':
            event = json.loads(monitor.stdout.readline())
            if event['kind'] in ('death', 'leave') and event['client'] == index:
                events.append(event)
        monitor.stdout.close()
        self.assertEqual([(e['kind'], e['pid']) for e in events], [('death', None), ('leave', None)])
        print(f'repaired {events[1]["usec"] / 1000 - began * 1000:.1f} ms after the kill', file=sys.stderr)
        other.do('alloc 20', 'verify')
        pool.check()
        other.end()

    def test_next_daemon(self):
        """It knows the clients by the pidfds that were kept: a live one goes on, dead ones are repaired."""
        self.go_on(self.pool())

    def test_next_daemon_before_pidfs(self):
        """The same where two pidfds of a process look unlike."""
        self.go_on(self.pool(profile='BEFORE_PIDFS'))

    def go_on(self, pool):
        client, early, late = Client(pool), Client(pool), Client(pool)
        for c in (client, early, late):
            c.do('open', 'alloc 30')
        self.assertEqual(len(pool.names()), 4)
        pool.kill()
        early.kill()
        pool.start()
        pool.wait_clients(2)
        self.assertEqual(len(pool.names()), 3)
        client.do('others', 'alloc 10', 'verify')
        self.assertEqual(len(pool.clients()), 2)
        late.kill()
        pool.wait_clients(1)
        client.do('alloc 10', 'verify', 'free', 'detach')
        pool.wait_clients(0)
        self.assertEqual(pool.names(), ['arena'])
        client.end()
        pool.check()

    def test_claim(self):
        """A reader does not get the entry of a writer."""
        for how in ({}, {'profile': 'BEFORE_PIDFS'}):
            pool = self.pool(**how)
            client = Client(pool)
            client.do('open', 'alloc 30')
            pool.kill()
            pool.start()
            entry = pool.clients()[0]['client'] + 1
            reader = Container(pool, [*ITSELF_INSIDE, '--claim', str(entry)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            self.assertEqual(reader.process.stdout.readline(), b'claimed\n', reader.text())
            self.assertEqual(sorted(c['role'] for c in pool.clients()), ['operator', 'reader'])
            reader.kill()
            pool.wait_clients(1)
            client.do('others', 'alloc 10', 'verify')

    def test_before_peerpidfd(self):
        """A kernel that would not tell of the client's death: it is refused."""
        pool = self.pool(profile='BEFORE_PEERPIDFD')
        client = Client(pool)
        self.assertEqual(client.answer('open'), os.strerror(errno.EREMOTE))
        wait_until(lambda: 'could not attach: ' + os.strerror(errno.EREMOTE) in pool.daemon.text(), 'a log line')

    def test_nothing_kept(self):
        """Without its pidfd a client counts as alive until it connects again; then its death is seen."""
        pool = self.pool()
        client, dead = Client(pool), Client(pool)
        client.do('open', 'alloc 30')
        dead.do('open', 'alloc 30')
        pool.kill()
        dead.kill()
        pool.pump()
        for name in [n for n in pool.names() if n != 'arena']:
            pool.forget(name)
        pool.start()
        self.assertIn('once they connect again', pool.daemon.text())
        self.assertEqual(len(pool.clients()), 2)
        client.do('others', 'alloc 10', 'verify')
        client.kill()
        pool.wait_clients(1)
        pool.check()

    def test_limit_of_the_daemon(self):
        """An error for clients, and a hint for the operator; what there is stays, and more fits when the limit is raised."""
        cgroup = self.enterContext(limited(48 * MIB))
        pool = Pool(cgroup=cgroup)
        self.addCleanup(pool.close)
        pool.start('--size=256M')
        client = Client(pool)
        client.do('open', 'alloc 30', 'put 20')
        self.assertEqual(pool.ctl('stats')['limit_bytes'], 48 * MIB)
        self.assertEqual(client.answer('fill'), os.strerror(errno.ENOMEM))
        self.assertIn('because the memory limit of a control group was reached; raise it',
                      '\n'.join(pool.ctl('status')['hints']))
        client.do('verify')
        pool.check()
        for name in ('memory.max', 'memory.limit_in_bytes'):
            if (cgroup / name).exists():
                (cgroup / name).write_text(str(96 * MIB), encoding='ascii')
        wait_until(lambda: client.answer('alloc 100') == 'done', 'memory beyond the limit before')
        client.do('verify')
        pool.check()

    def test_limit_of_a_client(self):
        """The kernel kills a client that makes pages beyond its limit, for a daemon that does not: nobody else suffers."""
        cgroup = self.enterContext(limited(16 * MIB))
        pool = Pool()
        self.addCleanup(pool.close)
        pool.start('--size=64M')
        other, client = Client(pool), Client(pool, cgroup=cgroup)
        for c in (other, client):
            c.do('open', 'alloc 30', 'put 20')
        pool.stopped(True)
        with self.assertRaisesRegex(AssertionError, 'a client ended'):
            client.answer('fill')
        pool.stopped(False)
        told = next(f for f in (cgroup / 'memory.events', cgroup / 'memory.oom_control') if f.exists())
        self.assertRegex(told.read_text(encoding='ascii'), r'oom_kill [1-9]')
        pool.wait_clients(1)
        other.do('alloc 10', 'verify')
        pool.check()

    def test_executed(self):
        """Two processes of other namespaces are not taken for one that has executed another program."""
        pool = self.pool()
        first, second = Client(pool), Client(pool)
        first.do('open', 'alloc 10')
        second.do('open', 'alloc 10')
        first.do('alloc 10', 'verify')
        self.assertEqual(len(pool.clients()), 2)
        first.end()
        second.end()

    def test_user_namespaces(self):
        """Users that the daemon's namespace does not map are one user for it, and never its own."""
        if subprocess.run(['unshare', '--user', 'true'], check=False, stderr=subprocess.DEVNULL).returncode:
            self.skipTest('no user namespaces here')
        pool = self.pool(outer_uid=MAPPED_UID)
        client, same = Client(pool, outer_uid=2 * MAPPED_UID), Client(pool, outer_uid=MAPPED_UID)
        self.work(pool, client)
        same.do('open', 'alloc 10', 'verify')
        roles = {c['uid']: c['role'] for c in pool.ctl('clients')}
        self.assertEqual(roles, {0: 'operator', 65534: 'writer'})
        client.kill()
        same.kill()
        wait_until(lambda: 'is repaired' in pool.daemon.text() or 'nothing to repair' in pool.daemon.text(), 'a repair')
        pool.check()

    def test_hidepid(self):
        """A daemon to which /proc shows no process of other users, though their numbers are its own."""
        pool = self.pool(proc='hidepid=2', uid=OTHER_UID, own_pids=False)
        client = Client(pool, uid=OTHER_UID + 1)
        client.do('open', 'alloc 20', 'verify')
        self.assertGreater(pool.clients()[0]['pid'], 0)
        self.assertEqual(len(pool.names()), 2)
        client.kill()
        pool.wait_clients(0)
        pool.check()

    def test_profile(self):
        """With the system calls that container engines let pass."""
        pool = self.pool(profile=PROFILE_INSIDE)
        client = Client(pool, profile=PROFILE_INSIDE)
        self.work(pool, client)
        pool.check()
        client.kill()
        pool.wait_clients(0)
        self.assertNotIn('warning', pool.daemon.text())


def can_make_containers():
    """Root, where nothing covers parts of /proc, and not in a chroot."""
    command = [*NAMESPACES, '--pid', 'sh', '-c', 'mount -t proc proc /proc && mount -o remount,bind,ro /']
    return os.geteuid() == 0 and subprocess.run(command, check=False, stderr=subprocess.DEVNULL).returncode == 0


def main():
    if not can_make_containers():
        print('no namespaces here')
        return SKIPPED
    return 0 if unittest.main(argv=sys.argv[:1] + sys.argv[5:], verbosity=2, exit=False).result.wasSuccessful() else 1


if __name__ == '__main__':
    sys.exit(main())
