"""PHP with threads (ZTS), in the model of FrankenPHP: the extension is built by phpize, passes the tests in phpt/, and serves
requests in several threads of one process, whose threads end and begin.

Debian has no such PHP. TSLAB_PHP_ZTS: the path of php-config of one with the embed SAPI, as --enable-zts --enable-embed makes.
Else, with TSLAB_TEST_FULL, one is built of Debian's sources, which takes minutes."""

import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

from daemon import SECONDS
from php import PHP, TSLABD, fetch_sources, pool, run

HERE = os.path.dirname(os.path.abspath(__file__))
BINDING, UNINSTALLED = os.path.abspath(sys.argv[4]), os.path.abspath(sys.argv[5])
THREADS, REQUESTS, GENERATIONS = 4, 6, 12
WITH = ('--enable-zts --disable-all --enable-session --enable-cli --enable-embed=shared --enable-pcntl --enable-posix '
        '--enable-tokenizer --enable-ctype').split()


def call(*command, seconds=SECONDS * 2, **more):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=seconds, **more)
    assert done.returncode == 0, (command, done.returncode, done.stdout[-8000:])
    return done.stdout


def build_php(work):
    """The path of the php-config of a PHP that is made here, or None."""
    sources = fetch_sources(work, 'php8.2') if shutil.which('apt-get') else None
    if not sources:
        return None
    call('./configure', '--quiet', f'--prefix={work}/zts', *WITH, cwd=sources, seconds=SECONDS * 20)
    call('make', f'-j{os.cpu_count()}', 'install', cwd=sources, seconds=SECONDS * 60)
    return f'{work}/zts/bin/php-config'


def build_extension(work, config):
    """By phpize and config.m4, as the README says."""
    folder = shutil.copytree(BINDING, f'{work}/extension')
    environment = {**os.environ, 'PKG_CONFIG_PATH': UNINSTALLED}
    call(os.path.join(os.path.dirname(config), 'phpize'), cwd=folder)
    call('./configure', '--quiet', f'--with-php-config={config}', cwd=folder, env=environment, seconds=SECONDS * 5)
    call('make', f'-j{os.cpu_count()}', cwd=folder, env=environment, seconds=SECONDS * 5)
    return f'{folder}/modules/tslab.so'


def phpt(config, extension):
    php = os.path.join(os.path.dirname(config), 'php')
    said = call(sys.executable, f'{HERE}/test-phpt.py', TSLABD, php, extension, seconds=SECONDS * 20)
    print('phpt:', *re.findall(r'^Tests passed.*', said, re.M))


def build_program(work, config):
    def say(what):
        return shlex.split(call(config, what))

    prefix = say('--prefix')[0]
    library = next(pathlib.Path(prefix).glob('lib*/libphp*.so'), None)
    assert library, f'{prefix} has no libphp.so: --enable-embed=shared makes it'
    call('cc', '-g', '-O1', '-D_GNU_SOURCE', *say('--includes'), f'{HERE}/threads.c', '-o', f'{work}/threads', str(library),
         f'-Wl,-rpath,{library.parent}', '-pthread')
    return f'{work}/threads'


def requests(daemon, program, extension):
    ini = {'extension': extension, 'tslab.pool': daemon.socket, 'tslab.apcu_compat': 1, 'session.save_handler': 'tslab',
           'session.save_path': '"map=sessions"', 'session.use_cookies': 0, 'session.cache_limiter': '',
           'session.use_strict_mode': 0, 'display_errors': 1, 'error_reporting': -1, 'html_errors': 0}
    text = call(program, ''.join(f'{name}={value}\n' for name, value in ini.items()), f'{HERE}/threads.php', str(THREADS),
                str(REQUESTS), str(GENERATIONS), env=daemon.environment, seconds=SECONDS * 3)
    sizes = [int(line[:-4]) for line in text.split('\n') if line.endswith(' KiB')]
    assert len(sizes) == GENERATIONS and not re.search(r'wrong|warning|error|notice', text, re.I), text
    total = THREADS * REQUESTS * GENERATIONS
    # Another PHP, without threads, sees all that they did.
    seen = run(daemon, r"""
        $map = Tslab\Pool::open()->map('threads');
        session_id('session-shared');
        session_start();
        echo json_encode([...array_map(fn ($key) => $map->add($key, 0), ['sum', 'computed']), apcu_fetch('apcu'),
                (int) $map->get('under the lock'), $_SESSION['n'], count(Tslab\Pool::open()->map("sessions"))]);
    """, **{'tslab.apcu_compat': 1, 'session.save_handler': 'tslab', 'session.save_path': '"map=sessions"',
            'session.use_cookies': 0, 'session.cache_limiter': '', 'session.use_strict_mode': 0})
    assert seen == str([100 * total, 1, 100 * total, total, total, THREADS + 1]).replace(' ', ''), (seen, total)
    # The copies of the array that a thread keeps take 4 MiB, and go with it.
    print('resident KiB after each generation of threads:', *sizes)
    assert sizes[-1] < sizes[1] + 16384, sizes


with tempfile.TemporaryDirectory() as work:
    config = os.environ.get('TSLAB_PHP_ZTS') or (os.environ.get('TSLAB_TEST_FULL') and build_php(work))
    if not config:
        print('skipped: no PHP with threads; see TSLAB_PHP_ZTS in this test')
        raise SystemExit(77)
    extension = build_extension(work, config)
    phpt(config, extension)
    program = build_program(work, config)
    with pool() as daemon:
        requests(daemon, program, extension)
