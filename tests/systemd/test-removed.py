"""A socket, or the folder of all sockets, is removed: tslabctl's advice brings the pools back with all their objects."""

from host import *

POOL = 'sessions'


def advice(pool, *command):
    code, text = sh(*command, 'tslabctl', '--pool', pool, 'status', check=False)
    expect(code == 1, f'a pool that cannot be reached: {code} {text}')
    found = re.search(rf"'(systemctl [a-z]+ tslabd@{pool}\.socket)'", text)
    expect(found and '--adopt' not in text, f'the advice: {text}')
    return text, found.group(1)


setup()
for name in (POOL, 'idle'):
    start(name)
client = Client('hold', POOL, 1000)
client.wait_for('ready')
arena = ctl_json(POOL, 'stats')['arena_id']

for removal in (['rm', '-f', f'/run/tslab/{POOL}.sock'], ['rm', '-rf', '/run/tslab']):
    pid = show(POOL, 'MainPID')
    sh(*removal)
    for as_user in ([], ['setpriv', '--reuid=nobody', '--clear-groups']):
        text, remedy = advice(POOL, *as_user)
        expect(f'process {pid}, lives' in text and 'keeps the objects' in text, f'{removal}: {text}')
    sh(*remedy.split())
    stats = ctl_json(POOL, 'stats')
    expect((stats['arena_id'], stats['clients']) == (arena, 1), f'the pool after {removal}: {stats}')
    client.look()
    client.advance()

# The unit of a socket without a daemon is active, too, and to start it would do nothing.
expect(show('idle', 'ActiveState', 'socket') == 'active', 'systemd has seen nothing')
# A daemon of a container whose systemd has a unit of that name, too, is none of this systemd's. Here the unit itself has it.
UNIT = 'tslabd@idle.service'
inner = pathlib.Path('/run/inner')
inner.mkdir()
drop_in(UNIT, '[Service]\nType=simple\nExecStart=\nExecStart=+/usr/bin/env -u LISTEN_FDS -u LISTEN_PID -u NOTIFY_SOCKET '
              f'TSLAB_RUNTIME_DIR={inner} /usr/bin/unshare --pid --fork --kill-child tslabd --pool=idle --size=16M\n')
sh('systemctl', 'start', UNIT)
wait_for((inner / 'idle.sock').exists, 'a daemon in a pid namespace of its own')
text, remedy = advice('idle')
pathlib.Path(f'/etc/systemd/system/{UNIT}.d/50-test.conf').unlink()
sh('systemctl', 'daemon-reload')
sh('systemctl', 'stop', UNIT)
expect(text.startswith('tslabctl: no daemon: '), text)

# Neither is one of a user's systemd: by its control group, as the throwaway system has no users who log in.
groups = next(path for path in map(pathlib.Path, ('/sys/fs/cgroup', '/sys/fs/cgroup/systemd')) if (path / 'cgroup.procs').exists())
group = groups / 'user.slice/user@1000.service' / UNIT
group.mkdir(parents=True)
(inner / 'idle.sock').unlink(missing_ok=True)
users = subprocess.Popen(['tslabd', '--pool=idle', '--size=16M'], env={**os.environ, 'TSLAB_RUNTIME_DIR': str(inner)})
(group / 'cgroup.procs').write_text(str(users.pid))
wait_for((inner / 'idle.sock').exists, "a user's daemon")
text, remedy = advice('idle')
users.kill()
users.wait()
expect(text.startswith('tslabctl: no daemon: '), text)
sh(*remedy.split())
expect(ctl_json('idle', 'stats')['clients'] == 0, 'the pool that was idle')
client.end()
