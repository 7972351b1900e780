"""The scripts of the Debian package: neither an upgrade nor a removal drops a pool without a word."""

from host import *

POOL = 'sessions'
UNIT = f'tslabd@{POOL}.service'
SCRIPTS = pathlib.Path('/run/tslab-debian')


def script(name, argument):
    code, text = sh('sh', SCRIPTS / f'tslab.{name}', argument, check=False)
    return code, text.replace('\n', ' ')


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

# An upgrade while the settings are good, and while they are bad.
expect(script('postinst', 'configure') == (0, ''), 'an upgrade says nothing')
expect(show(POOL, 'MainPID') not in ('0', pid) and arena() == before, 'another daemon, the same pool')
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

# A removal.
client.look()
code, text = script('prerm', 'remove')
expect(code == 1 and f'1 processes use pool {POOL}, with 1' in text, f'a removal is refused: {code} {text}')
expect(arena() == before, 'the pool is there')
client.look()
expect(script('prerm', 'upgrade') == (0, ''), 'an upgrade is not')
client.process.kill()
client.process.wait()
wait_for(lambda: ctl_json(POOL, 'stats')['clients'] == 0, 'the client is gone')
code, text = script('prerm', 'remove')
expect(code == 0 and f'pool {POOL} ends here, and with it' in text, f'a removal: {text}')
expect(show(POOL, 'ActiveState') == 'inactive', 'the pool is stopped')
