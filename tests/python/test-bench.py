"""The bench's report has all measurements that were made, and names the missing ones."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import types
import unittest

DRIVER = pathlib.Path(__file__).resolve().parents[2] / 'bench' / 'driver'
sys.path.insert(0, str(DRIVER))
import plan  # noqa: E402
import reasons  # noqa: E402
import report  # noqa: E402
import runner  # noqa: E402
import summary  # noqa: E402

NOWHERE = pathlib.Path('/nonexistent')


def arguments():
    return types.SimpleNamespace(contenders=list(plan.CONTENDERS), quick=True, runs=1, cases=[])


class Bench(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def test_soak_is_not_there(self):
        """The cases after it are measured all the same."""
        done = runner.Runner(NOWHERE, arguments(), lambda _: None)
        done.run_any(next(case for case in plan.cases() if case.workload == 'soak'))
        self.assertTrue(done.failed)
        self.assertEqual(done.results, [])
        self.assertRegex(done.notes[-1], '^soak: left out: ')

    def test_soak_finds_a_fault(self):
        """It looks at the pool after its last row."""
        program = self.folder / 'bench' / 'bench-soak'
        program.parent.mkdir()
        program.write_text('#!/bin/sh\nseq 1 10 | sed "s/$/ 1 1 1 1 1 1 1/"; echo "line 1: not so" >&2; exit 1\n',
                           encoding='utf-8')
        program.chmod(0o755)
        done = runner.Runner(self.folder, arguments(), lambda _: None)
        done.run_any(next(case for case in plan.cases() if case.workload == 'soak'))
        self.assertTrue(done.failed)
        self.assertEqual(done.results, [])
        self.assertRegex(done.notes[-1], '^soak: exit code 1: line 1: not so')

    def soak_where_lines_take(self, late_ns, quick):
        """The last second's p50 is twice the others'. (runner, how often the program ran)"""
        program, seconds = self.folder / 'bench' / 'bench-soak', 10 if quick else plan.SOAK_SECONDS
        program.parent.mkdir(exist_ok=True)
        program.write_text(f'#!/bin/sh\necho >>{self.folder}/runs\nlate=$(($1 - $1 / 10))\n'
                           'for i in $(seq 1 $late); do echo $i 1 1 1 1 1 1 100; done\n'
                           f'for i in $(seq $((late + 1)) $1); do echo $i 1 1 1 1 2 1 {late_ns}; done\n',
                           encoding='utf-8')
        program.chmod(0o755)
        (self.folder / 'runs').write_text('', encoding='utf-8')
        done = runner.Runner(self.folder, types.SimpleNamespace(**{**vars(arguments()), 'quick': quick}), lambda _: None)
        done.run_any(next(case for case in plan.cases() if case.workload == 'soak'))
        self.assertFalse(done.failed)
        self.assertEqual(len(done.results[0]['series']['p50']), seconds)
        return done, len((self.folder / 'runs').read_text(encoding='utf-8'))

    def test_soak_grows(self):
        """It is told where the machine stayed as it was."""
        done, n_runs = self.soak_where_lines_take(105, False)
        self.assertEqual(n_runs, 1)
        self.assertEqual(done.results[0]['metrics']['p50_growth'], 2)
        self.assertNotIn('soak: latency', ' '.join(done.notes))

    def test_soak_beside_lines_that_grow(self):
        """The machine is another one at the end, in each run."""
        for quick, n_expected in (True, 1), (False, 3):
            done, n_runs = self.soak_where_lines_take(200, quick)
            self.assertEqual(n_runs, n_expected)
            self.assertNotIn('p50_growth', done.results[0]['metrics'])
            self.assertEqual(done.results[0]['metrics']['index_growth'], 1)
            self.assertRegex(done.notes[-1], '^soak: latency is left out: .* took 2.00 x')

    def test_targets_of_nothing(self):
        """One that was not measured is told, too."""
        nothing = list(summary.peer_targets(summary.Summary([])))
        measured = [{'case': 'pair-128', 'contender': c, 'run': 0, 'metrics': {'pair_ns': 1}}
                    for c in ('tslab-adaptive', 'glibc', 'locked-cas', 'none')]
        some = list(summary.peer_targets(summary.Summary(measured)))
        self.assertEqual([t['target'] for t in nothing], [t['target'] for t in some])
        self.assertTrue(all(t['met'] is None for t in nothing))
        self.assertTrue(any(t['met'] for t in some))

    def test_reasons(self):
        """Each is for a target that there is."""
        nothing = summary.Summary([])
        names = [t['target'] for t in (*summary.targets(nothing), *summary.peer_targets(nothing))]
        for pattern in reasons.REASONS:
            self.assertTrue(any(re.match(pattern, name) for name in names), pattern)
        self.assertIsNone(reasons.reason_for('Speed'))

    def keep(self, quick, results):
        (self.folder / 'results.json').write_text(json.dumps({
            'machine': {**runner.machine(), 'versions': []}, 'quick': quick, 'runs': 1, 'notes': [], 'seconds': {},
            'results': [{'run': 0, **result} for result in results]}), encoding='utf-8')

    def test_report_of_zeros(self):
        """A figure of 0, as of a clock that stood still, is one that was not measured."""
        taken = {mib: mib % 3 * 8 for mib in plan.MISSES_OWN_MIB}
        self.keep(False, [
            *({'case': f'map-misses-{trace}-{mib}', 'contender': 'tslab-map',
               'metrics': {'taken_mib': memory, 'miss_percent': 50, 'exact_percent': 49}} for trace in plan.TRACES
              for mib, memory in taken.items()),
            *({'case': f'map-misses-{trace}-{mib}', 'contender': 'redis',
               'metrics': {'taken_mib': 4, 'miss_percent': 50}} for trace in plan.TRACES for mib in plan.MISSES_MIB),
            {'case': 'scaling-1', 'contender': 'treiber', 'metrics': {'op_ns': 5}},
            {'case': 'line', 'contender': 'none', 'metrics': {'line_ns': 0}}])
        self.assertTrue(report.again(NOWHERE, arguments(), self.folder).exists())
        self.assertTrue((self.folder / 'targets.json').exists())

    def test_report_quick(self):
        """No list of targets says anything of short runs, not even one of an earlier run."""
        (self.folder / 'targets.json').write_text('[]', encoding='utf-8')
        self.keep(True, [])
        report.again(NOWHERE, arguments(), self.folder)
        self.assertFalse((self.folder / 'targets.json').exists())

    def test_report_again(self):
        """It has the contenders that were measured, though their programs are not there any more."""
        self.keep(True, [{'case': 'pair-128', 'contender': 'glibc', 'metrics': {'pair_ns': 1234}}])
        text = report.again(NOWHERE, arguments(), self.folder).read_text(encoding='utf-8')
        self.assertRegex(text, r'\| glibc \| 1234 \|')
        self.assertNotIn('| mimalloc |', text)

    def test_report_again_of_nothing(self):
        build = self.folder / 'build'
        (build / 'bench').mkdir(parents=True)
        (build / 'bench' / 'bench-tslab').touch()
        for text in None, '', '{"results": [', '{}':
            if text is not None:
                (self.folder / 'results.json').write_text(text, encoding='utf-8')
            done = subprocess.run([sys.executable, DRIVER.parent / 'run', 'report', '--again', '--output', self.folder],
                                  env={**os.environ, 'TSLAB_BUILD': str(build)}, stderr=subprocess.PIPE, text=True,
                                  check=False)
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stderr, r'bench/run: .*results\.json has no results of a report')
            self.assertNotIn('Traceback', done.stderr)


if __name__ == '__main__':
    unittest.main()
