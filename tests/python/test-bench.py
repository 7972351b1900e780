"""The bench's report: it is made of whatever was measured, and says what was not."""

import os
import pathlib
import sys
import tempfile
import types
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'bench', 'driver'))
import plan  # noqa: E402
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
        program.write_text('#!/bin/sh\nseq 1 10 | sed "s/$/ 1 1 1 1 1 1/"; echo "line 1: not so" >&2; exit 1\n',
                           encoding='utf-8')
        program.chmod(0o755)
        done = runner.Runner(self.folder, arguments(), lambda _: None)
        done.run_any(next(case for case in plan.cases() if case.workload == 'soak'))
        self.assertTrue(done.failed)
        self.assertEqual(done.results, [])
        self.assertRegex(done.notes[-1], '^soak: exit code 1: line 1: not so')

    def test_targets_of_nothing(self):
        """One that was not measured is told, too."""
        nothing = list(summary.peer_targets(summary.Summary([])))
        measured = [{'case': 'pair-128', 'contender': c, 'run': 0, 'metrics': {'pair_ns': 1}}
                    for c in ('tslab-adaptive', 'glibc', 'locked-cas', 'none')]
        some = list(summary.peer_targets(summary.Summary(measured)))
        self.assertEqual([t['target'] for t in nothing], [t['target'] for t in some])
        self.assertTrue(all(t['met'] is None for t in nothing))
        self.assertTrue(any(t['met'] for t in some))


if __name__ == '__main__':
    unittest.main()
