"""Maps in tslabctl: maps, maps set, and their counts in stats, metrics and top."""

import contextlib
import json
import os
import pty
import re
import select
import signal
import subprocess
import time

import ctl_case
from ctl_case import VERB_CLIENT, Case
from wire import Raw, field

N = 300
COST = 158 + 48  # bytes of memory of an entry: of its slot, and of its part of the index
COUNTS = ('entries', 'bytes', 'inserts', 'deletes', 'expirations', 'evictions', 'failures', 'hits', 'misses')


class Maps(Case):
    def fill(self, *arguments):
        self.client = super().client(self.start('default', *arguments), VERB_CLIENT)
        self.client.do(f'put 100 {N}')

    def one(self):
        found, = self.json('maps')
        return found

    def test_none(self):
        self.start()
        self.assertEqual(self.text('maps'), '0 maps.\n')
        self.assertEqual(self.json('maps'), [])
        self.assertNotIn('ENTRIES', self.text('stats'))
        self.refused(1, "there is no map 'values'", 'maps', 'values')
        self.refused(1, "there is no map 'values'", 'maps', 'set', 'values', '--ttl', '1')

    def test_counts(self):
        """By the verb, and the same by stats; the index has all of the maps' epoch but the object that names it."""
        self.fill()
        info = self.one()
        self.assertEqual((info['map'], info['entries'], info['inserts'], info['deletes']), ('values', N, N, 0))
        # 32 bytes of head, 8 of key and 100 of value are in the class of 144; 28 such slots take a slab of 4416 bytes
        self.assertEqual(info['bytes'], N * COST)
        epoch = next(e for e in self.json('epoch', 'list') if e['label'] == 'maps')
        self.assertEqual(info['index_bytes'], epoch['live_bytes'] - 64)
        self.client.do('delete 0 100')
        self.client.do('get 100 250')
        info = self.one()
        self.assertEqual((info['entries'], info['deletes'], info['bytes']), (N - 100, 100, (N - 100) * COST))
        self.assertEqual((info['hits'], info['misses']), (150, 100))
        stats, = self.json('stats')['maps']
        self.assertEqual({k: stats[k] for k in COUNTS}, {k: info[k] for k in COUNTS})
        self.assertNotIn('index_bytes', stats)

    def test_many_at_once(self):
        """One walk serves all that ask, also where some of them hang up; each gets the maps that it asked for."""
        daemon = self.start('default', '--size=64M')
        client = self.client(daemon, VERB_CLIENT)
        client.do('put 100 150000')
        client.do('evict 100 10')
        peers = [Raw(daemon.path, 1) for _ in range(100)]
        began = time.monotonic()
        peers[0].call(40, b'')
        alone = time.monotonic() - began
        began = time.monotonic()
        for i, peer in enumerate(peers):
            self.addCleanup(peer.socket.close)
            for wanted in (b'', b'values', b'evicting', b'other') * 2:
                peer.send(40, field(1, wanted))
            if i % 5 == 0:
                peer.socket.close()
        for i, peer in enumerate(peers):
            answers = [peer.receive() for _ in range(8 if i % 5 else 0)]
            has = sorted((b'\x06values' in a, b'\x08evicting' in a, b"no map 'other'" in a) for a in answers)
            self.assertEqual(has, [(False, False, True)] * 2 + [(False, True, False)] * 2 +
                             [(True, False, False)] * 2 + [(True, True, False)] * 2 if i % 5 else [])
        self.assertLess(time.monotonic() - began, 2 + 100 * alone)

    def test_beside_a_large_one(self):
        """The answer of a map does not wait for walks over the indexes of others."""
        daemon = self.start('default', '--size=64M')
        client = self.client(daemon, VERB_CLIENT)
        client.do('put 100 150000')
        client.do('evict 100 10')
        large, alls, small = peers = [Raw(daemon.path, 1) for _ in range(3)]
        for peer in peers:
            self.addCleanup(peer.socket.close)
        for _ in range(10):
            large.send(40, field(1, b'values'))
            alls.send(40, b'')
            self.assertIn(b'\x08evicting', small.call(40, field(1, b'evicting')))
            self.assertEqual(select.select([large.socket, alls.socket], [], [], 0)[0], [], 'they are not done yet')
            self.assertIn(b'\x06values', large.receive())
            self.assertIn(b'\x06values', alls.receive())

    def test_text(self):
        self.fill()
        text = self.text('maps')
        self.assertRegex(text, r'\AMAP +ENTRIES +BYTES +INDEX +LIMIT +HITS +MISSES ')
        self.assertRegex(text, rf'\nvalues +{N} +60\.3K +\d[\d.]*K +- +0 +0 +{N} ')
        self.assertTrue(text.endswith('\n\n1 map.\n'))
        self.assertEqual(self.text('maps', 'values', '-o', 'map,entries', '--no-legend').split(), ['values', str(N)])
        self.assertRegex(self.text('stats'), rf'\nMAP +ENTRIES +BYTES +LIMIT .*\nvalues +{N} +60\.3K ')

    def test_metrics(self):
        self.fill()
        text = self.text('metrics')
        self.assertIn(f'\ntslab_map_entries{{pool="default",map="values"}} {N}\n', text)
        self.assertIn(f'\ntslab_map_inserts_total{{pool="default",map="values"}} {N}\n', text)
        self.assertIn('# UNIT tslab_map_bytes bytes\n', text)

    def test_names_alike(self):
        """No two lines have the same labels: a scraper would refuse the whole page."""
        self.fill()
        self.assertEqual(self.client.do('mimic 0 2'), 'done')
        self.assertEqual(self.one()['map'], 'values')
        lines = [line.split()[0] for line in self.text('metrics').splitlines() if not line.startswith('#')]
        self.assertEqual(len(set(lines)), len(lines))

    def test_top(self):
        self.fill()
        line = self.json('top', '--once', '-d', '0.1')
        self.assertEqual(line['stats']['maps'][0]['entries'], N)

    def test_set(self):
        """Only the options that are given change; programs see them at once, and so does the daemon after a restart."""
        self.fill()
        self.assertEqual(self.text('maps', 'set', 'values', '--limit', '64M', '--evict', 'sieve'),
                         "Map 'values': at most 64.0M, then entries that were not read for long go.\n")
        info = self.json('maps', 'set', 'values', '--ttl', '90.5')
        self.assertEqual((info['limit_bytes'], info['evict'], info['ttl_msec']), (64 << 20, 'sieve', 90500))
        self.json('maps', 'set', 'values', '--stale', '7', '--value-max', '1K', '--evict', 'never')
        info = self.one()
        self.assertEqual((info['limit_bytes'], info['evict'], info['ttl_msec'], info['stale_msec'], info['value_max_bytes']),
                         (64 << 20, 'never', 90500, 7000, 1024))
        self.json('maps', 'set', 'values', '--limit', '0', '--ttl', '0')
        self.assertEqual((self.one()['limit_bytes'], self.one()['ttl_msec'], self.one()['stale_msec']), (0, 0, 7000))
        self.assertEqual(self.one()['entries'], N)

    def test_evictable(self):
        """It is memory of slabs, as the pool's size and the memory in use are."""
        self.fill()
        self.assertEqual(self.json('stats')['evictable_bytes'], 0)
        self.json('maps', 'set', 'values', '--evict', 'sieve')
        stats = self.json('stats')
        self.assertEqual(stats['evictable_bytes'], N * COST * 4096 // 4416)
        self.assertLess(stats['evictable_bytes'], stats['committed_bytes'])

    def test_set_without_limit(self):
        self.fill()
        self.assertEqual(self.text('maps', 'set', 'values', '--evict', 'never'),
                         "Map 'values': no limit; where the pool is full, puts fail.\n")
        self.assertEqual(self.text('maps', 'set', 'values', '--evict', 'sieve'),
                         "Map 'values': no limit; where the pool is full, entries that were not read for long go.\n")

    def test_set_small_limit(self):
        """A limit below one entry is refused; one below what the map has now is told, and with it what that means."""
        self.fill()
        before = self.one()
        self.refused(1, "a limit of 17 bytes has no room for an entry of map 'values': the smallest takes 117",
                     'maps', 'set', 'values', '--limit', '17', '--ttl', '5')
        self.assertEqual(self.one(), before)
        size = f'{before["bytes"] * 10 // 1024 / 10}K'
        self.assertEqual(self.text('maps', 'set', 'values', '--limit', '117'),
                         f"Map 'values': at most 117B, then puts fail; it has {size} in {N} entries now.\n")
        self.assertEqual(self.text('maps', 'set', 'values', '--limit', '0'),
                         "Map 'values': no limit; where the pool is full, puts fail.\n")

    def test_set_evict_beside(self):
        """A map that is changed to evict gives entries to another one at once, whose writers are killed."""
        daemon = self.start('default', '--size=4M')
        filled = self.client(daemon, VERB_CLIENT)
        self.assertEqual(filled.do('put 100 18000'), 'done')
        self.text('maps', 'set', 'values', '--evict', 'sieve')

        def write_and_die():
            writer = self.client(daemon, VERB_CLIENT)
            print('evict 100 100000000', file=writer.process.stdin, flush=True)
            time.sleep(0.3)
            writer.process.kill()
            writer.process.wait()

        def has_given():
            maps = {info['map']: info for info in self.json('maps')}
            n_bytes = [info['bytes'] for info in maps.values()]
            return (maps.keys() == {'values', 'evicting'} and min(info['evictions'] for info in maps.values()) > 2000 and
                    max(n_bytes) - min(n_bytes) < maps['values']['bytes'] / 4)

        for _ in range(5):
            write_and_die()
        ctl_case.wait_for(lambda: has_given() or write_and_die())       # however slow this machine is
        ctl_case.wait_for(lambda: self.json('status')['clients'] == 1)
        ctl_case.wait_for(lambda: all(len(self.text('keys', info['map']).splitlines()) == info['entries']
                                      for info in self.json('maps')))
        self.assertEqual([info['failures'] for info in self.json('maps')], [0, 0])

    def test_set_refused(self):
        for arguments, parts in (
                ('maps set', 'argument is missing'),
                ('maps set values', 'there is nothing to change'),
                ('maps set values --limit 1T', "'1T' is no size"),
                ('maps set values --limit -1', "'-1' is no size"),
                ('maps set values --ttl soon', "'soon' is no time"),
                ('maps set values --ttl 400000000', 'at most'),
                ('maps set values --evict lru', "'lru' is no way to evict"),
                ('maps set values --value-max 8G', "'8G' is no size"),
                ('maps set values --value-max 17M', '16M, the most'),       # no library puts a larger one
                (f'maps set {"x" * 44} --ttl 1', 'cannot be a map'),
                ('maps --ttl 1', "--limit, --evict, --ttl, --stale or --value-max does not go with 'maps'"),
                ('maps a b', "unexpected argument 'b'")):
            self.refused(2, parts, *arguments.split())

    def test_ttl_counts(self):
        """Programs that have the map open put entries with the lifetime that was set here."""
        self.fill()
        self.json('maps', 'set', 'values', '--ttl', '0.2')
        self.client.do('put 100 50')
        ctl_case.wait_for(lambda: self.one()['expirations'] == 50)
        self.assertEqual(self.one()['entries'], N - 50)

    def test_entries(self):
        """Keys and values by hand; a key is shown as it can be typed."""
        self.fill()
        self.text('delete', 'values', r'\x05\x00\x00\x00\x00\x00\x00\x00')
        self.assertEqual(self.one()['entries'], N - 1)
        self.text('put', 'values', 'alice', 'seven words')
        self.assertEqual(self.text('get', 'values', 'alice'), 'seven words')
        value = self.json('get', 'values', 'alice')
        self.assertEqual((value['key'], value['value'], value['size'], value['ttl_left_msec']),
                         ('alice', 'seven words', 11, None))
        keys = self.text('keys', 'values').splitlines()
        self.assertEqual(len(keys), N)
        self.assertIn('alice', keys)
        self.assertIn(r'\x07\x00\x00\x00\x00\x00\x00\x00', keys)
        self.assertEqual(set(self.json('keys', 'values')), set(keys))
        for key in (r'a\x20b\\c', 'ü'):
            self.text('put', 'values', key, 'x')
        self.assertLessEqual({r'a\x20b\\c', r'\xc3\xbc'}, set(self.text('keys', 'values').splitlines()))
        self.assertEqual(self.text('get', 'values', r'\xc3\xbc'), 'x')

    def test_keys_come_back(self):
        """Each key that is shown, as text or JSON, is the key that get and delete find; no two are shown alike."""
        self.fill()
        self.client.do(f'delete 0 {N}')
        written = ['\\\\x00', r'\x00', r'\\', '', r'\x22', '"', r'\x0a', r'\x5cn', '--', '--json', '-x', '\t', ' ', 'ü', r'\xff', "'"]
        for i, key in enumerate(written):
            self.text('put', 'values', '--', key, str(i))
        shown = self.json('keys', 'values')
        self.assertEqual(self.text('keys', 'values'), ''.join(f'{key}\n' for key in shown))
        self.assertEqual(len(set(shown)), len(written) - 1)     # a quote is written in two ways
        for key in shown:
            self.assertTrue(key.isascii() and ' ' not in key)
            i = int(self.text('get', 'values', '--', key))
            self.assertEqual(self.text('get', 'values', '--', written[i]), str(i))
            self.text('delete', 'values', '--', key)
        self.assertEqual(self.json('keys', 'values'), [])

    def test_some_keys(self):
        self.fill()
        self.client.do(f'delete 0 {N}')
        for key in 'user:1', 'user:2', 'user 3', 'page:1', 'USER:4', '*':
            self.text('put', 'values', key, 'x')

        def match(pattern):
            shown = self.json('keys', 'values', '--match', pattern)
            self.assertEqual(self.text('keys', 'values', '--match', pattern).splitlines(), shown)
            return set(shown)

        self.assertEqual(match('user:*'), {'user:1', 'user:2'})
        self.assertEqual(match('user*'), {'user:1', 'user:2', r'user\x203'})
        self.assertEqual(match(r'user\x20?'), {r'user\x203'})
        self.assertEqual(match('[*]'), {'*'})
        self.assertEqual(match('?????[!2]*'), {'user:1', 'page:1', 'USER:4', r'user\x203'})
        self.assertEqual(match('user'), set())
        self.assertEqual(len(self.json('keys', 'values', '-n', '4')), 4)
        self.assertEqual(len(self.text('keys', 'values', '--count=1', '--match=user:*').splitlines()), 1)
        self.assertEqual(len(self.json('keys', 'values', '-n', '100')), 6)
        self.refused(2, "'0' is no count", 'keys', 'values', '-n', '0')
        self.refused(2, "--delay or --once does not go with 'keys'", 'keys', 'values', '--once')

    def test_clear(self):
        self.fill()
        self.refused(2, 'give --yes where nobody can be asked', 'maps', 'clear', 'values')
        self.assertEqual(self.one()['entries'], N)
        self.assertEqual(self.text('maps', 'clear', 'values', '--yes'), f"Deleted {N} entries of map 'values'.\n")
        self.assertEqual(self.one()['entries'], 0)
        self.text('put', 'values', 'a', 'x')
        self.assertEqual(self.json('maps', 'clear', 'values', '--yes'), {'map': 'values', 'deleted': 1})
        self.refused(1, "no map 'none'", 'maps', 'clear', 'none', '--yes')

    def test_largest(self):
        self.fill()
        for i in range(1, 13):
            self.text('put', 'values', f'key {i}', 'x' * (1000 + i * 10), *(['--ttl', '3600'] if i == 12 else []))
        rows = self.json('maps', 'top', 'values', '-n', '3')
        self.assertEqual([(row['key'], row['size']) for row in rows],
                         [(r'key\x2012', 1120), (r'key\x2011', 1110), (r'key\x2010', 1100)])
        self.assertGreater(rows[0]['ttl_left_msec'], 0)
        self.assertIsNone(rows[1]['ttl_left_msec'])
        self.assertEqual(len(self.json('maps', 'top', 'values')), 10)
        self.assertEqual(len(self.json('maps', 'top', 'values', '-n', str(N + 100))), N + 12)
        lines = self.text('maps', 'top', 'values', '-n', '2').splitlines()
        self.assertEqual(lines[0].split(), ['SIZE', 'TTL', 'KEY'])
        self.assertEqual(lines[2].split()[-2:], ['-', r'key\x2011'])
        self.refused(1, "no map 'none'", 'maps', 'top', 'none')
        self.refused(2, 'shows 10000 entries at most', 'maps', 'top', 'values', '-n', '10001')

    def test_remove(self):
        """The daemon gives the memory back, and a client that has the map open finds that it is no more."""
        self.fill()
        self.refused(2, 'give --yes where nobody can be asked', 'maps', 'remove', 'values')
        before = self.json('stats')['live_bytes']
        self.assertEqual(self.text('maps', 'remove', 'values', '--yes'),
                         "Removed map 'values'. Its memory goes back in the next seconds.\n")
        self.assertNotIn('values', [m['map'] for m in self.json('maps')])
        ctl_case.wait_for(lambda: self.json('stats')['live_bytes'] < before - N * 32)
        self.refused(1, "no map 'values'", 'maps', 'remove', 'values', '--yes')
        self.client.do('put 100 3')
        self.assertEqual(self.one()['entries'], 3)
        self.assertEqual(self.json('maps', 'remove', 'values', '--yes'), {'map': 'values'})

    def test_a_reader_that_has_enough(self):
        """Keys come part by part, and their reader may hang up."""
        self.fill()
        self.client.do('put 10 5000')
        with subprocess.Popen([ctl_case.TSLABCTL, 'keys', 'values'], env=ctl_case.environment(self.folder),
                              stdout=subprocess.PIPE, text=True) as process:
            self.assertTrue(process.stdout.readline())
            process.stdout.close()
            self.assertIn(process.wait(), (0, -signal.SIGPIPE))

    def test_damaged(self):
        """A damaged value hides no other key, and is told."""
        self.fill()
        self.client.do('put 2100 20')
        self.client.do('damage 7 1')
        key = r'\x07' + r'\x00' * 7
        for options in [], ['--json']:
            done = self.run_ctl('keys', 'values', *options)
            self.assertEqual(done.returncode, 1)
            self.assertEqual(done.stderr, f"tslabctl: map 'values': a stray write has damaged the value of key '{key}'; "
                                          "a put replaces it\n")
            keys = json.loads(done.stdout) if options else done.stdout.splitlines()
            self.assertEqual(len(set(keys)), N)
            self.assertIn(key, keys)
        self.refused(1, f"damaged the value of key '{key}'", 'get', 'values', key)
        self.text('delete', 'values', key)
        self.assertEqual(len(self.json('keys', 'values')), N - 1)

    def test_value_from_stdin(self):
        self.fill()
        value = bytes(range(256)) * 300
        done = ctl_case.subprocess.run([ctl_case.TSLABCTL, 'put', 'values', 'large', '--ttl', '60'], input=value,
                                       env=ctl_case.environment(self.folder), check=False, timeout=ctl_case.DEADLINE)
        self.assertEqual(done.returncode, 0)
        done = ctl_case.subprocess.run([ctl_case.TSLABCTL, 'get', 'values', 'large'], env=ctl_case.environment(self.folder),
                                       stdout=ctl_case.subprocess.PIPE, check=False, timeout=ctl_case.DEADLINE)
        self.assertEqual((done.returncode, done.stdout), (0, value))
        got = self.json('get', 'values', 'large')
        self.assertEqual(bytes.fromhex(got['value_hex']), value)
        self.assertGreater(got['ttl_left_msec'], 30000)

    def put_from(self, file):
        return ctl_case.subprocess.run([ctl_case.TSLABCTL, 'put', 'values', 'alice'], stdin=file, text=True, check=False,
                                       env=ctl_case.environment(self.folder), stderr=ctl_case.subprocess.PIPE, timeout=ctl_case.DEADLINE)

    def test_no_value_from_stdin(self):
        """A value that cannot be read in full does not take the place of the old one."""
        self.fill()
        self.text('put', 'values', 'alice', 'seven words')
        folder = os.open(self.folder, os.O_RDONLY)
        self.addCleanup(os.close, folder)
        done = self.put_from(folder)
        self.assertEqual((done.returncode, done.stderr), (1, 'tslabctl: cannot read the value: Is a directory\n'))
        with open('/dev/zero', 'rb') as endless:
            done = self.put_from(endless)
        self.assertEqual((done.returncode, done.stderr), (1, "tslabctl: key and value are too large for map 'values'\n"))
        self.assertEqual(self.text('get', 'values', 'alice'), 'seven words')

    def test_value_on_terminal(self):
        """Nothing in a value steers the terminal of the one who looks at it."""
        self.fill()
        self.text('put', 'values', 'alice', 'one\ttwo\nthr\u00e9e \033]52;c;AA==\007 \u009b')
        main, terminal = pty.openpty()
        self.addCleanup(os.close, main)
        done = ctl_case.subprocess.run([ctl_case.TSLABCTL, '--no-pager', 'get', 'values', 'alice'], stdout=terminal, check=False,
                                       env=ctl_case.environment(self.folder), timeout=ctl_case.DEADLINE)
        self.assertEqual(done.returncode, 0)
        os.close(terminal)
        text = b''
        with contextlib.suppress(OSError):      # the other end was closed
            while data := os.read(main, 4096):
                text += data
        self.assertEqual(re.sub(r'\?+', '?', text.decode()),
                         'one\ttwo\r\nthr\u00e9e ?]52;c;AA==? ?\r\n')

    def test_entries_refused(self):
        self.fill()
        self.refused(1, "map 'values' has no key 'alice'", 'get', 'values', 'alice')
        self.refused(1, "map 'values' has no key 'alice'", 'delete', 'values', 'alice')
        for verb in (['get', 'm', 'k'], ['put', 'm', 'k', 'v'], ['delete', 'm', 'k'], ['keys', 'm']):
            self.refused(1, "there is no map 'm'", *verb)
            self.refused(1, "there is no map 'm?'", verb[0], 'm\n', *verb[2:])
            self.refused(1, 'no daemon', '--pool', 'web', *verb)
        self.refused(2, 'after a backslash', 'get', 'values', r'a\q')
        self.refused(2, "'put' takes --ttl alone", 'put', 'values', 'k', 'v', '--limit', '1')
        self.assertEqual(self.json('clients')[-1]['comm'], 'tslabctl')

    def test_revoked(self):
        """A map whose index is gone is no map any more."""
        self.fill()
        number = next(e['epoch'] for e in self.json('epoch', 'list') if e['label'] == 'maps')
        self.text('epoch', 'close', str(number), '--revoke', '--yes')
        self.assertEqual(self.json('maps'), [])
        self.assertEqual(self.json('stats')['maps'], [])


if __name__ == '__main__':
    ctl_case.main()
