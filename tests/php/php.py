"""PHP with the extension, and a pool for it."""

import glob
import os
import subprocess
import sys

from daemon import SECONDS, Daemon

TSLABD, PHP, EXTENSION = sys.argv[1], sys.argv[2], os.path.abspath(sys.argv[3])


def settings(daemon, **more):
    """Options of a PHP that reads no php.ini, with the extension alone."""
    ini = {'extension': EXTENSION, 'tslab.pool': daemon.socket, 'display_errors': 'stderr', 'log_errors': 0, **more}
    return ['-n', *(f'-d{name.replace("__", ".")}={value}' for name, value in ini.items())]


def run(daemon, code, **more):
    """The output of a program, which must succeed."""
    done = subprocess.run([PHP, *settings(daemon, **more), '-r', code], env=daemon.environment, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=SECONDS)
    assert done.returncode == 0 and not done.stderr, (done.returncode, done.stdout, done.stderr)
    return done.stdout


def pool(*arguments):
    return Daemon(TSLABD, '--size=64M', *arguments)


def module(name):
    """The path of another extension, or None."""
    path = os.path.join(os.path.dirname(os.path.dirname(run_tests('x'))), f'{name}.so')
    return path if os.path.exists(path) else None


def run_tests(path):
    """The path of PHP's run-tests.php: Debian has it beside the extensions, others beside their folder."""
    config = os.path.join(os.path.dirname(os.path.realpath(PHP)), 'php-config')
    for name in config, 'php-config':
        try:
            folder = subprocess.run([name, '--extension-dir'], stdout=subprocess.PIPE, check=True, text=True).stdout.strip()
        except OSError:
            continue
        found = [os.path.join(place, 'build', path) for place in (folder, os.path.dirname(os.path.dirname(folder)))]
        return next(filter(os.path.exists, found), found[0])
    raise AssertionError('no php-config')


def fetch_sources(work, package):
    """Unpacks Debian's sources of a package. Returns their folder, or None where no server has them."""
    # From where this machine has its packages; of one version in several places, that of the first.
    places = subprocess.run(['apt-get', 'indextargets', '--format', '$(REPO_URI) $(RELEASE) $(COMPONENT)',
                             'Created-By: Packages'], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    places = sorted(set(places), reverse=True)
    # All of them; a server may lack the newest version, so then each alone.
    for n, some in enumerate([places, *([place] for place in places)]):
        lists = f'{work}/{package}-apt{n}'
        os.makedirs(f'{lists}/partial')
        with open(f'{lists}.list', 'w') as sources:
            sources.writelines(f'deb-src {place}\n' for place in some)
        options = [f'-oDir::Etc::sourcelist={lists}.list', '-oDir::Etc::sourceparts=-', f'-oDir::State::lists={lists}',
                   '-oAPT::Sandbox::User=root']
        if all(subprocess.run(['apt-get', *options, *command], cwd=lists, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL).returncode == 0
               for command in (['update'], ['source', '--download-only', package])):
            folder = f'{work}/{package}'
            os.mkdir(folder)
            [archive] = [name for name in glob.glob(f'{lists}/{package}_*.orig.tar.*') if not name.endswith('.asc')]
            subprocess.run(['tar', '-xf', archive, '-C', folder, '--strip-components=1'], check=True)
            return folder
    return None
