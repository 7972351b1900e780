"""Descriptors that are not ours, or of another format, are refused, removed from the store and named. Memory that systemd
does not keep is not lost in silence.
"""

import struct

from host import *

POOL = 'sessions'
UNIT = f'tslabd@{POOL}.service'
CONTENT = pathlib.Path('/run/tslab-content')
MAGIC, VERSION = 0x6e726162616c7374, 99


def store(name, content):
    CONTENT.write_bytes(content)
    drop_in(UNIT, '[Service]\nNotifyAccess=all\n'
                  f'ExecStartPre=+{sys.executable} -B {pathlib.Path(__file__).parent}/store-fd.py {CONTENT} {name}\n')


def said(subject):
    ids = message_ids()
    return [e for e in journal(f'TSLAB_POOL={POOL}') if ids.get(e.get('MESSAGE_ID')) == subject]


setup()
start(POOL)

# Neither socket nor memory.
store('junk', b'junk')
client_text = sh(CLIENT, 'once', POOL)
found = said('An unknown descriptor was refused')
expect(len(found) == 1 and found[0]['TSLAB_DESCRIPTOR'] == 'junk', f'junk is named: {found}')
wait_for(lambda: show(POOL, 'NFileDescriptorStore') == '1', 'junk is removed')
client = Client('hold', POOL, 100)
client.wait_for('ready')

# Beside the pool's memory: that is kept.
store('junk', b'junk')
sh('systemctl', 'restart', UNIT)
client.look()
expect(len(said('An unknown descriptor was refused')) == 2, 'junk is named again')
expect(len(said('A pool was taken up with all its objects')) == 1, 'the memory is taken up all the same')
wait_for(lambda: show(POOL, 'NFileDescriptorStore') == '1', 'junk is removed again')

# Memory of a later format.
sh('systemctl', 'stop', UNIT)
store('arena', struct.pack('<QII', MAGIC, VERSION, 0) + bytes(65536))
sh(CLIENT, 'once', POOL)
found = said('The kept memory of a pool has another format')
expect(len(found) == 1, 'the format is named')
message = found[0]['MESSAGE']
expect('format 99' in message and 'Restart the programs' in message and f'stop {UNIT}' in message,
       f'what to do: {message}')
wait_for(lambda: show(POOL, 'NFileDescriptorStore') == '1', 'the old one is removed, the new one stored')
pid = show(POOL, 'MainPID')
sh('systemctl', 'kill', '-s', 'KILL', UNIT)
wait_for_other_daemon(POOL, pid)
expect(len(said('A pool was taken up with all its objects')) == 2, 'the new one is taken up')
client.look()
client.end()

# A store that takes nothing.
NOT_KEPT = 'systemd does not keep the memory of a pool'
expect(not said(NOT_KEPT), 'memory that is kept is no trouble')
sh('systemctl', 'stop', UNIT)
drop_in(UNIT, '[Service]\nFileDescriptorStoreMax=0\n')
before = len(said(NOT_KEPT))
client = Client('hold', POOL, 100)
client.wait_for('ready')
found = said(NOT_KEPT)[before:]
expect([e['PRIORITY'] for e in found] == ['4', '5'], f'a warning, and after the stop a notice: {found}')
expect('FileDescriptorStoreMax=' in found[0]['MESSAGE'], f'what to do: {found[0]}')
pid = show(POOL, 'MainPID')
sh('systemctl', 'kill', '-s', 'KILL', UNIT)
wait_for_other_daemon(POOL, pid)
found = said(NOT_KEPT)[before + 2:]
expect('begins empty' in found[-1]['MESSAGE'], f'the loss: {found}')
client.process.send_signal(signal.SIGUSR2)
expect(client.line() == 'failed advance EUCLEAN', 'its client learns it')

# Room for the memory alone: that is kept.
drop_in(UNIT, '[Service]\nFileDescriptorStoreMax=1\n')
sh('systemctl', 'stop', UNIT)
before = len(said(NOT_KEPT))
client = Client('hold', POOL, 100)
client.wait_for('ready')
for _ in range(2):
    sh('systemctl', 'restart', UNIT)
    client.look()
expect(show(POOL, 'NFileDescriptorStore') == '1', 'the memory is kept')
expect([e['PRIORITY'] for e in said(NOT_KEPT)[before:]] == ['5'], f'no warning: {said(NOT_KEPT)[before:]}')
client.advance()

# A store that becomes smaller under a daemon that runs, and larger again: the memory goes back there.
LIMIT = '[Service]\nFileDescriptorStoreMax='
drop_in(UNIT, LIMIT + '20\n')
sh('systemctl', 'stop', UNIT)
client.end()
client = Client('hold', POOL, 100)
client.wait_for('ready')
time.sleep(5)                       # the first look at the store finds room
before = len(said(NOT_KEPT))
drop_in(UNIT, LIMIT + '0\n')
expect(show(POOL, 'NFileDescriptorStore') == '0', 'systemd keeps the memory no longer')
sh('systemctl', 'reload', UNIT)
wait_for(lambda: len(said(NOT_KEPT)) > before, 'a warning')
found = said(NOT_KEPT)[before:]
expect([e['PRIORITY'] for e in found] == ['4'] and 'FileDescriptorStoreMax=' in found[0]['MESSAGE'], f'one: {found}')
drop_in(UNIT, LIMIT + '20\n')
sh('systemctl', 'reload', UNIT)
wait_for(lambda: show(POOL, 'NFileDescriptorStore') == '1', 'the memory is kept again, and no more than that')
wait_for(lambda: any(e['MESSAGE'] == 'systemd keeps the memory of the pool' for e in journal(f'TSLAB_POOL={POOL}')), 'so it says')
pid = show(POOL, 'MainPID')
sh('systemctl', 'kill', '-s', 'KILL', UNIT)
wait_for_other_daemon(POOL, pid)
client.advance()
# At once, by a daemon that is restarted.
drop_in(UNIT, LIMIT + '0\n')
drop_in(UNIT, LIMIT + '20\n')
expect(show(POOL, 'NFileDescriptorStore') == '0', 'systemd has lost the memory')
sh('systemctl', 'restart', UNIT)
client.advance()

# Nor can another tslabd take it from a program of another user.
sh('systemctl', 'stop', f'tslabd@{POOL}.socket', UNIT)
code, text = sh('tslabctl', '--pool', POOL, 'status', check=False)
expect(code == 1 and f'systemctl restart tslabd@{POOL}.socket' in text and '--adopt' not in text, f'the advice: {text}')
client.end()
