"""tslab-near as docs/near-cache.md sets it up, word by word, with a real redis-server; it is killed, and loses its server."""

import re
import shutil

from host import *

SKIP = 77
PAGE = pathlib.Path('/run/tslab-docs/near-cache.md')

if not shutil.which('redis-server'):
    print('there is no redis-server')
    sys.exit(SKIP)
setup()
_, engine, host = re.findall(r'```sh\n(.*?)```', PAGE.read_text(encoding='utf-8'), re.DOTALL)


def start_redis():
    sh('systemd-run', '--unit=engine', '--property=Type=notify', 'redis-server', '--supervised', 'systemd', '--save', '')


def status():
    return sh('systemctl', 'show', '--value', '-p', 'StatusText', 'tslab-near@web.service').strip()


def is_covered():
    return status().startswith('covered: 1 server')


def main_pid():
    return sh('systemctl', 'show', '--value', '-p', 'MainPID', 'tslab-near@web.service').strip()


start_redis()
sh('sh', '-e', '-c', engine)
sh('sh', '-e', '-c', host)
wait_for(is_covered, f'the cover: {status()}')
verify = sh('systemd-analyze', 'verify', 'tslab-near@web.service')
expect(not verify.strip(), f'verify says: {verify}')
print(re.search(r'Overall exposure.*', sh('systemd-analyze', 'security', '--offline=yes', '--threshold=30',
                                          'tslab-near@web.service')).group())

pid = main_pid()
sh('systemctl', 'kill', '--signal=KILL', 'tslab-near@web.service')
wait_for(lambda: main_pid() not in ('0', pid) and is_covered(), 'the cover after a kill')

sh('systemctl', 'restart', 'tslabd@web.service')
wait_for(is_covered, 'the cover after the daemon was replaced')

sh('systemctl', 'stop', 'tslabd@web.socket', 'tslabd@web.service')
sh('systemctl', 'start', 'tslabd@web.socket')
wait_for(is_covered, 'the cover after the pool was stopped and started')

sh('systemctl', 'stop', 'engine.service')
wait_for(lambda: status().startswith('not covered'), f'no cover without a server: {status()}')
start_redis()
wait_for(lambda: 'WRONGPASS' in status() or 'password is refused' in status(), 'a server that does not know the user')
sh('sh', '-e', '-c', engine)
wait_for(is_covered, 'the cover with the server that came back')

# Its lines are found by the pool.
expect(any(e.get('_SYSTEMD_UNIT') == 'tslab-near@web.service' and e['MESSAGE'].startswith('covered: ')
           for e in journal('TSLAB_POOL=web')), "the journal has tslab-near's messages by the pool")

# A user that may not open the pool: one message, no restarts, and the cover when the user may.
sh('systemctl', 'stop', 'tslab-near@web.service')
CLOSED = '/etc/systemd/system/tslabd@web.socket.d/closed.conf'
pathlib.Path(CLOSED).parent.mkdir(exist_ok=True)
pathlib.Path(CLOSED).write_text('[Socket]\nSocketGroup=root\n', encoding='utf-8')
sh('systemctl', 'daemon-reload')
sh('systemctl', 'stop', 'tslabd@web.socket', 'tslabd@web.service')
sh('systemctl', 'start', 'tslabd@web.socket')
sh('systemctl', 'start', 'tslab-near@web.service')
wait_for(lambda: 'has to be a writer of the pool' in status(), f'the reason: {status()}')
time.sleep(3)
expect(sh('systemctl', 'show', '--value', '-p', 'NRestarts', 'tslab-near@web.service').strip() == '0', 'no restarts')
os.unlink(CLOSED)
sh('systemctl', 'daemon-reload')
sh('systemctl', 'stop', 'tslabd@web.socket', 'tslabd@web.service')
sh('systemctl', 'start', 'tslabd@web.socket')
wait_for(is_covered, f'the cover with the permission: {status()}')

# A setting that is misspelt stops the start, and says so.
with open('/etc/tslab/near/web.conf', 'a', encoding='utf-8') as file:
    file.write('TSLAB_NEAR_LIMITS=1M\n')
sh('sh', '-c', 'systemctl restart tslab-near@web.service; :')
wait_for(lambda: any('there is no setting TSLAB_NEAR_LIMITS' in e['MESSAGE'] for e in journal('TSLAB_POOL=web')), 'the reason')
