"""The pages of the PHP extension, followed word by word in a Debian that had nothing of ours: see test-pages.py."""

import os
import pathlib
import subprocess
import sys

SOURCE = sys.argv[1]
sys.path.insert(0, f'{SOURCE}/tests/systemd')
from host import expect, sh

os.chdir('/srv/packages')
ENVIRONMENT = {'PATH': '/usr/sbin:/usr/bin:/sbin:/bin', 'HOME': '/root', 'DEBIAN_FRONTEND': 'noninteractive',
               'LANG': 'C.UTF-8'}
# A program of somebody who follows the page.
COUNTS = '''<?php
session_start();
$_SESSION['n'] = ($_SESSION['n'] ?? 0) + 1;
echo ini_get('session.save_handler'), ' ', $_SESSION['n'], ' ', posix_getpwuid(posix_geteuid())['name'];
'''
SITE = '''server {
        listen 127.0.0.1:8080;
        root /var/www/html;
        location ~ \\.php$ { include snippets/fastcgi-php.conf; fastcgi_pass unix:/run/php/php8.2-fpm.sock; }
}
'''


def follow(page):
    """Returns the output of the commands of the page."""
    text = pathlib.Path(page).read_text(encoding='utf-8')
    lines = [line[7:] for line in text.splitlines() if line.startswith(7 * ' ')]
    expect(len(lines) > 5, f'{page} has commands')
    return sh('sh', '-e', '-c', '\n'.join(lines), env=ENVIRONMENT)


def ask():
    return sh('curl', '--silent', '--show-error', '--cookie', '/run/cookies', '--cookie-jar', '/run/cookies',
              '127.0.0.1:8080/count.php', env=ENVIRONMENT)


expect('tslab' not in sh('php', '-m'), 'nothing of ours')
expect(follow('sessions.md').find('\n1\n') > 0, 'the second call finds the session of the first')
pathlib.Path('/var/www/html/count.php').write_text(COUNTS)
pathlib.Path('/etc/nginx/sites-enabled/default').write_text(SITE)
sh('systemctl', 'restart', 'nginx')
expect([ask() for _ in range(3)] == [f'tslab {n} www-data' for n in (1, 2, 3)], f'nginx and php-fpm: {ask()}')
sh('systemctl', 'restart', 'php8.2-fpm')
expect(ask() == 'tslab 5 www-data', 'sessions outlive a restart of php-fpm')
sh('systemctl', 'restart', 'tslabd@web.service')
expect(ask() == 'tslab 6 www-data', 'and of the daemon')

expect('world by apcu\n' in follow('from-apcu.md'), 'two processes share a value of apcu_store()')

# frameworks.md: its commands and settings, in the programs that they are for.
extension = sh('php', '-r', 'echo PHP_EXTENSION_DIR;') + '/tslab.so'
tslabd = sh('which', 'tslabd', env=ENVIRONMENT).strip()
program = f'{SOURCE}/tests/php/test-frameworks.py'
done = subprocess.run([sys.executable, '-B', program, tslabd, '/usr/bin/php', extension, f'{SOURCE}/bindings/php/packages'],
                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                      env={**ENVIRONMENT, 'PYTHONPATH': f'{SOURCE}/tests/util'})
expect(done.returncode == 0 and 'SymfonyTest' in done.stdout and 'LaravelTest' in done.stdout, done.stdout)
print(done.stdout)

# To be able to go back.
sh('phpdismod', 'tslab-sessions', 'tslab-apcu')
sh('systemctl', 'restart', 'php8.2-fpm')
expect(ask().startswith('files 1 '), 'and back')
