"""Functions that the tests under systemd share; only to be used in there, on a root file system that is thrown away."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

README = pathlib.Path('/run/tslab-readme.md')
CLIENT = '/usr/bin/tslab-test-client'


def sh(*command, check=True, **more):
    result = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **more)
    text = result.stdout.decode(errors='replace')
    if check and result.returncode:
        sys.exit(f'{" ".join(map(str, command))}: {result.returncode}\n{text}')
    return text if check else (result.returncode, text)


def after_install():
    """The commands of README that follow the installation from source."""
    text = README.read_text(encoding='utf-8').split('## Under systemd', 1)[1]
    commands = re.search(r'ninja -C \S+ install\n(.*?)systemctl enable', text, re.DOTALL)
    sh('sh', '-e', '-c', commands.group(1))


def setup():
    """Installs tslab."""
    # /lib may be a symbolic link, which cp would not go through.
    sh('sh', '-c', f'tar -C {sys.argv[1]} -c . | tar -C / -x --keep-directory-symlink --no-overwrite-dir')
    after_install()


def settings(pool, *lines):
    path = pathlib.Path(f'/etc/tslab/{pool}.conf')
    path.write_text('\n'.join(lines) + '\n')


def drop_in(unit, text):
    path = pathlib.Path(f'/etc/systemd/system/{unit}.d/50-test.conf')
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    sh('systemctl', 'daemon-reload')


def start(pool):
    sh('systemctl', 'start', f'tslabd@{pool}.socket')


def show(pool, name, kind='service'):
    return sh('systemctl', 'show', '--value', '-p', name, f'tslabd@{pool}.{kind}').strip()


def ctl(pool, *arguments):
    return sh('tslabctl', '--pool', pool, *arguments)


def ctl_json(pool, *arguments):
    return json.loads(sh('tslabctl', '--pool', pool, '--json', *arguments))


def journal(*matches):
    sh('journalctl', '--sync')
    text = sh('journalctl', '--no-pager', '--quiet', '-o', 'json', *matches)
    return [json.loads(line) for line in text.splitlines() if line.startswith('{')]


def message_ids():
    """By the names in daemon/message-id.h, as the catalog's comments have them."""
    text = sh('journalctl', '--list-catalog')
    return {line.split()[0]: line.split(':', 1)[-1].strip() for line in text.splitlines() if line.strip()}


def expect(condition, what):
    if not condition:
        sys.exit(f'failed: {what}')


def wait_for(condition, what, seconds=30):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            sys.exit(f'waited in vain: {what}')
        time.sleep(0.02)


def wait_for_other_daemon(pool, pid):
    wait_for(lambda: show(pool, 'MainPID') not in ('0', pid) and show(pool, 'ActiveState') == 'active',
             'another daemon')


class Client:
    """One that runs on."""

    def __init__(self, *arguments, command=()):
        self.process = subprocess.Popen([*command, CLIENT, *map(str, arguments)], stdout=subprocess.PIPE, text=True)

    def line(self):
        return self.process.stdout.readline().strip()

    def wait_for(self, word):
        line = self.line()
        expect(line.split(' ')[0] == word, f'a client said "{line}", not "{word}"')
        return line

    def look(self):
        self.process.send_signal(signal.SIGUSR1)
        self.wait_for('looked')

    def advance(self):
        self.process.send_signal(signal.SIGUSR2)
        self.wait_for('advanced')

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        text = self.process.stdout.read()
        expect(self.process.wait() == 0, f'a client ended with {self.process.returncode}: {text}')
        return text


def gap_usec(text):
    return int(re.search(r'gap (\d+)', text).group(1))
