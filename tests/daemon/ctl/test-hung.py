"""tslabctl while daemons hang, and pools are idle: it waits once, says what helps, and starts nothing."""

import fcntl
import os
import pathlib
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

import ctl_case
import wire
from ctl_case import CTL_CLIENT, DEADLINE, TSLABCTL, Case, environment, field, hello, reply

ARGUMENTS = {'epoch close': ['3'], 'maps set': ['values', '--ttl', '60'], 'maps clear': ['values', '--yes'], 'maps top': ['m'],
             'clients end': ['1'],
             'maps remove': ['values', '--yes'], 'get': ['m', 'k'], 'put': ['m', 'k', 'v'],
             'delete': ['m', 'k'], 'keys': ['m'], 'dump': ['/none/file'], 'epoch label': ['4', 'x'], 'top': ['--once', '-d', '0.1']}
HELLO, ATTACH, STATS, TRIM = 16, 17, 32, 34             # requests
NOBODY = 65534
N_MUTE = 15
SILENCE = 2                                 # seconds, after which a daemon is given up


class HangingCase(Case):
    def stop(self, *daemons):
        for daemon in daemons:
            daemon.process.send_signal(signal.SIGSTOP)
            self.addCleanup(daemon.process.send_signal, signal.SIGCONT)


class Hung(HangingCase):
    def verbs(self):
        section = self.text('--help').split('Verbs:\n')[1].split('\n\n')[0]
        names = [re.match(r'  ((?:[a-z]+ ?)+)', line)[1].strip() for line in section.splitlines()]
        return [name for name in names if name not in ('list', 'help', 'load')]        # load reads a file first

    def begin(self, *arguments):
        process = subprocess.Popen([TSLABCTL, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, env=environment(self.folder))
        self.addCleanup(process.kill)
        return process

    def test_side_by_side(self):
        """Many that hang cost no more than one, and hide nothing of the pool that runs."""
        hung = [self.start(f'hung{i}') for i in range(5)]
        for i in range(N_MUTE):
            self.listen(f'mute{i}')
        self.start('web')
        self.stop(*hung)
        for arguments in ('list', '--json'), ('metrics', '--all'):
            began = time.monotonic()
            text = self.text(*arguments) if 'metrics' in arguments else self.text('--json', 'list')
            # one after another, they cannot be faster
            self.assertLess(time.monotonic() - began, (5 + N_MUTE) * SILENCE)
        self.assertIn('tslab_up{pool="hung3"} 0\n', text)
        self.assertIn('tslab_up{pool="web"} 1\n', text)
        self.assertEqual([p['state'] for p in self.json('list')], ['silent'] * (5 + N_MUTE) + ['running'])

    def listen(self, pool):
        """As a daemon that says nothing."""
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.addCleanup(listener.close)
        listener.bind(f'{self.folder}/{pool}.sock')
        listener.listen()
        return listener

    def test_among_many(self):
        """One that hangs takes no time from any other, even where there are more pools than threads that ask."""
        for i in range(64):
            listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self.addCleanup(listener.close)
            listener.bind(f'{self.folder}/a{i:02}.sock')
            if i == 0:
                listener.listen()               # a daemon that says nothing; nobody listens at the others
        self.start('web')
        states = [p['state'] for p in self.json('list')]
        self.assertEqual(states, ['silent', *['dead'] * 63, 'running'])

    def test_every_verb(self):
        """Each gives a daemon that was stopped up after some seconds, and names the process and the remedy."""
        daemon = self.start()
        self.stop(daemon)
        runs = {verb: self.begin(*verb.split(), *ARGUMENTS.get(verb, [])) for verb in self.verbs()}
        self.assertGreaterEqual(len(runs), 15)
        for verb, process in runs.items():
            out, err = process.communicate(timeout=DEADLINE)
            self.assertEqual((process.returncode, out), (1, ''), verb)
            self.assertRegex(err, r'\Atslabctl: [^\n]+\n\Z', verb)
            self.assertIn(f"process {daemon.process.pid}, does not answer: it was stopped, and 'kill -CONT "
                          f"{daemon.process.pid}' lets it go on", err, verb)

    def test_in_the_middle(self):
        """A daemon that hangs after the request, even one that may take any time."""
        daemon = self.start()
        self.client(daemon, CTL_CLIENT).do('alloc 64 1')
        waiting = self.begin('epoch', 'close', '0', '--yes', '--wait')
        ctl_case.wait_for(lambda: self.json('epoch', 'list')[0]['state'] == 'closing')
        self.stop(daemon)
        out, err = waiting.communicate(timeout=DEADLINE)
        self.assertEqual((waiting.returncode, out), (1, ''))
        self.assertIn('does not answer', err)

    def test_busy(self):
        """A daemon that works for long on a request is waited for, as it says hello to others."""
        listener, hellos, is_asked = self.listen('default'), [], threading.Event()

        def serve(connection):
            with connection:
                while request := connection.recv(65536):
                    kind = (request[2] & 0x7f | request[3] << 7) >> 3
                    if kind == HELLO:
                        hellos.append(connection)
                        connection.send(hello())
                        if len(hellos) > 1:
                            is_asked.set()
                    elif kind == TRIM:
                        is_asked.wait(DEADLINE)
                        connection.send(reply(request[1], body_number=TRIM, body=field(1, 4096)))

        def accept():
            try:
                while True:
                    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
            except OSError:
                pass                            # the test is over

        threading.Thread(target=accept, daemon=True).start()
        self.assertEqual(self.text('trim'), '4.0K given back.\n')
        self.assertGreater(len(hellos), 1, 'it was asked whether it lives')
        listener.shutdown(socket.SHUT_RDWR)


class Idle(HangingCase):
    def idle(self, pool):
        """A socket that systemd holds: a connection would start the daemon."""
        pathlib.Path(self.folder, 'lock').mkdir(exist_ok=True)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
        self.addCleanup(listener.close)
        listener.bind(f'{self.folder}/{pool}.sock')
        listener.listen()
        return listener

    def untouched(self, listener):
        with self.assertRaises(BlockingIOError):
            listener.accept()

    def test_untouched(self):
        idle = self.idle('web')
        self.assertEqual(self.json('list')[0]['state'], 'idle')
        self.assertRegex(self.text('list'), r'\nweb +idle +- ')
        self.assertEqual(self.text('list', '--no-legend').split()[:2], ['web', 'idle'])
        self.assertNotIn('web', self.text('metrics', '--all'))
        self.assertNotIn('web', self.text('metrics', '--pool', 'web'))
        self.assertEqual(self.json('metrics', '--all'), [])
        self.untouched(idle)

    def test_beside_a_daemon(self):
        """It marks its pool while it lives; one that was killed is told from one that ended."""
        idle = self.idle('idle')
        daemon = self.start('web')
        mark = pathlib.Path(self.folder, 'lock', 'web.run')
        self.assertEqual(mark.stat().st_mode & 0o777, 0o644)
        with open(mark, 'rb') as file:
            lock = fcntl.fcntl(file, fcntl.F_GETLK, struct.pack('hhqqi4x', fcntl.F_WRLCK, 0, 1, 1, 0))
        self.assertEqual(struct.unpack('hhqqi4x', lock)[::4], (fcntl.F_RDLCK, daemon.process.pid))
        self.assertEqual([p['state'] for p in self.json('list')], ['idle', 'running'])
        self.assertIn('tslab_up{pool="web"} 1\n', self.text('metrics', '--all'))
        daemon.stop()
        self.assertFalse(mark.exists())
        daemon = self.start('web')
        daemon.stop(signal.SIGKILL)
        os.unlink(daemon.path)
        dead = self.idle('web')
        self.assertEqual([p['state'] for p in self.json('list')], ['idle', 'dead'])
        self.assertIn('tslab_up{pool="web"} 0\n', self.text('metrics', '--all'))
        self.untouched(idle)
        self.untouched(dead)

    def lock_as_nobody(self, path):
        with open(path, 'rb') as mark:
            program = (f'import fcntl, os; os.setuid({NOBODY}); fcntl.lockf({mark.fileno()}, fcntl.LOCK_SH); '
                       'print(1, flush=True); input()')
            process = subprocess.Popen([sys.executable, '-c', program], pass_fds=[mark.fileno()],
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.communicate, '\n')
        self.assertEqual(process.stdout.readline(), '1\n')
        return process.pid

    def test_mark_that_clients_hold(self):
        """A client that lets the daemon close the file, or locks it, changes nothing of what others see."""
        daemon = self.start('web')
        raw = wire.Raw(daemon.path)
        self.addCleanup(raw.socket.close)
        raw.call(ATTACH, b'')
        with open(f'{self.folder}/web.run', 'rb') as mark:
            raw.send(STATS, b'', [mark.fileno()])
            self.assertNotEqual(raw.receive(), b'')     # a refusal
        self.assertEqual([p['state'] for p in self.json('list')], ['running'])
        self.stop(daemon)
        if os.geteuid() == 0:
            stranger = self.lock_as_nobody(f'{self.folder}/web.run')
            self.assertNotIn(f'process {stranger}', self.run_ctl('status', '--pool', 'web').stderr)
        self.refused(1, 'does not answer', 'status', '--pool', 'web')

    def test_without_a_place_for_marks(self):
        """Where the daemon bound the socket itself, a connection starts nothing, and tells."""
        daemon = self.start('web')
        os.unlink(f'{self.folder}/web.run')     # as an older daemon
        self.assertEqual(self.json('list')[0]['state'], 'running')
        daemon.stop()

    def test_follow_starts_nothing(self):
        """monitor --follow waits for the next daemon, and does not start one that was stopped."""
        pathlib.Path(self.folder, 'lock').mkdir()
        daemon = self.start('web')
        with subprocess.Popen([TSLABCTL, '--pool', 'web', 'monitor', '--follow'], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, env=environment(self.folder)) as monitor:
            try:
                ctl_case.wait_for(lambda: any(c['control_only'] for c in self.json('clients', '--pool', 'web')
                                              if c['pid'] == monitor.pid))
                daemon.stop()
                idle = self.idle('web')
                self.assertIn('waiting for the next one', monitor.stderr.readline())
                time.sleep(1)
                self.untouched(idle)
            finally:
                monitor.terminate()
                monitor.communicate()


if __name__ == '__main__':
    ctl_case.main()
