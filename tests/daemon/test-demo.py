"""The demo: it counts the same as awk, with any number of workers, and if some are killed.

Arguments: the demo, tslabctl, and the root of the source tree.
"""

import collections
import datetime
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

DEMO, CTL = (pathlib.Path(a).resolve() for a in sys.argv[1:3])
REAL_LOG = pathlib.Path(sys.argv[3]).resolve().parent / 'shared' / 'data' / 'access.log'
SEED = int(os.environ.get('TSLAB_TEST_SEED', '20150517'))

AWK = '{n[$1]++} END {for (a in n) print a, n[a]}'
PERIODS, IDLE = 10, 2       # timeline.h, rotation.h
CLIENT_MAX = 255            # log.h
PAGE_MAX = 1 << 20          # pages.h
CACHE_MIB_MAX = 512         # options.c
TIME_LIMIT = 900     # with sanitizers, on a loaded machine

MALFORMED = [b'', b'-', b'rubbish \xff\xfe\x00 of bytes', b'1.2.3.4', b'1.2.3.4 - - [', b'\x16\x03\x01\x02' * 500,
             b' 9.9.9.9 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 5',
             b'9.9.9.9 - - [31/Feb/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 5 "-" "-"',
             b'9.9.9.9 - - [17/May/2015:10:05:03] "GET / HTTP/1.1" 200 5 "-" "-"',
             b'9.9.9.9 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 20',
             b'9.9.9.9 - - [17/May/2015:10:05:03 +0000] "GET /no-end-of-quote',
             b'c' * (CLIENT_MAX + 1) + b' - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 5 "-" "-"']


def make_clients(rng):
    clients = [f'192.0.2.{i}' for i in range(200)] + [f'2001:db8::{i:x}' for i in range(200)]
    clients += [f'host-{i}.example.org' for i in range(100)] + ['c' * CLIENT_MAX]
    rng.shuffle(clients)
    return clients


def make_line(rng, client, when):
    date = datetime.datetime.fromtimestamp(when, datetime.timezone(datetime.timedelta(hours=rng.choice((0, 2, -7)))))
    path = rng.choice(('/', '/a/b.html', '/say=\\"hi\\"', '/' + 'long' * 30, '*'))
    line = (f'{client} - {rng.choice(("-", "ann", "ann lee"))} [{date:%d/%b/%Y:%H:%M:%S %z}] "GET {path} HTTP/1.1" '
            f'{rng.choice((200, 304, 404))} {rng.choice(("-", 0, 17, 10 ** 12))}')
    tail = rng.choice((' "-" "-"', ' "http://x.org/\\"" "Mozilla (\\"q\\")"', '', ' "-" "cut sho', '\r'))
    return (line + tail).encode(), tail.endswith('sho')


class MadeLog:
    """A log, and the counts that a reader must find in it. Clients come and go, times go back and forth."""

    def __init__(self, folder, n, begin=1431857103, span=3 * 86400):
        rng = random.Random(SEED)
        clients = make_clients(rng)
        self.path, self.good = folder / 'access.log', folder / 'good.log'
        self.requests, lines, good = [], [], []
        self.n_malformed = self.n_cut = 0
        for i in range(n):
            if rng.random() < 0.01:
                lines.append(rng.choice(MALFORMED))
                self.n_malformed += 1
                continue
            nth = int(i * 300 / n + rng.random() ** 3 * 200) if rng.random() < 0.99 else rng.randrange(len(clients))
            when = begin + i * span // n + rng.randrange(-300, 300)
            line, cut = make_line(rng, clients[nth], when)
            self.n_cut += cut
            self.requests.append((clients[nth], when))
            lines.append(line)
            good.append(line)
        self.n_lines = n
        self.path.write_bytes(b'\n'.join(lines) + b'\n')
        self.good.write_bytes(b'\n'.join(good) + b'\n')

    def counts(self):
        return collections.Counter(client for client, _ in self.requests)

    def pages(self):
        """The paths of the requests that a page cache can serve."""
        return re.findall(rb'"GET (\S+) HTTP/1.1" 200 17\b', self.good.read_bytes())

    def sessions(self):
        """How often a client came that was not there, or not for IDLE periods."""
        begin, end = (pick(when for _, when in self.requests) for pick in (min, max))
        period = (end - begin) // PERIODS + 1
        seen, n = {}, 0
        for p, client in sorted(((when - begin) // period, client) for client, when in self.requests):
            n += client not in seen or p - seen[client] > IDLE
            seen[client] = p
        return n


def awk_counts(path):
    """As the help of the demo says it."""
    out = subprocess.run(['awk', AWK, str(path)], check=True, stdout=subprocess.PIPE,
                         env={**os.environ, 'LC_ALL': 'C'}).stdout
    return sorted(out.splitlines())


def children(pid, name):
    found = []
    try:
        for child in pathlib.Path(f'/proc/{pid}/task/{pid}/children').read_text().split():
            if pathlib.Path(f'/proc/{child}/comm').read_text().strip() == name:
                found.append(int(child))
    except (FileNotFoundError, ProcessLookupError):    # it ended before its name was opened, or read
        pass
    return found


class DemoTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix='td')
        self.addCleanup(self.folder.cleanup)
        self.tmp = pathlib.Path(self.folder.name) / 't'
        self.tmp.mkdir()
        self.env = {k: v for k, v in os.environ.items() if not k.startswith('TSLAB_')}
        self.env['TMPDIR'] = str(self.tmp)

    def path(self, name):
        return pathlib.Path(self.folder.name) / name

    def run_demo(self, *args, status=0):
        done = subprocess.run([DEMO, *map(str, args)], env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              timeout=TIME_LIMIT)
        self.assertEqual(done.returncode, status, done.stderr.decode(errors='replace'))
        self.assertEqual(list(self.tmp.iterdir()), [], 'something was left behind')
        return done

    def start_demo(self, *args):
        """Running, and past its first period."""
        demo = subprocess.Popen([DEMO, *map(str, args)], env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                start_new_session=True)
        said = b''
        while b'period 1 ' not in said:
            line = demo.stderr.readline()
            self.assertTrue(line, said)
            said += line
        return demo

    def workers(self, demo, n):
        """Without a command that has yet to become tslabctl: children stand in the order of their beginning."""
        found = children(demo.pid, DEMO.name)[:n]
        self.assertEqual(len(found), n)
        return found

    def end_demo(self, demo):
        out, err = demo.communicate(timeout=TIME_LIMIT)
        return out.decode(), err.decode(errors='replace')

    def report(self, *args):
        return json.loads(self.run_demo('--json', *args).stdout)

    def check_report(self, report, workers):
        self.assertTrue(report['check_ok'])
        self.assertEqual(report['workers'], workers)
        self.assertEqual(report['workers_died'], 0)
        self.assertEqual(report['requests_booked'], report['requests'])
        self.assertEqual(report['sessions_returning'], report['sessions'] - report['clients'])
        self.assertLessEqual(report['periods'], PERIODS)
        if workers == 1:
            self.assertEqual((report['hits_by_others'], report['retries']), (0, 0))
        else:
            self.assertGreater(report['hits_by_others'], 0)
        pages = report['pages']
        self.assertLessEqual(pages['hits'], pages['requests'])
        self.assertLessEqual(pages['requests'], report['requests'])
        self.assertEqual(pages['entries'] > 0, pages['requests'] > 0)
        # Threads count by themselves, see "Limits" in tslab_map.h.
        self.assertLessEqual(pages['bytes'], pages['limit_bytes'] * 65 / 64 + (workers + 1) * PAGE_MAX)
        latency, committed, retained = (report[n] for n in ('latency_ns', 'committed_bytes', 'retained_bytes'))
        self.assertTrue(0 < latency['p50'] <= latency['p99'] <= latency['p999'] <= latency['max'], latency)
        self.assertLess(latency['timer'], latency['p50'])
        self.assertLessEqual(committed['before'], committed['peak'])
        # Without the retained bytes: the daemon chooses the size of its reserve anew at any time.
        used = {when: committed[when] - retained[when] for when in ('before', 'after')}
        self.assertLess(used['after'], used['before'])
        self.assertGreaterEqual(report['reclaimed_bytes'], used['before'] - used['after'])
        self.assertGreater(report['reclaimed_bytes'], 0)

    def check_log(self, path, good, workers):
        """The report of a log, of which all that is in `good` must be counted."""
        dump = self.path('dump')
        report = self.report('--log', path, '--workers', workers, '--dump', dump)
        counted = dump.read_bytes().splitlines()
        self.assertEqual(counted, sorted(counted))
        self.assertEqual(counted, awk_counts(good))
        self.assertEqual(report['requests'], sum(int(line.split()[1]) for line in counted))
        self.assertEqual(report['clients'], len(counted))
        self.check_report(report, workers)
        return report, counted

    def test_made_log(self):
        log = MadeLog(pathlib.Path(self.folder.name), 20000)
        expected = sorted(f'{client} {n}'.encode() for client, n in log.counts().items())
        for workers in (1, 2, 5):
            with self.subTest(workers=workers):
                report, counted = self.check_log(log.path, log.good, workers)
                self.assertEqual(counted, expected)
                self.assertEqual(report['sessions'], log.sessions())
                self.assertGreater(report['sessions_returning'], 0)
                self.assertEqual(report['lines'], log.n_lines)
                self.assertEqual(report['malformed'], log.n_malformed)
                self.assertEqual(report['cut_short'], log.n_cut)
                # All pages have room. Workers that miss the same page at once all make it.
                paths = log.pages()
                misses = len(paths) - report['pages']['hits']
                self.assertEqual(report['pages']['requests'], len(paths))
                self.assertTrue(len(set(paths)) <= misses <= len(set(paths)) * workers, misses)
                self.assertEqual(report['pages']['entries'], len(set(paths)))

    @unittest.skipUnless(REAL_LOG.exists(), 'no access.log beside this tree')
    def test_real_log(self):
        for workers in (1, 2, 5):
            with self.subTest(workers=workers):
                report, _ = self.check_log(REAL_LOG, REAL_LOG, workers)
                self.assertEqual(report['malformed'], 0)

    def test_made_up_traffic(self):
        reports = [self.report('--requests', 20000, '--seed', 7, '--workers', workers) for workers in (1, 3)]
        for report, workers in zip(reports, (1, 3)):
            self.check_report(report, workers)
            self.assertEqual(report['requests'], 20000)
            self.assertEqual(report['seed'], 7)
            self.assertGreater(report['sessions_returning'], 0)
        self.assertEqual(*[[r[n] for n in ('sessions', 'clients')] for r in reports])

    def test_page_cache(self):
        """The smaller the limit, the more pages are evicted, and the fewer are found."""
        small, large = (self.report('--requests', 20000, '--cache', limit) for limit in (1, 256))
        for report in small, large:
            self.check_report(report, 4)
        self.assertEqual(small['pages']['limit_bytes'], 1 << 20)
        self.assertGreater(small['pages']['evictions'], 0)
        self.assertEqual(large['pages']['evictions'], 0)
        self.assertLess(small['pages']['hits'], large['pages']['hits'])

    def test_page_as_large_as_the_cache(self):
        """With what an entry takes besides, it has no room: it is not cached."""
        self.path('log').write_text(''.join(
            f'1.2.3.{i} - - [17/May/2015:10:05:03 +0000] "GET /large HTTP/1.1" 200 {PAGE_MAX}\n' for i in range(9)))
        report = self.report('--log', self.path('log'), '--cache', 1)
        self.assertEqual((report['requests'], report['pages']['requests'], report['pages']['hits']), (9, 9, 0))

    def test_pages_are_answers_to_get(self):
        """Nothing else may come from a cache."""
        requests = [f'{method} /x HTTP/1.1' for method in ('GET', 'POST', 'HEAD', 'GETTING', 'get')] + ['GET', '-', '\\x16\\x03']
        self.path('log').write_text(''.join(
            f'1.2.3.{i} - - [17/May/2015:10:05:03 +0000] "{request}" 200 10\n' for i, request in enumerate(requests * 2)))
        report = self.report('--log', self.path('log'), '--workers', 1)
        self.assertEqual(report['requests'], 2 * len(requests))
        self.assertEqual([report['pages'][n] for n in ('requests', 'hits', 'entries')], [2, 1, 1])

    def test_text_report(self):
        done = self.run_demo('--requests', 3000)
        self.assertIn(b'seed 1', done.stdout)
        self.assertIn(b'3000 requests booked, all of them', done.stdout)
        self.assertRegex(done.stdout, rb'(?m)^pages +\d+ of \d+ requests \(\d+\.\d %\) found their page, '
                                      rb'with a limit of 8192 KiB$')
        self.assertRegex(done.stdout, rb'(?m)^check +clean$')
        self.assertIn(b'period 10 of 10: 3000 of 3000 requests', done.stderr)

    def test_little_logs(self):
        for text, n in ((b'', 0), (b'\n\n\n', 0), (b'1.2.3.4 - - [17/May/2015:10:05:03 +0000] "GET /" 200 5', 1)):
            with self.subTest(text=text):
                self.path('log').write_bytes(text)
                report = self.report('--log', self.path('log'))
                self.assertEqual((report['requests'], report['sessions'], report['check_ok']), (n, n, True))

    def test_help(self):
        self.assertIn(AWK.encode(), self.run_demo('--help').stdout)

    def test_wrong_options(self):
        for args in (['--workers', '0'], ['--workers', '257'], ['--workers', 'x'], ['--workers', '+1'], ['--workers'],
                     ['--requests', '0'], ['--cache', '0'], ['--cache', '513'], ['--seed', '-1'], ['--nonsense'], ['file'], ['--workers', '']):
            with self.subTest(args=args):
                done = self.run_demo(*args, status=2)
                self.assertTrue(done.stderr)
                self.assertEqual(done.stdout, b'')

    def test_unreadable_files(self):
        for args in (['--log', '/nonexistent'], ['--log', self.folder.name], ['--log', ''],
                     ['--requests', 10, '--dump', self.path('none') / 'x']):
            with self.subTest(args=args):
                done = self.run_demo(*args, status=1)
                self.assertIn(str(args[-1]).encode() + b': ', done.stderr)
                self.assertEqual(done.stdout, b'')

    def test_worker_dies(self):
        demo = self.start_demo('--json', '--requests', 500000, '--workers', 3)
        workers = self.workers(demo, 3)
        os.kill(workers[1], signal.SIGKILL)
        out, err = self.end_demo(demo)
        self.assertEqual(demo.returncode, 1, err)
        self.assertIn(f'worker 1 (process {workers[1]}) was killed: Killed; 2 go on', err)
        report = json.loads(out)
        self.assertEqual(report['workers_died'], 1)
        # It had taken four requests at most.
        self.assertGreaterEqual(report['requests'], 500000 - 4)
        self.assertLessEqual(abs(report['requests_booked'] - report['requests']), 1)
        self.assertTrue(report['check_ok'])

    def test_all_workers_die(self):
        demo = self.start_demo('--requests', 500000, '--workers', 2)
        for worker in self.workers(demo, 2):
            os.kill(worker, signal.SIGKILL)
        out, err = self.end_demo(demo)
        self.assertEqual((demo.returncode, out), (1, ''))
        self.assertIn('no worker is left', err)
        self.assertEqual(list(self.tmp.iterdir()), [])

    def test_daemon_dies(self):
        demo = self.start_demo('--requests', 500000)
        daemon, = children(demo.pid, 'tslabd')
        os.kill(daemon, signal.SIGKILL)
        out, err = self.end_demo(demo)
        self.assertEqual((demo.returncode, out), (1, ''))
        self.assertIn('the daemon ended (signal 9)', err)
        self.assertEqual(list(self.tmp.iterdir()), [])

    def test_interrupt(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(number=number):
                demo = self.start_demo('--requests', 500000)
                started = children(demo.pid, 'tslabd') + self.workers(demo, 4)
                self.assertEqual(len(started), 5)
                # As a terminal does: to all of the group.
                (os.killpg if number == signal.SIGINT else os.kill)(demo.pid, number)
                out, err = self.end_demo(demo)
                self.assertEqual((demo.returncode, out), (-number, ''), err)
                self.assertEqual(list(self.tmp.iterdir()), [])
                for pid in started:
                    self.assertFalse(pathlib.Path(f'/proc/{pid}').exists())

    def test_keep(self):
        done = subprocess.run([DEMO, '--json', '--keep', '--requests', '2000'], env=self.env, check=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=TIME_LIMIT)
        words = done.stderr.decode().split()
        daemon, runtime = int(words[words.index('kill') + 1]), words[words.index('export') + 1].split('=')[1]
        try:
            self.assertIn(str(CTL), words)
            stats = subprocess.run([CTL, '--pool', 'demo', 'stats', '--json'], check=True, stdout=subprocess.PIPE,
                                   env={**self.env, 'TSLAB_RUNTIME_DIR': runtime})
            stats = json.loads(stats.stdout)
            self.assertGreater(stats['live_objects'], json.loads(done.stdout)['clients'])
            # With the largest limit, pages leave as much for the other maps.
            self.assertGreaterEqual(stats['size_bytes'], 2 * CACHE_MIB_MAX << 20)
        finally:
            os.kill(daemon, signal.SIGTERM)
        end = time.monotonic() + TIME_LIMIT
        while pathlib.Path(runtime, 'demo.sock').exists() and time.monotonic() < end:
            time.sleep(0.01)
        self.assertFalse(pathlib.Path(runtime, 'demo.sock').exists())


if __name__ == '__main__':
    print(f'seed {SEED}', flush=True)
    unittest.main(argv=sys.argv[:1], verbosity=2)
