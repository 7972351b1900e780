"""dump and load: maps into a file and back, beside writers; files that are torn, damaged or old; who may read them."""

import functools
import json
import os
import signal
import stat
import struct
import subprocess
import threading
import time

import ctl_case
from ctl_case import VERB_CLIENT, Case, environment

HEAD = struct.Struct('<8sIIQQ')
RECORD = struct.Struct('<IIQQ')
MASK = 2 ** 64 - 1


def add_word(total, word):
    total ^= word
    total = (total << 29 | total >> 35) & MASK
    return (total * 0x9e3779b97f4a7c15 + 1) & MASK


def block_sum(block):
    """As tslabctl(1) says, section DUMPS."""
    sums = [len(block)] * 4
    block += bytes(32 - len(block) % 32)
    for words in struct.iter_unpack('<4Q', block):
        sums = [add_word(total, word) for total, word in zip(sums, words)]
    return functools.reduce(add_word, sums)


def make_block(records, number=0, version=2):
    head = HEAD.pack(b'tslabdmp', version, len(records), number, 0)
    return HEAD.pack(b'tslabdmp', version, len(records), number, block_sum(head + records)) + records


def record(kind, key=b'', value=b'', ttl=MASK):
    return RECORD.pack(kind, len(key), len(value), ttl) + key + value


def make_dump(*records, age_ms=0):
    begin = record(1, value=struct.pack('<Q', int(time.time() * 1000) - age_ms))
    return begin + b''.join(records) + record(5, value=struct.pack('<Q', 1 + len(records)))


MAP = record(2, b'values', struct.pack('<QQIIII', 0, 0, 0, 0, 0, 0))


class Dump(Case):
    def setUp(self):
        super().setUp()
        self.path = f'{self.folder}/dump'

    def fill(self, *arguments):
        self.client = super().client(self.start('default', *arguments), VERB_CLIENT)

    def put(self, key, value, *more, pool='default', name='values'):
        self.text('put', f'--pool={pool}', name, key, value, *more)

    def get(self, key, pool='default', name='values'):
        return self.json('get', f'--pool={pool}', name, key)

    def write(self, content):
        with open(self.path, 'wb') as file:
            file.write(content)

    def test_round_trip(self):
        """Into another pool, with other classes: values of all sizes, lifetimes, counters, and options."""
        self.fill('--size=128M')
        for size in 0, 100, 5000, 70_000, 1_000_000:
            self.client.do(f'put {size} 3')
            self.text('dump', f'{self.path}.{size}')
        self.client.do('count 1000 7')
        self.client.do('limit 2000 5')
        for size in 10, 1_000_000:              # an invalidation of the loaded ones would find no tag
            self.client.do(f'tagged {size} 1')
        self.put('long', 'x', '--ttl=1000')
        self.text('maps', 'set', 'values', '--limit=50M', '--ttl=77', '--stale=5', '--evict=sieve', '--value-max=2M')
        self.client.do('evict 50 10')
        told = self.json('dump', self.path)
        self.assertEqual(told, {'maps': 2, 'entries': 3 + 1 + 1 + 10, 'bytes': os.path.getsize(self.path),
                                'buckets_left_out': 1, 'tagged_left_out': 2, 'damaged': 0})
        self.assertEqual(stat.S_IMODE(os.stat(self.path).st_mode), 0o600)
        self.start('other', '--size=64M', '--classes=64,512,2048')
        self.assertEqual(self.json('load', '--pool=other', self.path),
                         {'maps': 2, 'entries': 15, 'present': 0, 'expired': 0, 'refused': 0})
        options = ('map', 'entries', 'limit_bytes', 'ttl_msec', 'stale_msec', 'value_max_bytes', 'evict')
        old, new = ({m['map']: {name: m[name] for name in options} for m in self.json('maps', f'--pool={pool}')}
                    for pool in ('default', 'other'))
        old['values']['entries'] -= 1 + 3       # the bucket; two entries with tags, and the tag
        self.assertEqual(old, new)
        self.assertEqual(sorted(self.text('keys', '--pool=other', 'evicting').split()),
                         sorted(self.text('keys', 'evicting').split()))
        for key in self.text('keys', '--pool=other', 'values').split():
            old, new = self.get(key), self.get(key, 'other')
            for one in old, new:
                left = one.pop('ttl_left_msec')
                self.assertEqual(left is not None, key == 'long')
                self.assertLessEqual(left or 0, 1_000_000)
                del one['epoch']
            self.assertEqual(old, new)
        self.assertEqual(self.get(r'\xe8\x03\x00\x00\x00\x00\x00\x00', 'other')['value'], 7)
        for size in 0, 100, 5000, 70_000, 1_000_000:
            self.start(f'p{size}', '--size=64M')
            self.text('load', f'--pool=p{size}', f'{self.path}.{size}')
            self.assertEqual(self.get(r'\x02\x00\x00\x00\x00\x00\x00\x00', f'p{size}')['size'], size)

    def test_some_maps(self):
        self.fill()
        for name in 'put', 'evict':
            self.client.do(f'{name} 50 10')
        self.text('dump', self.path)
        self.start('other')
        self.assertEqual(self.text('load', '--pool=other', self.path, 'evicting'), 'Loaded 10 entries of 1 map.\n')
        self.assertEqual([m['map'] for m in self.json('maps', '--pool=other')], ['evicting'])
        self.text('dump', self.path, 'values')
        self.refused(1, ["no map 'evicting'", 'nothing was loaded'], 'load', '--pool=other', self.path, 'evicting')
        self.refused(1, "no map 'none'", 'dump', self.path, 'none')
        self.assertEqual(self.json('load', '--pool=other', self.path)['entries'], 10)

    def test_limit_below_an_entry(self):
        """The map's limit was enough in its pool, or for an earlier build; here it has no room for an entry."""
        self.fill()
        with open(self.path, 'wb') as f:
            f.write(make_block(make_dump(record(2, b'small', struct.pack('<QQIIII', 64, 0, 0, 0, 0, 0)),
                                         record(3, b'k', b'v'))))
        self.refused(1, ["map 'small' has a limit of 64 bytes", 'make the map first'], 'load', self.path)
        self.assertNotIn('small', [m['map'] for m in self.json('maps')])

    def test_what_is_there_stays(self):
        self.fill()
        self.client.do('put 1 1')
        self.client.do('delete 0 1')
        self.put('a', 'old')
        self.put('b', 'old')
        self.text('dump', self.path)
        self.put('a', 'new')
        self.text('delete', 'values', 'b')
        self.text('maps', 'set', 'values', '--ttl=5')
        self.assertEqual(self.text('load', self.path), 'Loaded 1 entry of 1 map; 1 key had a value, which stays.\n')
        self.assertEqual((self.get('a')['value'], self.get('b')['value']), ('new', 'old'))
        self.assertEqual(self.json('maps')[0]['ttl_msec'], 5000)

    def test_lifetimes_go_on(self):
        self.start()
        self.write(make_block(make_dump(MAP, record(3, b'over', b'x', 9_000), record(3, b'left', b'x', 90_000),
                                        record(4, b'sum', struct.pack('<q', -5), 90_000), age_ms=10_000)))
        self.assertEqual(self.json('load', self.path), {'maps': 1, 'entries': 2, 'present': 0, 'expired': 1, 'refused': 0})
        for key in 'left', 'sum':
            self.assertLessEqual(self.get(key)['ttl_left_msec'], 80_000)
        self.assertEqual(self.get('sum')['value'], -5)
        self.refused(1, 'no key', 'get', 'values', 'over')

    def test_torn_or_damaged(self):
        """Wherever it is cut off or changed, the file is refused, and no entry comes into the pool."""
        self.fill()
        self.client.do('put 30000 50')
        self.text('dump', self.path)
        self.start('other')
        with open(self.path, 'rb') as file:
            whole = file.read()
        self.assertGreater(whole.count(b'tslabdmp'), 1)
        last = whole.rindex(b'tslabdmp')
        for end in 0, 5, 20, 31, 32, 1000, last - 1, last, last + 10, len(whole) - 1:
            self.write(whole[:end])
            self.refused(1, ['nothing was loaded', 'cut off' if end >= 8 else 'no dump'], 'load', '--pool=other', self.path)
        for at in 0, 9, 13, 17, 25, 33, 60, 5000, last, last + 20, len(whole) - 1:
            self.write(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1:])
            self.refused(1, 'nothing was loaded', 'load', '--pool=other', self.path)
        self.write(whole + b'x')
        self.refused(1, 'more behind its end', 'load', '--pool=other', self.path)
        self.write(whole[last:] + whole[:last])
        self.refused(1, 'damaged', 'load', '--pool=other', self.path)
        self.assertEqual(self.json('maps', '--pool=other'), [])

    def test_hostile(self):
        """Blocks whose sums are right, and whose records are not."""
        self.start()
        for version in 0, 1, 2 ** 32 - 1:
            self.write(make_block(make_dump(MAP), version=version))
            self.refused(1, 'another version', 'load', self.path)
        for records in (b'', make_dump(record(2, b'', bytes(32))), make_dump(record(2, b'x' * 44, bytes(32))),
                        make_dump(record(2, b'm', bytes(31))), make_dump(record(7)), make_dump(record(1)),
                        make_dump(MAP, record(4, b'k', b'1234567')), make_dump(MAP, record(3, b'k' * 4097, b'')),
                        make_dump(MAP, RECORD.pack(3, 2 ** 32 - 1, 2 ** 64 - 1, 0)),
                        make_dump(MAP, RECORD.pack(3, 1, 2 ** 64 - 30, 0)), make_dump(MAP)[:-3], MAP + make_dump()):
            self.write(make_block(records))
            self.refused(1, 'nothing was loaded', 'load', self.path)
        self.write(make_block(make_dump(record(3, b'k', b'v'))))         # a map is missing
        self.assertEqual(self.json('load', self.path)['entries'], 0)
        self.write(make_block(make_dump(record(2, b'bad\x01', bytes(32)))))
        self.refused(1, 'no map', 'load', self.path)
        for path in self.folder, '/dev/null', f'{self.folder}/none':
            self.refused(1, path, 'load', path)
        self.assertEqual(self.json('maps'), [])

    def test_no_room(self):
        """The others are loaded."""
        self.start('small', '--size=2M')
        self.fill('--size=64M')
        self.client.do('put 100000 100')
        self.text('dump', self.path)
        result = self.run_ctl('load', '--pool=small', self.path)
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stdout, r'\ALoaded \d+ entries of 1 map\.\n\Z')
        self.assertRegex(result.stderr, r'\Atslabctl: \d+ entries found no room: [^\n]*\n\Z')
        self.assertGreater(self.json('maps', '--pool=small')[0]['entries'], 0)

    def test_no_disk(self):
        """The file that was there stays, and nothing else does."""
        self.fill()
        self.write(b'before')
        self.refused(1, 'cannot write', 'dump', f'{self.folder}/none/dump')
        self.client.do('put 5000 500')
        limited = subprocess.run(['prlimit', '--fsize=100000', ctl_case.TSLABCTL, 'dump', self.path], capture_output=True,
                                 text=True, check=False, env=environment(self.folder),
                                 preexec_fn=lambda: signal.signal(signal.SIGXFSZ, signal.SIG_IGN))
        self.assertEqual((limited.returncode, limited.stderr),
                         (1, f"tslabctl: cannot write '{self.path}': File too large\n"))
        self.assertEqual([name for name in os.listdir(self.folder) if 'dump' in name], ['dump'])
        with open(self.path, 'rb') as file:
            self.assertEqual(file.read(), b'before')

    def test_beside_writers(self):
        """Keys that stay are in every dump, each once, while others come and go."""
        self.fill('--size=64M')
        self.client.do('put 200 3000')
        stop = threading.Event()

        def churn():
            while not stop.is_set():
                self.client.do('put 150 3000')
                self.client.do('evict 300 3000')

        thread = threading.Thread(target=churn)
        thread.start()
        try:
            for i in range(5):
                self.text('dump', self.path)
                self.start(f'p{i}', '--size=64M')
                told = self.json('load', f'--pool=p{i}', self.path)
                self.assertEqual((told['present'], told['refused']), (0, 0))
                entries = {m['map']: m['entries'] for m in self.json('maps', f'--pool=p{i}')}
                self.assertEqual(entries['values'], 3000)
        finally:
            stop.set()
            thread.join()

    def test_damaged_entries(self):
        self.fill()
        self.client.do('put 3000 3')
        self.client.do('damage 1 1')
        told = self.run_ctl('--json', 'dump', self.path)
        self.assertEqual((told.returncode, told.stderr), (1, ''))
        self.assertEqual({k: v for k, v in json.loads(told.stdout).items() if k != 'bytes'},
                         {'maps': 1, 'entries': 2, 'buckets_left_out': 0, 'tagged_left_out': 0, 'damaged': 1})


if __name__ == '__main__':
    ctl_case.main()
