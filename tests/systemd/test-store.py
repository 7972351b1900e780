"""Descriptors that are not ours, or of another format, are refused, removed from the store and named."""

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
