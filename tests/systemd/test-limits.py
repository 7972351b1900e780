"""Two pools with limits of their own; one that is full says ENOMEM; nobody is killed. A worker in a jail attaches."""

from host import *

setup()
# By the connection that it inherits, which is the one that started the daemon; the path is not there any more.
start('jail')
code, text = sh('systemd-run', '--wait', '--pipe', '--quiet', CLIENT, 'jail', 'jail', check=False)
expect(code == 0, f'a child that changed root and user attaches: {code} {text}')

settings('small', 'TSLAB_SIZE=256M')
settings('other', 'TSLAB_SIZE=64M')
drop_in('tslab-small.slice', '[Slice]\nMemoryMax=48M\n')
for pool in ('small', 'other'):
    start(pool)
    ctl(pool, 'status')
expect(any('may take 256 MiB for objects' in e['MESSAGE'] for e in journal('TSLAB_POOL=small')), 'a warning')
expect(not any('may take' in e['MESSAGE'] for e in journal('TSLAB_POOL=other')), 'no warning for the other')

other = Client('hold', 'other', 1000)
other.wait_for('ready')
full = Client('fill', 'small', command=['systemd-run', '--scope', '--quiet', '--slice=tslab-small.slice', '--'])
line = full.wait_for('full')
print(line)
expect(line.split()[1] == 'ENOMEM', f'a full slice: {line}')
expect(int(line.split()[2]) * 768 > 24 << 20, 'most of the limit could be used')
expect(full.process.poll() is None, 'the client lives')
status = ctl_json('small', 'status')
expect(status['limit_bytes'] == 48 << 20 and status['limit_cgroup'].endswith('/tslab-small.slice'),
       f'the limit is shown: {status["limit_bytes"]} of {status["limit_cgroup"]}')
expect(status['limit_left_bytes'] < 1 << 20, f'nothing is left: {status["limit_left_bytes"]}')
expect(status['counters']['failures_limit'] > 0 and status['counters']['failures_system'] == 0, 'which of the three')
expect(any('limit of a control group was reached' in h for h in status['hints']), f'a hint: {status["hints"]}')
expect('tslab-small.slice, used ' in ctl('small', 'status'), 'the limit is in text')
other.look()
expect(sh(CLIENT, 'once', 'other') == '', 'the other pool allocates')
for pool in ('small', 'other'):
    expect(show(pool, 'NRestarts') == '0', f'the daemon of {pool} lives')
    expect(show(pool, 'Result') == 'success', f'the daemon of {pool} is well')
counts = [p for name in ('memory.oom_control', 'memory.events') for p in pathlib.Path('/sys/fs/cgroup').rglob(name)
          if 'tslab' in str(p)]
expect(counts, 'somewhere kills are counted')
kills = [p for p in counts if 'oom_kill 0' not in p.read_text()]
expect(not kills, f'killed for memory: {kills}')
other.end()
full.end()

# A limit that is lowered to nearly all that is used: free memory goes back, and the daemon has room to serve more clients.
# The program is in the slice, too: the kernel charges pages to the process that makes them, and either may.
settings('lowered', 'TSLAB_SIZE=128M', 'TSLAB_RETAIN=64M')
start('lowered')
churn = Client('churn', 'lowered', 40 << 20,
               command=['systemd-run', '--scope', '--quiet', '--slice=tslab-lowered.slice', '--'])
churn.wait_for('ready')
used = next(p for name in ('memory.usage_in_bytes', 'memory.current') for p in pathlib.Path('/sys/fs/cgroup').rglob(name)
            if p.parent.name == 'tslab-lowered.slice')
before = int(used.read_text())
sh('systemctl', 'set-property', '--runtime', 'tslab-lowered.slice', f'MemoryMax={before + (256 << 10)}')
wait_for(lambda: int(used.read_text()) < before - (4 << 20), 'free memory goes back')
clients = [Client('hold', 'lowered', 10) for _ in range(60)]
for client in clients:
    client.wait_for('ready')
expect(show('lowered', 'NRestarts') == '0', 'the daemon lives')
expect(ctl_json('lowered', 'stats')['retained_bytes'] > 16 << 20, 'no more than needed was given back')
for client in clients:
    client.end()

churn.end()

# Clients that come before that cost a daemon its life, but not one after another.
settings('again', 'TSLAB_SIZE=256M')
start('again')
keeper = Client('hold', 'again', 300_000)
keeper.wait_for('ready')
time.sleep(1)
used = next(used.parent.parent.rglob('tslab-again.slice')) / used.name
sh('systemctl', 'set-property', '--runtime', 'tslab-again.slice', f'MemoryMax={used.read_text().strip()}')
clients = [Client('hold', 'again', 10) for _ in range(60)]
for client in clients:
    client.line()
wait_for(lambda: sh('tslabctl', '--pool', 'again', 'status', '--check', check=False)[0] == 0, 'a daemon that lives', 120)
expect(ctl_json('again', 'stats')['live_objects'] >= 300_000, 'no object is lost')
for client in clients:
    client.process.kill()
    client.process.wait()
keeper.process.kill()

# A daemon that starts gives free memory back before it takes its clients up, for which it needs some.
settings('tight', 'TSLAB_SIZE=256M', 'TSLAB_RETAIN=64M')
drop_in('tslabd@tight.service', '[Service]\nRestartSec=3s\n')
start('tight')
churn = Client('churn', 'tight', 40 << 20,
               command=['systemd-run', '--scope', '--quiet', '--slice=tslab-tight.slice', '--'])
churn.wait_for('ready')
clients = [Client('churn', 'tight', 10 * 768) for _ in range(400)]     # which then rest: so many at work let none connect
for client in clients:
    client.wait_for('ready')
pid = show('tight', 'MainPID')
sh('systemctl', 'kill', '-s', 'KILL', 'tslabd@tight.service')
wait_for(lambda: show('tight', 'MainPID') != pid, 'the end of the daemon')
time.sleep(1)                       # the kernel counts down late
used = next(used.parent.parent.rglob('tslab-tight.slice')) / used.name
sh('systemctl', 'set-property', '--runtime', 'tslab-tight.slice', f'MemoryMax={int(used.read_text()) + (2560 << 10)}')
wait_for(lambda: sh('tslabctl', '--pool', 'tight', 'status', '--check', check=False)[0] == 0, 'a daemon that lives', 120)
for client in [*clients, churn]:
    client.process.kill()
    client.process.wait()
