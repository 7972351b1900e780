"""tslabctl metrics: its text by the parsers of others, and HTTP as peers speak it, well and badly.

    test-metrics.py TSLABCTL TSLABD CTL-CLIENT SOURCE-FOLDER [unittest arguments]
"""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import unittest

TSLABCTL, TSLABD, CTL_CLIENT, SOURCE = map(os.path.abspath, sys.argv[1:5])
sys.path.insert(0, f'{SOURCE}/tests/util')

from daemon import SECONDS, Daemon, free_port, wait_for

from prometheus_client import parser as plain_parser
from prometheus_client.openmetrics import parser as open_parser

OPEN = b'Accept: application/openmetrics-text;version=1.0.0,text/plain;q=0.5\r\n'


def values(families, name, **labels):
    return {tuple(v for k, v in sorted(s.labels.items()) if k not in labels): s.value
            for f in families for s in f.samples
            if s.name == name and all(s.labels.get(k) == v for k, v in labels.items())}


class Metrics(unittest.TestCase):
    def setUp(self):
        self.daemon = self.enterContext(Daemon(TSLABD, '--size=16M'))

    def run_ctl(self, *arguments, **more):
        return subprocess.run([TSLABCTL, *arguments], env=self.daemon.environment, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, check=False, timeout=SECONDS, **more)

    def text(self, *arguments):
        done = self.run_ctl('metrics', *arguments)
        self.assertEqual((done.returncode, done.stderr), (0, b''))
        return done.stdout.decode()

    def serve(self):
        """The address of a server, which systemd would start so."""
        with socket.create_server(('127.0.0.1', 0), backlog=512) as listener:
            process = subprocess.Popen([TSLABCTL, 'metrics', '--http'], stdin=listener, stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, env=self.daemon.environment)
            self.addCleanup(self.end, process)
            return listener.getsockname()

    def end(self, process):
        self.assertIsNone(process.poll())
        process.terminate()
        self.assertEqual(process.communicate(timeout=SECONDS), (b'', b''))

    def ask(self, address, request):
        """The answer that one connection gets: status, headers, body."""
        with socket.create_connection(address, SECONDS) as connection:
            sender = threading.Thread(target=self.send, args=(connection, request))
            sender.start()
            data = b''
            try:
                while part := connection.recv(65536):
                    data += part
            except ConnectionResetError:
                pass                            # after an answer to a part of the request
            sender.join()
        if not data:
            return 0, {}, b''
        head, body = data.split(b'\r\n\r\n', 1)
        status, *lines = head.decode().split('\r\n')
        return int(status.split()[1]), dict(line.lower().split(': ', 1) for line in lines), body

    @staticmethod
    def send(connection, request):
        try:
            connection.sendall(request)
        except OSError:
            pass                                # answered before all was sent

    def client(self):
        process = subprocess.Popen([CTL_CLIENT, self.daemon.socket], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   text=True)
        self.addCleanup(process.wait, SECONDS)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stdin.close)
        self.assertEqual(process.stdout.readline(), 'attached\n')
        print('alloc 100 300', file=process.stdin, flush=True)
        process.stdout.readline()

    def test_text(self):
        self.client()
        text = self.text()
        families = list(open_parser.text_string_to_metric_families(text))
        self.assertTrue(text.endswith('\n# EOF\n'))
        self.assertEqual(values(families, 'tslab_up'), {('default',): 1})
        self.assertEqual(values(families, 'tslab_size_bytes'), {('default',): 16 << 20})
        self.assertEqual(values(families, 'tslab_allocs_total'), {('default',): 300})
        self.assertEqual(values(families, 'tslab_live_objects'), {('default',): 300})
        self.assertEqual(values(families, 'tslab_class_live_objects', size='112'), {('default',): 300})
        self.assertEqual(values(families, 'tslab_epoch_live_objects', epoch='0'), {('default',): 300})
        self.assertEqual(len(values(families, 'tslab_epoch_era')), 16)
        for family in families:
            self.assertTrue(family.documentation, family.name)

    def test_json(self):
        self.assertEqual(self.daemon.ctl(TSLABCTL, 'metrics')['pool'], 'default')
        done = self.run_ctl('metrics', '--all', '--json')
        self.assertIn(b'[{"pool":"default","size_bytes":16777216,', done.stdout)

    def test_all(self):
        """A pool that is gone, and one that is silent, are down; the others are there."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as dead:
            dead.bind(f'{self.daemon.dir}/web.sock')
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as silent:
            silent.bind(f'{self.daemon.dir}/mute.sock')
            silent.listen()
            families = list(open_parser.text_string_to_metric_families(self.text('--all')))
        self.assertEqual(values(families, 'tslab_up'), {('default',): 1, ('mute',): 0, ('web',): 0})
        self.assertEqual(values(families, 'tslab_size_bytes'), {('default',): 16 << 20})

    def test_usage(self):
        for arguments, said in ((('--all', '--pool', 'web'), b'--pool'), (('--http', '--json'), b'--json'),
                                (('--http', '--socket', '/x'), b'--socket')):
            done = self.run_ctl('metrics', *arguments)
            self.assertEqual((done.returncode, done.stdout), (2, b''))
            self.assertIn(said, done.stderr)
        self.assertEqual(self.run_ctl('stats', '--all').returncode, 2)

    def test_http(self):
        server = self.serve()
        status, headers, body = self.ask(server, b'GET /metrics HTTP/1.1\r\nHost: localhost\r\n' + OPEN + b'\r\n')
        self.assertEqual((status, headers['content-type']),
                         (200, 'application/openmetrics-text; version=1.0.0; charset=utf-8'))
        self.assertEqual((headers['connection'], int(headers['content-length'])), ('close', len(body)))
        families = list(open_parser.text_string_to_metric_families(body.decode()))
        self.assertEqual(values(families, 'tslab_up'), {('default',): 1})

        status, headers, body = self.ask(server, b'GET /metrics?x=1 HTTP/1.0\r\n\r\n')
        self.assertEqual((status, headers['content-type']), (200, 'text/plain; version=0.0.4; charset=utf-8'))
        self.assertNotIn(b'# EOF', body)
        families = list(plain_parser.text_string_to_metric_families(body.decode()))
        self.assertEqual(values(families, 'tslab_up'), {('default',): 1})
        self.assertEqual({f.type for f in families if f.name == 'tslab_allocs'}, {'counter'})

        status, headers, none = self.ask(server, b'HEAD /metrics HTTP/1.1\r\nHost: [::1]:9465\r\n\r\n')
        self.assertEqual((status, none), (200, b''))
        self.assertGreater(int(headers['content-length']), len(body) // 2)

    def test_http_address(self):
        """A server that listens by itself, as in a container."""
        port = free_port()
        with socket.create_server(('127.0.0.1', port)):
            done = self.run_ctl('metrics', f'--http=127.0.0.1:{port}')
            self.assertEqual(done.returncode, 1)
            self.assertIn(b'in use', done.stderr)
        for where in (str(port), f'0.0.0.0:{port}'):
            process = subprocess.Popen([TSLABCTL, 'metrics', f'--http={where}'], stdin=subprocess.DEVNULL,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self.daemon.environment)
            try:
                wait_for(lambda: not self.connect_fails(port))
                status, _, body = self.ask(('127.0.0.1', port), b'GET /metrics HTTP/1.0\r\n\r\n')
                self.assertEqual(status, 200)
                self.assertIn(b'tslab_up{pool="default"} 1', body)
                # As in docs/containers/compose.yaml, where Prometheus knows it by a name.
                self.assertEqual(self.ask(('127.0.0.1', port), b'GET /metrics HTTP/1.1\r\nHost: metrics:9465\r\n\r\n')[0],
                                 200 if where.startswith('0.0.0.0') else 403)
            finally:
                self.end(process)
        for where in ('', 'x', ':1', '127.0.0.1:', 'localhost:80', '1.2.3.4.5:1', '65536', '127.0.0.1:131000', '[' + 'x' * 99 + ']:1'):
            done = self.run_ctl('metrics', f'--http={where}')
            self.assertEqual((done.returncode, done.stdout), (2, b''), where)

    @unittest.skipUnless(os.geteuid() == 0, 'not root')
    def test_http_end(self):
        """As process 1 of a container, which no signal ends that it does not handle."""
        port = free_port()
        process = subprocess.Popen(['unshare', '--pid', '--fork', '--kill-child', '--mount-proc', '--', TSLABCTL,
                                    'metrics', f'--http={port}'], stdin=subprocess.DEVNULL, env=self.daemon.environment)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        wait_for(lambda: not self.connect_fails(port))
        with open(f'/proc/{process.pid}/task/{process.pid}/children', encoding='ascii') as children:
            os.kill(int(children.read().split()[0]), signal.SIGTERM)
        self.assertEqual(process.wait(SECONDS), 0)

    @staticmethod
    def connect_fails(port):
        with socket.socket() as s:
            return s.connect_ex(('127.0.0.1', port))

    def test_http_refused(self):
        server = self.serve()
        for request, expected in (
                (b'GET / HTTP/1.1\r\nHost: localhost\r\n\r\n', 404),
                (b'GET /metricsx HTTP/1.1\r\nHost: localhost\r\n\r\n', 404),
                (b'POST /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n', 405),
                (b'GET /metrics HTTP/1.1\r\n\r\n', 400)):
            status, headers, _ = self.ask(server, request)
            self.assertEqual(status, expected, request[:40])
            self.assertEqual(headers.get('allow'), 'get, head' if expected == 405 else None)
        for garbage in (b'\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03\r\n\r\n', b'GET /metrics\r\n\r\n',
                        b'GET /' + b'x' * 90000 + b' HTTP/1.1\r\n\r\n', b'x' * 500_000 + b'\r\n\r\n'):
            self.assertNotEqual(self.ask(server, garbage)[0], 200)
        self.assertEqual(self.ask(server, b'GET /metrics HTTP/1.0\r\n\r\n')[0], 200)

    def test_http_host(self):
        """A page of another server, which a browser shows, cannot read the numbers: the browser names that server."""
        server = self.serve()
        for host, expected in (('localhost', 200), ('LOCALHOST:9465', 200), ('127.0.0.1:9465', 200), ('[::1]', 200),
                               ('10.1.2.3', 200), ('example.org', 403), ('localhost.example.org', 403),
                               ('127.0.0.1.example.org:9465', 403), ('x' * 300, 403), ('', 403)):
            request = f'GET /metrics HTTP/1.1\r\nHost: {host}\r\n\r\n'.encode()
            self.assertEqual(self.ask(server, request)[0], expected, host)

    def test_http_silent(self):
        """More connections than are served, all silent: when they are gone, the next one is answered."""
        server = self.serve()
        with contextlib.ExitStack() as stack:
            for _ in range(200):
                stack.enter_context(socket.create_connection(server, SECONDS))
        self.assertEqual(self.ask(server, b'GET /metrics HTTP/1.0\r\n\r\n')[0], 200)

    def test_http_no_socket(self):
        done = self.run_ctl('metrics', '--http', stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 2)
        self.assertIn(b'listening socket', done.stderr)

    @unittest.skipUnless(shutil.which('promtool'), 'no promtool (Debian: prometheus)')
    def test_promtool(self):
        body = self.ask(self.serve(), b'GET /metrics HTTP/1.0\r\n\r\n')[2]
        done = subprocess.run(['promtool', 'check', 'metrics'], input=body, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, b''))


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1] + sys.argv[5:])
