"""Runs the cases of cases.jsonl against a binding, whose actor README.md describes.

    run.py [--case=NAME] [--verbose] TSLABD ACTOR [ARGUMENT...]

--case runs one case, --verbose shows each step and its reply. The test fails where a reply is another than the case says,
and where an actor ends by itself.
"""

import argparse
import collections
import contextlib
import errno
import json
import os
import select
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', 'util'))
import daemon  # noqa: E402

CASES_A_POOL = 40           # a map takes one of the roots of its pool
BYTES = 'key', 'value'
LISTS = 'keys', 'values'
NUMBERS = 'version', 'delta', 'initial', 'number'         # numbers of 64 bits: decimal text, as JSON's numbers are doubles to many
DRIVEN = {'kill', 'waits', 'end'}               # steps that the driver takes itself

Case = collections.namedtuple('Case', 'name options steps')


class Wrong(Exception):
    """A reply that the case does not expect."""


def encode(value):
    """Bytes as they go over the wire. Text is UTF-8; {"hex": ...} is any bytes; {"repeat": TEXT, "n": N} is long."""
    if value is None:
        return None
    if isinstance(value, dict):
        return value['hex'] if 'hex' in value else (value['repeat'] * value['n']).encode().hex()
    return value.encode().hex()


def read_cases(path):
    cases = []
    with open(path, encoding='utf-8') as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            step = json.loads(line)
            if 'case' in step:
                cases.append(Case(step['case'], step.get('options', {}), []))
            else:
                cases[-1].steps.append((number, step))
    names = [case.name for case in cases]
    assert len(set(names)) == len(names), 'two cases have one name'
    return cases


class Actor:
    """A process of the binding."""

    def __init__(self, command, socket, environment):
        self.process = subprocess.Popen([*command, socket], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        env=environment)
        self.maps = set()
        self.greeting = self.receive()

    def send(self, request):
        self.process.stdin.write(json.dumps(request).encode() + b'\n')
        self.process.stdin.flush()

    def receive(self):
        if not self.has_reply(daemon.SECONDS):
            raise Wrong(f'no reply for {daemon.SECONDS} s')
        line = self.process.stdout.readline()
        if not line:
            raise Wrong(f'the actor ended with {self.process.wait()}')
        return json.loads(line)

    def has_reply(self, seconds=0):
        return bool(select.select([self.process.stdout], [], [], seconds)[0])

    def call(self, request):
        self.send(request)
        return self.receive()

    def kill(self):
        self.process.kill()
        self.end()

    def end(self):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()      # the actor ends then
        try:
            self.process.wait(daemon.SECONDS)
        finally:
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()


def matches(expected, reply):
    """An object has at least the members that are expected; {"min", "max"} is a range."""
    if isinstance(expected, dict) and expected.keys() <= {'min', 'max'} and expected:
        return isinstance(reply, (int, float)) and expected.get('min', reply) <= reply <= expected.get('max', reply)
    if isinstance(expected, dict):
        return isinstance(reply, dict) and all(k in reply and matches(v, reply[k]) for k, v in expected.items())
    if isinstance(expected, list):
        return isinstance(reply, list) and len(reply) == len(expected) and all(map(matches, expected, reply))
    return type(expected) is type(reply) and expected == reply


class Player:
    """Plays cases on the actors of one pool."""

    def __init__(self, command, socket, environment, is_verbose):
        self.start = lambda: Actor(command, socket, environment)
        self.actors, self.is_verbose = {}, is_verbose

    def actor(self, name):
        if name not in self.actors:
            self.actors[name] = self.start()
        return self.actors[name]

    def end(self):
        for actor in self.actors.values():
            actor.end()
        self.actors = {}

    def play(self, case):
        self.case, self.saved, self.begun = case, {}, {}
        for number, step in case.steps:
            try:
                self.take(step)
            except Wrong as e:
                raise Wrong(f'cases.jsonl:{number}: {case.name}: {json.dumps(step)}: {e}') from None
        assert not self.begun, f'{case.name}: calls that the case does not end'

    def take(self, step):
        if 'kill' in step:
            self.actors.pop(step['kill']).kill()
        elif 'waits' in step:
            if self.begun[step['waits']].has_reply(0.01):
                raise Wrong(f'it is over: {self.begun[step["waits"]].receive()}')
        elif 'end' in step:
            self.check(step, self.begun.pop(step['end']).receive())
        else:
            self.call(step)

    def call(self, step):
        actor = self.actor(step.get('by', 'A'))
        map_ = step.get('map', 'm')
        if map_ not in actor.maps and step['call'] not in ('map', 'close'):
            reply = actor.call({'call': 'map', 'map': map_, 'name': f'{self.case.name}.{map_}'[-43:], **self.case.options})
            if reply != {'ok': None}:
                raise Wrong(f'opening the map: {reply}')
            actor.maps.add(map_)
        request = self.request(step, map_)
        if 'begin' in step:
            actor.send(request)
            self.begun[step['begin']] = actor
            return
        deadline = time.monotonic() + daemon.SECONDS
        while True:
            try:
                return self.check(step, actor.call(request))
            except Wrong:
                if 'until' not in step or time.monotonic() > deadline:
                    raise
            time.sleep(0.005)

    def request(self, step, map_):
        request = {'map': map_}
        for name, value in step.items():
            if name in ('by', 'ok', 'error', 'as', 'begin', 'until', 'about'):
                continue
            request[name] = (encode(value) if name in BYTES else [encode(v) for v in value] if name in LISTS else
                             self.number(value) if name in NUMBERS else value)
        return request

    def number(self, value):
        return self.saved[value[1:]] if isinstance(value, str) and value.startswith('$') else str(value)

    def expected(self, step):
        """`ok` in the form of a reply."""
        call, ok = step.get('call', step.get('of')), step.get('ok')
        if call in ('get', 'take'):
            return encode(ok)
        if call == 'get_many':
            return [encode(v) for v in ok]
        if call == 'add':
            return str(ok)
        if call in ('walk', 'scan'):
            return sorted([encode(k), encode(v)] for k, v in ok.items())
        if isinstance(ok, dict):
            return {k: encode(v) if k == 'value' else self.number(v) if k == 'version' else v for k, v in ok.items()}
        return ok

    def check(self, step, reply):
        if self.is_verbose:
            print('   ', json.dumps(step), '->', json.dumps(reply)[:200])
        if 'error' in step:
            if reply.get('error') != step['error'] or step['error'] not in errno.errorcode.values():
                raise Wrong(f'replied {json.dumps(reply)[:300]}')
        else:
            got = reply.get('ok')
            if 'ok' not in reply or not matches(self.expected(step), sorted(got) if step.get('call') == 'walk' else got):
                raise Wrong(f'replied {json.dumps(reply)[:300]}')
        if 'as' in step:
            self.saved[step['as']] = (reply if 'error' in reply else reply['ok'])['version']


def missing(case, lacks):
    """The first call of a case that the binding does not offer."""
    return next((s['call'] for _, s in case.steps if s.get('call') in lacks), None)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--case')
    parser.add_argument('--verbose', action='store_true')
    parser.add_argument('tslabd')
    parser.add_argument('actor', nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    cases = [c for c in read_cases(os.path.join(HERE, 'cases.jsonl')) if arguments.case in (None, c.name)]
    failures, skipped = [], collections.Counter()
    for first in range(0, len(cases), CASES_A_POOL):
        with daemon.Daemon(os.path.abspath(arguments.tslabd), '--size=64M') as running:
            player = Player(arguments.actor, running.socket, running.environment, arguments.verbose)
            lacks = set(player.actor('A').greeting.get('lacks', []))
            for case in cases[first:first + CASES_A_POOL]:
                if absent := missing(case, lacks):
                    skipped[absent] += 1
                    continue
                if arguments.verbose:
                    print(case.name)
                try:
                    player.play(case)
                except Wrong as e:
                    failures.append(str(e))
                    for actor in player.actors.values():
                        actor.kill()
                    player.actors = {}
                # In a case of its own nothing is open twice, and no claim of an earlier case ends.
                for actor in player.actors.values():
                    actor.maps.clear()
            player.end()
    n = len(cases) - skipped.total()
    print(f'{n - len(failures)} of {n} cases as expected' + ''.join(f'; {k} need {name}(), which the binding lacks'
                                                                       for name, k in sorted(skipped.items())))
    for failure in failures:
        print(failure, file=sys.stderr)
    sys.exit(1 if failures or n == 0 else 0)


if __name__ == '__main__':
    main()
