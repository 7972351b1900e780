"""A daemon whose loop is stuck is restarted by the watchdog; the arena survives."""

from host import *

POOL = 'sessions'
setup()
drop_in(f'tslabd@{POOL}.service', '[Service]\nEnvironment=TSLAB_TEST_STUCK=1\nWatchdogSec=1s\nLimitCORE=0\n')
start(POOL)
client = Client('hold', POOL, 1000)
client.wait_for('ready')
time.sleep(1.5)
expect(show(POOL, 'NRestarts') == '0', 'no restart while the loop turns')

pid = show(POOL, 'MainPID')
begin = time.monotonic()
sh('systemctl', 'kill', '-s', 'USR1', f'tslabd@{POOL}.service')
wait_for_other_daemon(POOL, pid)
print(f'restarted after {time.monotonic() - begin:.2f} s')
expect(time.monotonic() - begin < 9, 'before the ten seconds of the unit as it is installed')
expect(any('atchdog' in e['MESSAGE'] for e in journal('-u', f'tslabd@{POOL}.service')), 'by the watchdog')
client.look()
result = ctl_json(POOL, 'check')
expect(result['ok'], f'check: {result}')
expect(ctl_json(POOL, 'stats')['live_objects'] >= 1000, 'objects survive')
client.end()
