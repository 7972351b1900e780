"""Every verb that the help tells of, in trouble: a full disk, a reader that closes the pipe after one
line, many clients, a terminal of 40 columns, a role that does not allow it.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import unittest

import ctl_case
import wire
from ctl_case import TSLABCTL, VERB_CLIENT, Case, environment

# The arguments that verbs need; the others go without.
ARGUMENTS = {'epoch close': ['3'], 'epoch label': ['4', 'x'], 'top': ['--once', '-d', '0.1']}
SILENT = {'epoch label'}
READER_MAY_NOT = {'epoch advance', 'epoch close', 'epoch reserve', 'epoch label', 'trim', 'check', 'leaks',
                  'peaks reset'}
N_CLIENTS = 200
ATTACH = 17                     # a request


class Sweep(Case):
    def start(self, *arguments):
        daemon = super().start('default', *arguments)
        # 'suggest' has nothing to say before
        ctl_case.wait_for(lambda: self.json('stats')['peaks']['looks'] > 0)
        return daemon

    def verbs(self):
        """All but monitor, which does not end by itself, and verbs that need a map."""
        section = self.text('--help').split('Verbs:\n')[1].split('\n\n')[0]
        names = [re.match(r'  ((?:[a-z]+ ?)+)', line)[1].strip() for line in section.splitlines()]
        self.assertGreaterEqual(len(names), 16)
        return [name for name in names if name not in ('monitor', 'maps set', 'maps top', 'maps clear', 'maps remove', 'get', 'put', 'delete', 'keys', 'dump', 'load',
                                                   'clients end')]

    def commands(self):
        return [(name, [*name.split(), *ARGUMENTS.get(name, [])]) for name in self.verbs()]

    def into(self, stdout, arguments, **how):
        return subprocess.run([TSLABCTL, *arguments], stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.PIPE,
                              text=True, check=False, timeout=ctl_case.DEADLINE, env=environment(self.folder), **how)

    def test_full_disk(self):
        self.start()
        with open('/dev/full', 'wb') as full:
            for name, arguments in self.commands():
                for more in ([], ['--json'], ['--help']):
                    if name in SILENT and not more:
                        continue
                    result = self.into(full, arguments + more)
                    self.assertEqual(result.returncode, 1, (name, more))
                    self.assertEqual(result.stderr, 'tslabctl: cannot write the output: No space left on device\n')
            monitor = subprocess.Popen([TSLABCTL, 'monitor'], stdout=full, stderr=subprocess.PIPE, text=True,
                                       env=environment(self.folder))
            with monitor:
                self.addCleanup(monitor.kill)
                ctl_case.wait_for(lambda: self.text('epoch', 'advance') and monitor.poll() is not None)
                self.assertEqual((monitor.returncode, 'cannot write' in monitor.stderr.read()), (1, True))

    def test_reader_goes(self):
        """It is gone before anything is written: no complaint, and no trace but the signal SIGPIPE."""
        self.start()
        for name, arguments in self.commands():
            for restore, codes in ((True, (-signal.SIGPIPE, 0) if name in SILENT else (-signal.SIGPIPE,)), (False, (0,))):
                reader, writer = os.pipe()
                os.close(reader)
                result = self.into(writer, arguments, restore_signals=restore)
                os.close(writer)
                self.assertIn(result.returncode, codes, name)
                self.assertEqual(result.stderr, '', name)

    def test_many_clients(self):
        daemon = self.start('--size=64M')
        clients = [self.client(daemon, VERB_CLIENT) for _ in range(10)]
        for client in clients:
            client.do('session 64 30')
        # the others attach, from this process, and do no more
        for _ in range(N_CLIENTS - len(clients)):
            raw = wire.Raw(daemon.path)
            self.addCleanup(raw.socket.close)
            raw.call(ATTACH, b'')
        listed = self.json('clients')
        self.assertEqual(len([c for c in listed if not c['control_only']]), N_CLIENTS)
        # clients with caches come first
        self.assertEqual({c['pid'] for c in listed[:10]}, {c.process.pid for c in clients})
        self.assertEqual(self.json('stats')['clients'], N_CLIENTS)
        self.assertIn(f'{N_CLIENTS} processes', self.text('status'))
        for name, arguments in self.commands():
            self.assertEqual(self.text(*arguments) == '', name in SILENT, name)

    def test_no_legend(self):
        """A table shows its rows alone, other output no line that was not asked for."""
        daemon = self.start()
        self.client(daemon).do('alloc 64 10')
        with_legend, rows = ({name: self.text(*arguments, *more).splitlines() for name, arguments in self.commands()
                              if name in ('list', 'epoch list', 'clients', 'top', 'leaks', 'roots')}
                             for more in ([], ['--no-legend']))
        self.assertEqual({name: len(lines) for name, lines in rows.items()},
                         {'list': 1, 'epoch list': 16, 'clients': 2, 'top': 16, 'leaks': 1, 'roots': 0})
        for name, lines in rows.items():
            self.assertLess(len(lines), len(with_legend[name]), name)

    def test_json_is_json(self):
        daemon = self.start()
        self.client(daemon).do('alloc 64 10')
        for name, arguments in self.commands():
            if name == 'help':
                continue
            text = self.text('--json', *arguments)
            self.assertEqual(text.count('\n'), 1, name)
            json.loads(text)

    @unittest.skipIf(os.getuid(), 'needs root, to be somebody else')
    def test_reader_role(self):
        """Somebody who may only read: is told so in a line where it is not enough, and nothing else happens."""
        self.start('--mode=0666', '--readers=nobody', '--writers=root', '--operators=root')
        os.chmod(self.folder, 0o755)
        # the build folder may be one that only we can look into
        place = tempfile.mkdtemp(prefix='tslab-ctl-')
        self.addCleanup(shutil.rmtree, place)
        os.chmod(place, 0o755)
        program = shutil.copy(TSLABCTL, place)
        for name, arguments in self.commands():
            result = self.run_ctl(*arguments, program=program, user=65534, group=65534, extra_groups=[])
            if name not in READER_MAY_NOT:
                self.assertEqual((result.returncode, result.stderr), (0, ''), name)
            else:
                self.assertEqual((result.returncode, result.stdout), (1, ''), name)
                self.assertRegex(result.stderr, r'\Atslabctl: [^\n]+\n\Z', name)
                self.assertRegex(result.stderr, r'only operators|your role|only writers', name)
        self.assertEqual({e['state'] for e in self.json('epoch', 'list')}, {'open'})


ctl_case.main()
