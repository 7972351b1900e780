"""A daemon with --exit-idle ends by itself once nobody is connected, and not before.

    test-exit-idle.py TSLABD TSLABCTL
"""

import os
import socket
import subprocess
import sys
import tempfile
import time

SECONDS = 60
TSLABD, TSLABCTL = map(os.path.abspath, sys.argv[1:3])


def refused(value):
    done = subprocess.run([TSLABD, '--check-config', f'--exit-idle={value}'], stderr=subprocess.PIPE, text=True)
    return done.returncode == 2 and 'number of seconds' in done.stderr


assert all(map(refused, ('0', '-1', 'x', '', '1s')))
with tempfile.TemporaryDirectory(prefix='tslab-test-') as folder, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
    path = os.path.join(folder, 'default.sock')
    environment = {**{k: v for k, v in os.environ.items() if not k.startswith('TSLAB_')}, 'TSLAB_RUNTIME_DIR': folder}
    # On a slow machine it may end before this test connects.
    end = time.monotonic() + SECONDS
    daemon = None
    while client.connect_ex(path) != 0:
        assert time.monotonic() < end
        if daemon is None or daemon.poll() is not None:
            assert daemon is None or daemon.returncode == 0
            daemon = subprocess.Popen([TSLABD, '--size=16M', '--log-level=warning', '--exit-idle=1'], env=environment)
        time.sleep(0.01)
    time.sleep(3)
    assert daemon.poll() is None, 'it ended beside a connection'
    client.close()
    assert daemon.wait(SECONDS) == 0
    assert not os.listdir(folder)

    # Nobody connects while the maps are written: what a program puts then would be lost.
    with open(os.path.join(folder, 'tslabctl'), 'w', encoding='ascii') as script:
        script.write(f'#!/bin/sh\ntouch {folder}/begun\nwhile [ ! -e {folder}/go ]; do sleep 0.01; done\nexec {TSLABCTL} "$@"\n')
    os.chmod(script.name, 0o755)
    daemon = subprocess.Popen([TSLABD, '--size=16M', '--exit-idle=1', f'--keep={folder}/kept'],
                              env={**environment, 'PATH': f'{folder}:{os.environ["PATH"]}'})
    while not os.path.exists(f'{folder}/begun'):
        assert daemon.poll() is None
        time.sleep(0.01)
    assert not os.path.exists(path)
    assert os.path.exists(f'{folder}/default.lock')
    time.sleep(3)
    assert daemon.poll() is None, 'it ended before the maps were written'
    with open(f'{folder}/go', 'w', encoding='ascii'):
        pass
    assert daemon.wait(SECONDS) == 0
    assert os.path.exists(f'{folder}/kept')
