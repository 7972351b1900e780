"""tslabctl clients: the claims that clients wait for, how clients end, how long requests take, resetting high-water marks.

    test-clients.py TSLABCTL TSLABD CTL-CLIENT SOURCE-FOLDER [unittest arguments]
"""

import os
import re
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.abspath(sys.argv[4]), 'tests/util'))

from daemon import SECONDS, wait_for
from verb import SOURCE, TSLABCTL, TSLABD, VERB_CLIENT, VerbTest, main


class Waits(VerbTest):
    def clients(self):
        return {c['pid']: c for c in self.json('clients') if not c['control_only']}

    def test_a_wait_is_shown_and_ends(self):
        holder, waiter = self.client(), self.client()
        first, second = holder.process.pid, waiter.process.pid
        holder.do('claim 7 600000')
        self.assertEqual({c['waiting'] for c in self.clients().values()}, {0})

        print('claim 7 600000', file=waiter.process.stdin, flush=True)
        wait_for(lambda: self.clients()[second]['waiting'] == 1)
        self.assertEqual(self.clients()[second]['waits_for_pid'], first)
        self.assertEqual((self.clients()[first]['waiting'], self.clients()[first]['waits_for_pid']), (0, None))
        self.assertRegex(self.text('clients', '-o', 'pid,waits for'), rf'(?m)^ *{second} +{first} *$')

        holder.kill()
        self.assertEqual(waiter.process.stdout.readline(), 'done\n')
        self.assertEqual((self.clients()[second]['waiting'], self.clients()[second]['waits_for_pid']), (0, None))

    def test_a_wait_that_times_out(self):
        holder, waiter = self.client(), self.client()
        holder.do('claim 7 600000')
        waiter.do('claim 7 1')
        self.assertEqual(self.clients()[waiter.process.pid]['waiting'], 0)

    def test_a_wait_for_any_claim_names_the_next_one(self):
        holder, other, waiter = self.client(), self.client(), self.client()
        holder.do('claim 7 600000')
        waiter.do('put 8 1')    # its thread has a record, which says it
        print('await 7 600000', file=waiter.process.stdin, flush=True)
        wait_for(lambda: self.clients()[waiter.process.pid]['waits_for_pid'] == holder.process.pid)
        waiter.process.send_signal(signal.SIGSTOP)      # it sees neither the end of the claim
        os.waitid(os.P_PID, waiter.process.pid, os.WSTOPPED | os.WNOWAIT)
        holder.do('drop 7 1')
        other.do('claim 7 600000')
        waiter.process.send_signal(signal.SIGCONT)      # nor that the key was without one
        wait_for(lambda: self.clients()[waiter.process.pid]['waits_for_pid'] == other.process.pid)
        other.do('drop 7 1')
        self.assertEqual(waiter.process.stdout.readline(), 'done\n')
        self.assertEqual(self.clients()[waiter.process.pid]['waits_for_pid'], None)

    def test_tasks_that_wait(self):
        holder, waiter = self.client(), self.client()
        for key in 7, 8:
            holder.do(f'claim {key} 600000')

        def waits():
            client = self.clients()[waiter.process.pid]
            return client['waiting'], client['waits_for_pid']

        waiter.do('put 8 1')    # the process has an entry in the client table, which says it
        waiter.do('task 7 3')
        waiter.do('task 8 2')
        self.assertEqual(waits(), (5, holder.process.pid))
        self.assertRegex(self.text('clients', '-o', 'pid,waits for'),
                         rf'(?m)^ *{waiter.process.pid} +{holder.process.pid} \(5\) *$')
        holder.do('drop 8 1')
        wait_for(lambda: waits() == (3, holder.process.pid))
        waiter.do('task 7 0')   # the waiter is closed
        self.assertEqual(waits(), (0, None))
        waiter.do('task 7 1')
        holder.kill()
        wait_for(lambda: waits() == (0, None))

    def test_the_next_owner_of_a_record_does_not_wait(self):
        holder, waiter = self.client(), self.client()
        holder.do('claim 7 600000')
        print('claim 7 600000', file=waiter.process.stdin, flush=True)
        wait_for(lambda: self.clients()[waiter.process.pid]['waiting'] == 1)
        waiter.kill()
        wait_for(lambda: len(self.clients()) == 1)
        for _ in range(3):
            self.client().do('session 64 1')
        self.assertEqual({c['waiting'] for c in self.clients().values()}, {0})


class End(VerbTest):
    def refused(self, text, *arguments):
        done = self.run_ctl('clients', 'end', *arguments)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(text, done.stderr)

    def test_end(self):
        one, other = self.client(), self.client()
        self.assertEqual(self.text('clients', 'end', str(one.process.pid)),
                         f'Process {one.process.pid} (verb-client) has ended.\n')
        self.assertEqual(one.process.wait(SECONDS), -signal.SIGTERM)
        other.do('session 64 1')
        self.assertEqual(self.json('clients', 'end', str(other.process.pid))['pid'], other.process.pid)

    def test_only_clients_end(self):
        stranger = subprocess.Popen(['sleep', '600'])
        self.addCleanup(stranger.wait)
        self.addCleanup(stranger.kill)
        self.refused('is no client of this pool', str(stranger.pid))
        self.assertIsNone(stranger.poll())
        self.refused('is no client of this pool', str(self.daemon.process.pid))
        self.refused('is no process number', '12x')
        self.refused('is no process number', '0')
        self.refused('is no client of this pool', str(2**31 - 1))
        self.assertIsNone(self.daemon.process.poll())


# Makes process number argv[1] of a pid namespace of its own, and runs the rest of argv there.
ANOTHER = r"""
import os, subprocess, sys
from pathlib import Path
number = int(sys.argv[1])
Path('/proc/sys/kernel/ns_last_pid').write_text(str(number - 1))
stranger = subprocess.Popen(['sleep', '600'])
assert stranger.pid == number, (stranger.pid, number)
done = subprocess.run(sys.argv[2:], capture_output=True, text=True)
assert stranger.poll() is None, 'a process that has the number of a client was ended'
stranger.kill()
stranger.wait()
sys.stderr.write(done.stderr)
sys.exit(done.returncode)
"""


INSIDE = r"""
import subprocess, sys
sys.path.insert(0, sys.argv[1])
from daemon import Daemon
with Daemon(sys.argv[2], '--size=16M') as daemon:
    client = subprocess.Popen([sys.argv[3], daemon.socket], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    client.stdout.readline()
    print(daemon.socket, client.pid, flush=True)
    print(client.wait(), flush=True)
    sys.stdin.readline()
"""


@unittest.skipIf(subprocess.run(['unshare', '--pid', '--fork', 'true'], capture_output=True, check=False).returncode,
                 'this user may make no pid namespace')
class Namespaces(VerbTest):
    """The number of a client means another process, or none, in another pid namespace."""

    def test_another_process_of_the_number(self):
        client = self.client()
        # /proc is of the namespace above, where LeakSanitizer does not find the process by its own number
        environment = {**self.daemon.environment, 'ASAN_OPTIONS': os.environ.get('ASAN_OPTIONS', '') + ':detect_leaks=0'}
        done = subprocess.run(['unshare', '--pid', '--fork', sys.executable, '-c', ANOTHER, str(client.process.pid),
                               TSLABCTL, 'clients', 'end', str(client.process.pid)], env=environment,
                              capture_output=True, text=True, timeout=SECONDS, check=False)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn('is not in this pid namespace', done.stderr)
        client.do('session 64 1')

    def test_the_number_is_the_daemons(self):
        """The daemon and its client are in a namespace below, where the client has another number than here."""
        inside = subprocess.Popen(
            ['unshare', '--pid', '--fork', '--kill-child', '--mount-proc', sys.executable, '-c', INSIDE,
             os.path.join(SOURCE, 'tests/util'), TSLABD, VERB_CLIENT],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(inside.communicate)
        path, pid = inside.stdout.readline().split()
        self.assertEqual(self.run_ctl('--socket', path, 'clients', 'end', pid).stdout,
                         f'Process {pid} (verb-client) has ended.\n')
        self.assertEqual(inside.stdout.readline(), f'{-signal.SIGTERM}\n')


class Peaks(VerbTest):
    def peaks(self):
        return self.json('stats')['peaks']

    def test_reset(self):
        clients = [self.client() for _ in range(4)]
        wait_for(lambda: self.peaks()['clients'] == 4)
        for client in clients[1:]:
            client.kill()
        wait_for(lambda: len(self.json('clients')) == 2)        # and tslabctl
        since = self.peaks()['since_usec']
        self.assertEqual(self.text('peaks', 'reset'), 'The high-water marks begin anew.\n')
        wait_for(lambda: self.peaks()['looks'] > 0)
        self.assertEqual(self.peaks()['clients'], 1)
        self.assertGreater(self.peaks()['since_usec'], since)


class Calls(VerbTest):
    def calls(self):
        return {c['call']: c for c in self.json('stats')['calls']}

    def test_each_request_is_counted_once(self):
        for _ in range(3):
            self.json('roots')
        self.calls()
        before, after = self.calls(), self.calls()
        self.assertEqual(before['roots']['count'], 3)
        # A connection says hello, and asks for statistics; these are not answered when they are summed up.
        self.assertEqual(after['stats']['count'], before['stats']['count'] + 1)
        self.assertEqual(after['hello']['count'], before['hello']['count'] + 1)
        for call in after.values():
            self.assertEqual(sum(c['count'] for c in call['counts']), call['count'])
            self.assertLessEqual(call['longest_usec'], call['total_usec'])
            bounds = [c['below_usec'] for c in call['counts']]
            self.assertEqual(bounds, [16 * 4**i for i in range(10)] + [None])
            most = max(i for i, c in enumerate(call['counts']) if c['count'])
            self.assertLess(call['longest_usec'], bounds[most] or float('inf'))

    def test_metrics_are_a_histogram(self):
        self.json('roots')
        text = self.text('metrics')
        buckets = re.findall(r'^tslab_request_duration_seconds_bucket\{pool="default",request="roots",le="(\S+)"\} (\d+)$',
                             text, re.MULTILINE)
        self.assertEqual(buckets[-1], ('+Inf', '1'))
        self.assertEqual([float(b) for b, _ in buckets[:3]], [16e-6, 64e-6, 256e-6])
        numbers = [int(n) for _, n in buckets]
        self.assertEqual(numbers, sorted(numbers))
        self.assertIn('tslab_request_duration_seconds_count{pool="default",request="roots"} 1\n', text)
        self.assertRegex(self.text('stats'), r'(?m)^roots +1 ')


if __name__ == '__main__':
    main()
