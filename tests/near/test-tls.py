"""tslab-near and NearCache by TLS, with client certificates, and by URLs.

    test-tls.py TSLABD TSLABCTL TSLAB_NEAR EXAMPLE [unittest arguments]
"""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'util'))
import redis  # noqa: E402
import side  # noqa: E402
import tslab  # noqa: E402
from daemon import Daemon, free_port, wait_for  # noqa: E402
from hosts import is_kept  # noqa: E402
from servers import TSLAB_NEAR, Counted, Redis  # noqa: E402
from stepper import CAN_STEP, Stepper, instructions  # noqa: E402

TSLABD = os.path.abspath(sys.argv[1])


def openssl(*arguments):
    subprocess.run(['openssl', *arguments], check=True, capture_output=True)


def make_certificates(folder):
    """An authority, a server's certificate for localhost and one for 127.0.0.1, and a client's."""
    def path(name):
        return os.path.join(folder, name)

    key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']
    for name in 'ca', 'other':
        openssl('req', '-x509', *key, '-keyout', path(name + '.key'), '-out', path(name + '.pem'), '-subj', f'/CN={name}',
                '-days', '2')
    for name, alternative in ('server', 'IP:127.0.0.1'), ('named', 'DNS:localhost'), ('client', 'DNS:client'):
        openssl('req', *key, '-keyout', path(name + '.key'), '-out', path(name + '.csr'), '-subj', f'/CN={name}')
        with open(path(name + '.ext'), 'w') as file:
            file.write(f'subjectAltName={alternative}\n')
        openssl('x509', '-req', '-in', path(name + '.csr'), '-CA', path('ca.pem'), '-CAkey', path('ca.key'),
                '-CAcreateserial', '-out', path(name + '.pem'), '-days', '2', '-extfile', path(name + '.ext'))


class TlsRedis(Redis):
    def __init__(self, folder, name, *arguments):
        self.folder, self.tls_port = folder, free_port()
        super().__init__('--tls-port', str(self.tls_port), '--tls-cert-file', f'{folder}/{name}.pem', '--tls-key-file',
                         f'{folder}/{name}.key', '--tls-ca-cert-file', f'{folder}/ca.pem', *arguments)


def is_open_to(port):
    """Whether a connection to it is established."""
    with open('/proc/net/tcp') as table:
        rows = [row.split() for row in list(table)[1:]]
    return any(remote.endswith(f':{port:04X}') and state == '01' for _, _, remote, state, *_ in rows)


@unittest.skipUnless(shutil.which('openssl'), 'there is no openssl')
class TlsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = cls.enterClassContext(tempfile.TemporaryDirectory(prefix='tslab-near-'))
        make_certificates(cls.folder)

    def setUp(self):
        self.daemon = self.enterContext(Daemon(TSLABD, '--size=16M'))
        self.pool = self.enterContext(tslab.open(self.daemon.socket))

    def server(self, name='server', *arguments):
        server = TlsRedis(self.folder, name, *arguments)
        self.addCleanup(server.end)
        return server

    def path(self, name):
        return os.path.join(self.folder, name)

    def command(self, server, *arguments):
        return [TSLAB_NEAR, '--pool', self.daemon.socket, '--server', server, '--prefix', 'p:', *arguments]

    def check(self, server, *arguments, **environment):
        done = subprocess.run(self.command(server, *arguments, '--check'), capture_output=True, text=True, check=False,
                              timeout=60, env=os.environ | environment)
        return done.returncode, done.stderr

    def expect(self, text, server, *arguments, status=1, **environment):
        code, said = self.check(server, *arguments, **environment)
        self.assertEqual(code, status, said)
        self.assertIn(text, said)

    def client_arguments(self):
        return ['--tls-ca', self.path('ca.pem'), '--tls-cert', self.path('client.pem'), '--tls-key', self.path('client.key')]

    def test_copies(self):
        """Changes are told by TLS, large answers too, and the server is asked by a URL."""
        server = self.server()
        near = subprocess.Popen(self.command(f'rediss://127.0.0.1:{server.tls_port}', *self.client_arguments()))
        self.addCleanup(near.wait)
        self.addCleanup(near.terminate)
        url = (f'rediss://127.0.0.1:{server.tls_port}?ssl_ca_certs={self.path("ca.pem")}'
               f'&ssl_certfile={self.path("client.pem")}&ssl_keyfile={self.path("client.key")}')
        cache = tslab.NearCache(Counted(redis.Redis.from_url(url)), self.pool, prefix='p:')
        wait_for(lambda: is_kept(cache, ['probe']))
        by_url = tslab.NearCache(url, self.pool, prefix='p:')
        client = server.client()
        for i in range(20):
            client.mset({f'p:{key}{"x" * 100}': i for key in range(2000)})      # some 300 KB of keys are told
            client.set('p:a', i)
            wait_for(lambda i=i: cache.get('a') == f'{i}'.encode() == by_url.get('a'))
        wait_for(lambda: is_kept(cache, ['a']))

    def test_certificates(self):
        server, named = self.server(), self.server('named')
        url, other = f'rediss://127.0.0.1:{server.tls_port}', f'rediss://127.0.0.1:{named.tls_port}'
        ours = self.client_arguments()
        self.assertEqual(self.check(url, *ours)[0], 0)
        self.expect('name the authority', url, *ours[2:])
        self.expect("the server's certificate", url, '--tls-ca', self.path('other.pem'), *ours[2:])
        self.expect('give --tls-name', other, *ours)
        self.assertEqual(self.check(other, *ours, '--tls-name', 'localhost')[0], 0)
        self.assertEqual(self.check(f'rediss://localhost:{named.tls_port}', *ours)[0], 0)
        self.expect('certificate', url, *ours[:2])                       # the server wants one of the client
        self.expect('rediss://', f'127.0.0.1:{server.tls_port}')        # without TLS
        self.expect('not covered', f'rediss://127.0.0.1:{server.port}', *ours)      # a port without TLS

    @unittest.skipUnless(CAN_STEP and shutil.which('objdump'), 'breakpoints are for x86-64, with binutils')
    def test_an_alert_before_the_first_write(self):
        """By TLS 1.3 a server refuses a client without a certificate when that believes to be connected."""
        server = self.server()
        address = min(a for a, name in instructions(TSLAB_NEAR).items() if name == 'stream_write')
        near = subprocess.Popen(self.command(f'rediss://127.0.0.1:{server.tls_port}', *self.client_arguments()[:2]),
                                stderr=subprocess.PIPE, text=True)
        self.addCleanup(near.wait)
        self.addCleanup(near.kill)
        text = near.stderr.readline()
        with Stepper(near, TSLAB_NEAR) as stepper:
            stepper.plant([address])
            self.assertIsNotNone(stepper.run(lambda: False))
            wait_for(lambda: not is_open_to(server.tls_port))
        near.terminate()
        for line in (text + near.communicate()[1]).splitlines():
            self.assertIn('certificate required; the server wants a certificate', line)

    def test_no_client_certificate(self):
        server = self.server('server', '--tls-auth-clients', 'no')
        self.assertEqual(self.check(f'rediss://127.0.0.1:{server.tls_port}', '--tls-ca', self.path('ca.pem'))[0], 0)

    def test_urls(self):
        server = self.server('server', '--unixsocket', self.path('redis.sock'))
        server.client().acl_setuser('near', enabled=True, passwords=['+a:b@/c,d'], commands=['+@all'], channels=['*'])
        server.client().acl_setuser('default', enabled=True, nopass=False, reset_passwords=True, passwords=['+word'],
                                    commands=['+@all'], keys=['*'], channels=['*'])
        place = f'127.0.0.1:{server.port}'
        secret = 'near:a%3Ab%40%2Fc%2Cd'
        for url, code in ((f'redis://{secret}@{place}', 0), (f'redis://{secret}@{place}/3', 0), (f'redis://:word@{place}', 0),
                          (f'unix://{secret}@{self.path("redis.sock")}', 0), (f'redis://:wrong@{place}', 1),
                          (f'redis://near@{place}', 2), (f'redis://a:%zz@{place}', 2), (f'http://{place}', 2),
                          (f'redis://:word@{place},rediss://{place}', 2)):
            done = subprocess.run([TSLAB_NEAR, '--pool', self.daemon.socket, '--prefix=p:', '--check'], check=False,
                                  env=os.environ | {'TSLAB_NEAR_SERVER': url}, capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, code, (url, done.stderr))
        self.expect('--password-file', f'redis://:word@{place}', status=2)
        cache = tslab.NearCache(f'redis://:word@{place}/0', self.pool, prefix='p:')
        cache.set('a', b'1')
        self.assertEqual(cache.get('a'), b'1')
        self.assertRaises(ValueError, tslab.NearCache, 'http://nowhere', self.pool, prefix='p:')

    def test_settings(self):
        tls = 'rediss://127.0.0.1'
        for server, argument, text in (('127.0.0.1', '--tls-ca=/x', 'rediss://'), (tls, '--tls-ca=/none', 'authorities'),
                                       (tls, '--tls-key=/none', '--tls-cert'), (tls, '--tls-cert=/none', 'certificate')):
            self.expect(text, server, argument, status=2)


side.main()
