"""tslabctl top: on a terminal, as tmux shows it, and in a pipe."""

import json
import os
import pty
import signal
import subprocess

import ctl_case
from ctl_case import Case, wait_for


class Screen:
    """A terminal of its own, in a tmux server of its own."""

    def __init__(self, folder, columns, rows, *arguments):
        self.socket, self.env = f'{folder}/tmux', ctl_case.environment(folder)
        self.env.pop('TMUX', None)
        self.tmux('-f', '/dev/null', 'new-session', '-d', '-x', str(columns), '-y', str(rows), 'sh')
        self.tmux('set-option', '-g', 'remain-on-exit', 'on')
        self.tmux('set-option', '-g', 'window-size', 'manual')
        self.tmux('resize-window', '-x', str(columns), '-y', str(rows))
        # A shell tells the exit code: tmux forgets it where the terminal is closed before the process is waited for.
        self.tmux('respawn-pane', '-k', 'sh', '-c', 'trap : INT; "$@"; echo "code $?"; exec sleep 1000', 'sh',
                  ctl_case.TSLABCTL, 'top', '-d', '0.1', *arguments)

    def tmux(self, *arguments):
        return subprocess.run(['tmux', '-u', '-S', self.socket, *arguments], env=self.env, stdout=subprocess.PIPE,
                              check=True, text=True, timeout=ctl_case.DEADLINE).stdout

    def text(self):
        return self.tmux('capture-pane', '-p')

    def shows(self, *parts):
        def seen():
            text = self.text()
            return text if all(part in text for part in parts) else None
        try:
            return wait_for(seen)
        except AssertionError:
            raise AssertionError(f'{parts} not in:\n{self.text()}') from None

    def key(self, key):
        self.tmux('send-keys', key)

    def resize(self, columns, rows):
        self.tmux('resize-window', '-x', str(columns), '-y', str(rows))

    def exit_code(self):
        return int(self.shows('code ').split('code ')[1].split()[0])

    def close(self):
        """Ends the server; nothing that ran on its terminal is left."""
        processes = family(int(self.tmux('list-panes', '-F', '#{pane_pid}')))
        self.tmux('kill-server')
        wait_for(lambda: not any(runs(pid) for pid in processes))


def family(pid):
    found = subprocess.run(['ps', '-o', 'pid=', '--ppid', str(pid)], stdout=subprocess.PIPE, check=False, text=True)
    return [pid, *map(int, found.stdout.split())]


def runs(pid):
    try:
        with open(f'/proc/{pid}/stat', encoding='utf-8') as file:
            return file.read().rpartition(') ')[2][0] not in 'ZX'
    except (FileNotFoundError, ProcessLookupError):
        return False


class Top(Case):
    def screen(self, columns, rows, *arguments):
        screen = Screen(self.folder, columns, rows, *arguments)
        self.addCleanup(screen.close)
        return screen

    def test_views(self):
        client = self.client(self.start())
        client.do('alloc 64 300')
        screen = self.screen(80, 40)
        text = screen.shows('default: 1 client, 1 record', 'epochs by EPOCH', 'EPOCH', 'allocs/s', '300')
        self.assertTrue(all(len(line) <= 80 for line in text.splitlines()))
        screen.key('l')
        screen.shows('classes by SIZE', '   816 ')
        screen.key('>')
        text = screen.shows('classes by OBJECTS')
        self.assertLess(text.index('    64  '), text.index('    80  '))
        screen.key('r')
        text = screen.shows('turned around')
        self.assertGreater(text.index('    64  '), text.index('    80  '))
        screen.key('c')
        screen.shows('clients by ALLOC/S', 'ctl-client', str(client.process.pid))
        screen.key('?')
        screen.shows('turn the order around')
        screen.key('e')
        screen.shows('epochs by EPOCH')
        screen.key('q')
        self.assertEqual(screen.exit_code(), 0)

    def test_small(self):
        self.start()
        screen = self.screen(20, 24)
        text = screen.shows('EPOCH', 'OBJECTS')
        self.assertNotIn('LIVE', text)
        screen.resize(10, 3)
        screen.shows('too small')
        screen.resize(80, 24)
        screen.shows('LIVE', 'COMMITTED', 'default: ')

    def test_pool_disappears(self):
        daemon = self.start()
        screen = self.screen(80, 24)
        screen.shows('default: 0 clients')
        daemon.stop(signal.SIGKILL)
        # the last numbers stay
        screen.shows('the daemon is gone; trying again', 'default: 0 clients')
        client = self.client(self.start())
        client.do('alloc 64 10')
        text = screen.shows('default: 1 client')
        self.assertNotIn('trying again', text)
        screen.key('q')
        self.assertEqual(screen.exit_code(), 0)

    def test_count_and_interrupt(self):
        self.start()
        self.assertEqual(self.screen(80, 24, '-n', '3').exit_code(), 0)

    def test_interrupted(self):
        self.start()
        screen = self.screen(80, 24)
        screen.shows('EPOCH')
        screen.key('C-c')
        self.assertEqual(screen.exit_code(), 0)

    def hang_up(self, *command):
        """The wait status after the terminal was closed."""
        pid, terminal = pty.fork()
        if pid == 0:
            signal.signal(signal.SIGHUP, signal.SIG_DFL)    # under nohup it would be ignored
            os.execvpe(command[0], [*command, ctl_case.TSLABCTL, 'top', '-d', '0.1'],
                       {**ctl_case.environment(self.folder), 'TERM': 'screen'})
        shown = b''
        while b'EPOCH' not in shown:
            shown += os.read(terminal, 4096)
        os.close(terminal)
        self.addCleanup(lambda: runs(pid) and os.kill(pid, signal.SIGKILL))
        wait_for(lambda: not runs(pid))
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    def test_terminal_is_closed(self):
        self.start()
        self.assertEqual(self.hang_up('env'), -signal.SIGHUP)
        self.assertEqual(self.hang_up('sh', '-c', 'trap "" HUP; exec "$@"', 'sh'), 0)

    def test_batch(self):
        client = self.client(self.start())
        client.do('alloc 64 300')
        text = self.text('top', '--once', '-d', '0.1')
        self.assertRegex(text, r'\Adefault: 1 client, 1 record, up \w+')
        self.assertRegex(text, r'\n +0:1 +300 +0 ')
        self.assertEqual(self.text('top', '-n', '3', '-d', '0.1').count('epochs by EPOCH'), 3)

    def test_json(self):
        client = self.client(self.start())
        client.do('alloc 64 300')
        lines = self.text('--json', 'top', '-n', '2', '-d', '0.1').splitlines()
        self.assertEqual(len(lines), 2)
        for line in lines:
            value = json.loads(line)
            self.assertGreaterEqual(value['interval_usec'], 100000)
            self.assertEqual(value['rates']['allocs'], 0)
            self.assertEqual(value['stats']['live_objects'], 300)
            self.assertEqual([c['allocs'] for c in value['clients']], [300])

    def test_closed_pipe(self):
        self.start()
        for restore, code in ((True, -signal.SIGPIPE), (False, 0)):
            reader, writer = os.pipe()
            os.close(reader)
            result = subprocess.run([ctl_case.TSLABCTL, 'top', '-d', '0.1'], stdout=writer, stderr=subprocess.PIPE,
                                    check=False, restore_signals=restore, timeout=ctl_case.DEADLINE,
                                    env=ctl_case.environment(self.folder))
            os.close(writer)
            self.assertEqual((result.returncode, result.stderr), (code, b''))

    def test_refused(self):
        self.refused(1, 'no daemon', 'top')
        self.refused(2, 'is no delay', 'top', '-d', '0.01')
        self.refused(2, 'is no delay', 'top', '--delay', 'x')
        self.refused(2, 'is no count', 'top', '-n', '0')
        self.refused(2, "does not go with 'stats'", 'stats', '-n', '1')


ctl_case.main()
