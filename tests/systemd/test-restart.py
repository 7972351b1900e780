"""A crash, a restart and a re-executed systemd: handles resolve, allocation goes on, nothing is lost."""

from host import *

N_CLIENTS, N_OBJECTS = 64, 100_000
POOL = 'sessions'


def check_all(clients, what):
    for client in clients:
        client.process.send_signal(signal.SIGUSR1)
    for client in clients:
        client.wait_for('looked')
    result = ctl_json(POOL, 'check')
    expect(result['ok'], f'check after {what}: {result}')
    epochs = [(e['id'], e['era'], e['state'], e['label']) for e in ctl_json(POOL, 'stats')['epochs']]
    expect(epochs == before, f'epochs after {what}: {epochs}')
    listed = ctl_json(POOL, 'stats')['clients']
    expect(listed == N_CLIENTS, f'{listed} clients after {what}')


def entries():
    return {c['pid']: c['client'] for c in ctl_json(POOL, 'clients') if not c['control_only']}


setup()
start(POOL)
expect(show(POOL, 'ActiveState') == 'inactive', 'the daemon starts on demand')
clients = [Client('hold', POOL, N_OBJECTS // N_CLIENTS + 1) for _ in range(N_CLIENTS)]
for client in clients:
    client.wait_for('ready')
expect(show(POOL, 'ActiveState') == 'active', 'the daemon was started')
ctl(POOL, 'epoch', 'label', '0', 'the first')
ctl(POOL, 'epoch', 'advance')
before = [(e['id'], e['era'], e['state'], e['label']) for e in ctl_json(POOL, 'stats')['epochs']]

pid = show(POOL, 'MainPID')
sh('systemctl', 'kill', '-s', 'KILL', f'tslabd@{POOL}.service')
wait_for_other_daemon(POOL, pid)
check_all(clients, 'a crash')

pid = show(POOL, 'MainPID')
sh('systemctl', 'restart', f'tslabd@{POOL}.service')
wait_for_other_daemon(POOL, pid)
check_all(clients, 'a restart')

pid = show(POOL, 'MainPID')
sh('systemctl', 'daemon-reexec')
expect(show(POOL, 'MainPID') == pid, 'the same daemon after daemon-reexec')
sh('systemctl', 'kill', '-s', 'KILL', f'tslabd@{POOL}.service')
wait_for_other_daemon(POOL, pid)
check_all(clients, 'daemon-reexec and a crash')
expect(show(POOL, 'NFileDescriptorStore') == '1', 'one descriptor is kept')


# They connect anew with a control call, each as the client that it was.
were = entries()
expect(len(were) == N_CLIENTS, f'{len(were)} entries')
for client in clients[:3]:
    client.advance()
expect(entries() == were, 'clients are who they were')

gaps = [gap_usec(client.end()) for client in clients]
print(f'{N_CLIENTS} clients, longest operation {max(gaps)} us')
expect(max(gaps) < 2_000_000, 'allocation paused')

# A stop gives the arena up, and says so.
client = Client('hold', POOL, 10)
client.wait_for('ready')
sh('systemctl', 'stop', f'tslabd@{POOL}.service')
said = [e['MESSAGE'] for e in journal(f'TSLAB_POOL={POOL}') if 'stops' in e['MESSAGE']]
expect('1 clients are attached. They keep the memory that they have mapped' in said[-1], f'the stop says {said[-1:]}')
code, text = sh(CLIENT, 'once', POOL, check=False)
expect(code == 0, f'a new pool after the stop: {text}')
expect(ctl_json(POOL, 'stats')['live_objects'] == 0, 'the new pool is empty')
client.look()
client.process.send_signal(signal.SIGUSR2)
expect(client.line() == 'failed advance EUCLEAN', 'who has the old pool learns it')
