"""Clients that /proc does not show the daemon: systemd keeps their pidfds over a crash and a restart of the daemon,
and while it re-executes itself."""

from host import *

POOL = 'sessions'
N_CLIENTS = 6


def kept():
    return int(show(POOL, 'NFileDescriptorStore'))


def n_clients():
    return ctl_json(POOL, 'stats')['clients']


def entries():
    return {c['client'] for c in ctl_json(POOL, 'clients') if not c['control_only']}


def restart(*command):
    pid = show(POOL, 'MainPID')
    sh(*command)
    wait_for_other_daemon(POOL, pid)


def kill_daemon():
    restart('systemctl', 'kill', '-s', 'KILL', f'tslabd@{POOL}.service')


def kill(client):
    client.process.kill()
    client.process.wait()


setup()
drop_in(f'tslabd@{POOL}.service', '[Service]\nProtectProc=invisible\n')
start(POOL)
clients = [Client('hold', POOL, 1000) for _ in range(N_CLIENTS)]
for client in clients:
    client.wait_for('ready')
expect(kept() == 1 + N_CLIENTS, f'{kept()} descriptors are kept')

kill_daemon()
expect(n_clients() == N_CLIENTS, 'all live after a crash')

# One dies before the daemon, which is stopped, could see it.
sh('systemctl', 'kill', '-s', 'STOP', f'tslabd@{POOL}.service')
kill(clients.pop())
kill_daemon()
wait_for(lambda: n_clients() == N_CLIENTS - 1, 'a client that died unseen is repaired')
wait_for(lambda: kept() == N_CLIENTS, 'its descriptor is dropped')

restart('systemctl', 'restart', f'tslabd@{POOL}.service')
sh('systemctl', 'daemon-reexec')
kill_daemon()
kill(clients.pop())
wait_for(lambda: n_clients() == N_CLIENTS - 2, 'a client that died later is repaired')

# They connect anew with a control call, each as the client that it was.
were = entries()
for client in clients:
    client.advance()
expect(entries() == were, 'clients are who they were')
expect(kept() == 1 + len(clients), f'{kept()} descriptors are kept')
expect(ctl_json(POOL, 'check')['ok'], 'the check')

# In a store that becomes too small for all, the memory has a place: before the clients that came back, too.
HIDING = '[Service]\nProtectProc=invisible\n'
for _ in range(2):
    drop_in(f'tslabd@{POOL}.service', HIDING + 'FileDescriptorStoreMax=2\n')
    sh('systemctl', 'reload', f'tslabd@{POOL}.service')
    time.sleep(4)
    expect(kept() == 2, 'the store is full')
    kill_daemon()
    drop_in(f'tslabd@{POOL}.service', HIDING)
    for client in clients:
        client.advance()

# Once it has room again, they go back.
wait_for(lambda: kept() == 1 + len(clients), 'all are kept')
time.sleep(3)                       # the first look at the store finds room
drop_in(f'tslabd@{POOL}.service', HIDING + 'FileDescriptorStoreMax=1\n')
sh('systemctl', 'reload', f'tslabd@{POOL}.service')
time.sleep(4)
expect(kept() == 1, 'the memory alone is kept')
drop_in(f'tslabd@{POOL}.service', HIDING)
sh('systemctl', 'reload', f'tslabd@{POOL}.service')
wait_for(lambda: kept() == 1 + len(clients), 'all are kept again')
for client in clients:
    client.end()
wait_for(lambda: kept() == 1, 'the arena alone is kept')
