"""TSLAB_KEEP under systemd: a stop, a restart, a crash, a reboot and an upgrade to another format keep sessions."""

from host import *

POOL = 'sessions'
UNIT = f'tslabd@{POOL}.service'
FILE = pathlib.Path(f'/var/lib/tslab/{POOL}.dump')


def suffixes():
    return sorted(path.name[len(FILE.name):] for path in FILE.parent.glob(f'{FILE.name}*'))


def value():
    return ctl_json(POOL, 'get', 'sessions', 'alice')['value']


def change_format(pid):
    """As if the memory were of another version."""
    folder = pathlib.Path(f'/proc/{pid}/fd')
    arena = next(fd for fd in folder.iterdir() if os.readlink(fd).startswith('/memfd:'))
    with arena.open('r+b') as memory:
        memory.seek(16)    # the hash of the format
        memory.write(bytes(8))


setup()
settings(POOL, 'TSLAB_SIZE=16M', f'TSLAB_KEEP={FILE}')
start(POOL)
sh(CLIENT, 'map', POOL)
ctl(POOL, 'put', 'sessions', 'alice', 'cart')
expect(sh('stat', '-c', '%U %a', FILE.parent).strip() == 'tslab 700', 'the folder is the daemon\'s alone')

sh('systemctl', 'stop', UNIT)
expect(suffixes() == [''] and sh('stat', '-c', '%U %a', FILE).strip() == 'tslab 600', f'the file: {suffixes()}')
expect(value() == 'cart', 'a stop keeps sessions')
expect(suffixes() == ['.loaded'], f'loaded once: {suffixes()}')

arena = ctl_json(POOL, 'stats')['arena_id']
sh('systemctl', 'restart', UNIT)
expect((ctl_json(POOL, 'stats')['arena_id'], value()) == (arena, 'cart'), 'a restart keeps the memory')
expect(suffixes() == ['.loaded', '.old'], f'beside it the file is old: {suffixes()}')
pid = show(POOL, 'MainPID')
sh('systemctl', 'kill', '-s', 'KILL', UNIT)
wait_for_other_daemon(POOL, pid)
expect((ctl_json(POOL, 'stats')['arena_id'], value()) == (arena, 'cart'), 'a crash keeps the memory')

# A reboot: all is stopped, and /run is empty.
sh('systemctl', 'stop', f'tslabd@{POOL}.socket', UNIT)
sh('rm', '-rf', '/run/tslab')
sh('systemd-tmpfiles', '--create')
start(POOL)
expect(value() == 'cart' and ctl_json(POOL, 'stats')['arena_id'] != arena, 'a reboot keeps sessions')

# An upgrade to another format, as the package's scripts make it: the old tslabctl writes, then the new daemon comes.
arena = ctl_json(POOL, 'stats')['arena_id']
for name in 'prerm', 'postinst':
    script = pathlib.Path(f'/run/tslab-debian/tslab.{name}').read_text().replace('#DEBHELPER#', '')
    pathlib.Path(f'/run/{name}').write_text(script)
sh('sh', '/run/prerm', 'upgrade', '0.1.1')
expect('' in suffixes(), f'written before the upgrade: {suffixes()}')
change_format(show(POOL, 'MainPID'))
sh('systemctl', 'restart', UNIT)
expect(value() == 'cart' and ctl_json(POOL, 'stats')['arena_id'] != arena, 'another format keeps sessions')
expect(suffixes() == ['.loaded'], f'loaded: {suffixes()}')

# An upgrade after which the daemon goes on as it was, and one that is given up: the file is not loaded later.
settings(POOL, 'TSLAB_SIZE=16M', f'TSLAB_KEEP={FILE}', 'TSLAB_RETAIN=4MB')
for call in ('configure', '0.1.1'), ('abort-upgrade', '0.1.2'):
    sh('sh', '/run/prerm', 'upgrade', '0.1.1')
    expect('' in suffixes(), f'written: {suffixes()}')
    sh('sh', '/run/postinst', *call)
    expect('' not in suffixes() and '.old' in suffixes(), f'set aside by {call}: {suffixes()}')
settings(POOL, 'TSLAB_SIZE=16M', f'TSLAB_KEEP={FILE}')

# A removal says whether the file was written.
for mode, lost in ('500', True), ('700', False):
    ctl(POOL, 'put', 'sessions', 'alice', 'cart')
    sh('chmod', mode, FILE.parent)
    code, text = sh('sh', '/run/prerm', 'remove', check=False)
    expect(code == 0 and ('are lost' in text) == lost, f'a removal, mode {mode}: {code} {text}')
    sh('chmod', '700', FILE.parent)
    start(POOL)
    if lost:
        sh(CLIENT, 'map', POOL)

# A file that is damaged costs neither the start nor the file.
sh('systemctl', 'stop', UNIT)
with FILE.open('r+b') as damaged:
    damaged.seek(100)
    damaged.write(b'\xff')
expect(ctl_json(POOL, 'maps') == [], 'nothing of a damaged file is loaded')
expect('.failed' in suffixes(), f'it stays: {suffixes()}')
said = [e['MESSAGE'] for e in journal(f'_SYSTEMD_UNIT={UNIT}', '+', f'TSLAB_POOL={POOL}')]
expect(any('is damaged; nothing was loaded' in text for text in said), f'why: {said[-6:]}')
