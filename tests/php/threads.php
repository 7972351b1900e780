<?php
// A request of tests/php/threads.c, whose threads have it at the same time. Writes a line for each thing that is wrong.
$thread = $_ENV['THREAD'];
function check(bool $right, string $what): void {
        if (!$right) {
                echo "wrong: $what\n";
        }
}

$pool = Tslab\Pool::open();
$map = $pool->map('threads');
for ($i = 0; $i < 100; $i++) {
        $map->add('sum');
        apcu_inc('apcu');
        $map->put("key-$thread", "value $i of $thread");
        check($map->get("key-$thread") === "value $i of $thread", 'a value that no other thread puts');
}

// A large array: a copy that this thread keeps, and that it may write to.
$cache = new Tslab\Cache($pool, 'threads-cache');
$table = $cache->getOrCompute('table', function () use ($map) {
        $map->add('computed');
        return array_map(fn ($i) => ['id' => $i, 'name' => "name $i"], range(0, 19999));
});
for ($i = 0; $i < 3; $i++) {
        $table = $cache->get('table');
        check(count($table) === 20000 && $table[7] === ['id' => 7, 'name' => 'name 7'], 'an array');
        $table[7]['id'] = $thread;
        unset($table[8]);
}

// One thread at a time has the lock; the others wait for it.
$lock = $map->lock('lock');
check($lock->acquire(30), 'a lock');
$n = (int) $map->get('under the lock');
usleep(100);
$map->put('under the lock', (string) ($n + 1));
check($lock->release(), 'the release of a lock');

// A session of this thread, then one of all threads.
foreach (["session-$thread" => "own $thread", 'session-shared' => 'shared'] as $id => $counter) {
        session_id($id);
        session_start();
        $_SESSION['n'] = ($_SESSION['n'] ?? 0) + 1;
        check($_SESSION["n"] === $map->add($counter), "a session");
        session_write_close();
        $_SESSION = [];
}
check((new Tslab\Limiter($pool, 'limits', 1e6, 1000))->allow("$thread") === true, 'a limit');
