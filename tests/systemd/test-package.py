"""The Debian packages: install, a pool by its socket, an upgrade while clients run, removal, purge."""

import shutil

from host import *

DEBS = pathlib.Path(sys.argv[1])
POOL = 'sessions'
PHP_COUNTS = 'echo Tslab\\Pool::open()->map("counts")->add("n");'
KEPT = f'/var/lib/tslab/{POOL}.dump'
LINK = pathlib.Path(f'/etc/systemd/system/sockets.target.wants/tslabd@{POOL}.socket')


def dpkg(*arguments):
    return sh('dpkg', '--force-unsafe-io', *arguments, env={**os.environ, 'DEBIAN_FRONTEND': 'noninteractive'})


def php(code):
    return sh('php', '-d', f'tslab.pool={POOL}', '-r', code)


def follow(page):
    """The commands of a page, but for those that install packages: their output."""
    text = (DEBS / page).read_text(encoding='utf-8')
    lines = [line[7:] for line in text.splitlines() if line.startswith(7 * ' ') and 'apt-get' not in line]
    expect(len(lines) > 5, f'{page} has commands')
    return sh('sh', '-e', '-c', '\n'.join(lines))


def traces():
    """The files of tslab on the file system; Debian's packages leave users in place."""
    return sh('find', '/etc', '/usr', '/lib', '/run/tslab', '/var/lib/tslab', '/var/lib/dpkg/info', '-xdev', '-name', '*tslab*',
              '-not', '-path', '/usr/bin/tslab-test-client', check=False)[1]


def old_programs():
    """The programs of the package that go on with a file of before the upgrade."""
    links = sh('sh', '-c', 'readlink /proc/[0-9]*/exe', check=False)[1].splitlines()
    return [link for link in links if 'bin/tslab' in link and 'test-client' not in link and link.endswith('(deleted)')]


def held(client):
    client.look()
    return ctl_json(POOL, 'stats')['live_objects']


# Images for containers forbid packages to start and restart services.
pathlib.Path('/usr/sbin/policy-rc.d').unlink(missing_ok=True)
# Its trigger reads all pages of the machine each time.
mandb = pathlib.Path('/usr/bin/mandb')
if mandb.exists():
    mandb.unlink()
    mandb.symlink_to('/bin/true')
shutil.copy(DEBS / 'client', CLIENT)
# Where php-fpm runs, an extension's installation restarts it; its own installation made this folder, not here.
pathlib.Path('/run/php').mkdir(exist_ok=True)
before = traces()
dpkg('--install', *DEBS.glob('*.deb'))
expect(sh('/usr/bin/python3', '-c', 'import tslab; print(tslab.__version__)').strip() == '0.1.0', 'imported')
expect(php('echo phpversion("tslab");') == '0.1.0', 'the extension is enabled')
expect('tslabd' in sh('tslabd', '--version'), 'tslabd runs')
expect('/run/tslab' in sh('ls', '-d', '/run/tslab'), 'the runtime directory')
expect('tslab' in sh('id', 'tslab-metrics'), 'the users')
expect('A pool is ready' in sh('journalctl', '--list-catalog'), 'the catalog')
expect(not sh('systemctl', 'list-units', '--plain', '--no-legend', '--all', 'tslab*').strip(),
       'nothing runs because it was installed')
for page in ('tslabctl.1', 'tslab.3', 'tslab_alloc.3', 'tslab.conf.5', 'tslab-arena.7', 'tslabd.8'):
    expect(list(pathlib.Path('/usr/share/man').glob(f'man*/{page}.gz')), f'the page {page}')

# The development package: the first program of README, built as a user does.
sh('sh', '-c', f'cc {DEBS}/first.c $(pkg-config --cflags --libs tslab) -o /run/first')

sh('systemctl', 'enable', '--now', f'tslabd@{POOL}.socket')
expect(LINK.is_symlink(), 'enabled')
client = Client('hold', POOL, 1000)
client.wait_for('ready')
expect(held(client) >= 1000, 'a pool by its socket')
expect('hello from process' in sh('/run/first', env={**os.environ, 'TSLAB_POOL': POOL}), 'the first program')
expect(php(PHP_COUNTS) == '1', 'PHP uses the pool')
settings(POOL, '# kept', 'TSLAB_RETAIN=8M', f'TSLAB_KEEP={KEPT}')
ctl(POOL, 'put', 'counts', 'alice', 'cart')

# An upgrade: another daemon, the same pool, and clients that did not notice.
arena, pid = ctl_json(POOL, 'stats')['arena_id'], show(POOL, 'MainPID')
sh('systemctl', 'start', 'tslab-metrics.socket', 'tslab-metrics.service')
expect('libtslab0 (= 0.1.0)' in sh('dpkg-query', '-W', '-f', '${Depends}', 'tslab'), 'the library of its own build')
dpkg('--install', *(DEBS / 'newer').glob('*.deb'))
expect('0.1.1' in sh('dpkg-query', '-W', '-f', '${Version}', 'tslab'), 'upgraded')
expect(show(POOL, 'MainPID') not in ('0', pid), 'another daemon after the upgrade')
expect(not old_programs(), f'in the old version: {old_programs()}')
stats = ctl_json(POOL, 'stats')
expect((stats['arena_id'], stats['clients']) == (arena, 1), f'the same pool, with its client: {stats}')
expect(held(client) >= 1000, 'its objects')
expect(stats['retain_bytes'] == 8 << 20, 'its settings')
expect(php(PHP_COUNTS) == '2', 'PHP goes on with the pool')
check = ctl_json(POOL, 'check')
expect(check['ok'], f'check after the upgrade: {check}')
client.advance()
print('longest pause of the client:', gap_usec(client.end()), 'us')

# The pages of the PHP extension, word by word.
expect('\n1\n' in '\n' + follow('sessions.md'), 'a session is found')
expect('pool' in php('phpinfo();').lower() and show('web', 'ActiveState') == 'active', 'the pool of the page')
expect(sh('systemctl', 'is-active', 'php8.2-fpm').strip() == 'active', 'php-fpm runs with it')
worker = sh('runuser', '-u', 'www-data', '--', 'php', '-r', 'echo Tslab\\Pool::open()->map("m")->add("n");')
expect(worker == '1', f'a worker may use the pool: {worker}')
expect('world by apcu\n' in follow('from-apcu.md'), 'the functions of APCu')
sh('phpdismod', 'tslab-sessions', 'tslab-apcu')
for ini in pathlib.Path('/etc/php').glob('*/mods-available/tslab-*.ini'):
    ini.unlink()
sh('systemctl', 'stop', 'tslabd@web.socket', 'tslabd@web.service')

# An upgrade to memory of another format: the old tslabctl wrote the maps before its files were replaced.
arena = ctl_json(POOL, 'stats')['arena_id']
sh('sh', '/var/lib/dpkg/info/tslab.prerm', 'upgrade', '0.1.2')
memory = next(fd for fd in pathlib.Path(f'/proc/{show(POOL, "MainPID")}/fd').iterdir()
              if os.readlink(fd).startswith('/memfd:'))
with memory.open('r+b') as file:
    file.seek(16)    # the hash of the format
    file.write(bytes(8))
sh('sh', '/var/lib/dpkg/info/tslab.postinst', 'configure', '0.1.1')
expect(ctl_json(POOL, 'stats')['arena_id'] != arena, 'memory of another format')
expect(ctl_json(POOL, 'get', 'counts', 'alice')['value'] == 'cart', 'an upgrade to another format keeps maps')
expect(php(PHP_COUNTS) == '3', 'and counters')

# A pool that was stopped is not started by an upgrade.
sh('systemctl', 'stop', f'tslabd@{POOL}.socket', f'tslabd@{POOL}.service')
dpkg('--install', *DEBS.glob('*.deb'))
expect(show(POOL, 'ActiveState') == 'inactive', 'an upgrade starts nothing')

sh('systemctl', 'start', f'tslabd@{POOL}.socket', 'tslab-metrics.socket')
expect(ctl_json(POOL, 'get', 'counts', 'alice')['value'] == 'cart', 'a stop keeps maps')
# Beside tslab-near, which is of the package, too.
pathlib.Path('/etc/tslab/near').mkdir(exist_ok=True)
pathlib.Path(f'/etc/tslab/near/{POOL}.conf').write_text('TSLAB_NEAR_SERVER=127.0.0.1:1\nTSLAB_NEAR_PREFIX=page:\n')
sh('systemctl', 'enable', '--now', f'tslab-near@{POOL}.service')
wait_for(lambda: ctl_json(POOL, 'stats')['clients'] == 1, 'tslab-near is a client')
dpkg('--remove', 'php-tslab', 'python3-tslab', 'libtslab-dev', 'tslab', 'libtslab0')
units = sh('systemctl', 'list-units', '--plain', '--no-legend', '--state=active', 'tslab*').strip()
expect(all('.slice' in unit.split()[0] for unit in units.splitlines()), f'nothing runs when it is removed: {units}')
expect(pathlib.Path(f'/etc/tslab/{POOL}.conf').exists(), 'settings stay until a purge')
expect(pathlib.Path(KEPT).exists(), 'maps stay until a purge, too')
expect('tslab' not in sh('php', '-m'), 'PHP goes on without the extension')
dpkg('--purge', 'php-tslab', 'python3-tslab', 'libtslab-dev', 'tslab', 'libtslab0')
expect(not LINK.is_symlink(), 'no link to a unit is left')
left = set(traces().split()) - set(before.split())
expect(not left, f'left after the purge: {left}')
