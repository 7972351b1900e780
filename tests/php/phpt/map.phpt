--TEST--
Tslab\Map: strings by key, versions, lifetimes, counters, limits, locks
--FILE--
<?php
$map = Tslab\Pool::open()->map('map');
$map->put('a', '1');
var_dump($map->get('a'), $map->get('none'), $map->insert('a', '2'), $map->update('a', '3'), $map->update('none', 'x'));
[$value, $version] = $map->getVersion('a');
var_dump($value, $map->replace('a', $version, '4'), $map->replace('a', $version, '5'), $map->getVersion('none'));
var_dump($map->delete('a', $version), $map->pop('a'), $map->pop('a'), $map->delete('a'));
var_dump($map->replace('fresh', 0, 'x'), $map->replace('fresh', 0, 'y'), $map->delete('fresh'));

$map->put('t', 'x', 30);
var_dump($map->ttl('t') > 20, $map->touch('t', INF), $map->ttl('t'), $map->ttl('none'), $map->touch('none', 5));
var_dump($map->add('c'), $map->add('c', 5), $map->add('from', 1, 10));
var_dump($map->limit('l', 0.01, 1), $map->limit('l', 0.01, 1) > 50);

$map->put("\0 any \xff", str_repeat('x', 100000));
var_dump(strlen($map->get("\0 any \xff")), strlen($map->pop("\0 any \xff")));

$map->clear();
$map->put('one', '1');
$map->put('two', str_repeat('2', 50000));
$seen = [];
foreach ($map as $key => $value)
        $seen[$key] = strlen($value);
ksort($seen);
var_dump($seen, count($map), iterator_count($map->getIterator()), $map->statistics()['entries']);

$lock = $map->lock('lock');
$other = $map->lock('lock');
var_dump($lock->acquire(0), $other->acquire(0.02), $lock->release(), $lock->release(), $other->acquire());
unset($other);
var_dump($lock->acquire(0), $map->get('lock'));

foreach (['p:1', 'p:2', 'q:1', 'p'] as $key) {
        $map->put($key, 'x');
}
var_dump($map->deletePrefix('p:'), $map->get('p:1'), $map->get('p'), $map->get('q:1'), $map->deletePrefix('none'));

// A lock of a short limit comes free by itself; extended, it stays.
$short = $map->lock('short', 0.02);
$other = $map->lock('short');
var_dump($short->acquire(0));
while (!($got = $other->acquire(0))) {
        usleep(1000);
}
var_dump($got, $short->extend(), $other->extend(600));
?>
--EXPECT--
string(1) "1"
NULL
bool(false)
bool(true)
bool(false)
string(1) "3"
bool(true)
bool(false)
NULL
bool(false)
string(1) "4"
NULL
bool(false)
bool(true)
bool(false)
bool(true)
bool(true)
bool(true)
float(INF)
NULL
bool(false)
int(1)
int(6)
int(11)
NULL
bool(true)
int(100000)
int(100000)
array(2) {
  ["one"]=>
  int(1)
  ["two"]=>
  int(50000)
}
int(2)
int(2)
int(2)
bool(true)
bool(false)
bool(true)
bool(false)
bool(true)
bool(true)
NULL
int(2)
NULL
string(1) "x"
string(1) "x"
int(0)
bool(true)
bool(true)
bool(false)
bool(true)
