"""Samples outlive a client, and reach the next daemon with the client's next control call."""

from host import *

POOL = 'sessions'


def leaks():
    return ctl_json(POOL, 'leaks')


def innermost():
    return sum(s['samples'] for s in leaks()['stacks'])


setup()
start(POOL)
client = Client('hold', POOL, 50, command=('env', 'TSLAB_SAMPLE=1'))
client.wait_for('ready')
expect(innermost() >= 50, f'what it holds is sampled: {leaks()}')

pid = show(POOL, 'MainPID')
sh('systemctl', 'restart', f'tslabd@{POOL}.service')
wait_for_other_daemon(POOL, pid)
expect(leaks()['clients'] == [], 'the new daemon was given none so far')
client.advance()
expect(innermost() >= 50, f'they are there again: {leaks()}')

client.process.kill()
client.process.wait()
wait_for(lambda: leaks()['clients'][0]['gone'], 'it is gone')
expect(innermost() >= 50, f'and still after it died: {leaks()}')
