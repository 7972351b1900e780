"""The files in docs/ that other programs read: container engines, Kubernetes, Prometheus, Grafana.

test-pages.py TSLABCTL TSLABD SOURCE-FOLDER [unittest arguments]
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import yaml

TSLABCTL, TSLABD, SOURCE = map(os.path.abspath, sys.argv[1:4])
sys.path.insert(0, f'{SOURCE}/tests/util')

from daemon import SECONDS, Daemon

CONTAINERS = f'{SOURCE}/docs/containers'


# Alerts, the series as promtool's tests write them, a minute each, and the minute at which the alert fires, or does not.
UP, HOUR = 'tslab_up{pool="web"}', 60
ALERTS = [
    ('TslabPoolDown', {UP: '0x90'}, 10, True),
    ('TslabPoolDown', {UP: '1x90'}, 10, False),
    ('TslabPoolDown', {UP: '-1x90'}, 80, False),            # it may not be asked: that is not down
    ('TslabPoolDenied', {UP: '-1x90'}, 80, True),
    ('TslabPoolDenied', {UP: '0x90'}, 80, False),
    ('TslabPoolGone', {UP: '1x20 _x40', 'up{job="tslab"}': '1x90'}, 35, True),
    ('TslabPoolGone', {UP: '1x20 _x40', 'up{job="tslab"}': '1x90'}, 50, False),
    ('TslabPoolGone', {UP: '1x20 0x40', 'up{job="tslab"}': '1x90'}, 35, False),
    ('TslabPoolGone', {UP: '1x20 _x40', 'up{job="tslab"}': '1x20 0x40'}, 35, False),   # nothing is known of any pool
    ('TslabMetricsGone', {'up{job="tslab"}': '0x90'}, 10, True),
    ('TslabMetricsGone', {'up{job="other"}': '1x90'}, 10, True),
    ('TslabMetricsGone', {'up{job="tslab"}': '1x90'}, 10, False),
    ('TslabNearNotCovered', {'tslab_near_covered{pool="web",map="near"}': '0x90'}, 10, True),
    ('TslabNearNotCovered', {'tslab_near_covered{pool="web",map="near"}': '1x90'}, 10, False),
    ('TslabMapPutsFail', {'tslab_map_failures_total{pool="web",map="m"}': '0+1x90'}, 10, True),
    ('TslabStaleFrees', {'tslab_frees_stale_total{pool="web"}': '0+1x90'}, 20, True),
    ('TslabStaleFrees', {'tslab_frees_stale_total{pool="web"}': '5x90'}, 20, False),
    ('TslabDaemonRestarted', {'tslab_daemon_start_time_seconds{pool="web"}': '1700000000x90'}, HOUR, False),
    ('TslabDaemonRestarted', {'tslab_daemon_start_time_seconds{pool="web"}': '1700000000x30 1700001800x60'}, HOUR, True),
]


def read(path):
    with open(path, encoding='utf-8') as file:
        return file.read()


def documents(name):
    return list(yaml.safe_load_all(read(f'{CONTAINERS}/{name}')))


def pods():
    for document in documents('kubernetes-daemonset.yaml') + documents('kubernetes-sidecar.yaml'):
        yield document if document['kind'] == 'Pod' else document['spec']['template']


def commands():
    """All command lines of our programs, as they are in the files."""
    for service in documents('compose.yaml')[0]['services'].values():
        yield service.get('entrypoint', ['tslabd']) + service.get('command', [])
    for pod in pods():
        for container in pod['spec'].get('initContainers', []) + pod['spec']['containers']:
            yield container.get('command', ['tslabd']) + container.get('args', [])
            for probe in ('startupProbe', 'readinessProbe', 'livenessProbe'):
                if probe in container:
                    yield container[probe]['exec']['command']


class Pages(unittest.TestCase):
    def test_metrics(self):
        """Each metric of the rules and the dashboard is one that there is."""
        with Daemon(TSLABD, '--size=4M') as daemon:
            text = subprocess.run([TSLABCTL, 'metrics', '--socket', daemon.socket], stdout=subprocess.PIPE, text=True,
                                  check=True, timeout=SECONDS).stdout
        known = {name + ('_total' if kind == 'counter' else '')
                 for name, kind in re.findall(r'^# TYPE (\S+) (\S+)', text, re.M)}
        rules = yaml.safe_load(read(f'{SOURCE}/docs/alerts.yml'))
        used = [rule['expr'] for group in rules['groups'] for rule in group['rules']]
        dashboard = json.loads(read(f'{SOURCE}/docs/grafana.json'))
        used += [target['expr'] for panel in dashboard['panels'] for target in panel['targets']]
        used += [a['expr'] for a in dashboard['annotations']['list']]
        self.assertGreater(len(used), 30)
        for expression in used:
            for name in re.findall(r'\btslab_\w+', expression):
                self.assertIn(name, known, expression)

    def test_commands(self):
        """Each command line is one that our programs take."""
        n = 0
        for command in commands():
            if command[0] == 'tslabctl':
                words = [word for word in command[1:] if not word.startswith('--http')]
                done = subprocess.run([TSLABCTL, *words, '--socket', '/nowhere/x.sock'], capture_output=True, text=True,
                                      check=False, timeout=SECONDS, stdin=subprocess.DEVNULL)
                self.assertNotEqual(done.returncode, 2, (command, done.stderr))
            elif command[0] == 'tslabd':
                done = subprocess.run([TSLABD, '--check-config', *command[1:]], capture_output=True, text=True,
                                      check=False, timeout=SECONDS)
                self.assertEqual(done.returncode, 0, (command, done.stderr))
            else:
                continue
            n += 1
        self.assertGreater(n, 10)

    def test_pods(self):
        """Nobody but the maker of the folder is root, or may become it, and each has a limit."""
        for pod in pods():
            spec = pod['spec']
            folders = {volume['name'] for volume in spec['volumes']}
            for container in spec.get('initContainers', []) + spec['containers']:
                rights = {**spec['securityContext'], **container['securityContext']}
                self.assertEqual(rights.get('runAsUser') == 0, container['name'] == 'folder')
                self.assertEqual((rights['allowPrivilegeEscalation'], rights['capabilities']['drop']), (False, ['ALL']))
                self.assertIn('memory', container['resources']['limits'])
                self.assertLessEqual({mount['name'] for mount in container['volumeMounts']}, folders)

    def test_containerfile(self):
        """The packages of the image have the libraries that the programs are linked with."""
        wanted = set()
        for program in (TSLABD, TSLABCTL):
            header = subprocess.run(['readelf', '-d', program], stdout=subprocess.PIPE, text=True, check=True).stdout
            wanted |= set(re.findall(r'NEEDED.*\[(\S+)\.so', header))
        text = read(f'{CONTAINERS}/Containerfile')
        for library in wanted - {'libc', 'libm', 'libtinfo', 'libelf', 'libgcc_s', 'ld-linux-x86-64'}:
            self.assertRegex(text, rf'\b{re.escape(library)}\d', library)

    @unittest.skipUnless(shutil.which('promtool'), 'no promtool (Debian: prometheus)')
    def test_rules(self):
        done = subprocess.run(['promtool', 'check', 'rules', f'{SOURCE}/docs/alerts.yml'], capture_output=True,
                              text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    @unittest.skipUnless(shutil.which('promtool'), 'no promtool (Debian: prometheus)')
    def test_alerts(self):
        """Each fires where it should, and in no other case."""
        tests = [{'interval': '1m', 'input_series': [{'series': name, 'values': v} for name, v in series.items()],
                  'promql_expr_test': [{'expr': f'count(ALERTS{{alertname="{alert}",alertstate="firing"}}) or vector(0)',
                                        'eval_time': f'{minute}m', 'exp_samples': [{'labels': '{}', 'value': int(fires)}]}]}
                 for alert, series, minute, fires in ALERTS]
        with tempfile.NamedTemporaryFile('w', suffix='.yml', encoding='utf-8') as file:
            yaml.safe_dump({'rule_files': [f'{SOURCE}/docs/alerts.yml'], 'evaluation_interval': '1m', 'tests': tests}, file)
            file.flush()
            done = subprocess.run(['promtool', 'test', 'rules', file.name], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1] + sys.argv[4:])
