"""tslabctl leaks: held objects, where sampled ones were allocated, also by dead clients; and clients whose samples lie.

    test-leaks.py TSLABCTL TSLABD CTL-CLIENT SOURCE-FOLDER [unittest arguments]
"""

import ctypes
import gzip
import os
import resource
import shutil
import socket
import struct
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.abspath(sys.argv[4]), 'tests/util'))

from daemon import wait_for
from verb import SOURCE, VERB_CLIENT, Client, VerbTest, main
import wire
from wire import field

N_MODULES, MODULE_SIZE, N_ENTRIES, ENTRY_SIZE = 64, 256, 4096, 224
HEAD_SIZE = 64
FILE_SIZE = HEAD_SIZE + N_MODULES * MODULE_SIZE + N_ENTRIES * ENTRY_SIZE
MAGIC = 0x316d617362616c73


class Opens:
    """Counts open() calls on a file, by inotify."""

    OPEN = 0x20
    libc = ctypes.CDLL(None, use_errno=True)

    def __init__(self, path):
        self.fd = self.libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self.libc.inotify_add_watch(self.fd, path.encode(), self.OPEN) < 0:
            raise OSError(ctypes.get_errno(), path)

    def close(self):
        """How many there were."""
        with open(self.fd, 'rb', buffering=0) as events:
            return len(events.read(65536) or b'') // 16


class Raw(wire.Raw):
    def attach(self):
        self.call(17, b'')
        return self

    def offer(self, fd, every=1):
        """Whether the daemon took it."""
        return b'could not keep' not in self.call(39, field(1, every), [fd])


def memfd(data=b'', size=FILE_SIZE):
    fd = os.memfd_create('samples')
    os.write(fd, data)
    os.ftruncate(fd, size)
    return fd


class Leaks(VerbTest):
    def raw(self):
        raw = Raw(self.daemon.socket)
        self.addCleanup(raw.socket.close)
        return raw

    def leaks(self):
        return self.json('leaks')

    def stacks(self):
        """Objects by the innermost named function."""
        return {s['frames'][0]['symbol']: s for s in self.leaks()['stacks']}

    def test_held(self):
        client = self.client()
        client.do('session 100 300')
        self.json('epoch', 'advance')
        client.do('session 700 50')
        held = self.leaks()['held']
        self.assertEqual([(h['id'], h['state'], h['size'], h['live_objects'], h['live_bytes']) for h in held],
                         [(0, 'closing', 112, 300, 33600), (1, 'open', 816, 50, 40800)])
        self.assertLess(held[0]['opened_usec'], held[1]['opened_usec'])
        text = self.text('leaks')
        self.assertRegex(text, r'\A\S*EPOCH +STATE +OPENED +CLASS +OBJECTS +BYTES\n0(:1)? +closing +\S.* 112 +300 +32\.8K\n')
        self.assertIn('No client samples', text)

    def test_stacks(self):
        client = self.client(TSLAB_SAMPLE='1')
        client.do('session 100 300')
        client.do('report 700 40')
        leaks = self.leaks()
        entry, = leaks['clients']
        self.assertEqual((entry['pid'], entry['every'], entry['gone'], entry['samples'], entry['live_samples']),
                         (client.process.pid, 1, False, 340, 340))
        stacks = self.stacks()
        self.assertEqual(set(stacks), {'open_session', 'write_report'})
        self.assertEqual([(stacks[n]['samples'], stacks[n]['objects'], stacks[n]['bytes'], stacks[n]['pids'])
                          for n in ('open_session', 'write_report')],
                         [(300, 300, 33600, [client.process.pid]), (40, 40, 32640, [client.process.pid])])
        frame = stacks['open_session']['frames'][0]
        self.assertEqual((os.path.basename(frame['module']), os.path.basename(frame['file'])),
                         ('verb-client', 'verb-client.c'))
        with open(f'{SOURCE}/tests/daemon/verb-client.c', encoding='ascii') as source:
            self.assertIn('tslab_alloc(', source.read().splitlines()[frame['line'] - 1])
        self.assertIn('main', [f['symbol'] for f in stacks['open_session']['frames']])
        self.assertLessEqual(stacks['open_session']['oldest_usec'], stacks['write_report']['newest_usec'])

        text = self.text('leaks')
        self.assertRegex(text, r'\nAbout 300 objects, 32\.8K, from 300 samples; the oldest [^;]*;'
                               fr' verb-client \({client.process.pid}\)\n +open_session\+0x[0-9a-f]+  \S*verb-client\.c:\d+\n')

        client.do('free')
        self.assertEqual(self.leaks()['stacks'], [])

    def test_every(self):
        client = self.client(TSLAB_SAMPLE='10')
        client.do('session 100 1000')
        self.assertEqual([(s['samples'], s['objects']) for s in self.leaks()['stacks']], [(100, 1000)])

    def test_map_values(self):
        """A value that is put is noted, until it is replaced or deleted; the map's own objects never are."""
        client = self.client(TSLAB_SAMPLE='1')
        for _ in range(2):
            client.do('put 100 300')
        entry, = self.leaks()['clients']
        self.assertEqual((entry['samples'], entry['live_samples']), (600, 300))
        stack, = self.leaks()['stacks']
        self.assertEqual((stack['frames'][0]['symbol'], stack['samples'], stack['objects']), ('put_value', 300, 300))
        # 32 bytes, the key's 8 and the value's 100 are of the class of 144
        self.assertEqual(stack['bytes'], 300 * 144)
        client.do('delete 0 299')
        self.assertEqual([s['samples'] for s in self.leaks()['stacks']], [1])

    def test_off(self):
        for value in ('0', '-1', 'x', '1x', '', '99999999999999999999'):
            client = self.client(TSLAB_SAMPLE=value)
            client.do('session 100 10')
        self.assertEqual(self.leaks()['clients'], [])

    def test_file_limit(self):
        """A client that may make no file so large goes on without samples."""
        usual = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, usual[1]))
        try:
            client = self.client(TSLAB_SAMPLE='1')
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, usual)
        client.do('session 100 10')
        self.assertEqual(self.leaks()['clients'], [])

    def test_dead(self):
        """The samples of a killed client stay, and tell its last work."""
        client = Client(self.daemon, TSLAB_SAMPLE='1')
        client.do('session 100 30')
        client.kill()
        wait_for(lambda: self.leaks()['clients'][0]['gone'])
        stack, = self.leaks()['stacks']
        self.assertEqual((stack['samples'], stack['frames'][0]['symbol']), (30, 'open_session'))
        self.assertRegex(self.text('leaks'), r'; verb-client \(\d+, gone\)\n')

    def test_thread_and_child(self):
        client = self.client(TSLAB_SAMPLE='1')
        client.do('thread 100 20')
        client.do('fork 100 5')
        client.do('session 100 3')
        leaks, stacks = self.leaks(), self.stacks()
        self.assertEqual(sorted((c['gone'], c['live_samples']) for c in leaks['clients']), [(False, 23), (True, 5)])
        self.assertEqual(stacks['write_report']['samples'], 5)
        self.assertNotIn(client.process.pid, stacks['write_report']['pids'])
        sessions = [s['samples'] for s in leaks['stacks'] if s['frames'][0]['symbol'] == 'open_session']
        self.assertEqual(sorted(sessions), [3, 20])

    def test_long_lived_stay(self):
        """More samples than there is room for: the samples of live objects are left."""
        client = self.client(TSLAB_SAMPLE='1')
        client.do('report 700 100')
        client.do('churn 64 20000')
        client.do('session 100 50')
        self.assertEqual({name: stack['samples'] for name, stack in self.stacks().items()},
                         {'write_report': 100, 'open_session': 50})
        entry, = self.leaks()['clients']
        self.assertEqual((entry['samples'], entry['lost_samples']), (20150, 0))

    def test_more_than_room(self):
        client = self.client(TSLAB_SAMPLE='1')
        client.do('session 64 6000')
        entry, = self.leaks()['clients']
        self.assertEqual((entry['samples'], entry['live_samples']), (6000, 6000 - entry['lost_samples']))
        self.assertGreater(entry['live_samples'], N_ENTRIES * 3 // 4)
        self.assertGreater(entry['lost_samples'], 0)

    def test_file_replaced(self):
        """A program whose file changed has no names, and one that is gone has none either."""
        program = f'{self.daemon.dir}/program'
        shutil.copy(VERB_CLIENT, program)
        with subprocess.Popen([program, self.daemon.socket], env={**os.environ, 'TSLAB_SAMPLE': '1'},
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            process.stdout.readline()
            print('session 100 1', file=process.stdin, flush=True)
            process.stdout.readline()
            frame = self.leaks()['stacks'][0]['frames'][0]
            self.assertEqual((frame['module'], frame['symbol']), (program, 'open_session'))
            # Compressed it has the same build id inside, and to look for it may take minutes and all memory.
            with open(program, 'rb') as file:
                content = gzip.compress(file.read())
            os.unlink(program)
            with open(program, 'wb') as file:
                file.write(content)
            frame = self.leaks()['stacks'][0]['frames'][0]
            self.assertEqual((frame['module'], frame['symbol']), (program, ''))
            os.unlink(program)
            shutil.copy(sys.argv[2], program)
            frame = self.leaks()['stacks'][0]['frames'][0]
            self.assertEqual((frame['module'], frame['symbol'], frame['file']), (program, '', ''))
            self.assertIn(f'\n      program+0x{frame["offset"]:x}\n', self.text('leaks'))
            os.unlink(program)
            os.mkfifo(program)
            self.assertEqual(self.leaks()['stacks'][0]['frames'][0]['symbol'], '')
            process.stdin.close()

    def test_not_samples(self):
        """A file that is no memfd of the one size is refused; the daemon does not trust the contents of a memfd."""
        raw = self.raw().attach()
        reader, writer = os.pipe()
        null = os.open('/dev/null', os.O_RDWR)
        small, large = memfd(size=FILE_SIZE - 1), memfd(size=1 << 40)
        refused = [reader, null, small, large]
        for fd in refused:
            self.assertFalse(raw.offer(fd))
        self.assertEqual(self.leaks()['clients'], [])
        for fd in (reader, writer, null, small, large):
            os.close(fd)

    def test_garbage(self):
        live = self.client(TSLAB_SAMPLE='1')
        live.do('session 100 1')
        head = struct.pack('<QQQII', MAGIC, 1 << 63, 7, 0, 0xffffffff) + bytes(32)
        module = struct.pack('<I', 0xffffffff) + b'\xff' * (MODULE_SIZE - 4)
        entry = struct.pack('<IIQQII', 2, 0xffffffff, 0xffffffffffffffff, 1 << 63, 1, 0xffffffff) + b'\xff' * 192
        garbage = (head + module * N_MODULES + entry * N_ENTRIES)[:FILE_SIZE]
        raws = []
        for data in (b'', b'\xff' * 65536, garbage):
            raw = self.raw().attach()
            self.assertTrue(raw.offer(memfd(data)))
            raws.append(raw)
        # one that is cut off after it was given
        fd = memfd(garbage)
        raws.append(self.raw().attach())
        self.assertTrue(raws[-1].offer(fd))
        os.ftruncate(fd, 10)
        leaks = self.leaks()
        self.assertEqual([c['unreadable'] for c in leaks['clients']], [False, True, True, False, True])
        self.assertEqual([s['frames'][0]['symbol'] for s in leaks['stacks']], ['open_session'])
        self.assertIn('cannot be read', self.text('leaks'))

    def test_hostile_frames(self):
        """A real handle, with frames, modules and text that lie."""
        victim = self.client(TSLAB_SAMPLE='1')
        victim.do('session 100 1')
        path = b'/etc/\x1b[31m\n../shadow\0'
        module = struct.pack('<I20s', 20, b'\1' * 20) + path + b'x' * (232 - len(path))
        for name in os.listdir(fds := f'/proc/{victim.process.pid}/fd'):
            if 'tslab-samples' in os.readlink(f'{fds}/{name}'):
                with open(f'{fds}/{name}', 'r+b', buffering=0) as file:
                    os.pwrite(file.fileno(), module * N_MODULES, HEAD_SIZE)
                    os.pwrite(file.fileno(), struct.pack('<I', 1000), 28)
                    data = file.read()
                    at = next(at for at in range(HEAD_SIZE + N_MODULES * MODULE_SIZE, FILE_SIZE, ENTRY_SIZE)
                              if data[at:at + 4] != bytes(4))
                    frames = struct.pack('<4Q', 1 << 48, 0xffff << 48, (64 << 48) + 5, (2 << 48) - 1)
                    os.pwrite(file.fileno(), struct.pack('<I', 1000), at + 28)
                    os.pwrite(file.fileno(), frames, at + 32)
        stack, = self.leaks()['stacks']
        self.assertEqual(len(stack['frames']), 24)
        self.assertEqual({f['symbol'] for f in stack['frames']}, {''})
        self.assertNotIn('\x1b', self.text('leaks', '--no-pager'))

    def name_modules(self, client, paths):
        """Writes paths to the client's samples, and a frame in each to the first."""
        fds = f'/proc/{client.process.pid}/fd'
        name, = (n for n in os.listdir(fds) if 'tslab-samples' in os.readlink(f'{fds}/{n}'))
        with open(f'{fds}/{name}', 'r+b', buffering=0) as file:
            data = file.read()
            at = next(at for at in range(HEAD_SIZE + N_MODULES * MODULE_SIZE, FILE_SIZE, ENTRY_SIZE)
                      if data[at:at + 4] != bytes(4))
            os.pwrite(file.fileno(), struct.pack('<I', len(paths)), 28)
            for i, path in enumerate(paths):
                module = struct.pack('<I20s232s', 0, b'', path.encode())
                os.pwrite(file.fileno(), module, HEAD_SIZE + i * MODULE_SIZE)
                os.pwrite(file.fileno(), struct.pack('<Q', (i + 1 << 48) + 4096), at + 32 + i * 8)
            os.pwrite(file.fileno(), struct.pack('<I', len(paths)), at + 28)

    def test_hostile_paths(self):
        """A client names files: one that is no regular file, or is of the kernel, is not even opened."""
        victim = self.client(TSLAB_SAMPLE='1')
        victim.do('session 100 1')
        fifo, link, regular = (f'{self.daemon.dir}/{name}' for name in ('fifo', 'link', 'regular'))
        os.mkfifo(fifo)
        os.symlink('/proc/version', link)
        with open(regular, 'w', encoding='ascii') as file:
            file.write('no program')
        paths = [fifo, link, '/proc/version', '/sys/kernel/uevent_seqnum', '/dev/null', regular]
        self.name_modules(victim, paths)
        opens = {path: Opens(path) for path in paths}
        stack, = self.leaks()['stacks']
        self.assertEqual([(f['module'], f['symbol']) for f in stack['frames']], [(path, '') for path in paths])
        opened = [path for path in paths if opens[path].close() > 0]
        self.assertEqual([path for path in opened if path != '/dev/null'], [regular])

    def test_bounded(self):
        """The samples of so many clients are kept: dead clients make room, live ones do not."""
        raws = [self.raw().attach() for _ in range(66)]
        fd = memfd()
        self.assertEqual([raw.offer(fd) for raw in raws], [True] * 64 + [False] * 2)
        self.assertEqual(raws[0].offer(fd), True)       # again: in place of its first
        self.assertEqual(len(self.leaks()['clients']), 64)

    def test_roles(self):
        """The daemon takes no samples from a client that has not attached, and shows them to operators alone."""
        try:
            self.assertIn(b'has attached', self.raw().call(39, field(1, 1), [memfd()]))
        except PermissionError:     # since Linux 6.16
            pass
        reader = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        reader.connect(self.daemon.socket)
        with reader:
            reader.send(field(1, 1) + field(16, field(1, 1) + field(2, b'r') + field(4, 2)))
            reader.recv(65536)
            reader.send(field(1, 2) + field(39, b''))
            self.assertIn(b'only operators', reader.recv(65536))


if __name__ == '__main__':
    main()
