"""tslabctl monitor: events as they happen, in text and JSON, and how it ends."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading

import ctl_case
import wire
from ctl_case import Case, wait_for

# A program that a script starts in the background ignores SIGINT, and so do the programs that it executes.
signal.signal(signal.SIGINT, signal.default_int_handler)

EPOCH_ADVANCE, WATCH = 25, 37   # requests
ADVANCES_MAX = 3000             # some 2 MiB of events, where 256 KiB may wait


# Descriptor 3, and the process that it is for: sd_listen_fds(3).
AS_SYSTEMD = '''
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ['LISTEN_PID'] = str(os.getpid())
os.execv(sys.argv[2], sys.argv[2:])
'''


def anonymous_size(pid):
    with open(f'/proc/{pid}/status', encoding='ascii') as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith('RssAnon:'))


class Monitor:
    """A running monitor, and the lines it has written so far."""

    def __init__(self, case, *arguments):
        self.process = subprocess.Popen([ctl_case.TSLABCTL, 'monitor', *arguments], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, env=ctl_case.environment(case.folder))
        case.addCleanup(self.close)
        self.lines = []
        self.reader = threading.Thread(target=self.read)
        self.reader.start()
        self.case = case

    def read(self):
        for line in self.process.stdout:
            self.lines.append(line)

    def watches(self):
        """Until an event of ours is seen: then it is watched from there on."""
        def seen():
            self.case.text('epoch', 'advance')
            return self.lines
        wait_for(seen)

    def sees(self, kind):
        return wait_for(lambda: [line for line in self.lines if kind in line])

    def end(self):
        self.reader.join(ctl_case.DEADLINE)
        self.process.wait(ctl_case.DEADLINE)
        return self.process.returncode, self.process.stderr.read()

    def close(self):
        self.process.kill()
        self.end()
        self.process.stdout.close()
        self.process.stderr.close()


class Events(Case):
    def test_text(self):
        daemon = self.start()
        monitor = Monitor(self)
        monitor.watches()
        client = ctl_case.Client(daemon.path)
        client.do('alloc 64 300')
        self.text('epoch', 'close', '5')
        client.end()
        self.text('trim')
        for kind in ('advance', 'attach', 'close', 'drained', 'leave', 'reclaim'):
            monitor.sees(f'  {kind} ')
        for line in monitor.lines:
            self.assertRegex(line, r'\A\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}  [a-z]+ +\S.*\n\Z')

    def test_json(self):
        daemon = self.start()
        monitor = Monitor(self, '--json')
        monitor.watches()
        client = ctl_case.Client(daemon.path)
        client.do('alloc 64 300')
        client.end(signal.SIGKILL)
        for kind in ('attach', 'death'):
            line, = monitor.sees(f'"kind":"{kind}"')
            value = json.loads(line)
            self.assertEqual(value['kind'], kind)
            self.assertEqual(value['pid'], client.process.pid)
            self.assertGreater(value['usec'], 10 ** 15)
        kinds = [json.loads(line)['kind'] for line in monitor.lines]
        self.assertLess(kinds.index('attach'), kinds.index('death'))
        self.assertIn('advance', kinds)

    def kinds(self, monitor):
        return [json.loads(line)['kind'] for line in monitor.lines]

    def test_repair(self):
        """The slots in the caches of a killed client are repaired; the events come in this order."""
        daemon = self.start()
        monitor = Monitor(self, '--json')
        monitor.watches()
        client = self.client(daemon, ctl_case.VERB_CLIENT)
        client.do('session 64 300')
        client.do('free')
        attached, = [c for c in self.json('clients') if not c['control_only']]
        self.assertGreater(attached['cached_objects'], 0)
        client.end(signal.SIGKILL)
        monitor.sees('"kind":"leave"')
        events = [json.loads(line) for line in monitor.lines]
        self.assertEqual([e['kind'] for e in events if e['kind'] not in ('advance', 'drained')],
                         ['attach', 'death', 'repair', 'leave'])
        death, repair, leave = [e for e in events if e['kind'] in ('death', 'repair', 'leave')]
        self.assertEqual((death['pid'], leave['pid'], repair['pid']), (client.process.pid, client.process.pid, None))
        self.assertIn('the records of 1 of its threads are to be repaired', death['text'])
        self.assertIn(f' {attached["cached_objects"]} slots given back', repair['text'])

    def test_nothing_to_repair(self):
        """A client without caches leaves objects and no more: the death says so, and no repair follows."""
        daemon = self.start()
        monitor = Monitor(self, '--json')
        monitor.watches()
        client = self.client(daemon)
        client.do('alloc 64 300')
        client.end(signal.SIGKILL)
        death, = monitor.sees('"kind":"death"')
        self.assertIn('it left nothing to repair', death)
        # the next one's comes after all of this one's
        self.client(daemon)
        wait_for(lambda: self.kinds(monitor).count('attach') == 2)
        self.assertNotIn('repair', self.kinds(monitor))

    def test_pressure(self):
        """As systemd tells a service of it: here by a FIFO."""
        fifo = f'{self.folder}/pressure'
        os.mkfifo(fifo)
        self.start(MEMORY_PRESSURE_WATCH=fifo)
        monitor = Monitor(self, '--json')
        monitor.watches()
        with open(fifo, 'wb') as file:
            file.write(b'x')
        line, = monitor.sees('"kind":"pressure"')
        event = json.loads(line)
        self.assertEqual((event['pid'], event['epoch'], event['text']), (None, None, 'memory is short'))

    def test_daemon_ends(self):
        daemon = self.start()
        monitor = Monitor(self)
        monitor.watches()
        daemon.stop(signal.SIGKILL)
        code, err = monitor.end()
        self.assertEqual(code, 1)
        self.assertRegex(err, r'\Atslabctl: the daemon hung up[^\n]+--follow[^\n]+\n\Z')

    def test_stays_stopped(self):
        """Where systemd listens, a connection starts the daemon again: the monitor makes none."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(f'{self.folder}/default.sock')
            listener.listen()
            command = [sys.executable, '-c', AS_SYSTEMD, str(listener.fileno()), ctl_case.TSLABD, '--size=16M',
                       '--log-level=err']
            with subprocess.Popen(command, pass_fds=[listener.fileno()],
                                  env=ctl_case.environment(self.folder, LISTEN_FDS='1')) as process:
                self.addCleanup(process.kill)
                monitor = Monitor(self)
                monitor.watches()
                process.terminate()
                self.assertEqual(process.wait(ctl_case.DEADLINE), 0)
            code, err = monitor.end()
            self.assertEqual(code, 1)
            self.assertIn('the daemon hung up', err)
            listener.setblocking(False)
            self.assertRaises(BlockingIOError, listener.accept)

    def test_follow(self):
        daemon = self.start()
        monitor = Monitor(self, '--follow')
        monitor.watches()
        daemon.stop(signal.SIGKILL)
        self.start()
        monitor.lines.clear()
        monitor.watches()
        monitor.process.send_signal(signal.SIGINT)
        code, err = monitor.end()
        self.assertEqual(code, -signal.SIGINT)
        self.assertIn('waiting for the next one\ntslabctl: connected again\n', err)

    def advance(self, operator, watcher):
        """Two events, with that the epoch is drained; somebody who reads gets this one at once."""
        operator.call(EPOCH_ADVANCE, b'')
        while b'\x07advance' not in (event := watcher.receive()):
            self.assertIn(b'\x07drained', event)

    def stopped_and_dropped(self, monitor, daemon):
        """Events until the monitor, which is stopped, is no more connected."""
        operator, watcher = wire.Raw(daemon.path), wire.Raw(daemon.path)
        self.addCleanup(operator.socket.close)
        self.addCleanup(watcher.socket.close)
        watcher.send(WATCH, b'')
        monitor.process.send_signal(signal.SIGSTOP)
        for _ in range(0, ADVANCES_MAX, 200):
            if monitor.process.pid not in [c['pid'] for c in self.json('clients')]:
                return
            for _ in range(200):
                self.advance(operator, watcher)
        self.fail(f'the events of {ADVANCES_MAX} advances wait for a reader that does not read')

    def test_slow_reader(self):
        """It is dropped, others get all of theirs, and little waits for it in the daemon."""
        options = os.environ.get('ASAN_OPTIONS', '')    # which else keeps all that was freed
        daemon = self.start(ASAN_OPTIONS=f'{options}:quarantine_size_mb=0:thread_local_quarantine_size_kb=0')
        monitor = Monitor(self, '--json')
        monitor.watches()
        before = anonymous_size(daemon.process.pid)
        self.stopped_and_dropped(monitor, daemon)
        self.assertLess(anonymous_size(daemon.process.pid) - before, 1 << 20)
        monitor.process.send_signal(signal.SIGCONT)
        code, err = monitor.end()
        self.assertEqual(code, 1)
        self.assertRegex(err, r'\Atslabctl: the daemon hung up: [^\n]+ did not read fast enough; [^\n]+\n\Z')
        # the events it did get are whole, and without a gap
        events = [json.loads(line) for line in monitor.lines]
        epochs = [e['epoch'] for e in events if e['kind'] == 'advance']
        self.assertGreater(len(epochs), 100)
        self.assertEqual([(e - f) % 16 for e, f in zip(epochs[1:], epochs)], [1] * (len(epochs) - 1))

    def test_slow_reader_follows(self):
        daemon = self.start()
        monitor = Monitor(self, '--follow')
        monitor.watches()
        self.stopped_and_dropped(monitor, daemon)
        monitor.process.send_signal(signal.SIGCONT)
        wait_for(lambda: monitor.process.pid in [c['pid'] for c in self.json('clients')])
        self.text('epoch', 'label', '3', 'x')
        monitor.lines.clear()
        monitor.watches()
        monitor.process.send_signal(signal.SIGINT)
        err = monitor.end()[1]
        self.assertRegex(err, r'\Atslabctl: this did not take [^\n]+\ntslabctl: connected again\n\Z')

    def test_closed_pipe(self):
        self.start()
        for restore, code in ((True, -signal.SIGPIPE), (False, 0)):
            reader, writer = os.pipe()
            os.close(reader)
            with subprocess.Popen([ctl_case.TSLABCTL, 'monitor'], stdout=writer, stderr=subprocess.PIPE,
                                  restore_signals=restore, env=ctl_case.environment(self.folder)) as process:
                os.close(writer)
                wait_for(lambda: self.text('epoch', 'advance') and process.poll() is not None)
                self.assertEqual((process.returncode, process.stderr.read()), (code, b''))

    def test_refused(self):
        self.refused(1, 'no daemon', 'monitor')
        self.refused(2, "--follow does not go with 'stats'", 'stats', '--follow')


ctl_case.main()
