"""php-fpm behind nginx."""

import contextlib
import http.client
import os
import re
import shutil
import subprocess

from daemon import SECONDS, free_port, wait_for
from php import EXTENSION, PHP

SBIN = '/usr/sbin:/usr/local/sbin:/sbin:/usr/bin'


def programs():
    """Paths of php-fpm, of the version of PHP, and nginx; None where there is none."""
    version = subprocess.run([PHP, '-n', '-r', 'echo PHP_MAJOR_VERSION, ".", PHP_MINOR_VERSION;'], stdout=subprocess.PIPE,
                             text=True, check=True).stdout
    return shutil.which(f'php-fpm{version}', path=SBIN), shutil.which('nginx', path=SBIN)


class Fpm:
    """Serves NAME.php of the folder `work` as /NAME, by so many workers."""

    def __init__(self, daemon, work, n_workers, ini, more=''):
        self.work, self.port = work, free_port()
        fpm, nginx = programs()
        root = ('user = root\ngroup = root', 'user root;') if os.geteuid() == 0 else ('', '')
        temporary = ' '.join(f'{kind}_temp_path {work}/{kind};'
                             for kind in ('client_body', 'fastcgi', 'proxy', 'uwsgi', 'scgi'))
        os.chmod(work, 0o755)
        with open(f'{work}/fpm.conf', 'w') as conf:
            conf.write(f'[global]\nerror_log = {work}/fpm.log\ndaemonize = no\n[www]\n{root[0]}\nlisten = {work}/fpm.sock\n'
                       f'pm = static\npm.max_children = {n_workers}\n{more}')
        with open(f'{work}/nginx.conf', 'w') as conf:
            conf.write(f'''pid {work}/nginx.pid; daemon off; error_log {work}/nginx.log; {root[1]} events {{ }}
http {{ access_log off; {temporary} server {{ listen 127.0.0.1:{self.port};
location / {{ fastcgi_pass unix:{work}/fpm.sock; fastcgi_param SCRIPT_FILENAME {work}/$uri.php;
fastcgi_param QUERY_STRING $query_string; fastcgi_param REQUEST_METHOD $request_method;
fastcgi_param HTTP_COOKIE $http_cookie; }} }} }}
''')
        ini = {'extension': EXTENSION, 'tslab.pool': daemon.socket, 'log_errors': 1, 'error_log': f'{work}/php.log',
               'display_errors': 0, **ini}
        self.server = subprocess.Popen([fpm, '-n', '-R', '-y', f'{work}/fpm.conf', *(f'-d{k}={v}' for k, v in ini.items())],
                                       env=daemon.environment)
        self.web = subprocess.Popen([nginx, '-c', f'{work}/nginx.conf', '-p', work], stderr=subprocess.DEVNULL)

    def __enter__(self):
        try:
            wait_for(self.serves)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error):
        for process in self.web, self.server:
            process.terminate()
        for process in self.web, self.server:
            process.wait(SECONDS)

    def serves(self):
        assert self.server.poll() is None and self.web.poll() is None
        with contextlib.suppress(OSError):
            return self.ask('/nothing')[0] == 404
        return False

    def ask(self, path, cookie=None):
        """The status, the text, and the session's id."""
        connection = http.client.HTTPConnection('127.0.0.1', self.port, timeout=SECONDS)
        try:
            connection.request('GET', path, headers={'Cookie': f'PHPSESSID={cookie}'} if cookie else {})
            answer = connection.getresponse()
            text = answer.read().decode()
        finally:
            connection.close()
        given = re.findall(r'PHPSESSID=([^;]+)', ' '.join(answer.headers.get_all('Set-Cookie') or []))
        return answer.status, text, given[-1] if given else cookie

    def workers(self):
        with open(f'/proc/{self.server.pid}/task/{self.server.pid}/children') as children:
            return [int(pid) for pid in children.read().split()]

    def log(self):
        path = f'{self.work}/php.log'
        if not os.path.exists(path):
            return ''
        with open(path) as log:
            return log.read()
