"""A mistake in the settings costs no pool: the daemon goes on with the last good settings, and says so."""

from host import *

POOL = 'sessions'
CONFIG = pathlib.Path(f'/etc/tslab/{POOL}.conf')
UNIT = f'tslabd@{POOL}.service'
GOOD = ('TSLAB_RETAIN=4M', 'TSLAB_OPERATORS=boss', 'TSLAB_WRITERS=writer')
BAD = {'TSLAB_RETAIN=4MB': ':2: ', 'TSLAB_RETIAN=4M': ':2: ', 'TSLAB_SIZE=': ':2: ', 'TSLAB_READERS=nobody_there': ':2: '}


def as_user(user, *command):
    return sh('setpriv', f'--reuid={user}', f'--regid={user}', '--init-groups', *command, check=False)


def crash():
    pid = show(POOL, 'MainPID')
    sh('systemctl', 'kill', '-s', 'KILL', UNIT)
    wait_for_other_daemon(POOL, pid)


def told():
    """The mistake, as `status`, systemctl and the journal tell it."""
    stats = ctl_json(POOL, 'status')
    why = stats['settings_error']
    if why:
        expect(any('the settings are bad' in hint and why[:60] in hint for hint in stats['hints']), f'a hint: {stats}')
        wait_for(lambda: 'the settings are bad' in show(POOL, 'StatusText'), 'systemctl status tells it')
        logged = [e for e in journal(f'TSLAB_POOL={POOL}') if e.get('PRIORITY') == '3' and why in e['MESSAGE']]
        expect(logged and 'MESSAGE_ID' in logged[-1], f'the journal tells it: {logged}')
    return why


def check_kept(what):
    client.look()
    stats = ctl_json(POOL, 'stats')
    expect((stats['arena_id'], stats['clients']) == (arena, 1), f'{what}: the pool is kept')
    expect(stats['live_objects'] >= 1000, f'{what}: {stats["live_objects"]} objects')
    expect(stats['retain_bytes'] == 4 << 20, f'{what}: the settings that last worked, {stats["retain_bytes"]}')
    check_roles(what)


def check_roles(what):
    expect(as_user('writer', CLIENT, 'once', POOL)[0] == 0, f'{what}: a writer writes')
    expect(as_user('other', CLIENT, 'once', POOL)[0] != 0, f'{what}: others do not')
    expect(as_user('boss', 'tslabctl', '--pool', POOL, 'trim')[0] == 0, f'{what}: an operator operates')


def check_config(*more):
    return sh('runuser', '-u', 'tslab', '--', 'tslabd', '--check-config', f'--pool={POOL}', f'--config={CONFIG}', *more,
              check=False)


def reload():
    return sh('systemctl', 'reload', UNIT, check=False)[0]


setup()
for user in ('writer', 'other', 'boss'):
    sh('useradd', '--no-create-home', user)
    sh('usermod', '-a', '-G', 'tslab', user)
settings(POOL, *GOOD)
start(POOL)
client = Client('hold', POOL, 1000)
client.wait_for('ready')
arena = ctl_json(POOL, 'stats')['arena_id']
expect(told() == '', 'good settings are no trouble')
expect(check_config() == (0, ''), 'nothing is said of good settings')

for line, where in BAD.items():
    settings(POOL, '# changed', line, *GOOD)
    code, text = check_config()
    expect(code == 2 and f'{CONFIG}{where}' in text, f'--check-config: {code}, {text}')
    expect(reload() != 0, f'a reload of {line} is refused')
    check_kept(f'a reload of {line}')
    crash()
    check_kept(f'a crash with {line}')
    expect(f'{CONFIG}{where}' in told(), f'{line}: {told()}')
    sh('systemctl', 'restart', UNIT)
    check_kept(f'a restart with {line}')

# Corrected: applied by a reload, and no trouble any more.
settings(POOL, *GOOD)
expect(reload() == 0, 'good settings are read')
wait_for(lambda: told() == '', 'the trouble is over')

# A user who is no more, and a file that the daemon may not read.
sh('userdel', 'boss')
crash()
expect('boss' in told(), 'the user who is gone is named')
check = ctl_json(POOL, 'check')
expect(check['ok'], f'check: {check}')
sh('useradd', '--no-create-home', 'boss')
CONFIG.chmod(0o600)
expect(check_config()[0] == 2, '--check-config cannot read the file')
crash()
expect(f'{CONFIG}: Permission denied' in told(), f'the file is named: {told()}')
client.look()
CONFIG.chmod(0o644)

# Neither a bad option in the unit.
drop_in(UNIT, f'[Service]\nExecStart=\nExecStart=tslabd --pool={POOL} --config={CONFIG} --retain=few --no-such-option\n')
sh('systemctl', 'restart', UNIT)
expect(ctl_json(POOL, 'stats')['arena_id'] == arena, 'the pool is kept in spite of a bad option')
expect(told(), 'the bad option is told')
pathlib.Path(f'/etc/systemd/system/{UNIT}.d/50-test.conf').unlink()
sh('systemctl', 'daemon-reload')

# With nothing that worked before, nobody is let in by mistake.
settings(POOL, 'TSLAB_RETAIN=4MB', *GOOD)
pathlib.Path(f'/run/tslab/lock/{POOL}.settings').unlink()
crash()
expect(told(), 'a mistake')
expect(ctl_json(POOL, 'stats')['arena_id'] == arena, 'the pool is kept by defaults')
for user in ('writer', 'other'):
    expect(as_user(user, CLIENT, 'once', POOL)[0] != 0, f'{user} is not let in')
client.look()
client.end()

# A pool that there is not yet is not made by bad settings; the mistake has its line.
sh('systemctl', 'stop', UNIT)
expect(sh('systemctl', 'start', UNIT, check=False)[0] != 0, 'a new pool needs good settings')
said = [e['MESSAGE'] for e in journal(f'TSLAB_POOL={POOL}')]
expect(any(f'{CONFIG}:1: ' in text for text in said), f'file and line: {said[-5:]}')
code, text = sh('tslabctl', '--pool', POOL, 'status', check=False)
expect(code == 1 and f"does not start; 'systemctl status {UNIT}'" in text, f'where to look: {text}')
