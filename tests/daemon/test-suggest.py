"""tslabctl suggest, and the high-water marks that it is based on.

    test-suggest.py TSLABCTL TSLABD CTL-CLIENT SOURCE-FOLDER [unittest arguments]
"""

import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.abspath(sys.argv[4]), 'tests/util'))

from daemon import Daemon, wait_for
from verb import TSLABCTL, TSLABD, VerbTest, main

MIB = 1 << 20


CAN_TRACE = shutil.which('strace') and not subprocess.run(['strace', '-o', os.devnull, 'true'], check=False,
                                                          stderr=subprocess.DEVNULL).returncode
SMALL = '64,96,128,192,256,384,512,768'
WRITTEN = SMALL + ',1312'
ACL = 'system.posix_acl_access'


class SuggestCase(VerbTest):
    def refused(self, order):
        """A client whose request is refused. It ends then."""
        client = subprocess.run([os.environ['VERB_CLIENT'], self.daemon.socket], input=order + '\n',
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual(client.stderr, 'verb-client: -7\n')

    def peaks(self):
        return self.json('stats')['peaks']

    def settings(self):
        return {s['name']: s for s in self.json('suggest')['settings']}

    def look(self):
        """Waits until the daemon has looked at the present state: the look after the next one has begun since."""
        looks = self.peaks()['looks']
        wait_for(lambda: self.peaks()['looks'] >= looks + 2)


class Write(SuggestCase):
    """suggest --write, where one setting is to change: a program asked for 1300 bytes."""

    ARGUMENTS = ('--size=16M', f'--classes={SMALL}')
    OLD = ('# mine\n\nTSLAB_WRITERS=root\n  TSLAB_CLASSES = 64\nTSLAB_CLASSES="64,768"  \n; TSLAB_CLASSES=80\n'
           '#TSLAB_SIZE=1M\nTSLAB_READERS=@daemon,root')
    NEW = (f'# mine\n\nTSLAB_WRITERS=root\n  TSLAB_CLASSES = 64\nTSLAB_CLASSES={WRITTEN}\n; TSLAB_CLASSES=80\n'
           '#TSLAB_SIZE=1M\nTSLAB_READERS=@daemon,root\n')

    def setUp(self):
        super().setUp()
        self.dir = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.file = self.dir / 'web.conf'
        self.file.write_text(self.OLD)
        self.refused('session 1300 1')

    def files(self):
        return {p.name: p.read_text() for p in self.dir.iterdir()}

    def write_refused(self, path, why, code=1):
        before = os.listdir(self.dir)
        done = self.run_ctl('suggest', '--write', str(path))
        self.assertEqual((done.returncode, done.stdout), (code, ''))
        self.assertIn(why, done.stderr)
        self.assertEqual(sorted(os.listdir(self.dir)), sorted(before))
        self.assertEqual(self.file.read_text(), self.OLD)

    def test_merges(self):
        os.chmod(self.file, 0o640)
        if os.geteuid() == 0:
            os.chown(self.file, 12345, 54321)
        before = self.file.stat()
        self.assertEqual(self.text('suggest', '--write', str(self.file)),
                         f'{self.file}: TSLAB_CLASSES={WRITTEN} (was 64,768)\n'
                         f'The old file is {self.file}.~1~.\n'
                         "'systemctl reload tslabd@default' applies TSLAB_RETAIN. Other settings need a new pool: see "
                         'tslab.conf(5).\n')
        self.assertEqual(self.files(), {'web.conf': self.NEW, 'web.conf.~1~': self.OLD})
        after, backup = self.file.stat(), (self.dir / 'web.conf.~1~').stat()
        self.assertEqual((after.st_mode, after.st_uid, after.st_gid), (before.st_mode, before.st_uid, before.st_gid))
        self.assertEqual(backup.st_ino, before.st_ino)

        self.assertIn('stays as it is', self.text('suggest', '--write', str(self.file)))
        self.assertEqual(self.json('suggest', '--write', str(self.file))['changes'], [])
        self.assertEqual(len(self.files()), 2)
        self.refused('session 2000 1')
        self.assertEqual(self.json('suggest', '--write', str(self.file))['backup'], f'{self.file}.~2~')
        self.assertEqual(self.files()['web.conf.~2~'], self.NEW)

    def test_access_list(self):
        """Users of the file's access control list, and no others, can read the new file, too."""
        # a version; then tags, rights and ids: of owner, user 12345, group, mask, others
        acl = struct.pack('<I' + 'HHI' * 5, 2, 1, 6, 2**32 - 1, 2, 4, 12345, 4, 0, 2**32 - 1, 16, 4, 2**32 - 1,
                          32, 0, 2**32 - 1)
        try:
            os.setxattr(self.file, ACL, acl)
        except OSError:
            self.skipTest('a file system without access control lists')
        self.text('suggest', '--write', str(self.file))
        self.assertEqual((self.file.read_text(), os.getxattr(self.file, ACL)), (self.NEW, acl))
        os.removexattr(self.file, ACL)
        os.setxattr(self.dir, 'system.posix_acl_default', acl)
        self.refused('session 2000 1')
        self.text('suggest', '--write', str(self.file))
        self.assertNotIn(ACL, os.listxattr(self.file))

    def test_makes(self):
        new = self.dir / 'new.conf'
        self.assertIn('(a new line)', self.text('suggest', '--write', str(new)))
        self.assertEqual(new.read_text(), f'TSLAB_CLASSES={WRITTEN}\n')
        self.assertEqual(new.stat().st_mode & 0o777, 0o644)
        subprocess.run([TSLABD, '--check-config', f'--config={new}'], check=True)
        self.assertEqual(sorted(self.files()), ['new.conf', 'web.conf'])

    def test_refuses(self):
        (self.dir / 'link').symlink_to(self.file)
        os.mkfifo(self.dir / 'fifo')
        (self.dir / 'binary').write_bytes(b'TSLAB_SIZE=1M\n\0')
        self.write_refused(self.dir / 'link', 'is a symbolic link')
        self.write_refused(self.dir / 'fifo', 'is not a regular file')
        self.write_refused(self.dir / 'binary', 'is no file of settings')
        self.write_refused(self.dir / 'nowhere/web.conf', 'No such file')
        self.write_refused(f'{self.dir}/', 'needs the name of a file', 2)
        self.dir.chmod(0o777)
        self.write_refused(self.file, 'a directory that other users can change')
        self.dir.chmod(0o1777)
        self.text('suggest', '--write', str(self.file))

    @unittest.skipUnless(os.geteuid() == 0, 'not root')
    def test_refuses_directory_of_another(self):
        os.chown(self.dir, 12345, 12345)
        self.write_refused(self.file, 'a directory that other users can change')
        os.chown(self.dir, 0, 12345)
        self.dir.chmod(0o770)
        self.write_refused(self.file, 'a directory that other users can change')
        os.chown(self.dir, 0, 0)
        self.text('suggest', '--write', str(self.file))

    def traced(self, inject):
        return ['strace', '-E', 'ASAN_OPTIONS=detect_leaks=0', '-o', os.devnull, '-e', 'trace=openat,write,fsync,renameat2', '-e', f'inject={inject}',
                TSLABCTL, 'suggest', '--write', str(self.file)]

    @unittest.skipUnless(CAN_TRACE, 'no strace')
    def test_changed_meanwhile(self):
        self.assertTrue(any(self.change_in_time(seconds) for seconds in (2, 20)))

    def change_in_time(self, seconds):
        """Within so many of them, for which the writer is held before its last step."""
        with subprocess.Popen(self.traced(f'renameat2:delay_enter={seconds}000000:when=1'), env=self.daemon.environment,
                              stderr=subprocess.PIPE, text=True) as writer:
            new = self.dir / 'web.conf.new0'
            wait_for(lambda: new.exists() or writer.poll() is not None)
            self.file.write_text('TSLAB_SIZE=2M\n')
            in_time = new.exists()
            error = writer.stderr.read()
        if in_time:
            self.assertIn('was changed meanwhile', error)
            self.assertEqual((writer.returncode, self.files()), (1, {'web.conf': 'TSLAB_SIZE=2M\n'}))
        else:
            (self.dir / 'web.conf.~1~').unlink(missing_ok=True)
            self.file.write_text(self.OLD)
        return in_time

    @unittest.skipUnless(CAN_TRACE, 'no strace')
    def test_killed_anywhere(self):
        """At any of these calls there is one whole file, and the old one is not lost."""
        for call in 'write', 'fsync', 'renameat2':
            for n in 1, 2, 3:
                with self.subTest(call=call, n=n):
                    for path in self.dir.iterdir():
                        path.unlink()
                    self.file.write_text(self.OLD)
                    subprocess.run(self.traced(f'{call}:signal=KILL:when={n}'), env=self.daemon.environment, check=False,
                                   stdout=subprocess.DEVNULL)
                    self.assertIn(self.file.read_text(), (self.OLD, self.NEW))
                    self.assertIn(self.OLD, self.files().values())

    @unittest.skipUnless(CAN_TRACE, 'no strace')
    def test_no_room(self):
        for call, number in ('write', 'ENOSPC'), ('fsync', 'EIO'), ('renameat2', 'EIO'):
            with self.subTest(call=call):
                done = subprocess.run(self.traced(f'{call}:error={number}:when=1'), env=self.daemon.environment,
                                      check=False, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                self.assertEqual((done.returncode, done.stdout), (1, ''), done.stderr)
                self.assertEqual(self.files(), {'web.conf': self.OLD})

    @unittest.skipUnless(CAN_TRACE, 'no strace')
    def test_no_room_for_a_while(self):
        """The first part of a long file finds no room, and the rest does."""
        text = self.OLD + '# a remark\n' * 2000
        self.file.write_text(text)
        done = subprocess.run(self.traced('write:error=ENOSPC:when=1'), env=self.daemon.environment, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertEqual((done.returncode, done.stdout), (1, ''))
        self.assertIn('No space left', done.stderr)
        self.assertTrue(self.files() == {'web.conf': text}, 'the file is as it was')


class Limits(SuggestCase):
    """Limits of maps."""

    ARGUMENTS = ('--size=16M', '--retain=1M')

    def limit(self):
        found, = self.json('suggest')['map_limits']
        self.assertEqual(found['map'], 'values')
        remark = f"# Map 'values': {found['why']}.\n# Its limit is "
        self.assertIn(remark, self.text('suggest'))
        self.assertEqual('maps set MAP --limit=' in self.text('suggest'), found['changed'])
        return found

    def test_none(self):
        self.client().do('put 100 10')
        self.assertEqual(self.json('suggest')['map_limits'], [])
        self.assertNotIn('Map ', self.text('suggest'))

    def test_evicts(self):
        client = self.client()
        client.do('put 100 10')
        self.text('maps', 'set', 'values', '--limit=64K', '--evict=sieve')
        self.assertEqual(self.limit()['why'], '0 entries were evicted, and there were no gets')
        client.do('put 100 300')
        client.do('get 100 300')
        self.look()
        self.assertEqual((self.limit()['changed'], self.limit()['why']),
                         (False, '0 entries were evicted, and 0.0 % of its gets missed'))
        client.do('put 100 3000')
        client.do('get 100 3000')
        found = self.limit()
        self.assertEqual((found['current_bytes'], found['value_bytes'], found['changed']), (65536, 131072, True))
        self.assertRegex(found['why'], r'^2,?\d{3} entries were evicted, and 8\d\.\d % of its gets missed$')
        # There is room for twice as much, of which the map has half already.
        self.text('maps', 'set', 'values', '--limit=6M')
        client.do('put 1000 20000')
        client.do('get 1000 20000')
        self.look()
        found = self.limit()
        self.assertEqual((found['value_bytes'], found['changed']), (12 * MIB, True), found)
        # There is just room: a limit counts with the tables of slabs, which are no part of the pool's size.
        stats = self.json('stats')
        room = stats['size_bytes'] - stats['peaks']['used_bytes']
        used, = (m['bytes'] for m in self.json('maps'))
        limit = (room * 104 // 100 * 8 // 9 + used) // 2
        self.text('maps', 'set', 'values', f'--limit={limit}')
        self.assertEqual((self.limit()['value_bytes'], used < limit < room), (2 * limit, True))
        # The pool has no room for twice as much.
        self.text('maps', 'set', 'values', '--limit=15M')
        found = self.limit()
        self.assertEqual((found['value_bytes'], found['changed']), (15 * MIB, False))
        self.assertIn('; the pool has no room for twice as much', found['why'])

    def test_fails(self):
        self.client().do('put 100 10')
        self.text('maps', 'set', 'values', '--limit=64K')
        self.assertFalse(self.limit()['changed'])
        client = subprocess.run([os.environ['VERB_CLIENT'], self.daemon.socket], input='put 100 3000\n', check=False,
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.assertEqual(client.stderr, 'verb-client: -28\n')
        found = self.limit()
        self.assertEqual((found['value_bytes'], found['changed'], found['why']), (131072, True, '1 change failed'))


class TooLarge(SuggestCase):
    """Sizes that no class takes."""

    ARGUMENTS = ('--size=16M', f'--classes={SMALL}')

    def test_too_large(self):
        """Sizes that no class takes: all verbs tell of them, and a pool with the classes proposed takes them."""
        for order in ('session 1300 1', 'report 900 1', 'put 2000000 1', 'session 1301 1'):
            self.refused(order)
        self.look()
        counters = self.json('stats')['counters']
        self.assertEqual((counters['too_large'], counters['too_large_bytes']), (3, 1301))
        self.assertEqual(counters['values_too_large'], 1)
        self.assertGreater(counters['values_too_large_bytes'], 2000000)
        self.assertEqual(counters['failures'], 0)
        hints = '\n'.join(self.json('status')['hints'])
        self.assertRegex(hints, '3 objects were refused, since the largest size class has 768 bytes; the largest of them '
                                "took 1301 bytes; 'tslabctl .* suggest' says")
        self.assertIn('1 value of a map was refused', hints)
        metrics = self.text('metrics')
        self.assertIn('tslab_too_large_total{pool="default"} 3\n', metrics)
        self.assertIn('tslab_values_too_large_total{pool="default"} 1\n', metrics)
        self.assertIn('0 too large/s', self.text('top', '--once'))

        classes = self.settings()['TSLAB_CLASSES']
        self.assertEqual((classes['value'], classes['changed']), (WRITTEN, True))
        self.assertIn('of up to 1301 bytes were refused', classes['why'])
        with Daemon(TSLABD, '--size=16M', '--classes=' + classes['value']) as self.daemon:
            self.client().do('session 1301 1')

    def test_too_large_for_any(self):
        self.refused('session 5000 1')
        self.look()
        self.assertIn('no class can have so many: split them', '\n'.join(self.json('status')['hints']))
        self.assertFalse(self.settings()['TSLAB_CLASSES']['changed'])

    def test_too_large_for_any_map(self):
        self.refused('put 2000000 1')
        self.look()
        self.assertIn("maps set MAP --value-max=BYTES' or '--limit=BYTES' takes them", '\n'.join(self.json('status')['hints']))
        self.refused('put 17000000 1')
        self.look()
        hints = '\n'.join(self.json('status')['hints'])
        self.assertIn('no map takes so many: split them', hints)
        self.assertNotIn('--value-max', hints)


class Suggest(SuggestCase):
    ARGUMENTS = ('--size=128M', '--retain=64M')

    def test_peaks(self):
        client = self.client(TSLAB_CACHE='off')
        client.do('session 250 16000')
        self.look()
        client.do('free')
        self.look()
        peaks, stats = self.peaks(), self.json('stats')
        self.assertEqual(stats['live_objects'], 0)
        used = next(c for c in peaks['classes'] if c['size'] == 256)
        self.assertEqual((used['objects'], used['slabs']), (16000, 1000))
        self.assertEqual(peaks['used_bytes'], 1000 * 4096)
        self.assertGreaterEqual(peaks['committed_bytes'], peaks['used_bytes'])
        self.assertEqual((peaks['clients'], peaks['threads']), (1, 2))  # with the process's spare record
        self.assertEqual(peaks['swing_bytes'], 0)
        client.do('session 250 8000')
        self.look()
        self.assertEqual(self.peaks()['swing_bytes'], 500 * 4096)

    def test_settings(self):
        client = self.client(TSLAB_CACHE='on')
        client.do('session 200 60000')
        self.look()                             # an earlier one may have seen a part of them
        wait_for(lambda: self.settings()['TSLAB_CLASSES']['changed'])
        settings = self.settings()
        classes = [int(n) for n in settings['TSLAB_CLASSES']['value'].split(',')]
        # 200 bytes go into 208; the largest class stays, for sizes that were not seen
        self.assertEqual(classes, [208, 4096])
        before, after = 60000 / (4096 // 224), 60000 / (4096 // 208)
        self.assertAlmostEqual(settings['TSLAB_CLASSES']['saved_bytes'], (before - after) * 4096, delta=MIB / 4)

        # 3334 slabs, 13.0M, and a quarter: 16.3M
        self.assertEqual(settings['TSLAB_SIZE']['value'], '20M')
        self.assertEqual(settings['TSLAB_SIZE']['current'], '128M')
        self.assertEqual(settings['TSLAB_SIZE']['unreserved_bytes'], 108 * MIB)
        self.assertEqual((settings['TSLAB_RETAIN']['value'], settings['TSLAB_RETAIN']['current']), ('1M', '64M'))
        self.assertEqual((settings['TSLAB_THREADS']['value'], settings['TSLAB_THREADS']['current']), ('16', '1024'))

    def test_text(self):
        """Its text is a file of settings that the daemon takes."""
        client = self.client(TSLAB_CACHE='on')
        client.do('session 200 60000')
        self.look()                             # an earlier one may have seen a part of them
        wait_for(lambda: self.settings()['TSLAB_CLASSES']['changed'])
        text = self.text('suggest')
        self.assertIn('\nTSLAB_CLASSES=208,4096\n', text)
        self.assertRegex(text, r'\n# It is 64,80,[0-9,]*4096; this would have saved 70\d\.\dK\.\n')
        self.assertRegex(text, r'\n# At most 1\d\.\dM were in use at once\.\n'
                               r'# It is 128M; this would have saved 108\.0M of address space\.\n')
        self.assertNotIn(' 0B', text)
        self.assertIn('\n# No freed memory came into use again.\n', text)
        with tempfile.NamedTemporaryFile('w', suffix='.conf') as file:
            file.write(text)
            file.flush()
            with Daemon(TSLABD, f'--config={file.name}') as daemon:
                stats = daemon.ctl(sys.argv[1], 'stats')
        self.assertEqual(stats['size_bytes'], 20 * MIB)
        self.assertEqual([c['size'] for c in stats['classes']], [208, 4096])
        self.assertEqual((stats['retain_bytes'], stats['n_records']), (MIB, 17))

    def test_nothing_seen(self):
        self.look()
        settings = self.settings()
        self.assertFalse(settings['TSLAB_CLASSES']['changed'])
        self.assertEqual(settings['TSLAB_CLASSES']['value'], '64,80,96,112,128,144,160,192,224,256,304,336,368,400,448,512,576,672,816,1024,1360,2048,4096')
        # no advice that would make the next pool too small for its work
        self.assertEqual({s['changed'] for s in settings.values()}, {False})
        self.assertEqual(settings['TSLAB_SIZE']['value'], '128M')
        self.assertIn('\n# Nothing was in use so far: let a load run first.\n# As it is.\nTSLAB_SIZE=128M\n',
                      self.text('suggest'))

    def test_early(self):
        """Before the first look: what can be said, and why it is no more."""
        for _ in range(10):
            with Daemon(TSLABD, '--size=32M', f'--classes={SMALL}') as self.daemon:
                self.refused('session 1300 1')
                text, looks = self.text('suggest'), self.json('suggest')['looks']
            if looks == 0:
                break
        if looks > 0:
            self.skipTest('this machine needs more than a second for it')     # a played daemon tells the same: test-older.py
        self.assertIn('looks at it about once a second, and has\n# not looked so far.', text)
        self.assertRegex(text, r'# The daemon started [0-9.]+(ms|s) ago, and has samples of sizes only since then')
        self.assertIn('\n# The daemon has not looked at the pool so far: let a load run first.\n# As it is.\n'
                      'TSLAB_SIZE=32M\n', text)
        self.assertIn(f'TSLAB_CLASSES={WRITTEN}\n', text)

    def test_full(self):
        """Where memory was short, less of it is no advice."""
        with Daemon(TSLABD, '--size=1M') as self.daemon:
            with tempfile.TemporaryFile() as err:
                client = subprocess.run([os.environ['VERB_CLIENT'], self.daemon.socket], input='session 768 3000\n',
                                        stdout=subprocess.DEVNULL, stderr=err, text=True, check=False)
            self.assertEqual(client.returncode, 1)
            self.look()
            size = self.settings()['TSLAB_SIZE']
            self.assertIn('failed', size['why'])
            self.assertGreaterEqual(int(size['value'].rstrip('M')), 1)


if __name__ == '__main__':
    main()
