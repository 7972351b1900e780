"""The users that may connect, write, and close epochs."""

from host import *

POOL = 'sessions'
setup()
for user in ('writer', 'reader', 'boss', 'outsider'):
    sh('useradd', '--no-create-home', user)
for user in ('writer', 'reader', 'boss'):
    sh('usermod', '-a', '-G', 'tslab', user)
sh('groupadd', 'workers')
sh('usermod', '-a', '-G', 'workers', 'writer')
settings(POOL, 'TSLAB_WRITERS=@workers', 'TSLAB_READERS=reader', 'TSLAB_OPERATORS=boss', 'TSLAB_OPERATORS_ONLY=yes')
start(POOL)


def as_user(user, *command):
    return sh('setpriv', f'--reuid={user}', f'--regid={user}', '--init-groups', *command, check=False)


def refused(user, *command, error):
    code, text = as_user(user, *command)
    expect(code != 0 and error in text, f'{user}: {command} gave {code}, {text}')


def allowed(user, *command):
    code, text = as_user(user, *command)
    expect(code == 0, f'{user}: {command} gave {code}, {text}')
    return text


refused('outsider', CLIENT, 'once', POOL, error='EACCES')
expect(not any('has no role' in e['MESSAGE'] for e in journal(f'TSLAB_POOL={POOL}')), 'it was the socket that refused')
allowed('writer', CLIENT, 'once', POOL)
refused('reader', CLIENT, 'once', POOL, error='EACCES')
expect('tried ' in allowed('reader', CLIENT, 'read', POOL), 'a reader reads')
allowed('boss', CLIENT, 'once', POOL)

refused('writer', CLIENT, 'close', POOL, error='EPERM')
refused('writer', 'tslabctl', '--pool', POOL, 'trim', error='only operators may trim')
allowed('boss', 'tslabctl', '--pool', POOL, 'trim')
allowed('boss', CLIENT, 'close', POOL)

# A member of nothing who may connect.
sh('usermod', '-a', '-G', 'tslab', 'outsider')
refused('outsider', CLIENT, 'read', POOL, error='EACCES')
expect(any(e.get('MESSAGE_ID') and 'it has no role' in e['MESSAGE'] for e in journal(f'TSLAB_POOL={POOL}')),
       'the refusal is in the journal')

# Roles, and the right to work on epochs, change by a reload.
settings(POOL, 'TSLAB_WRITERS=@workers,outsider')
sh('systemctl', 'reload', f'tslabd@{POOL}.service')
wait_for(lambda: as_user('outsider', CLIENT, 'close', POOL)[0] == 0, 'the reload')
