"""tslabctl epoch close asks before it destroys data or stops programs; and no advice does."""

import os
import pathlib
import pty
import re
import shutil
import signal
import subprocess
import termios
import threading
import unittest

import ctl_case
from ctl_case import CTL_CLIENT, SOURCE, TSLABCTL, VERB_CLIENT, Case, environment

CAN_TRACE = shutil.which('strace') and not subprocess.run(['strace', '-o', os.devnull, 'true'], check=False,
                                                          stderr=subprocess.DEVNULL).returncode
# Eight seconds between hello and the first question, for this process to stop the daemon. LeakSanitizer would want to trace by itself.
SLOW_TO_ASK = ('strace', '-E', 'ASAN_OPTIONS=detect_leaks=0', '-o', os.devnull, '-e', 'trace=sendmsg',
               '-e', 'inject=sendmsg:delay_enter=8000000:when=2', TSLABCTL)


class CloseCase(Case):
    def on_terminal(self, answer, *arguments, program=(TSLABCTL,), when_asked=None):
        """Exit code, and the text on the terminal; `answer` is typed, or comes after `when_asked`, and then the user
        hangs up."""
        main, terminal = pty.openpty()
        mode = termios.tcgetattr(terminal)
        mode[3] &= ~termios.ECHO
        termios.tcsetattr(terminal, termios.TCSANOW, mode)
        if not when_asked:
            os.write(main, answer)
        with subprocess.Popen([*program, *arguments], stdin=terminal, stdout=subprocess.PIPE, stderr=terminal,
                              env=environment(self.folder)) as process:
            os.close(terminal)
            out = b''
            try:
                while data := os.read(main, 65536):
                    out += data
                    if when_asked and out.endswith(b'Go on? [y/N] '):
                        when_asked()
                        os.write(main, answer)
            except OSError:
                pass                            # the other end was closed
            os.close(main)
            process.stdout.read()
        return process.returncode, out.decode().replace('\r\n', '\n')

    def epoch(self, number):
        return self.json('epoch', 'list')[number]

    def closed(self, number):
        return self.epoch(number)['state'] != 'open'


class Revoke(CloseCase):
    def test_asks(self):
        """It names pool, objects, bytes and eras; only yes goes on."""
        client = self.client(self.start('web'), CTL_CLIENT)
        pool = ['--pool', 'web']
        client.do('alloc 100 300')
        self.text(*pool, 'epoch', 'advance')
        for answer in (b'n\n', b'\n', b'\x04', b'yesterday\n'):
            code, text = self.on_terminal(answer, *pool, 'epoch', 'close', '0', '--revoke')
            self.assertEqual(code, 1)
            self.assertRegex(text, r"In pool 'web':\n  epoch 0:1: 300 objects, 32\.8K, are freed\n"
                                   r'Every handle [^\n]* stale, in every process\. This cannot be undone\.\n'
                                   r'Go on\? \[y/N\] tslabctl: nothing was closed\n')
            self.assertEqual(self.json(*pool, 'stats')['live_objects'], 300)
        for answer in (b'y\n', b'YES\n'):
            code, text = self.on_terminal(answer, *pool, 'epoch', 'close', '0', '--revoke')
            self.assertEqual((code, 'Go on?' in text), (0, True))
        self.assertEqual(self.json(*pool, 'stats')['live_objects'], 0)

    @unittest.skipUnless(CAN_TRACE, 'no strace')
    def test_silent(self):
        """A daemon that hangs before it says what a close frees is not told to close: it may go on later."""
        daemon = self.start()
        self.client(daemon, CTL_CLIENT).do('alloc 100 300')
        self.text('epoch', 'advance')

        def hang():
            """Once the first request, a hello, was answered: two connections ask, with the one of the list itself."""
            ctl_case.wait_for(lambda: sum(c['control_only'] for c in self.json('clients')) > 1)
            daemon.process.send_signal(signal.SIGSTOP)

        hanging = threading.Thread(target=hang)
        hanging.start()
        code, text = self.on_terminal(b'', 'epoch', 'close', '0', '--revoke', program=SLOW_TO_ASK)
        hanging.join()
        daemon.process.send_signal(signal.SIGCONT)
        self.assertEqual((code, text.count('does not answer')), (1, 1))
        self.assertEqual(self.json('stats')['live_objects'], 300)

    def test_eras(self):
        """--older names the eras; without it the objects of earlier eras are not counted."""
        client = self.client(self.start(), CTL_CLIENT)
        client.do('alloc 100 300')
        for _ in range(16):
            self.text('epoch', 'advance')
        client.do('alloc 64 20')
        text = self.on_terminal(b'n\n', 'epoch', 'close', '0', '--revoke')[1]
        self.assertRegex(text, r'  epoch 0:\d+: 20 objects, 1\.2K, are freed\n')
        text = self.on_terminal(b'n\n', 'epoch', 'close', '0', '--revoke', '--older')[1]
        self.assertRegex(text, r'  epoch 0:\d+: 320 objects, 34\.0K, of eras 1 to \d+ are freed\n')
        text = self.on_terminal(b'n\n', 'epoch', 'close', '0:1', '--revoke')[1]
        self.assertIn('  epoch 0:1: 300 objects, 32.8K, are freed\n', text)
        self.assertNotIn('current', text)       # the era of that name is over
        self.assertEqual(self.json('stats')['live_objects'], 320)

    def test_changed_meanwhile(self):
        """The answer is for the era that the question was about, even if the id has another by then."""
        client = self.client(self.start(), CTL_CLIENT)
        client.do('alloc 100 300')
        self.text('epoch', 'advance')

        def use_again():
            for _ in range(15):
                self.text('epoch', 'advance')
            client.do('alloc 64 20')

        code, text = self.on_terminal(b'y\n', 'epoch', 'close', '0', '--revoke', when_asked=use_again)
        self.assertIn('  epoch 0:1: 300 objects', text)
        self.assertEqual((code, self.json('stats')['live_objects'], self.closed(0)), (0, 20, False))

    def test_yes(self):
        """Without a question, as every script that was written before there was one."""
        client = self.client(self.start(), CTL_CLIENT)
        client.do('alloc 100 300')
        self.text('epoch', 'advance')
        self.assertEqual(self.run_ctl('epoch', 'close', '0', '--revoke').returncode, 0)
        self.assertEqual(self.json('stats')['live_objects'], 0)
        client.do('alloc 100 300')
        self.text('epoch', 'advance')
        code, text = self.on_terminal(b'', 'epoch', 'close', '1', '--revoke', '--yes')
        self.assertEqual((code, 'Go on?' in text), (0, False))
        self.assertEqual(self.json('stats')['live_objects'], 0)

    def test_none_of_several(self):
        client = self.client(self.start(), CTL_CLIENT)
        client.do('alloc 100 300')
        code, text = self.on_terminal(b'n\n', 'epoch', 'close', '5', '0', '6', '--revoke')
        self.assertEqual((code, len(re.findall(r'^  epoch [056]:1', text, re.M))), (1, 3))
        self.assertFalse(any(self.closed(i) for i in (0, 5, 6)))


class Mistakes(CloseCase):
    """Closes that stop programs: a question on a terminal, an error elsewhere, done with --yes."""

    def refused_then_done(self, parts, *arguments):
        self.refused(1, [*parts, 'nothing was closed', '--yes'], *arguments)
        code, text = self.on_terminal(b'n\n', *arguments)
        self.assertEqual(code, 1)
        for part in parts:
            self.assertIn(part, text)
        self.assertEqual(self.run_ctl(*arguments, '--yes').returncode, 0)

    def test_current(self):
        client = self.client(self.start(), CTL_CLIENT)
        client.do('alloc 100 3')
        self.refused_then_done(["the current one", "until 'tslabctl --pool default epoch advance'"], 'epoch', 'close', '0')
        self.assertTrue(self.closed(0))
        # once it is closed, a second time stops nobody
        self.assertEqual(self.run_ctl('epoch', 'close', '0', '--wait=0').returncode, 3)

    def test_other_epochs(self):
        self.client(self.start(), CTL_CLIENT).do('alloc 100 3')
        self.text('epoch', 'advance')
        code, text = self.on_terminal(b'', 'epoch', 'close', '0', '5')
        self.assertEqual((code, 'Go on?' in text), (0, False))

    def test_maps(self):
        client = self.client(self.start(), VERB_CLIENT)
        client.do('put 100 20')
        number = next(e['id'] for e in self.json('epoch', 'list') if e['label'] == 'maps')
        self.refused(1, ['all maps are gone', '--yes'], 'epoch', 'close', str(number), '--revoke')
        self.assertFalse(self.closed(number))
        self.refused_then_done(['holds the indexes of all maps of the pool: no program can put new keys'],
                               'epoch', 'close', str(number))
        closed = f'epoch {number}:2, of the indexes of all maps, is closed'
        self.assertIn(closed, '\n'.join(self.json('status')['hints']))
        self.refused_then_done(['all maps are gone'], 'epoch', 'close', str(number), '--revoke')
        self.assertNotIn(closed, '\n'.join(self.json('status')['hints']))

    def test_leased(self):
        client = self.client(self.start(), VERB_CLIENT)
        client.do('lease 100 20')
        leased = next(e for e in self.json('epoch', 'list') if e['owner_pid'])
        pid = client.process.pid
        code, text = self.on_terminal(b'n\n', 'epoch', 'close', str(leased['id']))
        self.assertIn(f"'batch', leased by process {pid} (verb-client): closed to allocation", text)
        self.assertIn(f'Process {pid} cannot allocate in it any more', text)
        self.assertEqual((code, self.closed(leased['id'])), (1, False))
        # a script may well mean it
        self.assertEqual(self.run_ctl('epoch', 'close', str(leased['id'])).returncode, 0)

    def test_refused_first(self):
        """An epoch that cannot be closed is no reason not to ask about the others."""
        self.start()
        self.refused(1, 'the current one', 'epoch', 'close', '3:9', '0')
        self.assertFalse(self.closed(0))


class Advice(CloseCase):
    def test_names_the_pool(self):
        client = self.client(self.start('web'), CTL_CLIENT)
        pool = ['--pool', 'web']
        client.do('alloc 100 300')
        self.text(*pool, 'epoch', 'close', '0', '--yes')
        hints = self.json(*pool, 'status')['hints']
        hints += re.findall('Warning: (.*)', self.text(*pool, 'epoch', 'list'))
        self.assertGreaterEqual(len(hints), 4)
        for hint in hints:
            self.assertNotIn('revoke', hint)
            self.assertEqual(hint.count('tslabctl'), hint.count('tslabctl --pool web '), hint)
        self.assertTrue(any('tslabctl --pool web epoch advance' in hint for hint in hints))

    def test_names_the_socket(self):
        """A pool whose name would lead to another socket."""
        daemon = self.start('web')
        os.rename(daemon.path, f'{self.folder}/odd')
        self.addCleanup(os.rename, f'{self.folder}/odd', daemon.path)
        pool = ['--socket', f'{self.folder}/odd']
        self.text(*pool, 'epoch', 'close', '0', '--yes')
        self.assertIn(f'tslabctl --socket {self.folder}/odd epoch advance', self.json(*pool, 'status')['hints'][0])

    def test_documents(self):
        """None of the pages that an operator in trouble reads has a command that destroys data."""
        pages = [*filter(pathlib.Path.is_file, pathlib.Path(SOURCE, 'docs').rglob('*')), pathlib.Path(SOURCE, 'systemd/tslab.catalog')]
        self.assertGreater(len(pages), 5)
        for page in pages:
            self.assertNotIn('--revoke', page.read_text(encoding='utf-8'), page)


if __name__ == '__main__':
    ctl_case.main()
