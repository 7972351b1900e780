"""Runs the workloads on all allocators, alternating, and writes a table and JSON. See --help, and plan.py."""

import argparse
import json
import os
import pathlib
import signal
import sys

import plan
import report
import runner
import summary


def parse_arguments():
    parser = argparse.ArgumentParser(prog='bench/run', description='Measure tslab beside other allocators.')
    parser.add_argument('names', nargs='*', metavar='WORKLOAD',
                        help='a workload or a case of it; all where none is named. "report": what a report needs, and '
                        'the report')
    parser.add_argument('--runs', type=int, metavar='N', help='alternating runs of each (7, for a report 5; at least 5 '
                        'tell something)')
    parser.add_argument('--scale', type=float, metavar='FACTOR',
                        help='of the number of operations (1, for a report 0.5)')
    parser.add_argument('--log', metavar='PATH', help='an access log, for map-misses and the demo')
    parser.add_argument('--quick', action='store_true', help='one short run of each, to see that all work')
    parser.add_argument('--again', action='store_true',
                        help='with "report": measure nothing, and make the report of the results in its folder anew')
    parser.add_argument('--list', action='store_true',
                        help='say what each workload measures, and name its cases and contenders')
    parser.add_argument('--output', metavar='FOLDER', type=pathlib.Path,
                        help='where the results go (bench-results or bench-report in the build folder)')
    parser.add_argument('--only', metavar='CONTENDER,...', help='these contenders')
    arguments = parser.parse_args()
    arguments.report = arguments.names == ['report']
    arguments.runs = arguments.runs or (5 if arguments.report else 7)
    arguments.scale = arguments.scale or (0.5 if arguments.report else 1)
    if arguments.again and not arguments.report:
        parser.error('--again is for a report')
    if arguments.runs < 1 or arguments.scale <= 0:
        parser.error('--runs must be at least 1, and --scale above 0')
    try:
        arguments.cases = plan.for_report() if arguments.report else plan.chosen(arguments.names)
    except ValueError as e:
        parser.error(str(e))
    arguments.contenders = [c for c in plan.CONTENDERS if not arguments.report or c not in plan.VARIANTS]
    if arguments.only:
        arguments.contenders = arguments.only.split(',')
        unknown = [c for c in arguments.contenders if c not in plan.CONTENDERS]
        if unknown:
            parser.error(f'no such contender: {", ".join(unknown)}; --list names them')
    return arguments


def show_list():
    last = None
    for case in plan.cases():
        if case.workload != last:
            print(f'\n{case.workload}: {plan.MEASURES[case.workload]}')
        last = case.workload
        print(f'    {case.name:16} {" ".join(case.contenders)}')


def heading(about, done):
    timers = [r['timer_ns'] for r in done.results if r.get('timer_ns')]
    steps = [r['timer_step_ns'] for r in done.results if r.get('timer_step_ns')]
    runs = done.runs
    lines = [f'{about["cpu"]}, {about["n_cpus"]} processors, Linux {about["kernel"]}, {about["libc"]}, '
             f'load {about["load_before"]:.1f}; tslab {about["commit"] or "?"}, {about["date"]}',
             f'{runs} alternating run(s); medians, and their interval by order statistics '
             f'({"95 % or more" if runs >= 6 else "all there is: fewer than 6 runs"}); '
             'ratios are medians of ratios within runs']
    if any(case.store for case in done.arguments.cases):
        lines.append('; '.join(about['versions']))
    if timers:
        lines.append(f'timer: {max(timers):.1f} ns a reading, taken off; it advances in steps of {max(steps):.1f} ns')
    return lines + [f'note: {note}' for note in done.notes]


class Results:
    """The files of a run. They are written after each case: a run that is interrupted loses at most one."""

    def __init__(self, arguments, about, folder):
        self.arguments, self.about, self.folder = arguments, about, folder
        folder.mkdir(parents=True, exist_ok=True)

    def write(self, done):
        """Returns the table's text."""
        arguments, found = self.arguments, summary.Summary(done.results)
        reached = [] if arguments.quick or arguments.report else \
            [t for t in summary.targets(found) if t['met'] is not None]
        text = '\n'.join(heading(self.about, done) + summary.table(found, arguments.cases, arguments.contenders) +
                         summary.targets_text(reached)) + '\n'
        (self.folder / 'table.txt').write_text(text, encoding='utf-8')
        whole = self.folder / 'results.json.new'
        whole.write_text(json.dumps({
            'machine': self.about, 'quick': arguments.quick, 'runs': arguments.runs, 'notes': done.notes,
            'seconds': done.seconds,
            'targets': reached, 'summary': found.as_json(), 'results': done.results,
        }, indent=1) + '\n', encoding='utf-8')
        whole.rename(self.folder / 'results.json')
        return text


def interrupt(*_):
    raise KeyboardInterrupt


def measure(done, arguments):
    signal.signal(signal.SIGTERM, interrupt)
    try:
        last = [case for case in arguments.cases if case.workload in plan.LAST]
        done.run_all([case for case in arguments.cases if case not in last])
        if arguments.report:
            report.measure(done)
        done.run_all(last)
    except KeyboardInterrupt:
        done.note('interrupted: the figures are those measured until then')
        done.failed = True


def main():
    arguments = parse_arguments()
    if arguments.list:
        show_list()
        return 0

    build = pathlib.Path(os.environ.get('TSLAB_BUILD', 'build-release')).resolve()
    if not (build / 'bench' / 'bench-tslab').exists():
        print(f'bench/run: {build} has no bench/bench-tslab; run ./dev bench', file=sys.stderr)
        return 1
    about = runner.machine()
    about['versions'] = report.versions()
    folder = arguments.output or build / ('bench-report' if arguments.report else 'bench-results')
    if arguments.again:
        try:
            print(f'bench: {report.again(build, arguments, folder)}')
        except ValueError as e:
            print(f'bench/run: {e}', file=sys.stderr)
            return 1
        return 0
    results = Results(arguments, about, folder)
    done = runner.Runner(build, arguments, results.write)
    if about['load_before'] > 0.5 and not arguments.quick:
        done.note(f'the machine is busy (load {about["load_before"]:.1f}): figures are of little use')
    measure(done, arguments)
    about['load_after'] = os.getloadavg()[0]

    text = results.write(done)
    if arguments.report:
        print(f'bench: {report.make(done, about, folder)}')
    else:
        print(text, end='')
    print(f'bench: {folder}/table.txt and results.json', file=sys.stderr)
    return 1 if done.failed else 0
