"""The metrics of all pools over HTTP: one process, as a user of its own that may only read."""

import socket
import urllib.error
import urllib.request

from host import *

HOST, PORT = '127.0.0.1', 9465
URL = f'http://{HOST}:{PORT}'


def get(path='/metrics', method='GET', **headers):
    request = urllib.request.Request(URL + path, method=method, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, answer.headers['Content-Type'], answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers['Content-Type'], error.read().decode()


def up():
    status, _, text = get()
    expect(status == 200, f'{status}: {text}')
    return {line for line in text.splitlines() if line.startswith('tslab_up{')}


def units():
    return sh('systemctl', 'list-units', '--all', '--plain', '--no-legend', 'tslab-metrics.service')


setup()
sh('systemd-analyze', 'verify', 'tslab-metrics.socket')
verify = sh('systemd-analyze', 'verify', 'tslab-metrics.service')
expect(not verify.strip(), f'verify says: {verify}')
exposure = sh('systemd-analyze', 'security', '--offline=yes', '--threshold=15', 'tslab-metrics.service')
print(re.search(r'Overall exposure.*', exposure).group())

sh('systemctl', 'enable', '--now', 'tslab-metrics.socket')
expect(up() == set(), 'no pool yet')

for pool in ('sessions', 'web'):
    start(pool)
    ctl(pool, 'status')                         # the metrics start none
client = Client('hold', 'sessions', 1000)
client.wait_for('ready')
expect(up() == {'tslab_up{pool="sessions"} 1', 'tslab_up{pool="web"} 1'}, 'both pools')
expect(re.search(r'^tslab_clients\{pool="sessions"\} 1$', get()[2], re.M), 'the client of the one')
status, kind, text = get(Accept='application/openmetrics-text; version=1.0.0')
expect(kind.startswith('application/openmetrics-text') and text.endswith('# EOF\n'), f'OpenMetrics: {kind}')

expect(get('/')[0] == 404, 'another path')
expect(get(method='DELETE')[0] == 405, 'another method')
with socket.create_connection((HOST, PORT), 20) as connection:
    connection.sendall(b'nonsense\r\n\r\n')
    expect(b' 200 ' not in connection.recv(100), 'a bad request')
# A client that says nothing keeps nobody out.
with socket.create_connection((HOST, PORT)):
    expect(len(up()) == 2, 'beside one who says nothing')
# Nor does a user who connects often.
for _ in range(400):
    socket.create_connection((HOST, PORT)).close()
expect(len(up()) == 2, 'after 400 connections')


# Nor does a user who keeps more connections open than there are places, says nothing, and comes again when hung up.
HOG = f"""
import select, socket, sys
connect = lambda: socket.create_connection(('{HOST}', {PORT}))
held = [connect() for _ in range(300)]
print('holds', flush=True)
while True:
    for gone in select.select(held, [], [])[0]:
        held.remove(gone)
        gone.close()
        held.append(connect())
"""
hog = subprocess.Popen(['setpriv', '--reuid=nobody', '--clear-groups', sys.executable, '-c', HOG], stdout=subprocess.PIPE)
hog.stdout.readline()
for _ in range(3):
    expect(len(up()) == 2, 'beside a user who holds 300 connections')
hog.kill()
hog.wait()
expect(' active ' in units(), f'one process: {units()}')
expect(get(Host='example.org')[0] == 403, 'a page of another server')
# It reads, though nobody is named as a writer.
code, text = sh('timeout', '5', 'setpriv', '--reuid=tslab-metrics', '--regid=tslab-metrics', '--init-groups', CLIENT,
                'hold', 'sessions', '1', check=False)
expect(code not in (0, 124), f'the user of the metrics writes: {text}')

said = [e for e in journal('SYSLOG_IDENTIFIER=tslab-metrics')]
expect(not said, f'it complains: {said[:1]}')

# A reader, by its name where readers are named.
settings('web', 'TSLAB_READERS=root', 'TSLAB_WRITERS=root')
sh('systemctl', 'restart', 'tslabd@web.service')
expect('tslab_up{pool="web"} -1' in up(), 'not let in where others are: that is not down')
settings('web', 'TSLAB_READERS=root,tslab-metrics', 'TSLAB_WRITERS=root')
sh('systemctl', 'restart', 'tslabd@web.service')
expect('tslab_up{pool="web"} 1' in up(), 'let in by name')

# A daemon that is stopped answers nobody; the others are shown all the same.
pid = int(show('web', 'MainPID'))
os.kill(pid, signal.SIGSTOP)
try:
    expect(up() == {'tslab_up{pool="sessions"} 1', 'tslab_up{pool="web"} 0'}, 'beside one that is stopped')
finally:
    os.kill(pid, signal.SIGCONT)
client.end()
