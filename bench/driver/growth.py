"""Measures how the time of the daemon's calls grows with the arena, its objects, epochs, clients and threads."""

import json
import subprocess

import runner as programs
import service

CALLS = ['attach', 'advance', 'close', 'stats']
MIB = 1 << 20
GIB = 1 << 30

# axis -> values. options() says which of them are options of the daemon. The other axes stay at 256 MiB, empty, 16
# epochs, one client with one thread.
AXES = {
    'arena': [64 * MIB, 256 * MIB, GIB, 4 * GIB, 16 * GIB],
    'fill': [0, 64 * MIB, 256 * MIB, GIB, 4 * GIB, 15 * GIB],
    'epochs': [2, 4, 16, 64],
    'clients': [1, 10, 100, 500],
    'threads': [1, 10, 100, 1000],
}
RESTART_CLIENTS = [1, 10, 100, 500]


def options(axis, value):
    daemon = {'--size': 256 * MIB, '--retain': 16 * MIB, '--epochs': 16, '--threads': 2048}
    workload = {'--clients': 1, '--threads': 1, '--fill': 0}
    if axis == 'arena':
        daemon['--size'] = value
    elif axis == 'epochs':
        daemon['--epochs'] = value
    else:
        workload['--' + axis] = value
        if axis == 'fill':
            daemon['--size'] = 16 * GIB
    return flat(daemon), flat(workload)


def flat(named):
    return [str(part) for pair in named.items() for part in pair]


def available():
    with open('/proc/meminfo', encoding='ascii') as file:
        for line in file:
            if line.startswith('MemAvailable:'):
                return int(line.split()[1]) * 1024
    return 0


def fits(axis, value):
    """A filled arena takes its memory, and up to a tenth as much for its tables."""
    return axis != 'fill' or value + value // 10 + 2 * GIB < available()


def values(axis, quick):
    return AXES[axis][:2] if quick else AXES[axis]


def measure(runner, axis, value):
    daemon, workload = options(axis, value)
    with service.Daemon(runner.build, *daemon) as d:
        result, _ = runner.execute([*runner.program('tslab-adaptive'), '--pool', d.path, *workload, 'control'])
    runner.add(f'grow-{axis}', str(value), 0, result['metrics'])


def restart(runner, n_clients):
    """Kills the daemon and starts another one on the same memory, while clients are attached."""
    with service.Daemon(runner.build, '--threads', '2048') as d:
        command = [*runner.program('tslab-adaptive'), '--pool', d.path, '--clients', str(n_clients), '--fill', str(MIB),
                   '--restart', 'control']
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True) as client:
            if client.stderr.readline() != 'ready\n':
                raise programs.Failed('the clients do not attach')
            ready = d.replace()
            out, err = client.communicate('\n', timeout=programs.TIMEOUT)
    if client.returncode != 0:
        raise programs.Failed(err.strip()[-300:])
    runner.add('restart', str(n_clients), 0, {'ready_ms': ready * 1000, **json.loads(out)['metrics']})


def attempt(runner, what, function, *arguments):
    try:
        function(runner, *arguments)
    except (programs.Failed, service.Failed, subprocess.TimeoutExpired, OSError) as e:
        runner.note(f'{what}: {e}')
        runner.failed = True


def run(runner):
    for axis in AXES:
        for value in values(axis, runner.arguments.quick):
            if fits(axis, value):
                attempt(runner, f'{axis} {value}', measure, axis, value)
            else:
                runner.note(f'{axis} {value}: left out: not as much memory is free')
    for n in RESTART_CLIENTS[:2 if runner.arguments.quick else None]:
        attempt(runner, f'restart with {n} clients', restart, n)
