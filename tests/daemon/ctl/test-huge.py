"""TSLAB_HUGE: the daemon has the kernel make huge pages, status tells how much is huge, and memory goes back from them.

    test-huge.py TSLABCTL TSLABD CTL-CLIENT SOURCE-FOLDER [unittest arguments]
"""

import os
import re
import signal
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.abspath(sys.argv[4]), 'tests/util'))

from daemon import Daemon, wait_for
from ctl_case import Client as ObjectClient
from verb import CTL_CLIENT, TSLABD, VerbTest, main

MIB = 1 << 20


class HugeCase(VerbTest):
    SIZE = '256M'

    def setUp(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        self.config = os.path.join(folder, 'pool.conf')
        self.set('yes')
        self.daemon = self.enterContext(Daemon(TSLABD, f'--size={self.SIZE}', f'--config={self.config}'))
        wait_for(lambda: self.json('stats')['huge'] != 'no')

    def set(self, value):
        with open(self.config, 'w', encoding='ascii') as config:
            config.write(f'TSLAB_HUGE={value}\n')


class Huge(HugeCase):
    def fill(self):
        client = self.client()
        client.do('put 3000 20000')
        wait_for(lambda: self.json('stats')['huge'] == 'refused' or self.json('stats')['huge_bytes'] > 4 * MIB)
        if self.json('stats')['huge'] == 'refused':
            self.assertRegex(self.text('status'), r'the kernel makes no huge pages:\n {12}(it is older|/sys/)')
            raise unittest.SkipTest('this kernel makes no huge pages')
        return client

    def test_memory_goes_back(self):
        client = self.fill()
        with open(f'/proc/{self.daemon.process.pid}/smaps_rollup', encoding='ascii') as smaps:
            self.assertGreaterEqual(int(re.search(r'(?m)^ShmemPmdMapped: +(\d+)', smaps.read()).group(1)), 4 << 10)
        self.assertRegex(self.text('status'), r'(?m)^ +Huge: [\d.]+M in huge pages$')
        client.do('get 4096 20000')
        client.do('delete 0 20000')
        self.text('trim')
        wait_for(lambda: self.json('stats')['memfd_blocks_bytes'] < 16 * MIB)
        client.do('put 3000 20000')
        client.do('get 4096 20000')
        self.assertIn('Clean', self.text('check'))

    def test_reload(self):
        self.fill()
        self.set('no')
        self.daemon.process.send_signal(signal.SIGHUP)
        wait_for(lambda: self.json('stats')['huge'] == 'no')
        self.assertNotIn('Huge', self.text('status'))
        self.set('maybe')
        self.daemon.process.send_signal(signal.SIGHUP)
        wait_for(lambda: 'yes or no' in self.json('stats')['settings_error'])


class HugeClose(HugeCase):
    SIZE = '8M'

    def object_client(self):
        client = ObjectClient(self.daemon.socket, CTL_CLIENT)
        self.addCleanup(client.end)
        return client

    def test_close_splits(self):
        """A close gives all empty slabs back, and says how many huge pages thereby lost a part."""
        if self.json('stats')['huge'] != 'yes':
            raise unittest.SkipTest('this kernel makes no huge pages')
        going, staying = self.object_client(), self.object_client()
        going.do('alloc 4096 1000')
        staying.do('alloc 4096 1')
        going.do('alloc 4096 800')              # most of the pool: caches and the reserve have some of the rest
        self.text('epoch', 'advance')
        going.do('free')
        before = self.json('stats')['huge_splits']
        closed = self.json('epoch', 'close', '0')
        self.assertEqual(closed['live_objects'], 1)
        self.assertGreater(closed['reclaimed_bytes'], 1700 * 4096)
        self.assertGreater(closed['huge_splits'], 0)
        self.assertLessEqual(closed['huge_splits'], 2)      # that of the object, and the last one
        self.assertEqual(self.json('stats')['huge_splits'], before + closed['huge_splits'])
        self.assertRegex(self.text('status'), r'(?m)^ +Huge: .* in huge pages; \d huge pages? lost a part to trims and closes$')
        self.assertRegex(self.text('metrics'), r'(?m)^tslab_huge_splits_total\{.*\} \d$')
        staying.do('free')
        self.assertNotIn('lost a part', self.text('epoch', 'close', '0'))


if __name__ == '__main__':
    main()
