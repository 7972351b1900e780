"""Ways in which a request of php-fpm ends while it computes a value, has a lock or a session: by exit, an exception, a fatal
error, its time limit, or php-fpm's. Its claims are free at once, and the worker goes on with the next request."""

import tempfile

from fpm import Fpm, programs
from php import pool, run

if None in programs():
    print('skipped: php-fpm and nginx are needed')
    raise SystemExit(77)

ENDS = {
    'exit': 'exit("ended");',
    'exception': 'throw new LogicException("ended");',
    'fatal error': 'eval("class Twice {} class Twice {}");',
    'no memory': 'ini_set("memory_limit", "8M"); str_repeat("x", 1 << 28);',
    'no time': 'set_time_limit(1); for (;;);',
    'exit of a shutdown function': 'register_shutdown_function(fn () => exit); exit;',
}
# The calls that the request is in when it ends; a fiber of it is within a computation, too.
PLACES = {
    'computation': '$cache->getOrCompute("computed", fn () => ends());',
    'computations': '$cache->getOrCompute("outer", fn () => $cache->getOrCompute("computed", fn () => ends()));',
    'apcu_entry': 'apcu_entry("computed", fn () => ends());',
    'lock': '$lock = $cache->map()->lock("lock"); $lock->acquire(); $map = $cache->map()->lock("other"); $map->acquire(); ends();',
    'claim of a sort': 'usort($list, function () use ($cache) { $cache->getOrCompute("computed", fn () => ends()); });',
    'session': 'session_start(); $_SESSION["n"] = 1; ends();',
    'handler of output': 'ob_start(fn () => $cache->getOrCompute("computed", fn () => "by the handler")); ends();',
}
PAGE = r'''<?php
function ends() {
        %s
}
session_id('ends');
$list = [1, 2];
$cache = new Tslab\Cache();
$fiber = new Fiber(fn () => $cache->getOrCompute('of a fiber', fn () => Fiber::suspend()));
$fiber->start();
%s
'''
# Prints the keys that are still claimed.
LOOK = r'''
foreach (['computed', 'outer', 'of a fiber', 'lock', 'other'] as $key) {
        if (($claim = (new Tslab\Cache())->map()->claim($key)) && !$claim[1])
                $held[] = $key;
        (new Tslab\Cache())->map()->delete($key);
}
if (!Tslab\Pool::open()->map('sessions')->lock('lock:ends')->acquire(0))
        $held[] = 'session';
echo json_encode($held ?? []);
'''
INI = {'tslab.apcu_compat': 1, 'session.save_handler': 'tslab', 'session.save_path': '"wait=5"', 'session.use_strict_mode': 0}


def ends(daemon, work):
    with Fpm(daemon, work, 1, INI) as fpm:
        [worker] = fpm.workers()
        for place, begin in PLACES.items():
            for n, (name, end) in enumerate(ENDS.items()):
                if name == 'no time' and place not in ('computation', 'session'):
                    continue        # each takes a second
                with open(f'{work}/page{n}.php', 'w') as page:
                    page.write(PAGE % (end, begin))
                status, text, _ = fpm.ask(f'/page{n}')
                assert status in (200, 500) and 'warning' not in text.lower(), (place, name, status, text)
                held = run(daemon, LOOK)
                assert held == '[]', (place, name, held, fpm.log())
                assert fpm.workers() == [worker], (place, name, fpm.log())


def killed_by_the_manager(daemon, work):
    """request_terminate_timeout: php-fpm kills a worker whose request takes too long."""
    with Fpm(daemon, work, 1, INI, 'request_terminate_timeout = 1\n') as fpm:
        with open(f'{work}/late.php', 'w') as page:
            page.write(PAGE % ('sleep(60);', 'session_start(); $lock = $cache->map()->lock("lock"); $lock->acquire();'
                                             '$cache->getOrCompute("computed", fn () => ends());'))
        assert fpm.ask('/late')[0] == 502
        assert run(daemon, LOOK) == '[]'


with tempfile.TemporaryDirectory() as work, pool() as daemon:
    ends(daemon, work)
    killed_by_the_manager(daemon, work)
