"""Node with a pool whose socket systemd holds: a program starts the daemon, and goes on over its restart, death and end."""

import shutil

from host import *

POOL = 'web'
PACKAGE = '/run/tslab-node'
PROGRAM = f'''
const tslab = require('{PACKAGE}');
const tell = (call) => {{
  try {{
    console.log('n', call());
  }} catch (error) {{
    console.log(error.code, error.message);
  }}
}};
let map;
tell(() => (map = tslab.open('{POOL}', JSON.parse(process.argv[1])).map('visits')).add('n'));
if (map) process.stdin.on('data', () => tell(() => map.add('n'))).on('end', () => process.exit(0));
'''


class Program:
    def __init__(self, options='{}', as_user=()):
        self.process = subprocess.Popen([*as_user, shutil.which('node'), '-e', PROGRAM, options], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.first = self.line()

    def line(self):
        return self.process.stdout.readline().strip()

    def add(self):
        self.process.stdin.write('\n')
        self.process.stdin.flush()
        return self.line()

    def end(self):
        self.process.stdin.close()
        expect(self.process.wait() == 0, f'a program ended with {self.process.returncode}')


def daemons():
    return sh('pgrep', '-c', '-x', 'tslabd').strip()


setup()
start(POOL)
expect(show(POOL, 'ActiveState') == 'inactive', 'the socket alone')

first = Program()
expect(first.first == 'n 1', f'the first program: {first.first}')
pid = show(POOL, 'MainPID')
expect(show(POOL, 'ActiveState') == 'active' and pid != '0', 'it started the daemon')
# A program that would start a daemon finds that of systemd.
second = Program('{"start": true}')
expect(second.first == 'n 2', f'the second program: {second.first}')
expect(daemons() == '1' and show(POOL, 'MainPID') == pid, 'one daemon')

# systemd keeps the memory over a restart and a death, and programs go on in it.
sh('systemctl', 'restart', f'tslabd@{POOL}.service')
expect((first.add(), second.add()) == ('n 3', 'n 4'), 'after a restart')
pid = show(POOL, 'MainPID')
os.kill(int(pid), signal.SIGKILL)
expect((first.add(), second.add()) == ('n 5', 'n 6'), 'while no daemon runs')
wait_for_other_daemon(POOL, pid)
third = Program()
expect((third.first, first.add()) == ('n 7', 'n 8'), 'a program that comes after a death')

# Only those in the group may come.
stranger = Program(as_user=['setpriv', '--reuid=nobody', '--regid=nogroup', '--clear-groups'])
expect(stranger.first.startswith('EACCES '), f'a stranger: {stranger.first}')
stranger.process.wait()
member = Program(as_user=['setpriv', '--reuid=nobody', '--regid=nogroup', '--groups=tslab'])
expect(member.first == 'n 9', f'a member of the group: {member.first}')

# The end of the service is that of the memory. The next look of a program, a second later, starts the daemon again.
sh('systemctl', 'stop', f'tslabd@{POOL}.service')
wait_for(lambda: int(first.add().split()[1]) < 9, 'new memory')
expect(show(POOL, 'ActiveState') == 'active', 'the daemon runs again')
last = Program()
n = int(last.first.split()[1])
wait_for(lambda: int(second.add().split()[1]) in (n + 1, n + 2, n + 3), 'the others in the same new memory')

for program in (first, second, third, member, last):
    program.end()
