"""tslabctl against a real tslabd, and against daemons that the test plays where it needs what a real one does not do.

    test-verbs.py TSLABCTL TSLABD CTL-CLIENT SOURCE-FOLDER [unittest arguments]
"""

import errno
import fcntl
import json
import os
import pathlib
import pty
import re
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import termios
import time
import unittest

import ctl_case
from ctl_case import DEADLINE, SOURCE, TSLABCTL, TSLABD, VERB_CLIENT, Case, Played, environment, field, hello, reply, wait_for

# A program that a script starts in the background ignores SIGINT, and so do the programs that it executes.
signal.signal(signal.SIGINT, signal.default_int_handler)

STATS = {'pool': str, 'size_bytes': int, 'committed_bytes': int, 'metadata_bytes': int, 'retained_bytes': int,
         'huge': str, 'huge_bytes': int, 'live_objects': int, 'live_bytes': int, 'cached_objects': int, 'clients': int, 'threads': int,
         'epochs': list, 'classes': list, 'counters': dict}
EPOCH = {'id': int, 'era': int, 'state': str, 'label': str, 'slabs': int, 'live_objects': int,
         'committed_bytes': int, 'reclaimed_bytes': int, 'older': dict}
OLDER = {'slabs': int, 'live_objects': int}
CLASS = {'size': int, 'slabs': int, 'live_objects': int}
with open(os.path.join(SOURCE, 'shm/format/counters.h'), encoding='utf-8') as file:
    COUNTERS = {name: int for name in ('slabs_reclaimed', *re.findall(r'^ +X\(\w+, (\w+),', file.read(), re.MULTILINE))}
CHECK = {'ok': bool, 'lost_slots': int, 'doubled_slots': int, 'unsettled_slots': int, 'wrong_hints': int,
         'problems': list}
CLOSE = {'epoch': int, 'reclaimed_bytes': int, 'live_objects': int, 'pending_threads': int}
CLIENT = {'client': int, 'pid': int, 'uid': int, 'gid': int, 'comm': str, 'role': str, 'threads': int,
          'allocs': int, 'frees': int, 'cached_objects': int, 'attached_usec': int, 'control_only': bool}
POOL = {'pool': str, 'socket': str, 'state': str, 'size_bytes': int, 'used_bytes': int,
        'committed_bytes': int, 'clients': int}


def catches_end(pid):
    """Whether it has a handler for SIGTERM by now."""
    with open(f'/proc/{pid}/status', encoding='ascii') as status:
        caught, = (int(line.split()[1], 16) for line in status if line.startswith('SigCgt:'))
    return caught >> (signal.SIGTERM - 1) & 1


class Usage(Case):
    """Errors in the command line alone: exit code 2, before any daemon is looked for."""

    def test_refused(self):
        for arguments, parts in (
                ('', ['verb is missing', 'tslabctl --help']),
                ('frobnicate', ["unknown verb 'frobnicate'", 'tslabctl --help']),
                ('lsit', "did you mean 'list'"),
                ('stat', "did you mean 'status'"),
                ('epoch', ['list, advance, close, reserve, label']),
                ('epoch clsoe 3', "did you mean 'epoch close'"),
                ('epoch frobnicate', ['list, advance, close, reserve, label']),
                ('--jsno list', "did you mean '--json'"),
                ('--frobnicate list', ["unknown option '--frobnicate'", 'tslabctl --help']),
                ('-x list', "unknown option '-x'"),
                ('--json=1 list', '--json takes no value'),
                ('status --pool', '--pool needs a value'),
                ('--pool Web status', ["'Web' is not a pool name", '--socket']),
                ('--pool web-1 status', ["'web-1' is not a pool name", "a-z, 0-9 and '_'"]),
                ('--pool _web status', "'_web' is not a pool name"),
                ('--pool=/run/x.sock status', ['not a pool name', '--socket']),
                ('--pool a2345678901234567890123456789012x status', ['not a pool name', '32']),
                ('--pool a --socket /b status', '--pool and --socket'),
                ('list --pool a', ["--pool does not go with 'list'", 'tslabctl list --help']),
                ('list --socket /a', "--socket does not go with 'list'"),
                ('status --revoke', "--revoke does not go with 'status'"),
                ('epoch advance --wait', "--wait does not go with 'epoch advance'"),
                ('trim --repair', "--repair does not go with 'trim'"),
                ('status me', "unexpected argument 'me'"),
                ('epoch close', ['argument is missing', 'EPOCH...']),
                ('epoch close x', ["'x' is not an epoch", 'N:ERA']),
                ('epoch close 3 -- -1', "'-1' is not an epoch"),
                ('epoch close 3:', "'3:' is not an epoch"),
                ('epoch close 64', "there is no epoch '64'"),
                ('epoch close 3:99999999', "there is no epoch '3:99999999'"),
                ('epoch close 3:1 4 3:1', "'3:1' is given twice"),
                ('epoch advance --yes', "--yes does not go with 'epoch advance'"),
                ('epoch close 3 --wait=soon', "'soon' is not a number of seconds"),
                ('epoch close 3 --wait=100000', 'more than a day'),
                ('epoch close 3 --wait 5', ["is '5' after --wait seconds, or an epoch", '--wait=5']),
                ('epoch close --wait 3:1', ["is '3:1' after --wait seconds, or an epoch", 'before --wait']),
                ('epoch label 3', ['argument is missing', 'EPOCH TEXT']),
                ('epoch label x y', "'x' is not an epoch"),
                ('epoch label 3 a b', "unexpected argument 'b'"),
                ('epoch reserve a b', "unexpected argument 'b'"),
                (f'epoch reserve {"x" * 32}', ['cannot be a label', '31 bytes']),
                (f'--socket /{"x" * 120} status', '107 bytes'),
        ):
            with self.subTest(arguments):
                self.refused(2, parts, *arguments.split())

    def test_one_line(self):
        self.refused(2, "'a?b?[31m' is not a pool name", '--pool', 'a\nb\033[31m', 'status')
        self.refused(2, 'cannot be a label', 'epoch', 'label', '3', 'two\nlines')
        self.refused(2, 'unknown verb', 'x' * 5000)

    def test_environment_pool(self):
        self.refused(2, ['$TSLAB_POOL', 'Web', '--pool'], 'status', env={'TSLAB_POOL': 'Web'})
        self.refused(1, 'web.sock', 'status', env={'TSLAB_POOL': 'web'})
        # an option wins, in the daemon, too
        self.start('web', TSLAB_POOL='/run/other.sock', TSLAB_SIZE='much')
        self.text('status', TSLAB_POOL='web')
        self.refused(1, 'other.sock', 'status', '--pool', 'other', env={'TSLAB_POOL': 'Web'})

    def test_help(self):
        text = self.text('--help')
        self.assertEqual(text, self.text('-h'))
        for verb in self.verbs():
            self.assertIn(f'tslabctl [OPTION...] {verb}', self.text(*verb.split(), '--help'))
        self.assertIn('epoch close', self.text('epoch', '--help'))
        self.assertRegex(self.text('maps', '--help'), r'maps \[MAP\] (?s:.)*--columns')
        self.assertIn('--revoke', self.text('epoch', 'close', '--help'))
        self.assertNotIn('--revoke', self.text('stats', '--help'))
        self.refused(2, 'unknown verb', 'frobnicate', '--help')
        for words in ((), ('epoch',), ('epoch', 'close'), ('stats',)):
            self.assertEqual(self.text('help', *words), self.text(*words, '--help'))
        self.refused(2, 'unknown verb', 'help', 'frobnicate')

    def test_version(self):
        self.assertRegex(self.text('--version'), r'\Atslabctl \d+\.\d+\.\d+\n\Z')

    def verbs(self):
        section = self.text('--help').split('Verbs:\n')[1].split('\n\n')[0]
        verbs = [re.match(r'  ((?:[a-z]+ ?)+)', line)[1].strip() for line in section.splitlines()]
        self.assertGreaterEqual(len(verbs), 12)
        return verbs

    def test_documents_name_all(self):
        options = set(re.findall(r'--[a-z-]+', self.text('--help').split('Options:\n')[1]))
        with open(f'{SOURCE}/daemon/ctl/tslabctl.1.scd', encoding='utf-8') as file:
            words = set(re.findall(r'(?:--)?[a-z][a-z-]*', file.read()))
        missing = {word for verb in self.verbs() for word in verb.split()} | options
        self.assertEqual(missing - words, set())


class Reach(Case):
    """Daemons that are not there, may not be asked, or are something else."""

    def dead_socket(self, pool):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
            s.bind(f'{self.folder}/{pool}.sock')
            s.listen()

    def test_absent(self):
        self.refused(1, ['no daemon', f'{self.folder}/web.sock', 'systemctl start tslabd@web.socket',
                         'tslabd --pool web'], '--pool', 'web', 'status')
        self.refused(1, ['no daemon', '/nowhere/x'], '--socket', '/nowhere/x', 'status')
        for verb in ('stats', 'epoch list', 'epoch advance', 'epoch close 3', 'epoch reserve', 'epoch label 3 x',
                     'clients', 'roots', 'trim', 'check'):
            self.refused(1, 'no daemon', *verb.split())

    def test_lost(self):
        """The daemon was killed: the advice is to take the memory from a client, not to make an empty pool beside it."""
        pool = f'lost_{os.getpid()}'            # the search is by name, in all processes of the machine
        start = f"'tslabd --pool {pool}'"
        daemon = self.start(pool)
        client = self.client(daemon)
        client.do('alloc 100 10')
        daemon.process.kill()
        daemon.process.wait()
        self.refused(1, ['nobody listens', f'tslabd --pool {pool} --adopt {client.process.pid}'], '--pool', pool, 'status')
        with tempfile.TemporaryDirectory() as other:    # where no daemon of that name has been
            self.refused(1, start, '--pool', pool, 'status', env={'TSLAB_RUNTIME_DIR': other})
            # and where another daemon of that name was: its memory is not the client's
            ctl_case.Daemon(other, pool).stop()
            self.refused(1, start, '--pool', pool, 'status', env={'TSLAB_RUNTIME_DIR': other})
        client.process.kill()
        client.process.wait()
        self.refused(1, start, '--pool', pool, 'status')

    def test_starting(self):
        """A daemon marks its pool before it listens: it is not taken for one whose socket was removed."""
        for _ in range(8):
            daemon = subprocess.Popen([TSLABD, '--pool=web', '--size=8G', '--log-level=err'], env=environment(self.folder))
            try:
                ctl_case.wait_for(lambda: os.path.exists(f'{self.folder}/web.run'))
                self.text('status', '--pool', 'web')
            finally:
                daemon.terminate()
                daemon.wait()

    def is_marked(self, pool):
        """Whether its daemon has locked the mark that it has made. The byte that says that it starts is the last one."""
        with open(f'{self.folder}/{pool}.run') as mark:
            lock = fcntl.fcntl(mark, fcntl.F_GETLK, struct.pack('hhqqi4x', fcntl.F_WRLCK, os.SEEK_SET, 2, 1, 0))
        return struct.unpack_from('h', lock)[0] != fcntl.F_UNLCK

    def test_starting_long(self):
        """One that takes longer than any other answer is waited for, too, as long as it lives."""
        for kill in (False, True):
            while True:                         # until it is caught between the two
                daemon = subprocess.Popen([TSLABD, '--pool=web', '--size=8G', '--log-level=err'], env=environment(self.folder))
                while not os.path.exists(f'{self.folder}/web.run'):
                    pass
                daemon.send_signal(signal.SIGSTOP)
                os.waitid(os.P_PID, daemon.pid, os.WSTOPPED)
                if self.is_marked('web') and not os.path.exists(f'{self.folder}/web.sock'):
                    break
                daemon.kill()
                daemon.wait()
                for name in 'web.run', 'web.sock':          # caught too early, it has no socket
                    pathlib.Path(self.folder, name).unlink(missing_ok=True)
            with subprocess.Popen([TSLABCTL, '--pool=web', 'status', '--check'], env=environment(self.folder),
                                  stderr=subprocess.PIPE, text=True) as ctl:
                self.assertRegex(ctl.stderr.readline(), 'web.sock is starting: waiting for it')
                time.sleep(1.5)
                self.assertIsNone(ctl.poll())
                if kill:
                    daemon.kill()
                daemon.send_signal(signal.SIGCONT)
                self.assertEqual(ctl.wait(ctl_case.DEADLINE), 1 if kill else 0)
            daemon.terminate()
            daemon.wait()

    def test_hidden_older(self):
        """A daemon of a build that does not say whether it starts is not waited for: it may have listened long ago."""
        with open(f'{self.folder}/web.run', 'w+') as mark:
            for byte, command in enumerate((fcntl.F_OFD_SETLK, fcntl.F_SETLK)):
                fcntl.fcntl(mark, command, struct.pack('hhqqi4x', fcntl.F_RDLCK, os.SEEK_SET, byte, 1, 0))
            self.refused(1, [f'though the daemon, process {os.getpid()}, lives', 'just been started, try again'],
                         '--pool=web', 'status')

    def test_hidden(self):
        """Somebody removed the socket of a daemon that lives: a second daemon would be refused."""
        daemon = self.start('web')
        for remedy in ('there is no', 'nobody listens at'):
            if remedy == 'there is no':
                os.unlink(daemon.path)
            else:
                self.dead_socket('web')
            self.refused(1, [remedy, f'process {daemon.process.pid}, lives', "one of the daemon's user has it open",
                             'tslabd --pool web --adopt'], '--pool', 'web', 'status')

    def test_dead(self):
        self.dead_socket('web')
        self.refused(1, ['no daemon', 'nobody listens at', 'web.sock', 'systemctl start tslabd@web.socket'],
                     '--pool', 'web', 'status')
        self.assertEqual(self.json('list'), [{'pool': 'web', 'socket': f'{self.folder}/web.sock', 'state': 'dead',
                                              'size_bytes': None, 'used_bytes': None, 'committed_bytes': None,
                                              'clients': None}])
        self.assertRegex(self.text('list'), r'\nweb +dead +- +- +- +- +/')

    @unittest.skipIf(os.getuid(), 'needs root, to be somebody else')
    def test_denied(self):
        daemon = self.start('web', '--mode=0660')
        os.chmod(self.folder, 0o755)
        # The build folder may be one that only we can look into.
        place = tempfile.mkdtemp(prefix='tslab-ctl-')
        self.addCleanup(shutil.rmtree, place)
        os.chmod(place, 0o755)
        nobody = {'user': 65534, 'group': 65534, 'extra_groups': [], 'program': shutil.copy(TSLABCTL, place)}
        self.refused(1, ['may not connect', "group 'root'"], '--pool', 'web', 'status', **nobody)
        os.chmod(daemon.path, 0o600)
        self.refused(1, ['may not connect', 'user 0, alone'], '--pool', 'web', 'status', **nobody)
        result = self.run_ctl('--json', 'list', **nobody)
        self.assertEqual(json.loads(result.stdout)[0]['state'], 'denied')
        os.chmod(self.folder, 0o710)
        self.refused(1, ['may not connect', self.folder, "group 'root'"], '--pool', 'web', 'status', **nobody)
        # nothing can be said of the pools, and that is said
        result = self.run_ctl('list', **nobody)
        self.assertEqual(result.returncode, 1)
        self.assertIn('cannot look for pools', result.stderr)

    def test_other_version(self):
        self.play([reply(1, error=errno.EPROTONOSUPPORT, message='use version 8')])
        self.refused(1, 'tslabctl: use version 8\n', 'status')
        self.play([hello(version=8)], pool='web')
        self.refused(1, ['another version of the protocol', 'restart'], '--pool', 'web', 'status')

    def test_foreign(self):
        self.play([b'hello to you too'])
        self.refused(1, ["does not speak tslab's protocol", 'default.sock'], 'status')
        self.assertEqual(self.json('list')[0]['state'], 'foreign')

    def test_stream_socket(self):
        self.play(kind=socket.SOCK_STREAM)
        self.refused(1, 'not that of a pool', 'status')

    def test_no_socket(self):
        with open(f'{self.folder}/default.sock', 'w', encoding='ascii'):
            pass
        self.refused(1, 'nobody listens', 'status')
        self.assertEqual(self.json('list'), [])

    def test_hangs_up(self):
        self.play([hello()], None)
        self.refused(1, ['hung up', 'journalctl'], 'status')

    def test_silent(self):
        # the hello comes, and nothing after it
        self.play([hello()], [])
        self.assertEqual(self.json('list')[0]['state'], 'silent')

    def test_refusals(self):
        for error, message, expected in (
                (errno.EPERM, 'only operators may do that', 'only operators may do that'),
                (errno.EPERM, '', 'your role'),
                (errno.EOPNOTSUPP, '', 'older than this tslabctl'),
                (errno.ESTALE, '', 'epoch list'),
                (errno.EBUSY, '', os.strerror(errno.EBUSY))):
            # the look at what a close would do is refused, and so is the close
            played = Played(f'{self.folder}/web.sock', [hello()],
                            *([reply(i, error=error, message=message)] for i in (2, 3)))
            self.refused(1, expected, '--pool', 'web', 'epoch', 'close', '3')
            played.close()


class Verbs(Case):
    """A real daemon."""

    def test_list(self):
        self.assertEqual(self.json('list'), [])
        self.assertEqual(self.text('list'), '0 pools.\n')
        self.assertEqual(self.text('list', '--no-legend'), '')
        self.start('web')
        self.start('batch_1')
        pools = self.json('list')
        self.assertEqual([(p['pool'], p['state']) for p in pools], [('batch_1', 'running'), ('web', 'running')])
        for pool in pools:
            self.assert_members(pool, POOL)
            self.assertEqual(pool['size_bytes'], 16 << 20)
        text = self.text('list')
        self.assertRegex(text, r'\APOOL +STATE +SIZE +USED +COMMITTED +CLIENTS +SOCKET\nbatch_1 +running +16\.0M ')
        self.assertTrue(text.endswith('\n\n2 pools.\n'))
        self.assertEqual(self.text('list', '--no-legend').count('\n'), 2)

    def test_socket(self):
        self.start('web')
        os.rename(f'{self.folder}/web.sock', f'{self.folder}/odd name')
        self.addCleanup(os.rename, f'{self.folder}/odd name', f'{self.folder}/web.sock')
        self.assertEqual(self.json('stats', '--socket', f'{self.folder}/odd name')['pool'], 'web')
        result = self.run_ctl('--json', 'stats', '--socket', 'odd name', cwd=self.folder)
        self.assertEqual(json.loads(result.stdout)['pool'], 'web')

    def test_status(self):
        daemon = self.start()
        text = self.text('status')
        for part in ('default - tslab pool', f'Socket: {daemon.path}', f'pid {daemon.process.pid}', 'Arena: 16.0M',
                     'Clients: 0 processes; 0 of 1024 thread records in use', 'Epoch: 0:1',
                     '0 live (0B); 0 free slots in the caches of threads'):
            self.assertIn(part, text)
        self.assertRegex(text, r'\n +\[[#+.]{50}\]\n')
        status = self.json('status')
        self.assert_members(status, {**STATS, 'daemon_pid': int, 'daemon_version': str, 'uptime_usec': int,
                                     'settings_error': str, 'keep_file': str,
                                     'current_epoch': int, 'hints': list, 'socket': str})
        self.assertEqual(status['daemon_pid'], daemon.process.pid)
        self.assertEqual(status['current_epoch'], 0 | 1 << 8)
        self.assertEqual(status['hints'], [])
        self.text('epoch', 'close', '0', '--yes')
        self.assertIn('the current epoch, 0:1, is closed', self.text('status'))
        self.assertEqual(len(self.json('status')['hints']), 1)

    def test_status_check(self):
        """Nothing but an exit code: 0 also for a pool that has hints."""
        daemon = self.start()
        self.assertEqual(self.text('status', '--check'), '')
        self.text('epoch', 'close', '0', '--yes')
        self.assertEqual(self.text('status', '--check'), '')
        daemon.process.terminate()
        daemon.process.wait(DEADLINE)
        done = self.run_ctl('status', '--check')
        self.assertEqual((done.returncode, done.stdout), (1, ''))

    def test_stats(self):
        daemon = self.start()
        client = self.client(daemon)
        client.do('alloc 100 10')
        stats = self.json('stats')
        self.assert_members(stats, STATS)
        self.assert_members(stats['counters'], COUNTERS)
        self.assertEqual(len(stats['epochs']), 16)
        for epoch in stats['epochs']:
            self.assert_members(epoch, EPOCH)
            self.assert_members(epoch['older'], OLDER)
        for size_class in stats['classes']:
            self.assert_members(size_class, CLASS)
        self.assertEqual((stats['pool'], stats['size_bytes']), ('default', 16 << 20))
        self.assertEqual((stats['clients'], stats['threads'], stats['live_objects']), (1, 1, 10))
        self.assertEqual(stats['epochs'][0]['live_objects'], 10)
        self.assertEqual({c['size']: c['live_objects'] for c in stats['classes']}[112], 10)
        self.assertEqual(stats['counters']['allocs'], 10)
        text = self.text('stats')
        self.assertRegex(text, r'\nlive objects +10\n')
        self.assertRegex(text, r'\nallocs +10 +-\n')
        self.assertRegex(text, r'\nalloc_hits +\d+ +\d+ % of allocs\n')
        self.assertRegex(text, r'\nfrees_cached +0 +-\n')
        self.assertRegex(text, r'\n +112 +36 +1 +10\n')

    def test_epochs(self):
        self.start()
        epochs = self.json('epoch', 'list')
        self.assertEqual([(e['id'], e['era'], e['state']) for e in epochs], [(i, 1, 'open') for i in range(16)])
        for epoch in epochs:
            self.assert_members(epoch, {**EPOCH, 'current': bool, 'reserved': bool, 'owner_pid': int, 'opened_usec': int})
        self.assertEqual([e['id'] for e in epochs if e['current']], [0])

        advanced = self.json('epoch', 'advance')
        self.assert_members(advanced, {'epoch': int, 'id': int, 'era': int})
        self.assertEqual(advanced['epoch'], advanced['id'] | advanced['era'] << 8)
        self.assertRegex(self.text('epoch', 'advance'), r'\AEpoch \d+:\d+ is current\.\n\Z')

        reserved = self.json('epoch', 'reserve', 'the index')
        self.assertRegex(self.text('epoch', 'reserve'), r'\AEpoch \d+:\d+ is reserved\.\n\Z')
        epoch = self.json('epoch', 'list')[reserved['id']]
        self.assertEqual((epoch['reserved'], epoch['label'], epoch['epoch']),
                         (True, 'the index', reserved['epoch']))

        self.assertEqual(self.text('epoch', 'label', '5', 'long "jobs"'), '')
        self.assertEqual(self.json('epoch', 'list')[5]['label'], 'long "jobs"')
        self.assertRegex(self.text('epoch', 'list'), r'\n +5:1 +open +- .*  long "jobs"\n')
        self.assertEqual(self.json('epoch', 'label', '5:1', '--', '--json')['label'], '--json')
        self.assertEqual(self.json('epoch', 'label', '5', 'x'),
                         {'epoch': 5 + (1 << 8), 'id': 5, 'era': 1, 'label': 'x'})
        self.text('epoch', 'label', '5', 'für später')
        self.assertEqual(self.json('epoch', 'list')[5]['label'], 'für später')
        self.text('epoch', 'label', '5', '')
        self.assertEqual(self.json('epoch', 'list')[5]['label'], '')
        self.assertEqual(self.text('epoch', 'list', '--no-legend').count('\n'), 16)

    def test_future_era(self):
        self.start()
        self.refused(1, 'era 7 of epoch 0 has not begun: the newest is 1', 'epoch', 'close', '0:7')
        self.text('epoch', 'close', '0', '--yes')
        for _ in range(16):
            self.text('epoch', 'advance')
        self.refused(1, 'era 1 of epoch 0 is over', 'epoch', 'close', '0:1')

    def test_epoch_refused(self):
        self.start()
        self.refused(1, 'no epoch 16', 'epoch', 'close', '16')
        self.refused(1, 'epoch 3', 'epoch', 'close', '3:9')
        self.refused(1, 'epoch 3', 'epoch', 'label', '3:9', 'x')
        self.assertEqual({e['state'] for e in self.json('epoch', 'list')}, {'open'})
        # the rest is done all the same
        result = self.run_ctl('--json', 'epoch', 'close', '3:9', '4')
        self.assertEqual(result.returncode, 1)
        self.assertEqual([c['id'] for c in json.loads(result.stdout)], [4])
        self.assertEqual(self.json('epoch', 'list')[4]['state'], 'drained')

    def test_close(self):
        self.start()
        closed = self.json('epoch', 'close', '3')
        self.assert_members(closed, CLOSE)
        self.assertEqual((closed['epoch'], closed['live_objects'], closed['pending_threads']), (3 | 1 << 8, 0, 0))
        self.assertEqual(self.text('epoch', 'close', '4:1'), 'Epoch 4:1 closed: 0B given back, no objects remain.\n')
        # a number as --json shows it
        self.assertEqual(self.json('epoch', 'close', str(5 | 1 << 8))['id'], 5)
        several = self.json('epoch', 'close', '6', '--wait', '--', '7')
        self.assertEqual([c['id'] for c in several], [6, 7])
        self.assertEqual([e['id'] for e in self.json('epoch', 'list') if e['state'] == 'drained'], [3, 4, 5, 6, 7])

    def test_close_objects_remain(self):
        client = self.client(self.start())
        number = client.do('alloc 64 300')
        closed = self.json('epoch', 'close', number, '--yes')
        self.assertEqual((closed['epoch'], closed['live_objects']), (int(number), 300))
        self.assertEqual(closed['classes'], [{'size': 64, 'live_objects': 300}])
        self.assertEqual(self.json('epoch', 'list')[0]['state'], 'closing')
        self.assertIn('300 objects remain (300 of 64 bytes).', self.text('epoch', 'close', '0', '--wait=0', code=3))
        self.assertIn('still holds 300 objects', self.text('status'))
        self.assertRegex(self.text('epoch', 'list'), r'\n\nWarning: epoch 0:1 was closed .* still holds 300 objects ')
        self.assertNotIn('Warning', self.text('epoch', 'list', '--no-legend'))

        began = time.monotonic()
        self.assertEqual(self.json('epoch', 'close', '0', '--wait=0.5', code=3)['live_objects'], 300)
        self.assertGreaterEqual(time.monotonic() - began, 0.5)
        self.assertEqual(len(self.json('epoch', 'close', '0', '3', '--wait=0.1', code=3)), 2)

        client.do('free')
        closed = self.json('epoch', 'close', '0', '--wait=60')
        self.assertEqual(closed['live_objects'], 0)

    def test_close_waits(self):
        client = self.client(self.start())
        client.do('alloc 64 300')
        with subprocess.Popen([TSLABCTL, 'epoch', 'close', '0', '--yes', '--wait', '--json'], stdout=subprocess.PIPE,
                              env=environment(self.folder)) as waiting:
            wait_for(lambda: self.json('epoch', 'list')[0]['state'] == 'closing')
            time.sleep(0.1)
            self.assertIsNone(waiting.poll())
            client.do('free')
            closed = json.loads(waiting.communicate(timeout=DEADLINE)[0])
        self.assertEqual((waiting.returncode, closed['live_objects']), (0, 0))

    def test_close_interrupted(self):
        client = self.client(self.start())
        client.do('alloc 64 1')
        for number in (signal.SIGINT, signal.SIGTERM):
            with subprocess.Popen([TSLABCTL, 'epoch', 'close', '0', '--yes', '--wait'], stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True, env=environment(self.folder)) as waiting:
                wait_for(lambda: self.json('epoch', 'list')[0]['state'] == 'closing')
                wait_for(lambda pid=waiting.pid: catches_end(pid))
                waiting.send_signal(number)
                out, err = waiting.communicate(timeout=DEADLINE)
            self.assertEqual((waiting.returncode, out), (-number, ''))
            self.assertEqual(err, 'tslabctl: interrupted; epochs that were closed stay closed, and go on draining\n')
        self.assertEqual(self.json('epoch', 'list')[0]['state'], 'closing')

    def test_close_daemon_dies(self):
        daemon = self.start()
        self.client(daemon).do('alloc 64 1')
        with subprocess.Popen([TSLABCTL, 'epoch', 'close', '0', '--yes', '--wait'], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, env=environment(self.folder)) as waiting:
            wait_for(lambda: self.json('epoch', 'list')[0]['state'] == 'closing')
            time.sleep(0.1)
            daemon.stop(signal.SIGKILL)
            err = waiting.communicate(timeout=DEADLINE)[1]
        self.assertEqual(waiting.returncode, 1)
        self.assertIn('hung up', err)

    def test_clients(self):
        daemon = self.start()
        client = self.client(daemon)
        client.do('alloc 64 10')
        clients = self.json('clients')
        for entry in clients:
            self.assert_members(entry, CLIENT)
        attached = [c for c in clients if not c['control_only']]
        self.assertEqual([(c['pid'], c['comm'], c['threads'], c['allocs']) for c in attached],
                         [(client.process.pid, 'ctl-client', 1, 10)])
        self.assertEqual({c['comm'] for c in clients if c['control_only']}, {'tslabctl'})
        self.assertRegex(self.text('clients'), fr'\n +\d+ +{client.process.pid} +\w+ +ctl-client +operator +1 +10 +0 ')

    def play_clients(self, *clients):
        """Each: index, pid, command, cached, held, attached; in two replies, and one more that has not attached."""
        def info(index, pid, comm, cached, held, attached):
            return field(1, field(1, index) + field(2, pid << 1) + field(5, comm) + field(6, 2) + field(7, 1) +
                         field(10, cached) + field(12, held) + field(13, attached))
        control = field(1, field(2, 1 << 1) + field(5, 'aa') + field(6, 3) + field(13, 999) + field(14, 1))
        infos = [control] + [info(*client) for client in clients]
        self.play([hello()], [reply(2, more=True, body_number=33, body=b''.join(infos[:3])),
                              reply(2, body_number=33, body=b''.join(infos[3:]))])

    def test_clients_sort(self):
        # pids are in the order that there is without --sort
        self.play_clients((0, 14, 'b', 0, 7, 50), (1, 12, 'c', 30, 2, 40), (2, 13, 'a', 30, 2, 30),
                          (3, 11, 'b', 30, 9, 20), (4, 15, 'd', 0, 0, 10))
        for sort, pids in (([], [11, 12, 13, 14, 15]),
                           (['cached'], [11, 12, 13, 14, 15]),
                           (['-cached'], [14, 15, 11, 12, 13]),
                           (['held'], [11, 14, 12, 13, 15]),
                           (['pid'], [11, 12, 13, 14, 15]),
                           (['-pid'], [15, 14, 13, 12, 11]),
                           (['client'], [14, 12, 13, 11, 15]),
                           (['command'], [13, 11, 14, 12, 15]),
                           (['-command'], [15, 12, 11, 14, 13]),
                           (['since'], [14, 12, 13, 11, 15]),
                           (['threads'], [11, 12, 13, 14, 15]), (['records'], [11, 12, 13, 14, 15])):
            sort = ['--sort', *sort] if sort else []
            # a process that has not attached is last, by any field
            self.assertEqual([c['pid'] for c in self.json('clients', *sort)], pids + [1], sort)
            rows = self.text('clients', '--no-legend', *sort).splitlines()
            self.assertEqual([int(row.split()[1]) for row in rows], pids + [1], sort)
        self.refused(2, ["'size' is nothing to sort by", 'cached, held, '], 'clients', '--sort', 'size')
        self.refused(2, "--sort does not go with 'stats'", 'stats', '--sort', 'cached')
        self.refused(2, '--sort needs a value', 'clients', '--sort')

    def test_clients_who_caches_most(self):
        daemon = self.start()
        clients = []
        for n in (0, 300, 20):
            clients.append(self.client(daemon, VERB_CLIENT))
            clients[-1].do(f'session 64 {n}')
            clients[-1].do('free')
        found = [c for c in self.json('clients') if not c['control_only']]
        self.assertEqual([c['pid'] for c in found], [clients[i].process.pid for i in (1, 2, 0)])
        self.assertGreater(found[0]['cached_objects'], found[1]['cached_objects'])

    def test_clients_in_parts(self):
        def part(pid):
            return field(1, field(2, pid << 1) + field(5, 'x') + field(6, 2))
        self.play([hello()], [reply(2, more=True, body_number=33, body=part(11) + part(12)),
                              reply(2, body_number=33, body=part(13))])
        self.assertEqual([c['pid'] for c in self.json('clients')], [11, 12, 13])
        self.assertIn('3 clients.', self.text('clients'))

    def test_roots(self):
        client = self.client(self.start())
        self.assertEqual(self.json('roots'), [])
        self.assertEqual(self.text('roots'), '0 roots.\n')
        client.do('alloc 64 1')
        client.do('root index')
        root, = self.json('roots')
        self.assert_members(root, {'name': str, 'handle': str, 'size': int, 'stale': bool})
        self.assertEqual((root['name'], root['size'], root['stale']), ('index', 64, False))
        self.assertRegex(root['handle'], r'\A0x[0-9a-f]{16}\Z')
        self.assertRegex(self.text('roots'), fr'\nindex +{root["handle"]} +64 +live\n')
        client.do('free')
        self.assertTrue(self.json('roots')[0]['stale'])
        self.assertRegex(self.text('roots'), r' +- +stale\n')

    def test_trim(self):
        self.start()
        trimmed = self.json('trim')
        self.assert_members(trimmed, {'reclaimed_bytes': int, 'surplus_bytes': int})
        self.assertRegex(self.text('trim'), r'\A\d+(\.\d)?[BKM] given back[^\n]*\.\n\Z')

    def test_check(self):
        client = self.client(self.start())
        client.do('alloc 64 100')
        checked = self.json('check')
        self.assert_members(checked, CHECK)
        self.assertEqual((checked['ok'], checked['lost_slots'], checked['problems']), (True, 0, []))
        self.assertRegex(self.text('check'), r'\AClean: looked at \d+ slabs, \d+ slots\.\n')

    def test_check_unclean(self):
        body = field(2, 1) + field(7, 'slab 7 slot 3 is lost') + field(8, 10) + field(9, 640)
        self.play([hello()], [reply(2, more=True, progress=field(3, 'looking')), reply(2, body_number=35, body=body)])
        checked = self.json('check', code=1)
        self.assertEqual((checked['ok'], checked['lost_slots'], checked['problems']),
                         (False, 1, ['slab 7 slot 3 is lost']))
        text = self.text('check', code=1)
        self.assertEqual(text, 'Not clean: looked at 10 slabs, 640 slots.\n  1 lost\n\nslab 7 slot 3 is lost\n')

    def test_check_repair(self):
        self.start()
        self.assertEqual(self.run_ctl('check', '--repair').returncode, 0)


class Output(Case):
    """Terminals, pagers and pipes."""

    def test_path_of_any_bytes(self):
        """A path neither steers the terminal, nor makes JSON of what is no UTF-8."""
        self.start()
        odd = f'{self.folder}/\033[2J\udcff\n'
        os.mkdir(odd)
        os.symlink('../default.sock', f'{odd}/default.sock')
        shown = f'{self.folder}/?[2J??/default.sock'
        option = ['--socket', f'{odd}/default.sock']
        for code, arguments, env in ((0, [*option, 'status'], {}), (0, ['list'], {'TSLAB_RUNTIME_DIR': odd}),
                                     (0, [*option, '--json', 'status'], {}),
                                     (0, ['--json', 'list'], {'TSLAB_RUNTIME_DIR': odd}),
                                     (1, [*option, 'epoch', 'close', '0'], {}),
                                     (0, [*option, '--json', 'epoch', 'close', '0', '--yes'], {}),
                                     (0, ['metrics', '--all'], {'TSLAB_RUNTIME_DIR': odd}),
                                     (1, ['--socket', f'{odd}/none.sock', 'monitor'], {})):
            with self.subTest(arguments):
                done = self.run_ctl(*arguments, env=env)
                self.assertEqual(done.returncode, code)
                self.assertNotIn('\033', done.stdout + done.stderr)
                if '--json' in arguments:
                    json.loads(done.stdout)
                if 'status' in arguments or code == 1 and 'epoch' in arguments:
                    self.assertIn(shown, done.stdout + done.stderr)

    def on_terminal(self, *arguments, rows=50, columns=80, stderr_too=False, **env):
        """The text that arrives at a terminal."""
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack('HHHH', rows, columns, 0, 0))
        with subprocess.Popen([TSLABCTL, *arguments], stdin=slave, stdout=slave,
                              stderr=slave if stderr_too else subprocess.PIPE,
                              env=environment(self.folder, **env)) as process:
            os.close(slave)
            out = b''
            try:
                while data := os.read(master, 65536):
                    out += data
            except OSError:
                pass                            # the other end was closed
            os.close(master)
        return out.decode().replace('\r\n', '\n')

    def test_colour(self):
        self.start()
        self.assertIn('\033[1mPOOL', self.on_terminal('list'))
        for env in ({'NO_COLOR': '1'}, {'TERM': 'dumb'}, {'TERM': ''}):
            self.assertNotIn('\033', self.on_terminal('list', **env))
        self.assertIn('\033', self.on_terminal('list', NO_COLOR=''))
        self.assertNotIn('\033', self.on_terminal('list', '--json'))

    def test_top_needs_a_screen(self):
        self.start()
        # ncurses keeps some memory of a terminal that it does not know
        options = os.environ.get('ASAN_OPTIONS', '') + ':detect_leaks=0'
        for term in ('dumb', 'nonsense', ''):
            text = self.on_terminal('top', '-n', '1', '-d', '0.1', stderr_too=True, TERM=term, ASAN_OPTIONS=options)
            self.assertRegex(text, fr"\A\r?tslabctl: the terminal '{term}' is not known, or can't do this; [^\n]*--once[^\n]*\n\Z")

    def test_narrow(self):
        """A narrow terminal gets the columns that fit, and a line that names the others; a pipe gets all."""
        daemon = self.start()
        self.client(daemon).do('alloc 64 300')
        self.text('epoch', 'label', '0', 'the sessions')
        for verb, titles, missing in (
                ('list', ['POOL', 'STATE', 'USED'], 'SOCKET'),
                ('epoch list', ['EPOCH', 'STATE', 'OBJECTS', 'LABEL'], 'OPENED'),
                ('clients', ['PID', 'COMMAND', 'CACHED'], 'SINCE')):
            text = self.on_terminal(*verb.split(), columns=40, NO_COLOR='1')
            lines = text.split('\nNo room for ')[0].splitlines()
            self.assertLessEqual(max(map(len, lines)), 40, text)
            self.assertEqual([title for title in titles if title in lines[0].split()], titles)
            self.assertNotIn(missing, lines[0])
            self.assertRegex(text, fr'\nNo room for [A-Z, ]*{missing}[A-Z, ]*\.\n')
            for text in (self.on_terminal(*verb.split(), columns=200, NO_COLOR='1'), self.text(*verb.split())):
                self.assertIn(missing, text.splitlines()[0])
                self.assertNotIn('No room', text)
            self.assertNotIn('No room', self.on_terminal(*verb.split(), '--no-legend', columns=40))
        self.assertIn('the sessions', self.on_terminal('epoch', 'list', columns=40))
        self.assertNotIn('for help', self.text('top', '--once', '-d', '0.1'))
        self.assertRegex(self.on_terminal('status', columns=40, NO_COLOR='1'), r'\n {12}\[[#+.]{26}\]\n')

    def test_columns(self):
        """The chosen columns in their order, on a terminal of any width; a wrong name is refused before any daemon is asked."""
        self.start()
        for verb, columns in (('list', 'socket,POOL'), ('epoch list', 'label,Opened,epoch'), ('clients', 'since,pid')):
            titles = columns.upper().split(',')
            self.assertEqual(self.text(*verb.split(), '-o', columns).splitlines()[0].split(), titles)
            text = self.on_terminal(*verb.split(), '--columns', columns, columns=12, NO_COLOR='1')
            self.assertEqual(text.splitlines()[0].split(), titles)
            self.assertNotIn('No room', text)
            self.refused(2, ["there is no column 'nonsense'", titles[0]], *verb.split(), '-o', 'nonsense',
                         '--socket' if verb != 'list' else '--json', *(['/nowhere'] if verb != 'list' else []))
        self.refused(2, "--columns does not go with 'stats'", 'stats', '--columns', 'pool')
        self.assertEqual(self.text('list', '-o', 'pool', '--no-legend'), 'default\n')

    def test_json_indented(self):
        self.start()
        text = self.on_terminal('--json', 'list')
        self.assertGreater(text.count('\n'), 5)
        self.assertEqual(json.loads(text)[0]['pool'], 'default')

    def test_pager(self):
        self.start()
        pager = {'PAGER': "sed 's/^/>/'", 'NO_COLOR': '1'}
        self.assertTrue(self.on_terminal('epoch', 'list', rows=10, **pager).startswith('>EPOCH'))
        # short, or not wanted, or no such program
        self.assertFalse(self.on_terminal('epoch', 'list', rows=50, **pager).startswith('>'))
        self.assertFalse(self.on_terminal('epoch', 'list', '--no-pager', rows=10, **pager).startswith('>'))
        self.assertTrue(self.on_terminal('epoch', 'list', rows=10, NO_COLOR='1', PAGER='').startswith('EPOCH'))
        self.assertIn('EPOCH', self.on_terminal('epoch', 'list', rows=10, NO_COLOR='1', PAGER='/nonexistent'))
        # one that ends early
        self.assertEqual(self.on_terminal('epoch', 'list', rows=10, stderr_too=True, PAGER='true'), '')

    def test_progress(self):
        batches = [hello()], [reply(2, more=True, progress=field(1, 1) + field(2, 4) + field(3, 'looking')),
                              reply(2, body_number=35, body=field(1, 1))]
        self.play(*batches)
        shown = self.on_terminal('check', stderr_too=True)
        self.assertIn('\033[Klooking 25%', shown)
        # it is gone before the answer comes
        self.assertLess(shown.rindex('\033[K'), shown.index('Clean'))
        self.assertNotIn('looking', self.on_terminal('check', stderr_too=True, TERM='dumb'))
        self.assertNotIn('looking', self.run_ctl('check').stderr)

    def test_closed_pipe(self):
        self.start()
        for restore, code in ((True, -signal.SIGPIPE), (False, 0)):
            reader, writer = os.pipe()
            os.close(reader)
            result = subprocess.run([TSLABCTL, 'list'], stdout=writer, stderr=subprocess.PIPE, check=False,
                                    restore_signals=restore, env=environment(self.folder))
            os.close(writer)
            self.assertEqual((result.returncode, result.stderr), (code, b''))

    def test_full_disk(self):
        with open('/dev/full', 'wb') as full:
            result = subprocess.run([TSLABCTL, 'list'], stdout=full, stderr=subprocess.PIPE, check=False, text=True,
                                    env=environment(self.folder))
        self.assertEqual(result.returncode, 1)
        self.assertIn('cannot write', result.stderr)


ctl_case.main()
