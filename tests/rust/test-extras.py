"""The features that need other crates, serde and tokio: on a real daemon, and the examples of their documentation.

Skipped where the crates are neither in cargo's cache nor to be had.

    test-extras.py CARGO SOURCE BUILD TSLABD
"""

import subprocess

from rust import ARGUMENTS, LIBRARY, Daemon, Tree, skip, version

NEEDED = 1, 71      # by the tokio of today

if version() < NEEDED:
    skip('rustc is older than %d.%d, which tokio needs' % NEEDED)
tree = Tree('extras', has_dependencies=True)
tree.environment.update(CARGO_NET_RETRY='0', CARGO_HTTP_TIMEOUT='20')
for is_online in False, True:
    try:
        program = tree.program('--features', 'extras', is_online=is_online)
        break
    except subprocess.CalledProcessError:
        if not is_online:
            print('the crates are not in the cache of cargo')
else:
    # A fault of ours is none of the registry.
    if tree.cargo('tests/rust', 'fetch', is_online=True, check=False).returncode:
        skip('the crates of tokio and serde are not to be had')
    raise SystemExit('the program does not compile')
with Daemon(ARGUMENTS[0], '--size=128M') as daemon:
    subprocess.run([program, 'extras', daemon.socket], env={**daemon.environment, 'LD_LIBRARY_PATH': LIBRARY}, check=True)
tree.cargo('bindings/rust', 'test', '--quiet', '-p', 'tslab', '--features', 'serde,tokio', '--doc', '--', 'async', 'Cbor',
           is_online=True)
