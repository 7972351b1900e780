"""TSLAB_KEEP: maps outlive the memory of their pool in a file, at whatever moment daemon or tslabctl ends."""

import contextlib
import os
import signal
import socket
import stat
import subprocess
import tempfile

import ctl_case
from ctl_case import DEADLINE, TSLABCTL, TSLABD, VERB_CLIENT, Case, environment, wait_for

FORMAT_HASH = 16    # where it is in the header of an arena


class Keep(Case):
    def setUp(self):
        super().setUp()
        self.file = f'{self.folder}/default.dump'
        self.log = tempfile.TemporaryFile()
        self.addCleanup(self.log.close)
        self.path = os.path.dirname(TSLABCTL)
        self.process = None
        self.addCleanup(self.end)

    def end(self):
        if self.process:
            self.process.kill()
            self.process.wait(DEADLINE)

    def spawn(self, *arguments, arena=-1, **more):
        """`arena`: memory that the service manager kept."""
        given = {'LISTEN_FDS': '1', 'LISTEN_FDNAMES': 'arena'} if arena >= 0 else {}
        command = ['sh', '-c', f'LISTEN_PID=$$ exec "$@" 3<&{arena}', 'sh'] if arena >= 0 else []
        env = environment(self.folder, PATH=f'{self.path}:/usr/bin:/bin', **given, **more)
        self.process = subprocess.Popen([*command, TSLABD, '--size=16M', f'--keep={self.file}', *arguments], env=env,
                                        stderr=self.log, stdout=subprocess.DEVNULL,
                                        pass_fds=[arena] if arena >= 0 else [])

    def answers(self):
        self.assertIsNone(self.process.poll(), self.logged())
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
            return s.connect_ex(f'{self.folder}/default.sock') == 0

    def begin(self, *arguments, **how):
        self.spawn(*arguments, **how)
        wait_for(self.answers)

    def stop(self):
        self.process.terminate()
        self.assertEqual(self.process.wait(DEADLINE), 0)

    def take_arena(self):
        folder = f'/proc/{self.process.pid}/fd'
        name = next(fd for fd in os.listdir(folder) if os.readlink(f'{folder}/{fd}').startswith('/memfd:'))
        arena = os.open(f'{folder}/{name}', os.O_RDWR)
        self.addCleanup(os.close, arena)
        return arena

    def logged(self):
        return os.pread(self.log.fileno(), 1 << 20, 0).decode()

    def put(self, key, value, *more):
        if not self.json('maps'):
            client = ctl_case.Client(f'{self.folder}/default.sock', VERB_CLIENT)    # verbs make no map
            client.do('put 10 1')
            client.end()
        self.text('put', 'values', key, value, *more)

    def get(self, key):
        return self.json('get', 'values', key)['value']

    def files(self):
        return sorted(name[len('default.dump'):] for name in os.listdir(self.folder) if name.startswith('default.dump'))

    def hold(self, verb):
        """tslabctl with this verb waits for release(), then goes on."""
        self.path = f'{self.folder}/bin'
        os.mkdir(self.path)
        os.mkfifo(f'{self.path}/go')
        with open(f'{self.path}/tslabctl', 'w', encoding='utf-8') as script:
            script.write(f'#!/bin/sh\ncase $2 in {verb}) echo > {self.path}/held; read go < {self.path}/go;; esac\n'
                         f'exec {TSLABCTL} "$@"\n')
        os.chmod(script.name, 0o755)

    def wait_held(self):
        wait_for(lambda: os.path.exists(f'{self.path}/held'))
        os.unlink(f'{self.path}/held')

    def child(self):
        """The daemon's tslabctl."""
        with open(f'/proc/{self.process.pid}/task/{self.process.pid}/children', encoding='ascii') as file:
            return int(file.read())

    def release(self):
        with open(f'{self.path}/go', 'w', encoding='utf-8') as go:
            print('go', file=go)

    def test_stop(self):
        """Values, lifetimes and counters; the file is the owner's alone, and is loaded once."""
        self.begin()
        self.put('alice', 'cart')
        self.put('bob', 'none', '--ttl=1000')
        self.assertEqual(self.json('status')['keep_file'], self.file)
        self.assertIn(f'maps go to {self.file}', self.text('status'))
        self.stop()
        self.assertEqual(self.files(), [''])
        self.assertEqual(stat.S_IMODE(os.stat(self.file).st_mode), 0o600)
        self.begin()
        self.assertEqual((self.get('alice'), self.get('bob')), ('cart', 'none'))
        self.assertLessEqual(self.json('get', 'values', 'bob')['ttl_left_msec'], 1000_000)
        self.assertEqual(self.files(), ['.loaded'])
        self.text('delete', 'values', 'alice')
        self.stop()
        self.begin()
        self.assertEqual(self.run_ctl('get', 'values', 'alice').returncode, 1)
        self.assertEqual(self.files(), ['.loaded'])

    def test_nobody_before(self):
        """Until the maps are there, nobody else is served; a signal ends that, and the next daemon goes on."""
        self.begin()
        self.put('alice', 'cart')
        self.stop()
        self.hold('load')
        self.spawn()
        self.wait_held()
        self.assertFalse(self.answers())
        self.stop()
        self.assertEqual(self.files(), ['.loading'])
        self.spawn()
        self.wait_held()
        self.process.kill()
        self.process.wait(DEADLINE)
        self.assertEqual(self.files(), ['.loading'])
        self.spawn()
        self.wait_held()
        self.assertFalse(self.answers())
        self.release()
        wait_for(self.answers)
        self.assertEqual(self.get('alice'), 'cart')
        self.assertEqual(self.files(), ['.loaded'])

    def test_taken_up(self):
        """Memory that was kept has newer values than a file of the same pool."""
        self.begin()
        self.put('alice', 'cart')
        self.stop()
        with open(self.file, 'rb') as file:
            kept = file.read()
        self.begin()
        self.text('delete', 'values', 'alice')
        arena = self.take_arena()
        self.process.kill()
        self.process.wait(DEADLINE)
        with open(self.file, 'wb') as file:
            file.write(kept)
        self.begin(arena=arena)
        self.assertEqual(self.run_ctl('get', 'values', 'alice').returncode, 1)
        self.assertEqual(self.files(), ['.loaded', '.old'])

    def test_killed_at_start(self):
        """Memory that the manager was given is new: as long as the file is not claimed, it is not given."""
        self.begin()
        self.put('alice', 'cart')
        self.stop()
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.bind(f'{self.folder}/notify')
            manager.setblocking(False)
            env = environment(self.folder, NOTIFY_SOCKET=f'{self.folder}/notify')
            subprocess.run(['strace', '-f', '-o', '/dev/null', '-e', 'inject=rename:error=EIO:signal=KILL:when=1',
                            TSLABD, '--size=16M', f'--keep={self.file}'], env=env, stderr=self.log, check=False)
            arena = -1
            with contextlib.suppress(BlockingIOError):
                while True:
                    text, fds, _, _ = socket.recv_fds(manager, 4096, 4)
                    arena = fds[0] if b'FDNAME=arena' in text and fds else arena
        self.begin(arena=arena)
        self.assertEqual(self.get('alice'), 'cart')

    def test_later_file(self):
        """A file that somebody wrote while the pool went on is not loaded any more."""
        self.begin()
        self.put('alice', 'cart')
        self.text('dump', self.file)
        self.text('delete', 'values', 'alice')
        self.hold('dump')
        self.process.kill()
        self.process.wait(DEADLINE)
        self.begin()                        # with new memory, so that was the last use of the file
        self.assertEqual(self.get('alice'), 'cart')
        self.text('delete', 'values', 'alice')
        os.rename(f'{self.file}.loaded', self.file)
        self.process.terminate()
        self.wait_held()
        child = self.child()
        self.process.kill()
        self.process.wait(DEADLINE)
        wait_for(lambda: not os.path.exists(f'/proc/{child}'))      # tslabctl ends with the daemon
        self.assertEqual(self.files(), ['.old'])

    def test_other_format(self):
        """An upgrade: the next daemon cannot use the memory, and loads the file that was written before it came."""
        self.begin()
        self.put('alice', 'cart')
        self.text('dump', self.file)
        arena = self.take_arena()
        os.pwrite(arena, bytes(8), FORMAT_HASH)
        self.process.kill()
        self.process.wait(DEADLINE)
        self.begin(arena=arena)
        self.assertIn('was made by another build', self.logged())
        self.assertEqual(self.get('alice'), 'cart')

    def test_torn(self):
        """A file that is cut off is refused as a whole, and stays."""
        self.begin()
        self.put('alice', 'cart')
        self.stop()
        os.truncate(self.file, os.path.getsize(self.file) - 1)
        self.begin()
        self.assertEqual(self.json('maps'), [])
        self.assertEqual(self.files(), ['.failed'])
        self.assertIn('is cut off; nothing was loaded', self.logged())
        self.assertIn('suffix .failed', self.logged())
        self.put('bob', 'cart')
        self.stop()
        os.truncate(self.file, os.path.getsize(self.file) - 1)
        self.begin()
        self.assertEqual(self.files(), ['.failed', '.failed.1'])

    def test_second_signal(self):
        """It does not wait for the file, of which nothing is left then. Programs are served meanwhile."""
        self.begin()
        self.put('alice', 'cart')
        self.stop()
        self.hold('dump')
        self.begin()
        self.process.terminate()
        self.wait_held()
        self.assertEqual(self.get('alice'), 'cart')
        self.stop()
        self.assertEqual(self.files(), ['.loaded'])

    def test_group_signal(self):
        """As systemd, and Control-C in a terminal, send it: to tslabctl, too."""
        self.begin()
        self.put('alice', 'cart')
        self.stop()
        self.hold('dump')
        self.begin()
        self.process.terminate()
        self.wait_held()
        child = self.child()
        with open(f'/proc/{child}/status', encoding='ascii') as file:
            blocked = next(int(line.split()[1], 16) for line in file if line.startswith('SigBlk'))
        self.assertTrue(blocked >> (signal.SIGTERM - 1) & blocked >> (signal.SIGINT - 1) & 1)
        self.release()
        self.assertEqual(self.process.wait(DEADLINE), 0)
        self.assertEqual(self.files(), ['', '.loaded'])

    def test_killed_dump(self):
        """Nothing is left of a file that was not whole."""
        self.begin()
        client = ctl_case.Client(f'{self.folder}/default.sock', VERB_CLIENT)
        self.addCleanup(client.end)
        client.do('put 1000000 5')
        dump = subprocess.Popen([TSLABCTL, f'--socket={self.folder}/default.sock', 'dump', self.file])
        dump.send_signal(signal.SIGKILL)
        dump.wait(DEADLINE)
        self.assertIn(self.files(), [[], ['']])

    def test_reload(self):
        """The setting is read again, and an empty one keeps nothing."""
        config = f'{self.folder}/default.conf'
        self.spawn_config(config, f'TSLAB_KEEP={self.file}')
        self.put('alice', 'cart')
        with open(config, 'w', encoding='utf-8') as file:
            file.write('TSLAB_KEEP=\n')
        self.process.send_signal(signal.SIGHUP)
        wait_for(lambda: self.json('status')['keep_file'] == '')
        with open(config, 'w', encoding='utf-8') as file:
            file.write(f'TSLAB_KEEP={self.folder}/absent/default.dump\n')
        self.assertNotIn('will be lost when it stops', self.logged())
        self.process.send_signal(signal.SIGHUP)
        wait_for(lambda: 'will be lost when it stops' in self.logged())
        with open(config, 'w', encoding='utf-8') as file:
            file.write('TSLAB_KEEP=\n')
        self.process.send_signal(signal.SIGHUP)
        wait_for(lambda: self.json('status')['keep_file'] == '')
        self.stop()
        self.assertEqual(self.files(), [])

    def spawn_config(self, config, line):
        with open(config, 'w', encoding='utf-8') as file:
            print(line, file=file)
        env = environment(self.folder, PATH=f'{self.path}:/usr/bin:/bin')
        self.process = subprocess.Popen([TSLABD, '--size=16M', f'--config={config}'], env=env, stderr=self.log)
        wait_for(self.answers)

    def test_trouble(self):
        """A folder that is not there, a tslabctl that is not there, a path that is none."""
        self.file = f'{self.folder}/absent/default.dump'
        self.begin()
        wait_for(lambda: 'will be lost when it stops' in self.logged())
        self.stop()
        self.assertIn('the maps were not written', self.logged())
        self.file, self.path = f'{self.folder}/default.dump', self.folder
        self.begin()
        self.stop()
        self.assertIn('have tslabctl write', self.logged())
        for bad in 'default.dump', '/run/', f'/{"x" * 255}':
            done = subprocess.run([TSLABD, f'--keep={bad}', '--check-config'], stderr=subprocess.PIPE, text=True)
            self.assertEqual(done.returncode, 2)
            self.assertIn('absolute path of at most 255', done.stderr)


ctl_case.main()
