"""An example that cannot start a process fails, and ends no other process: examples-no-fork.py INJECT EXAMPLE..."""

import subprocess
import sys

CLONE, EAGAIN = 56, 11
# In a pid namespace of its own, since a signal to process -1 would end all others. Only SIGKILL is to end the bystander.
SCRIPT = '''sleep 1000 & bystander=$!
"$@" >/dev/null; status=$?
kill -KILL $bystander; wait $bystander; test $? = 137 && test $status -le 1'''
UNSHARE = ['unshare', '--user', '--map-root-user', '--pid', '--fork', '--kill-child']
SKIPPED = 77

if subprocess.run([*UNSHARE, 'true'], stderr=subprocess.DEVNULL, check=False).returncode:
    sys.exit(SKIPPED)
inject, *examples = sys.argv[1:]
for example in examples:
    order = ['env', f'LD_PRELOAD={inject}', f'TSLAB_INJECT={CLONE}:1:{2**31 - 1}:{EAGAIN}']
    done = subprocess.run([*UNSHARE, 'sh', '-c', SCRIPT, 'sh', *order, example], timeout=60, start_new_session=True,
                          check=False)
    assert done.returncode == 0, f'{example} ended another process, or was ended'
