"""The scripts of the Debian package: neither an upgrade nor a removal drops a pool without a word."""

from host import *

POOL = 'sessions'
UNIT = f'tslabd@{POOL}.service'
SCRIPTS = pathlib.Path('/run/tslab-debian')


def script(name, argument, **environment):
    code, text = sh('sh', SCRIPTS / f'tslab.{name}', argument, check=False, env={**os.environ, **environment})
    return code, text.replace('\n', ' ')


def main_pid(unit):
    return sh('systemctl', 'show', '--value', '-p', 'MainPID', unit).strip()


def signal_daemon(name):
    sh('systemctl', 'kill', '--kill-who=main', '-s', name, UNIT)


def arena():
    return ctl_json(POOL, 'stats')['arena_id']


setup()
# Images for containers forbid packages to start and restart services.
pathlib.Path('/usr/sbin/policy-rc.d').unlink(missing_ok=True)
settings(POOL, 'TSLAB_RETAIN=4M')
start(POOL)
client = Client('hold', POOL, 1000)
client.wait_for('ready')
before, pid = arena(), show(POOL, 'MainPID')

# An upgrade while the settings are good, and while they are bad. All programs of the package go on in the new version.
pathlib.Path('/etc/tslab/near').mkdir(exist_ok=True)
pathlib.Path(f'/etc/tslab/near/{POOL}.conf').write_text('TSLAB_NEAR_SERVER=127.0.0.1:1\nTSLAB_NEAR_PREFIX=page:\n')
OTHERS = [f'tslab-near@{POOL}.service', 'tslab-metrics.service']
sh('systemctl', 'start', 'tslab-metrics.socket', *OTHERS)
were = [main_pid(unit) for unit in OTHERS]
expect('0' not in were, 'tslab-near and tslab-metrics run')
expect(script('postinst', 'configure') == (0, ''), 'an upgrade says nothing')
expect(show(POOL, 'MainPID') not in ('0', pid) and arena() == before, 'another daemon, the same pool')
for unit, was in zip(OTHERS, were):
    expect(main_pid(unit) not in ('0', was), f'{unit} goes on in the old version')
sh('systemctl', 'stop', *OTHERS)
settings(POOL, 'TSLAB_RETAIN=4MB')
pid = show(POOL, 'MainPID')
code, text = script('postinst', 'configure')
expect(code == 0 and f'{UNIT} was not restarted' in text and f'/etc/tslab/{POOL}.conf:1: ' in text, f'a warning: {text}')
expect(show(POOL, 'MainPID') == pid and arena() == before, 'the daemon is left as it is')

# One that cannot take the memory up: it is said.
settings(POOL, 'TSLAB_RETAIN=4M')
drop_in(UNIT, f'[Service]\nExecStartPre=+/bin/sh -c "exit 1"\nRestartSec=1h\n')
code, text = script('postinst', 'configure')
expect(f'{UNIT} did not come up again' in text, f'a warning: {text}')
pathlib.Path(f'/etc/systemd/system/{UNIT}.d/50-test.conf').unlink()
sh('systemctl', 'daemon-reload')
sh('systemctl', 'restart', UNIT)
expect(arena() == before, 'the pool has been kept')

# A removal. tslab-near, which is of the package, is no reason to refuse it.
sh('systemctl', 'enable', '--now', f'tslab-near@{POOL}.service')
wait_for(lambda: ctl_json(POOL, 'stats')['clients'] == 2, 'tslab-near is a client')
client.look()
code, text = script('prerm', 'remove')
expect(code == 1 and f'1 processes use pool {POOL}, with 1' in text, f'a removal is refused: {code} {text}')
expect(arena() == before, 'the pool is there')
client.look()
expect(script('prerm', 'upgrade') == (0, ''), 'an upgrade is not')

# The socket of another daemon, whose pool nobody uses, has taken the place of the unit's.
elsewhere, socket_path = pathlib.Path('/run/elsewhere'), pathlib.Path(f'/run/tslab/{POOL}.sock')
elsewhere.mkdir()
other = subprocess.Popen(['tslabd', '--pool', POOL, '--size=16M'], env={**os.environ, 'TSLAB_RUNTIME_DIR': str(elsewhere)})
wait_for((elsewhere / f'{POOL}.sock').exists, 'another daemon')
socket_path.rename(elsewhere / 'own.sock')
(elsewhere / f'{POOL}.sock').rename(socket_path)
expect(ctl_json(POOL, 'stats')['daemon_pid'] == other.pid, 'it has the socket')
code, text = script('prerm', 'remove')
expect(code == 1 and f'whether pool {POOL} is used is not known' in text, f'a daemon of another: {code} {text}')
code, text = script('prerm', 'upgrade')
expect(code == 0 and f'may lose the maps of pool {POOL}' in text, f'an upgrade beside it: {code} {text}')
(elsewhere / 'own.sock').rename(socket_path)
other.kill()
other.wait()
expect(arena() == before, 'the pool is there')

# A daemon that does not answer at that moment: stopped by a signal, and while it starts. systemd that does not answer.
drop_in(UNIT, '[Service]\nWatchdogSec=0\nRestartSec=1h\n')
sh('systemctl', 'restart', UNIT)
signal_daemon('STOP')
code, text = script('prerm', 'remove')
expect(code == 1 and f'whether pool {POOL} is used is not known' in text, f'a stopped daemon: {code} {text}')
code, text = script('prerm', 'upgrade')
expect(code == 0 and f'whether pool {POOL} keeps maps is not known' in text, f'an upgrade beside it: {code} {text}')
code, text = script('postinst', 'abort-upgrade')
expect(code == 0 and f'whether pool {POOL} has a file of maps' in text, f'an upgrade that is given up: {code} {text}')
signal_daemon('KILL')
wait_for(lambda: show(POOL, 'SubState') == 'auto-restart', 'a daemon that waits for its restart')
code, text = script('prerm', 'remove')
expect(code == 1 and f'whether pool {POOL} is used is not known' in text, f'a daemon that starts: {code} {text}')
code, text = script('prerm', 'remove', DBUS_SYSTEM_BUS_ADDRESS='unix:path=/none', SYSTEMCTL_FORCE_BUS='1')
expect(code == 1 and 'systemd does not tell' in text, f'systemd does not answer: {code} {text}')
pathlib.Path(f'/etc/systemd/system/{UNIT}.d/50-test.conf').unlink()
sh('systemctl', 'daemon-reload')
sh('systemctl', 'restart', UNIT)
expect(arena() == before, 'the pool is kept')
client.look()
client.process.kill()
client.process.wait()
wait_for(lambda: ctl_json(POOL, 'stats')['clients'] == 1, 'the client is gone, and tslab-near is there')
code, text = script('prerm', 'remove')
expect(code == 0 and f'pool {POOL} ends here, and with it' in text, f'a removal beside tslab-near: {text}')
expect(show(POOL, 'ActiveState') == 'inactive', 'the pool is stopped')
expect(sh('systemctl', 'is-active', f'tslab-near@{POOL}.service', check=False)[1].strip() == 'inactive', 'and tslab-near')

# A purge leaves nothing, though units of all kinds were enabled.
sh('systemctl', 'enable', f'tslabd@{POOL}.service', 'tslab-metrics.socket')
pathlib.Path('/var/lib/tslab').mkdir(exist_ok=True)
expect(script('postrm', 'purge')[0] == 0, 'a purge')
left = sh('find', '/etc', '/run/tslab', '/var/lib', '-name', '*tslab*', '-not', '-name', '*.d', check=False)[1].splitlines()
left = [path for path in left if path.startswith('/') and '/var/lib/systemd' not in path]
expect(not left, f'left after a purge: {left}')
