"""Every verb with a daemon that is older: one that knows fewer requests, and fills in fewer fields.

The test plays the daemon, with the replies of the first version of the protocol: later additions to
proto/tslab.proto may be missing. A verb does as much as it can, or says that the daemon is too old.
"""

import errno
import socket
import threading

import ctl_case
from ctl_case import Case, Played, field, hello, reply

HELLO, EPOCH_LIST, EPOCH_LABEL, STATS, CLIENTS, TRIM, CHECK, ROOTS = 16, 24, 28, 32, 33, 34, 35, 36

def epochs(number):
    return b''.join(field(number, field(1, i) + field(2, 1) + field(3, 1) + field(6, int(i == 0)) + field(7, 2) +
                          field(8, 5) + field(9, 320) + field(10, 8192) + field(15, b'')) for i in range(2))


# Fields 1 to 40 of those there are now: no high-water marks, no retain_bytes, no records_unsettled.
FIRST_STATS = (
    field(1, 'default') + field(2, 16 << 20) + field(3, 16384) + field(4, 4096) + field(5, 0) + field(6, 10) +
    field(7, 640) + field(8, 3) + field(9, 1) + field(10, 1) + epochs(11) +
    field(12, field(1, 64) + field(2, 64) + field(3, 4) + field(4, 10)) + field(13, field(1, 100) + field(2, 90)) +
    field(32, '0.0.9') + field(33, 77 << 1) + field(34, 5000000) + field(35, bytes(range(16))) + field(36, 1025) +
    field(38, 4096) + field(39, 4) + field(40, 20480))
FIRST_CLIENTS = field(1, field(1, 0) + field(2, 7 << 1) + field(5, 'worker') + field(6, 2) + field(7, 1) + field(8, 100))


def peaks(**members):
    """Field 48 of stats."""
    numbers = {'since_usec': 1, 'looks': 2, 'committed_bytes': 3, 'used_bytes': 4}
    return field(48, b''.join(field(numbers[name], value) for name, value in members.items()))


class Older(Played):
    """Answers by the kind of request, and refuses the kinds that it does not know."""

    def __init__(self, path, **bodies):
        self.bodies = {CLIENTS: FIRST_CLIENTS, EPOCH_LIST: epochs(1),
                       TRIM: field(1, 0), CHECK: field(1, 1), ROOTS: b'', EPOCH_LABEL: b'',
                       STATS: bodies.get('stats', FIRST_STATS)}
        self.known = set(self.bodies) - set(bodies.get('unknown', ()))
        super().__init__(path)

    def serve(self, connection):
        # each at once: top and monitor hold theirs while others ask
        threading.Thread(target=self.answer, args=(connection,), daemon=True).start()

    def answer(self, connection):
        try:
            while request := connection.recv(65536):
                connection.send(self.reply(request))
        except OSError:
            pass                                # it has seen enough

    def reply(self, request):
        """A request is its id, below 128, and a body of a number from 16 on: two bytes of tag."""
        number, kind = request[1], (request[2] & 0x7f | request[3] << 7) >> 3
        if kind == HELLO:
            return hello()
        if kind not in self.known:
            return reply(number, error=errno.EOPNOTSUPP, message='tslabd 0.0.9 does not know this request')
        return reply(number, body_number=kind, body=self.bodies[kind])


class OlderCase(Case):
    def older(self, **bodies):
        played = Older(f'{self.folder}/default.sock', **bodies)
        self.addCleanup(played.close)


class Suggest(OlderCase):
    def test_no_peaks(self):
        self.older()
        for arguments in (['suggest'], ['--json', 'suggest']):
            self.refused(1, 'keeps no high-water marks: it is older than this tslabctl; restart it', *arguments)

    def test_no_stats(self):
        self.older(unknown=[STATS])
        self.refused(1, 'is it older than this tslabctl', 'suggest')

    def test_not_looked_yet(self):
        self.older(stats=FIRST_STATS + peaks(since_usec=1))
        self.assertIn('has not looked at the pool so far', self.text('suggest'))

    def test_part_of_the_peaks(self):
        """A daemon without the peaks of classes and sizes: the answer leaves them out, rather than an empty setting."""
        self.older(stats=FIRST_STATS + peaks(since_usec=1, looks=5, committed_bytes=4 << 20, used_bytes=3 << 20))
        settings = {s['name']: s for s in self.json('suggest')['settings']}
        self.assertEqual((settings['TSLAB_SIZE']['value'], settings['TSLAB_SIZE']['current']), ('4M', '16M'))
        self.assertNotIn('TSLAB_CLASSES', settings)
        text = self.text('suggest')
        self.assertIn('\nTSLAB_SIZE=4M\n', text)
        self.assertNotIn('TSLAB_CLASSES', text)

    def test_newer_fields(self):
        """A newer daemon sends fields that are not known: they are passed over."""
        newer = field(99, 5) + field(100, b'new') + field(48, field(1, 1) + field(2, 5) + field(4, 3 << 20) + field(99, 1))
        self.older(stats=FIRST_STATS + newer)
        self.assertEqual({s['name']: s['value'] for s in self.json('suggest')['settings']}['TSLAB_SIZE'], '4M')


class Others(OlderCase):
    def test_answered(self):
        """By requests that there were from the first: without the fields that came later."""
        self.older()
        stats = self.json('stats')
        self.assertEqual((stats['live_objects'], stats['records_unsettled'], stats['peaks']), (10, 0, None))
        self.assertEqual([e['live_objects'] for e in self.json('epoch', 'list')], [5, 5])
        self.assertEqual([c['pid'] for c in self.json('clients')], [7])
        self.assertEqual([p['state'] for p in self.json('list')], ['running'])
        self.assertEqual(self.json('roots'), [])
        self.assertTrue(self.json('check')['ok'])
        self.assertEqual(self.json('trim')['reclaimed_bytes'], 0)
        self.assertEqual(self.json('epoch', 'label', '3:2', 'x')['epoch'], 3 + (2 << 8))
        for verb in ('stats', 'status', 'epoch list', 'clients', 'list', 'roots', 'check', 'trim', 'metrics',
                     'top --once -d 0.1'):
            self.assertNotEqual(self.text(*verb.split()), '', verb)

    def test_refused(self):
        """One line names the request that the daemon does not know."""
        self.older()
        for verb in ('slabs', 'leaks', 'monitor', 'epoch advance', 'epoch close 0', 'epoch reserve', 'maps',
                     'maps set m --ttl 1'):
            self.refused(1, 'is it older than this tslabctl', *verb.split())


if __name__ == '__main__':
    ctl_case.main()
