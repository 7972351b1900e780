"""The Composer packages, installed without a network by the commands of frameworks.md, in the frameworks that they are for:
with the integration tests of the PSRs, Symfony's cache and its bundle with the settings of that page, Laravel's managers with
theirs, and WordPress's calls beside its own object cache.

TSLAB_TEST_FULL: also by the tests that the frameworks have for their own adapters, from Debian's sources. Of Symfony those of
ApcuAdapter by our functions of APCu, and those of all adapters by ours, which sleep for three minutes; of Laravel those of
its stores of arrays, tagged caches and sessions. WordPress's tests are not in its releases, and so not in Debian's sources:
TSLAB_WORDPRESS_TESTS is the path of tests/phpunit/tests/cache.php of its development repository, since its release 6.0."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

from daemon import SECONDS
from php import PHP, fetch_sources, pool, settings

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'frameworks')
PACKAGES = os.path.abspath(sys.argv[4])
PAGE = os.path.join(os.path.dirname(PACKAGES), 'frameworks.md')
# Packages that Debian installs; composer is told that they are there.
PROVIDED = {'psr/cache': '3.0', 'psr/simple-cache': '3.0', 'symfony/cache': '5.4', 'illuminate/cache': '8.83',
            'illuminate/session': '8.83', 'illuminate/support': '8.83'}
SUITES = {'PsrTest': 'Cache/IntegrationTests', 'SymfonyTest': 'Symfony/Component/Cache',
          'LaravelTest': 'Illuminate/Container', 'ApcuTest': 'Symfony/Component/Cache'}
BUNDLE = 'Symfony/Bundle/FrameworkBundle'
WORDPRESS = '/usr/share/wordpress/wp-includes'

composer, phpunit = shutil.which('composer'), shutil.which('phpunit')
if not composer or not phpunit:
    print('skipped: composer and phpunit are needed')
    raise SystemExit(77)
# The modules of Debian that these programs need, in the order in which they can be loaded.
folder = subprocess.run([PHP, '-n', '-r', 'echo PHP_EXTENSION_DIR;'], stdout=subprocess.PIPE, check=True, text=True).stdout
modules = [f'-dextension={path}' for name in ('ctype', 'dom', 'fileinfo', 'iconv', 'mbstring', 'phar', 'posix', 'tokenizer',
                                              'xml', 'xmlwriter', 'xmlreader', 'simplexml')
           if os.path.exists(path := os.path.join(folder, f'{name}.so'))]


def php(daemon, *command, environment=None, seconds=SECONDS * 2, **more):
    options = ['-n', *modules, *settings(daemon, **more)[1:]]
    done = subprocess.run([PHP, *options, *command], env={**daemon.environment, **(environment or {})},
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=seconds)
    assert done.returncode == 0, (command, done.returncode, done.stdout)
    return done.stdout


def install(daemon, work):
    """A program's vendor/ folder with all packages in it, by the commands of the page."""
    with open(f'{work}/composer.json', 'w') as root:
        json.dump({'name': 'test/program', 'repositories': {'packagist.org': False}, 'provide': PROVIDED}, root)
    home = {'COMPOSER_HOME': f'{work}/home', 'COMPOSER_ALLOW_SUPERUSER': '1', 'COMPOSER_DISABLE_NETWORK': '1'}
    commands = [line.split() for line in open(PAGE).read().replace("'", '').replace('/path/to/tslab/bindings/php/packages',
                                                                                  PACKAGES).splitlines()
                if line.startswith('    composer ')]
    assert [command[1] for command in commands] == ['config', 'require', 'require', 'require'], commands
    # WordPress's drop-in is a file to copy on the page, and a package, too.
    for _, *words in *commands, ['composer', 'require', 'tslab/wordpress']:
        # By the PHP with our extension, which is part of the platform that composer checks.
        php(daemon, composer, *words, '--no-interaction', f'--working-dir={work}', environment=home)
    assert os.path.exists(f'{work}/vendor/tslab/wordpress/object-cache.php')
    return f'{work}/vendor'


def symfony_page(daemon, work, vendor):
    """The settings of the page make a cache of Symfony's kernels."""
    os.mkdir(f'{work}/kernel')
    said = php(daemon, f'{HERE}/symfony-page.php', PAGE, f'{work}/kernel', environment={'VENDOR': vendor})
    assert said == 'Tslab\\Symfony\\TslabAdapter by the page 1\n', said


def lines(daemon, dropin, *more):
    return php(daemon, f'{HERE}/wordpress.php', dropin, WORDPRESS, *more).splitlines()


def phpunit_suite(daemon, vendor, name):
    """The suite's tests that lifetimes end sleep most of the time."""
    text = php(daemon, phpunit, '--bootstrap', f'{HERE}/bootstrap.php', '--do-not-cache-result', '--test-suffix',
               f'{name}.php', HERE, environment={'VENDOR': vendor, 'PAGE': PAGE}, **{'tslab.apcu_compat': int(name == 'ApcuTest')})
    print(name, text.splitlines()[-1])


def symfony_own(daemon, vendor, folder):
    tests = f'{folder}/src/Symfony/Component/Cache/Tests'
    ini = {'tslab.apcu_compat': 1, 'apc.enabled': 1, 'apc.enable_cli': 1}
    for place in ['--test-suffix', 'symfony-own.php', HERE], [f'{tests}/Adapter/ApcuAdapterTest.php']:
        text = php(daemon, phpunit, '--bootstrap', f'{HERE}/bootstrap.php', '--do-not-cache-result', *place, seconds=SECONDS * 20,
                   environment={'VENDOR': vendor, 'SYMFONY': tests}, **ini)
        assert re.search(r'^OK', text, re.M), text
        print('Symfony\'s own tests:', text.splitlines()[-1] or text.splitlines()[-2])


# They set Carbon's clock in place of waiting; expect the very object back, put() from inside of forever(), or Laravel's own
# results of gc(); or are of Redis.
LARAVEL_LEFT_OUT = ('testItemsCanExpire|testExpiredKeysAreIncrementedLikeNonExistingKeys|testCanAcquireLockAgainAfterExpiry|'
                    'testValuesAreStoredByReferenceIfSerializationIsDisabled|testStoreItemForeverProperlyStoresInArray|'
                    'test_it_reads_data_from_an_expired_session|test_it_cleans_up_old_sessions|testRedis.*')
LARAVEL_TESTS = {'Cache/CacheArrayStoreTest': 16, 'Cache/CacheTaggedCacheTest': 13, 'Session/ArraySessionHandlerTest': 8}


def laravel_own(daemon, vendor, folder):
    """With our drivers in place of Laravel's own of arrays."""
    for name, n in LARAVEL_TESTS.items():
        text = php(daemon, phpunit, '--bootstrap', f'{HERE}/laravel-own.php', '--do-not-cache-result', '--filter',
                   f'/::(?!({LARAVEL_LEFT_OUT})$)/', f'{folder}/tests/{name}.php',
                   environment={'VENDOR': vendor})
        # It warns of assertions that a later phpunit will not have.
        found = re.search(r'^OK \((\d+) tests|^Tests: (\d+), Assertions: \d+, Warnings: \d+\.$', text, re.M)
        assert found and int(found[1] or found[2]) == n, text
        print('Laravel\'s own tests:', name, found[0])


def wordpress_own(daemon, dropin, tests):
    """On one site and on several."""
    for multisite in '0', '1':
        text = php(daemon, phpunit, '--bootstrap', f'{HERE}/wordpress-own.php', '--do-not-cache-result', '--fail-on-skipped', tests,
                   environment={'DROPIN': dropin, 'WP_MULTISITE': multisite})
        found = re.search(r'^OK \(\d+ tests.*', text, re.M)
        assert found, text
        print('WordPress\'s own tests:', found[0])


left_out = []
with tempfile.TemporaryDirectory() as work, pool() as daemon:
    vendor = install(daemon, work)
    left_out += sorted({needed for needed in SUITES.values() if not os.path.exists(f'/usr/share/php/{needed}')})
    with ThreadPoolExecutor() as threads:
        list(threads.map(lambda name: phpunit_suite(daemon, vendor, name),
                         [name for name, needed in SUITES.items() if needed not in left_out]))
    if os.path.exists(f'/usr/share/php/{BUNDLE}'):
        symfony_page(daemon, work, vendor)
    else:
        left_out.append(BUNDLE)
    if os.path.exists(WORDPRESS):
        dropin = f'{vendor}/tslab/wordpress/object-cache.php'
        ours, theirs = lines(daemon, dropin), lines(daemon, f'{WORDPRESS}/cache.php')
        different = [(a, b) for a, b in zip(ours, theirs) if a != b]
        assert not different and len(ours) == len(theirs) > 25, (different, len(ours), len(theirs))
        again = lines(daemon, dropin, 'again')
        assert again == [
            r'kept: "array (\n  \'for\' => \'later\',\n)"'.replace("\\'", "'"), 'of a flushed group: "false"',
            'not kept: "false"', 'counter: "3"',
            'evicted: "' + r'array (\n  0 => \n  array (\n    0 => true,\n  ),\n  1 => false,\n  2 => false,\n  3 => true,\n'
            r"  4 => 'anew',\n  5 => true,\n  6 => false,\n  7 => false,\n)" + '"',
            r'''many: "array (\n  'kept' => \n  array (\n    'for' => 'later',\n  ),\n  'none' => false,\n)"'''], again
        if os.environ.get('TSLAB_WORDPRESS_TESTS'):
            wordpress_own(daemon, dropin, os.environ['TSLAB_WORDPRESS_TESTS'])
    else:
        left_out.append('WordPress')
    for package, run_own, suite in (('symfony', symfony_own, 'SymfonyTest'),
                                    ('php-laravel-framework', laravel_own, 'LaravelTest')):
        if not os.environ.get('TSLAB_TEST_FULL') or SUITES[suite] in left_out:
            continue
        sources = fetch_sources(work, package) if shutil.which('apt-get') else None
        if sources:
            run_own(daemon, vendor, sources)
        else:
            print(f'left out: no server has the sources of {package}')
if left_out:
    print('left out, as Debian\'s packages of them are not installed:', *left_out)
