"""The story of a crash, with its fields, and the explanations of journalctl -x."""

from host import *

POOL = 'sessions'
setup()
start(POOL)
keeper = Client('hold', POOL, 1000)
keeper.wait_for('ready')
victim = Client('hold', POOL, 1000)
victim.wait_for('ready')
victim.process.kill()
victim.process.wait()
wait_for(lambda: any(e.get('OBJECT_PID') == str(victim.process.pid) and 'died' in e['MESSAGE']
                     for e in journal(f'TSLAB_POOL={POOL}')), 'the death')
pid = show(POOL, 'MainPID')
sh('systemctl', 'kill', '-s', 'KILL', f'tslabd@{POOL}.service')
wait_for_other_daemon(POOL, pid)
keeper.look()

# One that dies while there is no daemon that could see it.
orphan = Client('hold', POOL, 1000)
orphan.wait_for('ready')
pid = show(POOL, 'MainPID')
os.kill(int(pid), signal.SIGSTOP)
orphan.process.kill()
orphan.process.wait()
os.kill(int(pid), signal.SIGKILL)
wait_for_other_daemon(POOL, pid)

ctl(POOL, 'epoch', 'advance')
ctl(POOL, 'epoch', 'close', '0')
ctl(POOL, 'trim')
sh('tslabctl', '--pool', POOL, 'check', '--repair')
sh('useradd', '--no-create-home', '--groups', 'tslab', 'boss')
sh('setpriv', '--reuid=boss', '--regid=boss', '--init-groups', 'tslabctl', '--pool', POOL, 'epoch', 'advance')
sh('systemd-run', '--wait', '--quiet', '--unit=cleaner', 'tslabctl', '--pool', POOL, 'epoch', 'close', '1', '--revoke')

# One who floods the journal does not hide others.
sh('useradd', '--no-create-home', '--groups', 'tslab', 'noisy')
sh('setpriv', '--reuid=noisy', '--regid=noisy', '--init-groups', 'sh', '-c',
   f'for i in $(seq 25); do tslabctl --pool {POOL} epoch advance || exit 1; done')
ctl(POOL, 'epoch', 'close', '2')
keeper.process.kill()
keeper.process.wait()

story = journal(f'TSLAB_POOL={POOL}')
subjects = message_ids()


def find(subject, **fields):
    for e in story:
        if subjects.get(e.get('MESSAGE_ID')) == subject and all(e.get(k) == str(v) for k, v in fields.items()):
            return e
    sys.exit(f'failed: nothing of "{subject}" with {fields} in {[(e.get("MESSAGE_ID"), e["MESSAGE"]) for e in story]}')


expect({e['TSLAB_POOL'] for e in story} == {POOL}, 'the unit and the daemon name the pool, once in each line')
find('A pool is ready')
first = find('A process attached to a pool', OBJECT_PID=victim.process.pid)
find('A process died while it used a pool', OBJECT_PID=victim.process.pid, TSLAB_CLIENT=first['TSLAB_CLIENT'])
find('A pool was taken up with all its objects')
find('A process died while it used a pool', OBJECT_PID=orphan.process.pid, _PID=show(POOL, 'MainPID'))
find('Records of a dead process were repaired')
closed = find('An epoch was closed', TSLAB_EPOCH=256)
expect('TSLAB_BYTES' in closed, 'bytes of a close')
find('Memory of a pool was given back')

# The actor and the action of each request that changes a pool.
for action, more in {'advance': {'TSLAB_EPOCH': 513}, 'close': {'TSLAB_EPOCH': 256}, 'trim': {}, 'repair': {}}.items():
    entry = find('A process changed a pool by request', TSLAB_ACTION=action, TSLAB_UID=0, TSLAB_COMM='tslabctl',
                 PRIORITY=5, **more)
    expect(entry['OBJECT_PID'].isdigit() and entry['TSLAB_CGROUP'].startswith('/'), f'its process: {entry}')
boss = sh('id', '-u', 'boss').strip()
entry = find('A process changed a pool by request', TSLAB_ACTION='advance', TSLAB_UID=boss, TSLAB_EPOCH=514)
expect(f'of user {boss} advanced to epoch 2:2' in entry['MESSAGE'], entry['MESSAGE'])
entry = find('A process changed a pool by request', TSLAB_ACTION='revoke', TSLAB_EPOCH=513)
expect(entry['TSLAB_CGROUP'].endswith('/cleaner.service'), f'its unit: {entry}')

noisy = sh('id', '-u', 'noisy').strip()
lines = [e for e in story if e.get('TSLAB_UID') == noisy]
expect(len(lines) == 20, f'{len(lines)} lines of one user')
expect(sum(f'user {noisy} advances, closes' in e['MESSAGE'] for e in story) == 1, 'that lines are left out is said')
others = [e for e in story if e.get('TSLAB_ACTION') == 'close' and e['TSLAB_UID'] == '0']
expect(len(others) == 2, f'the requests of others: {others}')

explained = sh('journalctl', '--no-pager', '-x', f'TSLAB_POOL={POOL}')
for e in story:
    expect('MESSAGE_ID' not in e or subjects[e['MESSAGE_ID']] in explained, f'{e["MESSAGE"]} is explained')
expect('found the memory of the pool in the file descriptor store' in explained, 'the catalog is shown')
expect('@TSLAB_' not in explained, 'fields of the catalog are filled in')
