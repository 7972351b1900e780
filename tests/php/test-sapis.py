"""Ways to run PHP: opcache with its JIT and preloading, each process manager of php-fpm, workers that end after some
requests or are killed with a lock, Apache prefork, and a program on the command line that forks."""

import contextlib
import http.client
import os
import re
import shutil
import signal
import subprocess
import tempfile

from daemon import SECONDS, free_port, wait_for
from php import EXTENSION, PHP, pool, run, settings

SBIN = '/usr/sbin:/usr/local/sbin:/sbin:/usr/bin'
PAGE = r'''<?php
session_start();
$_SESSION['n'] = ($_SESSION['n'] ?? 0) + 1;
$cache = new Tslab\Cache();
$table = $cache->getOrCompute('page', fn () => array_fill(0, 2000, ['a' => str_repeat('x', 20)]));
echo $_SESSION['n'], ' ', $cache->increment('total'), ' ', getmypid(), ' ', count($table);
'''
PRELOAD = r'''<?php
// The pool is opened before workers are forked.
Tslab\Pool::open()->map('preloaded')->put('key', 'by the master');
class Preloaded {
        public static function value(): string {
                return Tslab\Pool::open()->map('preloaded')->get('key');
        }
}
'''
# A worker takes a lock, then memory until the kernel kills it.
EAT = r'''<?php
session_start();
$lock = (new Tslab\Cache())->map()->lock('eaten');
$lock->acquire();
if ('GROUP' === '')
        exec('kill -9 ' . getmypid());
ini_set('memory_limit', -1);
file_put_contents('GROUP/cgroup.procs', getmypid());
for ($all = '';;)
        $all .= str_repeat('x', 1 << 20);
'''
folder = subprocess.run(['php-config', '--extension-dir'], stdout=subprocess.PIPE, check=True, text=True).stdout.strip()
version = subprocess.run([PHP, "-n", "-r", "echo PHP_MAJOR_VERSION, \".\", PHP_MINOR_VERSION;"], text=True, check=True,
                         stdout=subprocess.PIPE).stdout
left_out = []


def ask(port, path='/', cookie=None):
    connection = http.client.HTTPConnection('127.0.0.1', port, timeout=SECONDS)
    connection.request('GET', path, headers={'Cookie': f'PHPSESSID={cookie}'} if cookie else {})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


def opcache(daemon, work):
    """The memo's arrays are immutable as opcache's are: the JIT compiles code that reads and changes them."""
    if not os.path.exists(f'{folder}/opcache.so'):
        return left_out.append('opcache')
    program = f'{work}/jit.php'
    with open(program, 'w') as text:
        text.write(r'''<?php
$cache = new Tslab\Cache();
$cache->set('table', array_map(fn ($i) => ['id' => $i, 'name' => "name $i"], range(0, 999)));
function total(array $table): int {
        $sum = 0;
        foreach ($table as $row)
                $sum += $row['id'] + strlen($row['name']);
        return $sum;
}
for ($i = 0; $i < 300; $i++) {
        $table = $cache->get('table');
        $sum = total($table);
        $table[5]['id'] = -$i;
        $table[] = 'more';
        unset($table[7]);
        if ($sum !== 507390 || total($cache->get('table')) !== 507390)
                exit("wrong in round $i: $sum");
}
echo 'jit ', opcache_get_status()['jit']['on'] ? 'on' : 'off';
''')
    for jit in 'tracing', 'function', 'off':
        done = subprocess.run([PHP, '-n', f'-dzend_extension={folder}/opcache.so', *settings(daemon)[1:],
                               '-dopcache.enable_cli=1', '-dopcache.jit_buffer_size=16M', f'-dopcache.jit={jit}',
                               program],
                              env=daemon.environment, stdout=subprocess.PIPE, text=True, timeout=SECONDS)
        assert (done.returncode, done.stdout) == (0, f'jit {"off" if jit == "off" else "on"}'), (jit, done)


def fork(daemon):
    """A program opens the pool, forks, and both go on; the child's lock is free when it is killed."""
    if not run(daemon, 'echo function_exists("pcntl_fork") ? 1 : 0;') == '1':
        return left_out.append('pcntl')
    assert run(daemon, r'''
        $map = Tslab\Pool::open()->map('fork');
        $map->add('n');
        for ($i = 0; $i < 4; $i++) {
                if (!pcntl_fork()) {
                        for ($j = 0; $j < 1000; $j++)
                                $map->add('n');
                        exit;
                }
        }
        while (pcntl_wait($status) > 0);
        $lock = $map->lock('lock');
        $lock->acquire();
        if (!pcntl_fork())
                exit;
        pcntl_wait($status);
        $lock->release() || exit('a child that ends has ended the lock of its parent');
        $map->put('ready', '0');
        if (!($child = pcntl_fork())) {
                $lock = $map->lock('lock');
                $lock->acquire();
                $map->put('ready', '1');
                sleep(600);
        }
        while ($map->get('ready') !== '1')
                usleep(1000);
        exec("kill -9 $child");
        pcntl_wait($status);
        echo unpack('q', $map->get('n'))[1], $map->lock('lock')->acquire(60) ? ' free' : ' held';
''') == '4001 free'


def restricted(daemon):
    """open_basedir and disable_functions keep PHP's programs from files and sockets; the pool is none of theirs."""
    disabled = ('apcu_fetch,igbinary_serialize,msgpack_pack,fsockopen,stream_socket_client,socket_create,mmap,getmypid,'
                'serialize,unserialize,session_encode')
    ini = {'open_basedir': '/nothing', 'disable_functions': disabled, 'tslab__apcu_compat': 1,
           'session__save_handler': 'tslab', 'session__save_path': '"map=restricted"', 'session__use_cookies': 0}
    said = run(daemon, r'''
        $cache = new Tslab\Cache();
        $cache->set('restricted', ['a' => [1.5, true]]);
        ob_start();
        session_start();
        $_SESSION['v'] = $cache->get('restricted');
        session_write_close();
        apcu_store('stored', new ArrayObject([5]));
        $lock = Tslab\Pool::open()->map('restricted')->lock('lock');
        ob_end_clean();
        echo json_encode([@fopen(PHP_BINARY, 'r'), function_exists('serialize'), function_exists('apcu_fetch'), $_SESSION['v'],
                (new APCUIterator('/^stored$/'))->current()['key'] ?? null, $lock->acquire(), $lock->release(), @opendir('/')]);
    ''', **ini)
    assert said == '[false,false,false,{"a":[1.5,true]},"stored",true,true,false]', said


def write_nginx(work, port, user):
    temporary = ' '.join(f'{kind}_temp_path {work}/{kind};'
                         for kind in ('client_body', 'fastcgi', 'proxy', 'uwsgi', 'scgi'))
    with open(f'{work}/nginx.conf', 'w') as conf:
        conf.write(f'''pid {work}/nginx.pid; daemon off; error_log {work}/nginx.log; {user} events {{ }}
http {{ access_log off; {temporary} server {{ listen 127.0.0.1:{port};
location / {{ fastcgi_pass unix:{work}/fpm.sock; fastcgi_param SCRIPT_FILENAME {work}/$uri.php;
fastcgi_param REQUEST_METHOD $request_method; fastcgi_param HTTP_COOKIE $http_cookie; }} }} }}
''')


def ends(*processes):
    for process in processes:
        process.terminate()
    for process in processes:
        process.wait(SECONDS)


@contextlib.contextmanager
def little_memory():
    """A control group whose processes the kernel kills when they take more than 64 MiB; '': it cannot be made here."""
    for parent, limit in ('/sys/fs/cgroup/memory', 'memory.limit_in_bytes'), ('/sys/fs/cgroup', 'memory.max'):
        group = f'{parent}/tslab-test-{os.getpid()}'
        try:
            os.mkdir(group)
        except OSError:
            continue
        try:
            if os.path.exists(f'{group}/{limit}'):
                with open(f'{group}/{limit}', 'w') as file:
                    file.write(str(64 << 20))
                yield group
                return
        finally:
            os.rmdir(group)
    left_out.append('control groups')
    yield ''


def managers(daemon, work, stack):
    fpm, nginx = shutil.which(f'php-fpm{version}', path=SBIN), shutil.which('nginx', path=SBIN)
    if not fpm or not nginx or not os.path.exists(f'{folder}/opcache.so'):
        return left_out.append('php-fpm')
    is_root = os.geteuid() == 0
    port = free_port()
    group = stack.enter_context(little_memory())
    pages = {'page': PAGE, 'preloaded': '<?php echo Preloaded::value();', 'info': '<?php phpinfo();',
             'eat': EAT.replace('GROUP', group)}
    for name, text in pages.items():
        with open(f'{work}/{name}.php', 'w') as page:
            page.write(text)
    with open(f'{work}/preload.php', 'w') as page:
        page.write(PRELOAD)
    write_nginx(work, port, 'user root;' if is_root else '')
    web = subprocess.Popen([nginx, '-c', f'{work}/nginx.conf', '-p', work], stderr=subprocess.DEVNULL)
    try:
        for n, manager in enumerate(('static', 'dynamic', 'ondemand')):
            with open(f'{work}/fpm.conf', 'w') as conf:
                conf.write(f'''[global]
error_log = {work}/fpm.log
daemonize = no
[www]
{"user = root" if is_root else ""}
{"group = root" if is_root else ""}
listen = {work}/fpm.sock
pm = {manager}
pm.max_children = 3
pm.start_servers = 1
pm.min_spare_servers = 1
pm.max_spare_servers = 2
pm.max_requests = 7
''')
            ini = {'zend_extension': f'{folder}/opcache.so', 'opcache.jit_buffer_size': '16M',
                   'opcache.preload': f'{work}/preload.php', 'opcache.preload_user': 'root',
                   'extension': EXTENSION, 'tslab.pool': daemon.socket, 'session.save_handler': 'tslab',
                   'session.save_path': '"map=sessions"'}
            server = subprocess.Popen([fpm, '-n', '-R', '-y', f'{work}/fpm.conf',
                                       *(f'-d{k}={v}' for k, v in ini.items())], env=daemon.environment)

            def serves():
                assert server.poll() is None and web.poll() is None
                try:
                    return ask(port, '/preloaded') == (200, 'by the master')
                except OSError:
                    return False

            try:
                wait_for(serves)
                # Workers come and go, each after seven requests; the session and the sum go on.
                seen = [ask(port, '/page', f'session{n}')[1].split() for _ in range(40)]
                assert [int(words[0]) for words in seen] == list(range(1, 41)), (manager, seen)
                assert [int(words[1]) for words in seen] == list(range(41 * n + 1, 41 * n + 41)), (manager, seen)
                assert len({words[2] for words in seen}) >= 5, (manager, seen)
                assert {words[3] for words in seen} == {'2000'}, (manager, seen)
                # Its session and its lock are free at once, and the session is as it was.
                assert ask(port, '/eat', f'session{n}')[0] == 502
                assert ask(port, '/page', f'session{n}')[1].split()[0] == '41'
                assert run(daemon, "echo (int) (new Tslab\\Cache())->map()->lock('eaten')->acquire(60);") == '1'
                status, text = ask(port, '/info')
                assert status == 200 and re.search(r'bytes in use.*?\d', text, re.S) and daemon.socket in text, (
                    manager, status, daemon.socket, re.sub('<[^>]*>', ' ', text[text.find('tslab support'):])[:1500])
            finally:
                ends(server)
    finally:
        ends(web)


def apache(daemon, work):
    program, module = shutil.which('apache2', path=SBIN), f'/usr/lib/apache2/modules/libphp{version}.so'
    if not program or not os.path.exists(module):
        return left_out.append('Apache')
    port = free_port()
    with open(f'{work}/page.php', 'w') as page:
        page.write(PAGE)
    with open(f'{work}/php.ini', 'w') as ini:
        ini.write(f'extension={EXTENSION}\ntslab.pool={daemon.socket}\nsession.save_handler=tslab\n'
                  'session.save_path="map=sessions"\n')
    modules = ''.join(f'LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so\n'
                      for name in ('mpm_prefork', 'authz_core', 'mime', 'dir')
                      if os.path.exists(f'/usr/lib/apache2/modules/mod_{name}.so'))
    with open(f'{work}/apache.conf', 'w') as conf:
        conf.write(f'''{modules}LoadModule php_module {module}
ServerRoot {work}
ServerName localhost
Listen 127.0.0.1:{port}
TypesConfig /dev/null
PidFile {work}/apache.pid
ErrorLog {work}/apache.log
DefaultRuntimeDir {work}
Mutex file:{work} default
User www-data
Group www-data
DocumentRoot {work}
PHPIniDir {work}
StartServers 2
MaxRequestWorkers 3
MaxConnectionsPerChild 7
<FilesMatch "php$">
SetHandler application/x-httpd-php
</FilesMatch>
<Directory {work}>
Require all granted
</Directory>
''')
    # It ends its process group when it is told to end.
    server = subprocess.Popen([program, '-f', f'{work}/apache.conf', '-D', 'FOREGROUND'], start_new_session=True,
                              env={**daemon.environment, 'PHP_INI_SCAN_DIR': ''})

    def serves():
        if server.poll() is not None:
            raise AssertionError(open(f'{work}/apache.log').read())
        try:
            return ask(port, '/page.php', 'apache')[0] == 200
        except OSError:
            return False

    try:
        wait_for(serves)
        first = int(ask(port, '/page.php', 'apache')[1].split()[0])
        seen = [ask(port, '/page.php', 'apache')[1].split() for _ in range(30)]
        assert [int(words[0]) for words in seen] == list(range(first + 1, first + 31)), seen
        os.kill(int(seen[-1][2]), signal.SIGKILL)
        assert int(ask(port, '/page.php', 'apache')[1].split()[0]) == first + 31
        assert len({words[2] for words in seen}) >= 3, seen
    finally:
        ends(server)


with tempfile.TemporaryDirectory() as work, pool('--mode=0666') as daemon:
    os.chmod(work, 0o755)
    os.chmod(daemon.dir, 0o755)
    opcache(daemon, work)
    fork(daemon)
    restricted(daemon)
    with contextlib.ExitStack() as stack:
        managers(daemon, work, stack)
    apache(daemon, work)
if left_out:
    print('left out, as it is not installed:', *left_out)
