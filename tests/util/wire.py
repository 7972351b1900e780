"""The control protocol by hand: messages that no client of ours would send."""

import os
import socket

SECONDS = 60


def varint(n):
    out = b''
    while n > 0x7f:
        out += bytes([n & 0x7f | 0x80])
        n >>= 7
    return out + bytes([n])


def field(number, value):
    """A field of protobuf: an int, or bytes or text."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


class Raw:
    """A client that speaks the protocol by hand, and has said hello."""

    def __init__(self, path, role=0):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.connect(path)
        self.socket.settimeout(SECONDS)
        self.ids = 0
        self.call(16, field(1, 1) + field(2, b'raw') + field(3, b'raw') + field(4, role))

    def send(self, number, body, fds=()):
        self.ids += 1
        socket.send_fds(self.socket, [field(1, self.ids) + field(number, body)], fds)

    def receive(self):
        """The next datagram; b'' where the daemon hung up."""
        data, fds, _, _ = socket.recv_fds(self.socket, 65536, 4)
        for fd in fds:
            os.close(fd)
        return data

    def call(self, number, body, fds=()):
        self.send(number, body, fds)
        return self.receive()
