"""Lists, completion and metrics start no pool whose socket systemd holds; a command for a pool does."""

import urllib.request

from host import *

POOLS = ('sessions', 'web')
HOST, PORT = '127.0.0.1', 9465
COMPLETE = '''
source /usr/share/bash-completion/completions/tslabctl
COMP_WORDS=(tslabctl --pool ""); COMP_CWORD=2
_tslabctl tslabctl
printf '%s\\n' "${COMPREPLY[@]}"
'''


def states():
    return {p['pool']: p['state'] for p in json.loads(sh('tslabctl', '--json', 'list'))}


def scraped():
    with urllib.request.urlopen(f'http://{HOST}:{PORT}/metrics', timeout=20) as answer:
        text = answer.read().decode()
    return {line for line in text.splitlines() if line.startswith('tslab_up{')}


def look():
    """All that is run often, and by programs, as root and as a user who may do little."""
    sh('tslabctl', 'list')
    sh('setpriv', '--reuid=tslab-metrics', '--regid=tslab-metrics', '--init-groups', 'tslabctl', 'list')
    expect(set(sh('bash', '-c', COMPLETE).split()) == set(POOLS), 'completion')
    for pool in POOLS:
        sh('tslabctl', '--pool', pool, 'metrics')
    return scraped()


def runs(pool):
    return show(pool, 'ActiveState') != 'inactive'


setup()
sh('systemctl', 'enable', '--now', 'tslab-metrics.socket')
for name in POOLS:
    start(name)
expect(states() == {'sessions': 'idle', 'web': 'idle'}, f'idle at first: {states()}')
expect(look() == set(), 'no metrics of idle pools, which no alert is for')
expect(not any(map(runs, POOLS)), 'nothing was started')

ctl('web', 'status')
expect(states() == {'sessions': 'idle', 'web': 'running'}, f'one was asked for: {states()}')
expect(look() == {'tslab_up{pool="web"} 1'}, 'its metrics')
expect(not runs('sessions'), 'the other is still idle')

# A daemon that was killed, and does not come up again, is missed.
drop_in('tslabd@web.service', '[Service]\nRestart=no\nWatchdogSec=60\n')
sh('systemctl', 'kill', '-s', 'KILL', 'tslabd@web.service')
wait_for(lambda: show('web', 'ActiveState') == 'failed', 'the end of the daemon')
expect(states() == {'sessions': 'idle', 'web': 'dead'}, f'one was killed: {states()}')
expect(look() == {'tslab_up{pool="web"} 0'}, 'the alert')

ctl('web', 'status')
sh('systemctl', 'stop', 'tslabd@web.service')
expect(states() == {'sessions': 'idle', 'web': 'idle'}, f'one was stopped: {states()}')
expect(look() == set() and not any(map(runs, POOLS)), 'nothing was started again')

# Nobody else can take the mark away, or keep a daemon from it.
ctl('web', 'status')
mark = '/run/tslab/lock/web.run'
expect(sh('stat', '-c', '%U %a', mark).strip() == 'tslab 644', 'the mark')
for command in (['rm', '-f', mark], ['sh', '-c', f': > {mark}'], ['ls', '/run/tslab/lock']):
    code, _ = sh('setpriv', '--reuid=tslab-metrics', '--regid=tslab-metrics', '--init-groups', *command, check=False)
    expect(code != 0, command)
holder = subprocess.Popen(['setpriv', '--reuid=tslab-metrics', '--regid=tslab-metrics', '--init-groups', sys.executable,
                           '-c', f'import fcntl; f = open("{mark}"); fcntl.lockf(f, fcntl.LOCK_SH); print(1, flush=True); input()'],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE)
expect(holder.stdout.readline(), 'another lock')
sh('systemctl', 'restart', 'tslabd@web.service')
expect(states()['web'] == 'running', 'beside the lock of another user')
holder.communicate(b'\n')

# A daemon that hangs costs any verb some seconds, and the complaint names the process and the remedy.
pid = int(show('web', 'MainPID'))
os.kill(pid, signal.SIGSTOP)
try:
    began = time.monotonic()
    code, text = sh('tslabctl', '--pool', 'web', 'stats', check=False)
    expect(code == 1 and f'process {pid}, does not answer: it was stopped' in text and f'kill -CONT {pid}' in text, text)
    expect(time.monotonic() - began < 9, 'some seconds')
    expect(states() == {'sessions': 'idle', 'web': 'silent'}, f'one hangs: {states()}')
finally:
    os.kill(pid, signal.SIGCONT)
