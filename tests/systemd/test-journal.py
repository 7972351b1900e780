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
keeper.process.kill()
keeper.process.wait()

story = journal(f'TSLAB_POOL={POOL}')
subjects = message_ids()


def find(subject, **fields):
    for e in story:
        if subjects.get(e.get('MESSAGE_ID')) == subject and all(e.get(k) == str(v) for k, v in fields.items()):
            return e
    sys.exit(f'failed: nothing of "{subject}" with {fields} in {[(e.get("MESSAGE_ID"), e["MESSAGE"]) for e in story]}')


find('A pool is ready')
first = find('A process attached to a pool', OBJECT_PID=victim.process.pid)
find('A process died while it used a pool', OBJECT_PID=victim.process.pid, TSLAB_CLIENT=first['TSLAB_CLIENT'])
find('A pool was taken up with all its objects')
find('A process died while it used a pool', OBJECT_PID=orphan.process.pid, _PID=show(POOL, 'MainPID'))
find('Records of a dead process were repaired')
closed = find('An epoch was closed', TSLAB_EPOCH=256)
expect('TSLAB_BYTES' in closed, 'bytes of a close')
find('Memory of a pool was given back')

explained = sh('journalctl', '--no-pager', '-x', f'TSLAB_POOL={POOL}')
for e in story:
    expect('MESSAGE_ID' not in e or subjects[e['MESSAGE_ID']] in explained, f'{e["MESSAGE"]} is explained')
expect('found the memory of the pool in the file descriptor store' in explained, 'the catalog is shown')
expect('@TSLAB_' not in explained, 'fields of the catalog are filled in')
