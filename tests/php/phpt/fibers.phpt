--TEST--
Fibers: computations, locks and claims of several fibers of one request
--INI--
tslab.apcu_compat=1
--FILE--
<?php
$cache = new Tslab\Cache(null, 'fibers');

// Each fiber stops within its computation; they end in the order in which they began.
$compute = fn ($key) => new Fiber(fn () => $cache->getOrCompute($key, function ($key) {
        Fiber::suspend();
        return "made of $key";
}));
$fibers = ['a' => $compute('a'), 'b' => $compute('b'), 'c' => $compute('c')];
array_walk($fibers, fn ($fiber) => $fiber->start());
foreach ($fibers as $fiber)
        $fiber->resume();
foreach ($fibers as $fiber)
        var_dump($fiber->getReturn());
try {
        $cache->getOrCompute('d', fn () => $cache->getOrCompute('d', fn () => 1));
} catch (Tslab\Exception $e) {
        echo $e->getMessage(), "\n";
}
unset($fibers, $fiber);
var_dump($cache->getOrCompute('e', fn () => $cache->getOrCompute('f', fn () => 'inner')));

// A fiber that is dropped within its computation ends its claim, and nobody else's.
$first = $compute('first');
$first->start();
$second = $compute('second');
$second->start();
unset($first);
gc_collect_cycles();
var_dump($cache->map()->wait('first', 0, 0), $cache->map()->wait('second', 0, 0));
$second->resume();
var_dump($second->getReturn(), $cache->getOrCompute('first', fn () => 'anew'));

// Another fiber of the request that asks for a key that one computes would wait for ever.
$one = $compute('one');
$one->start();
try {
        $cache->getOrCompute('one', fn () => 1);
} catch (Tslab\Exception $e) {
        echo $e->getMessage(), "\n";
}
$one->resume();
var_dump($one->getReturn());
?>
--EXPECT--
string(9) "made of a"
string(9) "made of b"
string(9) "made of c"
the computation of key "d" asks for that key
string(5) "inner"
bool(true)
bool(false)
string(14) "made of second"
string(4) "anew"
the computation of key "one" asks for that key
string(11) "made of one"
