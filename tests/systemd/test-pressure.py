"""Under memory pressure the retained memory falls by itself. The daemon hears of pressure from systemd
(since version 254) or from its cgroup."""

from host import *

POOL = 'sessions'
FIFO = '/run/tslab/pressure'
SIZE = 32 << 20


def retained():
    return ctl_json(POOL, 'stats')['retained_bytes']


def churn():
    client = Client('churn', POOL, SIZE)
    client.wait_for('ready')
    ctl(POOL, 'stats')
    wait_for(lambda: retained() > SIZE * 3 // 4, 'memory is retained')
    return client


setup()
settings(POOL, 'TSLAB_RETAIN=64M')
drop_in(f'tslabd@{POOL}.service', f'[Service]\nEnvironment=MEMORY_PRESSURE_WATCH={FIFO}\n')
os.mkfifo(FIFO)
sh('chown', 'tslab:', FIFO)
start(POOL)
client = churn()
time.sleep(1.5)
expect(retained() > SIZE * 3 // 4, 'nothing falls without pressure')
with open(FIFO, 'w') as fifo:
    fifo.write('x')
wait_for(lambda: retained() < 4 << 20, 'retained memory falls')
expect(any('memory is short' in e['MESSAGE'] for e in journal(f'TSLAB_POOL={POOL}')), 'the journal says so')
client.end()

# The real thing: a neighbour in the slice whose pages are thrown out as fast as it reads them.
drop_in(f'tslabd@{POOL}.service', '[Service]\nUnsetEnvironment=MEMORY_PRESSURE_WATCH\n')
drop_in(f'tslab-{POOL}.slice', '[Slice]\nMemoryMax=96M\n')
sh('systemctl', 'restart', f'tslabd@{POOL}.service')
client = churn()
HOG = r"""
import os, sys
paths = [os.path.join(d, n) for d, _, ns in os.walk('/usr/lib') for n in ns]
paths = [p for p in paths if os.path.isfile(p) and os.path.getsize(p) > 1 << 20]
while True:
    for p in paths:
        fd = os.open(p, os.O_RDONLY)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        while os.read(fd, 1 << 20): pass
        os.close(fd)
"""
begin = time.monotonic()
sh('systemd-run', '--quiet', '--unit=hog', f'--slice=tslab-{POOL}.slice', sys.executable, '-c', HOG)
pressure = pathlib.Path(f'/sys/fs/cgroup/unified/tslab.slice/tslab-{POOL}.slice/memory.pressure')
deadline = begin + 12
while time.monotonic() < deadline and retained() >= 4 << 20:
    time.sleep(0.1)
print(f'after {time.monotonic() - begin:.1f} s {retained() >> 20} MiB retained; '
      f'{pressure.read_text().splitlines()[0] if pressure.exists() else "no pressure file"}')
total = int(pressure.read_text().split('total=')[1].split()[0]) if pressure.exists() else 0
expect(retained() < 4 << 20 or total < 1_000_000, 'retained memory falls under real pressure')
sh('systemctl', 'stop', 'hog')
client.end()
