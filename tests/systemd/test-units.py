"""Units are clean and confined; the installation is complete; an impossible name is refused with the reason."""

import re

from host import *

setup()
expect('A pool is ready' in sh('journalctl', '--list-catalog'), 'the catalog')
folder = pathlib.Path('/etc/tslab').stat()
expect((folder.st_uid, folder.st_mode & 0o7777) == (0, 0o755), 'the folder of settings')
sh('systemd-analyze', 'verify', 'tslabd@sessions.socket', 'tslabd@sessions.service', 'tslab-sessions.slice')
verify = sh('systemd-analyze', 'verify', 'tslabd@sessions.service')
expect(not verify.strip(), f'verify says: {verify}')
exposure = sh('systemd-analyze', 'security', '--offline=yes', '--threshold=10', 'tslabd@sessions.service')
print(re.search(r'Overall exposure.*', exposure).group())

start('sessions')
ctl('sessions', 'status')
expect(show('sessions', 'Slice') == 'tslab-sessions.slice', 'the slice')
wait_for(lambda: 'pool sessions: 0 clients' in show('sessions', 'StatusText'), 'the status')

# The daemon's user cannot put anything in the place of a socket: systemd binds it, and gives it that user, as root.
def as_daemon(*command):
    return sh('setpriv', '--reuid=tslab', '--regid=tslab', '--clear-groups', *command, check=False)[0]


expect(sh('stat', '-c', '%U:%G %a', '/run/tslab').strip() == 'root:root 755', 'sockets are in a directory of root')
expect(as_daemon('ln', '-s', '/etc/victim', '/run/tslab/other.sock') != 0, 'a link beside the sockets')
expect(as_daemon('rm', '-f', '/run/tslab/sessions.sock') != 0, 'a socket removed')
expect(as_daemon('test', '-f', '/run/tslab/lock/sessions.lock') == 0, 'the lock')

code, text = sh('systemctl', 'enable', '--now', 'tslabd@no-name.socket', check=False)
expect(code != 0 and show('no-name', 'ActiveState', 'socket') == 'failed', f'a name that no pool can have: {code}, {text}')
said = [e['MESSAGE'] for e in journal('-u', 'tslabd@no-name.socket')]
expect(any("--pool: 'no-name' will not do; the name of a pool is 1 to 32 of a-z, 0-9 and '_'" in m for m in said),
       f'the reason: {said}')
sh('systemctl', 'disable', 'tslabd@no-name.socket')
sh('systemctl', 'start', 'tslabd@no-name.service', check=False)
expect(show('no-name', 'NRestarts') == '0', 'no restart for a name that cannot be')

# A reload applies the settings that can change at run time, and names the others.
settings('sessions', 'TSLAB_RETAIN=1M', 'TSLAB_LOG_LEVEL=debug', 'TSLAB_SIZE=512M')
sh('systemctl', 'reload', 'tslabd@sessions.service')
wait_for(lambda: any('settings were read again: 1024 KiB' in e['MESSAGE'] for e in journal('TSLAB_POOL=sessions')),
         'the reload')
expect(any('size, classes, epochs and threads' in e['MESSAGE'] for e in journal('TSLAB_POOL=sessions')), 'what stays')
settings('sessions', 'TSLAB_RETIAN=1M')
expect(sh('systemctl', 'reload', 'tslabd@sessions.service', check=False)[0] != 0, 'a reload of a misspelt name')
expect(any('sessions.conf:1: there is no setting TSLAB_RETIAN' in e['MESSAGE']
           for e in journal('-u', 'tslabd@sessions.service')), 'the misspelt name, and where it is')
expect(ctl_json('sessions', 'status')['settings_error'] == '', 'the daemon has not tried them')
sh('systemctl', 'kill', '-s', 'HUP', '--kill-who=main', 'tslabd@sessions.service')
wait_for(lambda: 'TSLAB_RETIAN' in ctl_json('sessions', 'status')['settings_error'], 'the daemon has')
wait_for(lambda: any('there is no setting TSLAB_RETIAN' in e['MESSAGE'] for e in journal('TSLAB_POOL=sessions')),
         'the misspelt name')
expect(show('sessions', 'ActiveState') == 'active', 'still there after a bad reload')
