"""Has systemd keep a descriptor for this unit, once: store-fd.py FILE NAME, where FILE holds its future contents."""

import array
import fcntl
import os
import socket
import sys
import time

F_ADD_SEALS, F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_GROW = 1033, 1, 2, 4

path, name = sys.argv[1:]
if not os.path.exists(path):
    sys.exit()
fd = os.memfd_create('test', os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
with open(path, 'rb') as content:
    os.write(fd, content.read())
fcntl.fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW)  # as the pool's memory has
os.unlink(path)
address = os.environ['NOTIFY_SOCKET']
with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
    notify.connect('\0' + address[1:] if address[0] == '@' else address)
    notify.sendmsg([f'FDSTORE=1\nFDNAME={name}'.encode()],
                   [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [fd]))])
time.sleep(0.3)  # as a sender that is gone by then is not known
