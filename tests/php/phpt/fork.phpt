--TEST--
A child that is forked inside of a computation, or with a lock, leaves both to its parent
--FILE--
<?php
$cache = new Tslab\Cache(null, 'forked');
$map = $cache->map();

// A child that prints nothing and ends: its exit status.
function child(callable $do): int {
        $pid = pcntl_fork();
        if ($pid === 0)
                exit((int) $do());
        pcntl_waitpid($pid, $status);
        return pcntl_wexitstatus($status);
}

$ends = ['exit' => fn () => exit(7), 'exception' => fn () => throw new LogicException('of the child'), 'value' => fn () => 'of the child'];
foreach ($ends as $key => $end) {
        $parent = getmypid();
        try {
                $value = $cache->getOrCompute($key, function ($key) use ($end, $map) {
                        $pid = pcntl_fork();
                        if ($pid === 0)
                                return $end();
                        pcntl_waitpid($pid, $status);
                        // The claim stands, and has no value: another process would wait.
                        echo $key, ': ', pcntl_wexitstatus($status), ', ', var_export($map->wait($key, 0, 0), true), ', ', var_export($map->get($key), true), "\n";
                        return 'of the parent';
                });
        } catch (LogicException $e) {
                $value = $e->getMessage();
        }
        if (getmypid() !== $parent)
                exit($value === 'of the child' ? 8 : 9);
        var_dump($value, $cache->get($key));
}

// A child that asks for the key that its parent computes is no computation within itself: it waits as others do.
$value = $cache->getOrCompute('waits', function () use ($cache, $map, &$pid) {
        $late = child(fn () => $cache->getOrCompute('waits', fn () => 'late', timeout: 0) === 'late');
        if (($pid = pcntl_fork()) === 0)
                exit((int) ($cache->getOrCompute('waits', fn () => 'of the child', timeout: 600) === 'of the parent'));
        return $late ? 'of the parent' : 'the child was told that it waits for itself';
});
pcntl_waitpid($pid, $status);
var_dump($value, pcntl_wexitstatus($status));

$lock = $map->lock('lock');
var_dump($lock->acquire());
var_dump(child(fn () => 0), child(fn () => $lock->release()), child(fn () => $lock->extend()), child(fn () => $lock->acquire(0)));
var_dump($lock->release());
var_dump(child(fn () => $lock->acquire(0)));
?>
--EXPECT--
exit: 7, false, NULL
string(13) "of the parent"
string(13) "of the parent"
exception: 8, false, NULL
string(13) "of the parent"
string(13) "of the parent"
value: 8, false, NULL
string(13) "of the parent"
string(13) "of the parent"
string(13) "of the parent"
int(1)
bool(true)
int(0)
int(0)
int(0)
int(0)
bool(true)
int(1)
