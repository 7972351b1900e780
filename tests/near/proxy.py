"""A TCP proxy between tslab-near and a server, which can do all that a bad network does, and drop messages of a
connection that lives on, as no network does."""

import re
import socket
import threading
import time

MESSAGE = re.compile(rb'\*3\r\n\$7\r\nmessage\r\n\$20\r\n__redis__:invalidate\r\n\*\d+\r\n(?:\$\d+\r\n[^*$\r][^\r]*\r\n)+')


class Proxy:
    def __init__(self, port):
        self.target, self.lock = port, threading.Lock()
        self.sockets, self.subscribed, self.threads = set(), set(), []
        self.delay = 0              # seconds, from the server
        self.is_silent = False      # all waits, in both directions, and nothing is closed
        self.is_half_silent = False     # so it is on connections that have subscribed to changes, and on no others
        self.is_lossy = False       # drops the messages of changes, and nothing else: no network does that
        self.is_halving = False     # half of the next message of a change goes through, then the connection ends
        self.lost = None            # a command, and a function: the next answer to it is lost with its connection, and
        self.losing = {}            # the function is called then; by the servers' sockets
        self.listener = socket.create_server(('127.0.0.1', 0))
        self.port = self.listener.getsockname()[1]
        self.begin(self.accept)

    def begin(self, function, *arguments):
        thread = threading.Thread(target=function, args=arguments, daemon=True)
        self.threads.append(thread)
        thread.start()

    def accept(self):
        while True:
            try:
                near = self.listener.accept()[0]
            except OSError:
                return
            try:
                server = socket.create_connection(('127.0.0.1', self.target))
            except OSError:
                near.close()
                continue
            with self.lock:
                self.sockets |= {near, server}
            for s in near, server:
                s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.begin(self.forward, near, server)

    def forward(self, near, server):
        with near, server:
            back = threading.Thread(target=self.pump, args=(server, near, True), daemon=True)
            back.start()
            self.pump(near, server, False)
            back.join()
        with self.lock:
            self.sockets -= {near, server}
            self.subscribed -= {near, server}

    def pump(self, source, sink, is_server):
        try:
            while data := source.recv(65536):
                if not is_server and b'SUBSCRIBE' in data:
                    self.subscribed |= {source, sink}
                if not is_server and self.lost and self.lost[0] in data:
                    self.losing[sink], self.lost = self.lost[1], None
                if is_server and source in self.losing:
                    self.losing.pop(source)()
                    break
                while self.is_silent or self.is_half_silent and source in self.subscribed:
                    time.sleep(0.005)
                if is_server and not self.pass_on(sink, data):
                    break
                if not is_server:
                    sink.sendall(data)
        except OSError:
            pass
        end_connections([source, sink])

    def pass_on(self, sink, data):
        """From the server. Whether the connection goes on."""
        time.sleep(self.delay)
        if self.is_halving and (message := MESSAGE.search(data)):
            self.is_halving = False
            sink.sendall(data[:(message.start() + message.end()) // 2])
            return False
        sink.sendall(MESSAGE.sub(b'', data) if self.is_lossy else data)
        return True

    def cut(self):
        """Ends all connections; new ones may come."""
        with self.lock:
            end_connections(self.sockets)

    def end(self):
        self.is_silent = self.is_half_silent = False
        self.listener.shutdown(socket.SHUT_RDWR)
        self.cut()
        for thread in self.threads:
            thread.join(5)
        self.listener.close()


def end_connections(sockets):
    for s in sockets:
        try:
            s.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
