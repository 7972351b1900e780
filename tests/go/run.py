"""Builds the programs of the Go tests, offline, and runs them on a real daemon.

    run.py build GO BUILD STAMP           all of them, into tests/go/ of the build folder
    run.py suite GO BUILD TSLABD          the tests of ./suite
    run.py conformance GO BUILD TSLABD    the cases that all bindings pass
    run.py race GO BUILD TSLABD           the same under the race detector
    run.py frameworks GO BUILD TSLABD     gin, echo and scs; skipped where their modules cannot be downloaded
    run.py floor GO BUILD TSLABD          the tests of ./suite by the oldest Go that is supported, Debian's 1.19
    run.py kills GO BUILD TSLABD          workers that are killed
    run.py program GO BUILD FILE [ARGUMENT...]   compiles and runs a program, for ../languages
    run.py vet GO BUILD TSLABD            go vet, gofmt, and `go build` of each package

Without a Go the test is skipped.
"""

import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

SKIPPED = 77
HERE = pathlib.Path(__file__).resolve().parent
PROGRAMS = 'actor',
MODULE = HERE.parent.parent / 'bindings/go'


# Go does not see that a header has changed which lies outside its modules: it compiles anew where the flags are others.
HEADERS = hashlib.sha256(b''.join(path.read_bytes() for path in sorted((HERE.parent.parent / 'libclient').glob('tslab*.h')))).hexdigest()


def environment(build):
    return {**os.environ, 'PKG_CONFIG_PATH': f'{build}/meson-uninstalled', 'LD_LIBRARY_PATH': f'{build}/libclient',
            'GOCACHE': f'{build}/go-cache', 'GOFLAGS': '-mod=mod', 'GOPROXY': 'off', 'GOTOOLCHAIN': 'local', 'CGO_ENABLED': '1',
            'GOPATH': f'{build}/go-path', 'GOWORK': 'off', 'CGO_CFLAGS': f'-O2 -g -DHEADERS_{HEADERS[:16]}'}


def go(program, build, folder, *arguments):
    subprocess.run([program, *arguments], cwd=folder, env=environment(build), check=True)


def build_all(program, build, stamp):
    out = pathlib.Path(build, 'tests/go')
    out.mkdir(exist_ok=True)
    go(program, build, HERE / 'suite', 'test', '-c', '-o', out / 'suite.test', '.')
    for name in PROGRAMS:
        go(program, build, HERE / name, 'build', '-o', out / name, '.')
    pathlib.Path(stamp).touch()


def build_bench(program, build, out):
    pathlib.Path(out).parent.mkdir(parents=True, exist_ok=True)
    go(program, build, HERE.parent.parent / 'bench/languages/go', 'build', '-o', out, '.')


def program_of(go_path, build, path, *arguments):
    """Runs a program of one file. Its copy is compiled once."""
    text = pathlib.Path(path).read_bytes()
    folder = pathlib.Path(build, 'tests/go/programs', hashlib.sha256(text + HEADERS.encode()).hexdigest()[:16])
    binary = folder / 'program'
    if not binary.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as place:
            pathlib.Path(place, 'main.go').write_bytes(text)
            module = (HERE / 'suite/go.mod').read_text().replace('../../../bindings/go', str(MODULE))
            pathlib.Path(place, 'go.mod').write_text(module)
            go(go_path, build, place, 'build', '-o', 'program', '.')
            folder.mkdir(exist_ok=True)
            os.replace(pathlib.Path(place, 'program'), binary)
    os.execve(binary, [str(binary), *arguments], environment(build))


def with_daemon(build, tslabd, command, *arguments):
    from daemon import Daemon
    with Daemon(tslabd, *arguments) as daemon:
        subprocess.run(command, env={**environment(build), **daemon.environment, 'TSLAB_POOL': daemon.socket}, check=True)


def run_suite(program, build, tslabd):
    begun = time.monotonic()
    with_daemon(build, tslabd, [f'{build}/tests/go/suite.test', '-test.v', '-test.short'])
    print(f'{time.monotonic() - begun:.1f} s')


def run_frameworks(program, build, tslabd):
    """In a copy: Go completes go.mod."""
    copy = pathlib.Path(build, 'tests/go/frameworks')
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(HERE / 'frameworks', copy)
    text = (copy / 'go.mod').read_text().replace('../../../bindings/go', str(MODULE))
    (copy / 'go.mod').write_text(text)
    online = environment(build)
    del online['GOPROXY']
    if 'GOPROXY' in os.environ:
        online['GOPROXY'] = os.environ['GOPROXY']
    try:
        done = subprocess.run([program, 'mod', 'tidy'], cwd=copy, env=online, timeout=200)
    except subprocess.TimeoutExpired:
        done = None
    if done is None or done.returncode != 0:
        print('skipped: the modules of gin, echo and scs cannot be had')
        sys.exit(SKIPPED)
    go(program, build, copy, 'test', '-c', '-o', copy / 'frameworks.test', '.')
    with_daemon(build, tslabd, [copy / 'frameworks.test', '-test.v'])


def run_race(program, build, tslabd):
    out = f'{build}/tests/go/suite-race.test'
    go(program, build, HERE / 'suite', 'test', '-race', '-c', '-o', out, '.')
    with_daemon(build, tslabd, [out, '-test.v', '-test.short'])


def run_floor(program, build, tslabd):
    program = '/usr/lib/go-1.19/bin/go'
    if not os.path.exists(program):
        print('skipped: there is no Go 1.19: install Debian\'s golang-1.19-go')
        sys.exit(SKIPPED)
    out = f'{build}/tests/go/suite-1.19.test'
    go(program, build, HERE / 'suite', 'test', '-c', '-o', out, '.')
    with_daemon(build, tslabd, [out, '-test.v', '-test.short'])


def run_kills(program, build, tslabd):
    with_daemon(build, tslabd, [f'{build}/tests/go/suite.test', '-test.v', '-test.run=TestKills', '-test.timeout=0'])


def run_conformance(program, build, tslabd):
    subprocess.run([sys.executable, HERE.parent / 'conformance/run.py', tslabd, f'{build}/tests/go/actor'],
                   env={**os.environ, **environment(build)}, check=True)


def run_vet(program, build, tslabd):
    gofmt = pathlib.Path(program).resolve().parent / 'gofmt'
    for folder in MODULE, HERE / 'suite', *(HERE / name for name in PROGRAMS):
        go(program, build, folder, 'vet', './...')
        go(program, build, folder, 'build', './...')
    text = subprocess.run([gofmt, '-l', MODULE, HERE], stdout=subprocess.PIPE, check=True, text=True).stdout
    assert not text, f'gofmt would change {text}'


if __name__ == '__main__':
    mode, program, *arguments = sys.argv[1:]
    if not program:
        print('skipped: there is no Go')
        sys.exit(SKIPPED)
    {'bench': build_bench, 'build': build_all, 'conformance': run_conformance, 'floor': run_floor, 'frameworks': run_frameworks,
     'kills': run_kills, 'program': program_of, 'race': run_race, 'suite': run_suite, 'vet': run_vet}[mode](program, *arguments)
