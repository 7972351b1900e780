"""A program that stands still at instructions of its own: breakpoints, by ptrace(2), on x86-64.

The thread that makes a Stepper is the only one that uses it, and the program is a child of this process.
"""

import ctypes
import os
import platform
import re
import signal
import subprocess
import time

CAN_STEP = platform.machine() == 'x86_64'

PEEKUSER, POKEUSER, CONT, DETACH, SEIZE, INTERRUPT = 3, 6, 7, 17, 0x4206, 0x4207
EVENT_STOP = 128
WALL = 0x40000000
RIP = 16 * 8
TRAP = b'\xcc'

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.ptrace.restype = ctypes.c_long
LIBC.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]


def ptrace(request, pid, address=0, data=0):
    ctypes.set_errno(0)
    result = LIBC.ptrace(request, pid, address, data)
    if ctypes.get_errno():
        raise OSError(ctypes.get_errno(), f'ptrace({request:#x})')
    return result


def instructions(program):
    """The addresses of all instructions in its .text, with the names of their functions."""
    text = subprocess.run(['objdump', '--disassemble', '--section=.text', '--no-show-raw-insn', program], check=True,
                          capture_output=True, text=True).stdout
    found, name = {}, ''
    for line in text.splitlines():
        if head := re.match(r'[0-9a-f]+ <(.*)>:', line):
            name = head[1]
        elif at := re.match(r' +([0-9a-f]+):\t', line):
            found[int(at[1], 16)] = name
    return found


class Stepper:
    """Stops a process, and lets it go on at the end of `with`."""

    def __init__(self, process, program):
        self.pid, self.planted = process.pid, {}
        program = os.path.realpath(program)         # as the kernel names it, also where the build is behind a link
        with open(f'/proc/{self.pid}/maps') as maps:
            self.base = next(int(line.split('-')[0], 16) for line in maps if line.rstrip().endswith(program))
        ptrace(SEIZE, self.pid)
        self.memory = open(f'/proc/{self.pid}/mem', 'r+b', buffering=0)
        self.is_running, self.is_alive = True, True
        self.stop()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if self.is_alive:
            self.stop()
            for address in list(self.planted):
                self.restore(address)
            ptrace(DETACH, self.pid)
        self.memory.close()

    def plant(self, addresses):
        """Before the process goes on: it stands still the first time that it is about to run one of these."""
        for address in addresses:
            self.memory.seek(self.base + address)
            self.planted[address] = self.memory.read(1)
            self.memory.seek(self.base + address)
            self.memory.write(TRAP)

    def restore(self, address):
        self.memory.seek(self.base + address)
        self.memory.write(self.planted.pop(address))

    def go_on(self, number=0):
        ptrace(CONT, self.pid, 0, number)
        self.is_running = True

    def look(self, options=0):
        """A stop of the process: that it was told to, or the instruction that it has met. None: it runs, or goes on."""
        pid, status = os.waitpid(self.pid, options | WALL)
        if pid == 0:
            return None
        assert os.WIFSTOPPED(status), f'the process ended: {status:#x}'
        self.is_running = False
        if status >> 16 == EVENT_STOP:
            return 'told'
        if os.WSTOPSIG(status) == signal.SIGTRAP:
            address = ptrace(PEEKUSER, self.pid, RIP) - 1 - self.base
            if address in self.planted:
                self.restore(address)
                ptrace(POKEUSER, self.pid, RIP, self.base + address)
                return address
        self.go_on(os.WSTOPSIG(status))
        return None

    def stop(self):
        if not self.is_running:
            return
        ptrace(INTERRUPT, self.pid)
        while (found := self.look()) != 'told':
            if found is not None:
                self.go_on()

    def run(self, is_over):
        """Until it meets a planted instruction, which is given back, and planted no more; None: is_over() before."""
        if not self.is_running:
            self.go_on()
        while (found := self.look(os.WNOHANG)) is None or found == 'told':
            if found:
                self.go_on()
            elif is_over():
                return None
            else:
                time.sleep(0.0005)
        return found

    def kill(self):
        """It stands still, and dies there."""
        os.kill(self.pid, signal.SIGKILL)
        self.is_alive = False
