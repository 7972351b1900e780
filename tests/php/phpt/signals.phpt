--TEST--
Waits over signals: handlers run meanwhile, the wait goes on; a handler that throws ends it
--EXTENSIONS--
pcntl
posix
--INI--
session.save_handler=tslab
session.save_path="map=signals;wait=60"
session.use_cookies=0
session.use_strict_mode=0
session.cache_limiter=
--FILE--
<?php
ob_start();
$map = Tslab\Pool::open()->map('signals');
$cache = new Tslab\Cache(null, 'computed');
$parent = getmypid();

// Another process has what is waited for, and sends signals, until it is told to end.
function holder(callable $hold): int {
        global $map, $parent;
        $map->delete('ready');
        $pid = pcntl_fork();
        if ($pid === 0) {
                $hold(function () use ($map, $parent) {
                        $map->put('ready', 'x');
                        for ($i = 0; !$map->get('end') && $i < 60_000; $i++) {
                                usleep(1000);
                                if ($i % 50 === 10)
                                        posix_kill($parent, SIGUSR1);
                        }
                });
                posix_kill(getmypid(), SIGKILL);
        }
        while ($map->get('ready') === null)
                usleep(1000);
        return $pid;
}

function wait_beside(string $what, callable $hold, callable $wait): void {
        global $map, $n_signals;
        foreach (['goes on', 'throws'] as $handler) {
                $n_signals = 0;
                $map->delete('end');
                pcntl_async_signals(true);
                pcntl_signal(SIGUSR1, SIG_IGN);
                $pid = holder($hold);
                pcntl_signal(SIGUSR1, function () use ($handler, $map, $what) {
                        global $n_signals;
                        if (++$n_signals === 3)
                                $map->put('end', 'x');
                        if ($handler === 'throws' && $n_signals === 2)
                                throw new LogicException('by the handler');
                });
                try {
                        $result = $wait();
                } catch (LogicException $e) {
                        $result = $e->getMessage();
                }
                $map->put('end', 'x');
                pcntl_signal(SIGUSR1, SIG_IGN);
                pcntl_waitpid($pid, $status);
                echo "$what, handler $handler: ", json_encode($result), "\n";
        }
}

wait_beside('lock', function ($stay) use ($map) {
        $lock = $map->lock('lock');
        $lock->acquire();
        $stay();
}, fn () => $map->lock('lock')->acquire(60));
wait_beside('claim', function ($stay) use ($map) {
        $map->claim('claim', 60);
        $stay();
}, fn () => $map->wait('claim', 0, 60));
wait_beside('computation', function ($stay) use ($cache) {
        $cache->delete('value');
        $cache->getOrCompute('value', function () use ($stay) {
                $stay();
                return 'of the other';
        });
}, fn () => $cache->getOrCompute('value', fn () => 'of this one', timeout: 60));

// A handler may end the session, so it runs after session_start() has it.
$map->delete('end');
$pid = holder(function ($stay) {
        session_id('session');
        session_start();
        $stay();
});
pcntl_signal(SIGUSR1, function () use ($map) {
        echo 'session: ', json_encode([session_status() === PHP_SESSION_ACTIVE, session_id()]), "\n";
        pcntl_signal(SIGUSR1, SIG_IGN);
});
if (pcntl_fork() === 0) {
        usleep(300_000);
        $map->put('end', 'x');
        posix_kill(getmypid(), SIGKILL);
}
session_id('session');
var_dump(session_start());
pcntl_waitpid($pid, $status);
?>
--EXPECT--
lock, handler goes on: true
lock, handler throws: "by the handler"
claim, handler goes on: true
claim, handler throws: "by the handler"
computation, handler goes on: "of the other"
computation, handler throws: "by the handler"
session: [true,"session"]
bool(true)
