"""tslabctl monitor: events as they happen, in text and JSON, and how it ends."""

import json
import os
import signal
import subprocess
import threading

import ctl_case
from ctl_case import Case, wait_for


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

    def test_daemon_ends(self):
        daemon = self.start()
        monitor = Monitor(self)
        monitor.watches()
        daemon.stop(signal.SIGKILL)
        code, err = monitor.end()
        self.assertEqual(code, 1)
        self.assertRegex(err, r'\Atslabctl: the daemon hung up[^\n]+--follow[^\n]+\n\Z')

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
