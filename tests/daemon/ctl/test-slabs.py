"""tslabctl slabs: its characters, its JSON and its picture."""

import errno
import subprocess
import xml.etree.ElementTree as ElementTree

import ctl_case
from ctl_case import Case, hello, reply


class Map(Case):
    def fill(self, size='16M'):
        """Two epochs, two classes: 640 objects of 64 bytes are 10 slabs, 160 of 256 bytes too."""
        daemon = self.start('default', f'--size={size}')
        client = self.client(daemon)
        client.do('alloc 64 640')
        self.text('epoch', 'advance')
        client.do('alloc 256 160')
        return client

    def test_json(self):
        self.fill()
        value = self.json('slabs')
        self.assertEqual(value['n_slabs'], 4096)
        self.assertEqual(sum(c['slabs'] for c in value['cells']), value['n_slabs_ever'])
        self.assertLessEqual(len(value['cells']), 1024)
        by_class = {c['size']: c for c in value['classes']}
        self.assertEqual(set(by_class), {64, 256})
        for size, live in ((64, 640), (256, 160)):
            # some more are in caches
            self.assertGreaterEqual(by_class[size]['taken'], live)
            self.assertGreaterEqual(by_class[size]['slots'], by_class[size]['taken'])
        self.assertEqual([e['id'] for e in value['epochs']], [0, 1])
        for sums in (value['epochs'], value['classes']):
            self.assertEqual(sum(s['taken'] for s in sums), sum(c['taken'] for c in value['cells']))
        self.assertEqual({c['epoch_id'] for c in value['cells'] if c['slots']}, {0, 1})
        self.assertEqual({c['class_size'] for c in value['cells']}, {None, 64, 256})

    def test_agrees_with_stats(self):
        self.fill()
        value, stats = self.json('slabs'), self.json('stats')
        self.assertEqual(sum(c['taken'] for c in value['cells']), stats['live_objects'] + stats['cached_objects'])
        for place, bytes_ in (('free', stats['retained_bytes']), ):
            self.assertEqual(sum(c[place] for c in value['cells']) * 4096, bytes_)

    def test_draining(self):
        self.fill()
        self.text('epoch', 'close', '0', '--yes')
        cells = self.json('slabs')['cells']
        self.assertGreaterEqual(sum(c['draining'] for c in cells), 10)
        self.assertIn('▓ draining', self.text('slabs'))

    def grid(self, text):
        return text.split('\n\n')[1].splitlines()

    def test_text(self):
        self.fill()
        text = self.text('slabs', COLUMNS='60', LINES='20')
        self.assertRegex(text, r'\Adefault: 16\.0M, [\d.]+M ever used; each character is \d+ slabs? \([\d.]+K\)\n\n')
        self.assertLessEqual(len(self.grid(text)), 11)
        self.assertEqual({len(line) for line in self.grid(text)[:-1]}, {60})
        self.assertIn('█', ''.join(self.grid(text)))
        # by epoch and class: characters tell, where there is no colour
        grid = ''.join(self.grid(self.text('slabs', '--by', 'epoch')))
        self.assertLess({'0', '1'}, set(grid))
        grid = ''.join(self.grid(self.text('slabs', '--by', 'class')))
        self.assertLess({'a', 'b'}, set(grid))
        self.assertRegex(self.text('slabs', '--by', 'class'), r'a 64 bytes +1\d \d+% .*b 256 bytes +1\d \d+%')
        self.assertEqual(len(self.text('slabs', '--no-legend').split('\n\n')), 1)

    def test_ascii(self):
        self.fill()
        for by in ('place', 'epoch', 'class'):
            self.text('slabs', '--by', by, LC_ALL='C').encode('ascii')

    def test_narrow(self):
        self.fill()
        self.assertTrue(all(len(line) <= 20 for line in self.grid(self.text('slabs', COLUMNS='20'))))

    def test_large(self):
        """64 GiB: slabs that were never used are not looked at, and get no memory."""
        self.fill('64G')
        before = self.json('stats')['memfd_blocks_bytes']
        value = self.json('slabs')
        self.assertEqual(value['n_slabs'], 64 << 18)
        self.assertLess(value['n_slabs_ever'], 1 << 16)
        self.text('slabs')
        self.assertEqual(self.json('stats')['memfd_blocks_bytes'], before)

    def test_svg(self):
        self.fill()
        path = f'{self.folder}/map.svg'
        for by in ('place', 'epoch', 'class'):
            self.assertEqual(self.text('slabs', '--by', by, '--svg', path), '')
            with open(path, encoding='utf-8') as file:
                text = file.read()
            root = ElementTree.fromstring(text)
            texts = [e.text for e in root.iter('{http://www.w3.org/2000/svg}text')]
            self.assertIn('Pool default', texts)
            self.assertIn({'place': 'draining', 'epoch': 'epoch 1', 'class': '256 bytes'}[by], texts)
            cells = self.json('slabs')['n_slabs_ever']
            self.assertGreater(len(list(root.iter('{http://www.w3.org/2000/svg}rect'))), cells)
        self.assertTrue(self.text('slabs', '--svg', '-').startswith('<svg '))
        self.refused(1, 'cannot write /nowhere/x', 'slabs', '--svg', '/nowhere/x')
        result = subprocess.run([ctl_case.TSLABCTL, 'slabs', '--svg', '/dev/full'], stderr=subprocess.PIPE, check=False,
                                env=ctl_case.environment(self.folder), text=True)
        self.assertEqual(result.returncode, 1)
        self.assertIn('cannot write /dev/full', result.stderr)

    def test_refused(self):
        self.refused(1, 'no daemon', 'slabs')
        self.refused(2, "'colour' is nothing to draw by", 'slabs', '--by', 'colour')
        self.refused(2, 'give one of them', 'slabs', '--json', '--svg', 'x')
        self.refused(2, "--svg does not go with 'stats'", 'stats', '--svg', 'x')

    def test_older_daemon(self):
        self.play([hello()], [reply(2, error=errno.EOPNOTSUPP, message='tslabd 0.0.9 does not know this')])
        self.refused(1, 'is it older than this tslabctl', 'slabs')


ctl_case.main()
