"""The Python package, on private pools and on a real tslabd.

    test-package.py TSLABD TSLABCTL [unittest arguments]
"""

import array
import errno
import gc
import math
import mmap
import os
import signal
import subprocess
import sys
import threading
import unittest
import unittest.mock

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'util'))
import daemon  # noqa: E402

import tslab  # noqa: E402

TSLABD, TSLABCTL = map(os.path.abspath, sys.argv[1:3])
STOPS_MAX = 1000    # some of them are in the middle of control work


def fork(function):
    """Runs it in a child, which must end well."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            function()
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


class Objects(unittest.TestCase):
    def setUp(self):
        self.pool = tslab.create(size=16 << 20, epochs=8)
        self.addCleanup(self.pool.close)

    def test_alloc_and_get_share_memory(self):
        handle, view = self.pool.alloc(100)
        view[:] = bytes(range(100))
        other = self.pool.get(handle)
        self.assertEqual(bytes(other[:100]), bytes(range(100)))
        other[0] = 77
        self.assertEqual(view[0], 77)
        self.assertEqual(len(other), 112)
        self.assertEqual(self.pool.read(handle), bytes(other))

    def test_views_are_in_the_arena_of_children_too(self):
        handle, view = self.pool.alloc(64)

        def child():
            self.pool.get(handle)[:3] = b'abc'

        fork(child)
        self.assertEqual(bytes(view[:3]), b'abc')

    def test_stale(self):
        handle, _ = self.pool.alloc(64)
        self.pool.free(handle)
        for call in self.pool.free, self.pool.get, self.pool.read:
            with self.assertRaises(tslab.StaleError) as caught:
                call(handle)
            self.assertEqual(caught.exception.errno, errno.ESTALE)
        for garbage in 0, 1, 2 ** 64 - 1:
            self.assertRaises(tslab.StaleError, self.pool.free, garbage)
        self.assertRaises(OverflowError, self.pool.free, -1)

    def test_texts(self):
        """The C library's would tell of disks and objects that are remote."""
        for number in (errno.EPERM, errno.EACCES, errno.EUSERS, errno.EDQUOT, errno.EREMOTE, errno.EIDRM,
                       errno.EPROTONOSUPPORT):
            self.assertNotIn(os.strerror(number), str(tslab.errors.error(number)))

    def test_sizes(self):
        self.assertRaises(tslab.TooLargeError, self.pool.alloc, 4097)
        with self.assertRaises(tslab.Error) as caught:
            self.pool.alloc(0)
        self.assertEqual(caught.exception.errno, errno.EINVAL)

    def test_full(self):
        with tslab.create(size=mmap.PAGESIZE * 16) as small:
            handles = []
            with self.assertRaises(tslab.FullError):
                while True:
                    handles.append(small.put(b'x'))
            self.assertEqual(len(handles), 16 * 64)
            self.assertEqual(small.free_batch(handles), len(handles))

    def test_put_publishes(self):
        handle = self.pool.put(b'hello', self.pool.epoch_current())
        self.assertEqual(self.pool.read(handle)[:5], b'hello')
        self.assertRaises(tslab.NotFoundError, self.pool.publish, handle)

    def test_put_of_other_items_than_bytes(self):
        numbers = array.array('q', range(8))
        for data in numbers, memoryview(numbers), memoryview(bytes(numbers)).cast('q', (2, 4)):
            self.assertEqual(self.pool.read(self.pool.put(data)), bytes(numbers))
        numbers.append(8)       # nothing holds on to it
        self.assertEqual(self.pool.read(self.pool.put(memoryview(bytes(range(128)))[::2])), bytes(range(0, 128, 2)))

    def test_batch(self):
        handles = self.pool.alloc_batch(64, 1000)
        self.assertEqual(len(set(handles)), 1000)
        self.assertEqual(self.pool.free_batch(handles + handles), 1000)

    def test_free_batch_of_a_list_that_changes(self):
        """A signal handler makes the list longer in the middle of the call: what it adds is not freed, and no more is
        read than there is."""
        handles = [self.pool.put(b'x')]

        class Numbers(list):
            def __len__(self):
                return 10 ** 7

        self.assertEqual(self.pool.free_batch(Numbers(handles)), 1)
        self.assertRaises(TypeError, self.pool.free_batch, 5)

    def test_pending_block(self):
        with self.pool.pending(64) as (handle, view):
            view[:2] = b'ok'
        self.assertRaises(tslab.NotFoundError, self.pool.publish, handle)
        self.assertEqual(self.pool.read(handle)[:2], b'ok')
        for _ in range(100):
            with self.assertRaises(KeyError), self.pool.pending(64) as (handle, view):
                raise KeyError
            self.assertRaises(tslab.StaleError, self.pool.get, handle)

    def test_statistics(self):
        handles = self.pool.alloc_batch(100, 50)
        before = self.pool.stats()
        self.assertEqual((before.live_objects, before.live_bytes), (50, 50 * 112))
        self.assertGreaterEqual(before.committed_bytes, before.live_bytes)
        self.assertEqual(self.pool.class_stats(100), tslab.Count(before.slabs_taken, 50, 50 * 112))
        self.assertEqual(self.pool.class_stats(64).live_objects, 0)
        self.assertEqual(self.pool.epoch_stats(self.pool.epoch_current()).live_objects, 50)
        self.assertRaises(tslab.TooLargeError, self.pool.class_stats, 5000)
        self.assertEqual(self.pool.free_batch(handles), 50)
        after, thread = self.pool.stats(), self.pool.thread_stats()
        self.assertEqual((after.live_objects, after.frees), (0, 50))
        self.assertEqual((thread.allocs, thread.frees, thread.is_shared), (50, 50, False))

    def test_sizes_of_the_pool(self):
        self.assertRaises(tslab.TooLargeError, self.pool.alloc, self.pool.size_max + 1)
        stats = self.pool.stats()
        self.assertEqual((stats.too_large, stats.too_large_bytes), (1, self.pool.size_max + 1))
        self.pool.free(self.pool.alloc(self.pool.size_max)[0])
        self.assertEqual(self.pool.capacity, 16 << 20)

    def test_pending_of_the_dead(self):
        handles = self.pool.alloc_batch(64, 2)

        def child():
            pending, _ = self.pool.alloc_pending(64)
            self.pool.get(handles[0])[:8] = pending.to_bytes(8, 'little')
            self.pool.get(handles[1])[:8] = self.pool.put(b'kept').to_bytes(8, 'little')

        fork(child)
        self.assertEqual(self.pool.reap(), 1)
        pending, shared = (int.from_bytes(self.pool.get(h)[:8], 'little') for h in handles)
        self.assertRaises(tslab.StaleError, self.pool.get, pending)
        self.assertEqual(bytes(self.pool.get(shared)[:4]), b'kept')

    def test_stopped_in_control_work(self):
        """BusyError names the process."""
        self.assertIsNone(self.pool.control_owner())
        pid = os.fork()
        while pid == 0:
            self.pool.epoch_advance()
        try:
            for _ in range(STOPS_MAX):
                os.kill(pid, signal.SIGSTOP)
                os.waitpid(pid, os.WUNTRACED)
                if self.pool.control_owner() == pid:
                    break
                current = self.pool.epoch_current()
                os.kill(pid, signal.SIGCONT)
                while self.pool.epoch_current() == current:     # it may not run before the next stop
                    os.sched_yield()
            calls = self.pool.epoch_advance, self.pool.reap, self.pool.epoch_reserve, lambda: tslab.Map(self.pool, 'a')
            for call in calls:
                with self.assertRaisesRegex(tslab.BusyError, f'process {pid}') as caught:
                    call()
                self.assertEqual((caught.exception.errno, caught.exception.pid), (errno.EBUSY, pid))
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        self.assertEqual(self.pool.reap(), 1)
        self.assertIsNone(self.pool.control_owner())

    def test_close(self):
        handle, view = self.pool.alloc(64)
        view[:2] = b'ok'
        self.pool.close()
        self.pool.close()
        self.assertTrue(self.pool.closed)
        self.assertRaises(tslab.ClosedError, self.pool.get, handle)
        self.assertRaises(ValueError, self.pool.epoch_current)
        gc.collect()
        self.assertEqual(bytes(view[:2]), b'ok')        # unmapped with the last view only

    def test_threads(self):
        failures = []

        def work():
            try:
                for _ in range(300):
                    self.pool.free(self.pool.put(b'x' * 64))
            except Exception as e:  # noqa: BLE001 (to be shown below)
                failures.append(e)

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])

    def test_options(self):
        self.assertRaises(ValueError, tslab.create, cache='sometimes')
        for bad in {'classes': [65]}, {'classes': list(range(16, 400, 16))}, {'epochs': 1}, {'size': 1}:
            with self.assertRaises(tslab.Error) as caught:
                tslab.create(**bad)
            self.assertEqual(caught.exception.errno, errno.EINVAL)
        with tslab.create(classes=[64, 4096], cache='off') as pool:
            self.assertEqual(len(pool.get(pool.put(b'x' * 65))), 4096)


class RootsAndEpochs(unittest.TestCase):
    def setUp(self):
        self.pool = tslab.create(size=16 << 20, epochs=8)
        self.addCleanup(self.pool.close)

    def test_roots(self):
        self.assertRaises(tslab.NotFoundError, self.pool.root_get, 'config')
        handle = self.pool.put(b'x')
        self.pool.root_set('config', handle)
        self.assertEqual(self.pool.root_get('config'), handle)
        self.assertRaises(tslab.ChangedError, self.pool.root_set, 'config', 0)
        self.pool.root_set('config', 0, expected=handle)
        for name in '', 'x' * 48, 'a\0b':
            self.assertRaises(ValueError, self.pool.root_get, name)

    def test_names_with_nul(self):
        tslab.Map(self.pool, 'tenant')
        for call in (lambda: tslab.Map(self.pool, 'tenant\0one'), lambda: self.pool.epoch_reserve('a\0b'),
                     lambda: tslab.open('default\0'), lambda: tslab.open(comm='a\0b')):
            with self.assertRaisesRegex(ValueError, 'NUL'):
                call()

    def test_advance_and_close(self):
        first = self.pool.epoch_current()
        handle = self.pool.put(b'x', first)
        second = self.pool.epoch_advance()
        self.assertEqual(self.pool.epoch_current(), second)
        self.assertRaises(tslab.EpochClosedError, self.pool.alloc, 64, first)
        info = self.pool.epoch_info(first)
        self.assertEqual((info.epoch, info.state, info.current), (first, 'closing', False))
        self.assertGreaterEqual(info.closed, info.opened)
        self.pool.free(handle)
        self.pool.epoch_close(first)
        info = self.pool.epoch_info(first)
        self.assertEqual(info.state, 'drained')
        self.assertGreaterEqual(info.reclaimed_bytes, mmap.PAGESIZE)

    def test_revoke(self):
        epoch = self.pool.epoch_reserve('short')
        self.assertEqual(self.pool.epoch_info(epoch).label, 'short')
        handle = self.pool.put(b'x', epoch)
        self.pool.epoch_close(epoch, revoke=True)
        self.assertRaises(tslab.StaleError, self.pool.get, handle)

    def test_lease(self):
        def child():
            epoch = self.pool.epoch_lease('of a child')
            self.assertEqual(self.pool.epoch_info(epoch).label, 'of a child')
            leased[:8] = self.pool.put(b'x', epoch).to_bytes(8, 'little')
            self.pool.get(int.from_bytes(leased[:8], 'little'))

        _, leased = self.pool.alloc(64)
        fork(child)
        self.assertEqual(self.pool.reap(), 1)
        self.assertRaises(tslab.StaleError, self.pool.get, int.from_bytes(leased[:8], 'little'))

    def test_label(self):
        epoch = self.pool.epoch_current()
        self.pool.epoch_label(epoch, 'requests')
        self.assertEqual(self.pool.epoch_info(epoch).label, 'requests')
        self.pool.epoch_label(epoch, None)
        self.assertEqual(self.pool.epoch_info(epoch).label, '')
        with self.assertRaises(tslab.Error):
            self.pool.epoch_label(epoch, 'x' * 32)
        self.assertRaises(tslab.StaleError, self.pool.epoch_label, epoch + (1 << 8), 'to come')

    def test_references(self):
        epoch = self.pool.epoch_current()
        self.assertRaises(tslab.NotFoundError, self.pool.epoch_unref, epoch)
        self.pool.epoch_ref(epoch)
        self.pool.epoch_ref(epoch)
        self.assertEqual(self.pool.epoch_refs(epoch), 1)
        fork(lambda: self.assertRaises(tslab.NotFoundError, self.pool.epoch_unref, epoch))
        self.assertEqual(self.pool.epoch_unref(epoch), 1)
        self.assertEqual(self.pool.epoch_unref(epoch), 0)
        self.pool.epoch_advance()
        self.assertRaises(tslab.EpochClosedError, self.pool.epoch_ref, epoch)

    def test_advance_from(self):
        first = self.pool.epoch_current()
        advanced, second = self.pool.epoch_advance_from(first)
        self.assertTrue(advanced)
        self.assertEqual(self.pool.epoch_advance_from(first), (False, second))
        self.assertEqual(self.pool.epoch_current(), second)

    def test_domain(self):
        with self.pool.domain(auto_close=True) as domain:
            self.assertEqual(domain.epoch, self.pool.epoch_current())
            with domain:
                handle, _ = self.pool.alloc(64, domain.epoch)
            self.assertEqual(self.pool.epoch_info(domain.epoch).state, 'open')
            self.assertEqual(self.pool.epoch_refs(domain.epoch), 1)
        self.assertEqual(self.pool.epoch_info(domain.epoch).state, 'closing')
        self.assertRaises(tslab.EpochClosedError, domain.enter)
        self.pool.free(handle)
        one, other = self.pool.domain(1), self.pool.domain(2)
        with one, other:
            with self.assertRaises(tslab.Error) as caught:
                one.leave()
            self.assertEqual(caught.exception.errno, errno.EINVAL)
        self.assertEqual(self.pool.epoch_info(1).state, 'open')
        self.pool.close()
        self.assertRaises(tslab.ClosedError, one.enter)

    def test_domain_left_by_an_exception(self):
        with self.assertRaises(KeyError), self.pool.domain(auto_close=True) as domain:
            raise KeyError
        self.assertEqual(self.pool.epoch_info(domain.epoch).state, 'drained')

    def test_epochs(self):
        infos = list(self.pool.epochs())
        self.assertEqual([i.epoch & 0xff for i in infos], list(range(8)))
        self.assertEqual([i.current for i in infos].count(True), 1)


class Maps(unittest.TestCase):
    def setUp(self):
        self.pool = tslab.create(size=16 << 20)
        self.addCleanup(self.pool.close)
        self.map = tslab.Map(self.pool, 'things')

    def test_mapping(self):
        self.map[b'a'] = b'1'
        self.map.update({b'b': b'2', b'': b''})
        self.assertEqual(dict(self.map), {b'a': b'1', b'b': b'2', b'': b''})
        self.assertEqual(len(self.map), 3)
        self.assertIn(b'', self.map)
        self.assertNotIn(b'c', self.map)
        self.assertEqual(self.map.pop(b'a'), b'1')
        self.assertRaises(KeyError, lambda: self.map[b'a'])
        self.assertRaises(KeyError, self.map.__delitem__, b'a')
        self.assertEqual(self.map.get(b'a', b'-'), b'-')
        self.map[bytearray(b'k')] = memoryview(b'v')
        self.assertEqual(self.map[b'k'], b'v')

    def test_keys_and_values_of_other_items_than_bytes(self):
        numbers = array.array('q', range(8))
        other = array.array('q', [*range(7), 77])
        self.map[numbers] = numbers
        self.map[memoryview(other)] = memoryview(other)
        self.assertEqual(dict(self.map), {bytes(numbers): bytes(numbers), bytes(other): bytes(other)})
        self.assertEqual(self.map[numbers], bytes(numbers))
        _, version = self.map.get_version(other)
        self.map.replace(other, version, numbers)
        self.assertTrue(self.map.change(other, other))
        self.assertFalse(self.map.insert(other, numbers))
        self.assertTrue(self.map.delete(other))
        self.assertTrue(self.map.delete(numbers))
        for bad in 7, None, 1.5:
            self.assertRaisesRegex(TypeError, 'a key is text or bytes, not', self.map.get, bad)
            self.assertRaisesRegex(TypeError, 'a value is bytes, not', self.map.put, b'k', bad)
        self.assertRaisesRegex(TypeError, 'not str: encode', self.map.put, b'k', 'text')

    def test_keys_that_are_text(self):
        """Each call takes text for its UTF-8."""
        key = 'ключ'
        self.map[key] = b'1'
        self.assertEqual((self.map[key], self.map[key.encode()], key in self.map), (b'1', b'1', True))
        version = self.map.get_version(key)[1]
        self.map.replace(key, version, b'2')
        self.assertEqual((self.map.get_stale(key), self.map.get_epoch(key)[0], self.map.ttl(key)),
                         ((b'2', False), b'2', math.inf))
        self.assertTrue(self.map.touch(key, 100) and self.map.change(key, b'3'))
        self.assertFalse(self.map.insert(key, b'4'))
        self.assertEqual((self.map.setdefault(key, b'5'), self.map.pop(key), self.map.pop(key, None)), (b'3', b'3', None))
        self.assertEqual((self.map.add('n'), self.map.limit('bucket', 1, 1)), (1, None))
        claim = self.map.claim(key)
        self.assertFalse(self.map.wait(key, claim.version, 0))
        self.assertTrue(self.map.delete(key, claim.version))
        self.map.update({'a': b'1'}, b=b'2')
        self.assertEqual((self.map['a'], self.map[b'b']), (b'1', b'2'))
        with self.assertRaisesRegex(KeyError, "b'x'"):
            del self.map['x']

    def test_conditional(self):
        self.assertTrue(self.map.insert(b'a', b'1'))
        self.assertFalse(self.map.insert(b'a', b'2'))
        self.assertTrue(self.map.change(b'a', b'3'))
        self.assertFalse(self.map.change(b'b', b'3'))
        value, version = self.map.get_version(b'a')
        self.assertEqual(value, b'3')
        self.map.replace(b'a', version, b'4')
        self.assertRaises(tslab.ChangedError, self.map.replace, b'a', version, b'5')
        self.assertRaises(tslab.ChangedError, self.map.delete, b'a', version)
        self.assertTrue(self.map.delete(b'a'))
        self.assertFalse(self.map.delete(b'a'))
        self.assertIsNone(self.map.get_version(b'a'))

    def test_expire(self):
        epoch = self.pool.epoch_current()
        self.map[b'old'] = b'1'
        self.pool.epoch_advance()
        self.map[b'new'] = b'2'
        self.assertEqual({k: e.epoch == epoch for k, e in self.map.entries()}, {b'old': True, b'new': False})
        self.assertEqual(self.map.expire(epoch), 1)
        self.assertEqual(list(self.map), [b'new'])

    def test_clear(self):
        for i in range(1000):
            self.map[b'%d' % i] = b''
        with unittest.mock.patch.object(tslab.Map, 'popitem', side_effect=AssertionError('a walk for each')):
            self.map.clear()
        self.assertEqual(len(self.map), 0)

    def test_sizes(self):
        self.map[b'k'] = b'x' * self.map.size_max
        self.assertRaises(tslab.TooLargeError, self.map.put, b'k', b'x' * (self.map.size_max + 1))
        self.assertEqual(len(self.map[b'k']), self.map.size_max)

    def test_open(self):
        self.assertRaises(tslab.NotFoundError, tslab.Map, self.pool, 'other', existing=True)
        with self.assertRaises(tslab.Error) as caught:
            tslab.Map(self.pool, 'things', exclusive=True)
        self.assertEqual(caught.exception.errno, errno.EEXIST)
        self.map.close()
        self.assertRaises(tslab.ClosedError, self.map.get, b'a')

    def test_counts_of_many(self):
        """Each adds to one number as often as it likes; none is lost, also not to killed processes."""
        def child():
            for _ in range(200):
                while True:
                    value, version = self.map.get_version(b'n')
                    try:
                        self.map.replace(b'n', version, str(int(value) + 1).encode())
                        break
                    except tslab.ChangedError:
                        pass

        self.map[b'n'] = b'0'
        pids = []
        for _ in range(4):
            pid = os.fork()
            if pid == 0:
                try:
                    child()
                finally:
                    os._exit(0)
            pids.append(pid)
        for pid in pids:
            os.waitpid(pid, 0)
        self.assertEqual(self.map[b'n'], b'800')


class OnADaemon(unittest.TestCase):
    def test_open_by_path(self):
        with daemon.Daemon(TSLABD, '--size=16M') as d, tslab.open(d.socket, comm='tester', timeout=5) as pool:
            handle = pool.put(b'shared')
            pool.root_set('it', handle)
            with tslab.open(d.socket, reader=True) as reader:
                self.assertEqual(bytes(reader.get(reader.root_get('it'))[:6]), b'shared')
                self.assertTrue(reader.get(handle).readonly)
                with self.assertRaises(TypeError):
                    reader.get(handle)[0] = 1
                self.assertFalse(pool.get(handle).readonly)
                self.assertRaises(tslab.ReadOnlyError, reader.alloc, 64)
            fork(lambda: pool.free(pool.root_get('it')))
            self.assertFalse(pool.stale)
            self.assertIn('tester', [c['comm'] for c in d.ctl(TSLABCTL, 'clients')])
            d.process.send_signal(signal.SIGKILL)
            d.process.wait()
            pool.free(pool.put(b'without it'))
            self.assertRaises(tslab.DaemonError, pool.epoch_advance)
            d.process = subprocess.Popen([*d.command, '--fresh'], env=d.environment)
            daemon.wait_for(d.answers)
            self.assertRaises(tslab.ReplacedError, pool.epoch_advance)
            self.assertTrue(pool.stale)

    def test_no_daemon(self):
        self.assertRaises(tslab.DaemonError, tslab.open, '/nonexistent/x.sock')
        with self.assertRaises(tslab.Error) as caught:
            tslab.open('No Name')
        self.assertEqual(caught.exception.errno, errno.EINVAL)


if __name__ == '__main__':
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
