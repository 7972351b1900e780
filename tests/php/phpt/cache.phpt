--TEST--
Tslab\Cache: the calls of PSR-16 and more
--FILE--
<?php
$cache = new Tslab\Cache(null, 'cache', 60, ['evict' => 'sieve', 'limit_bytes' => 1 << 20]);
var_dump($cache->get('none'), $cache->get('none', 5), $cache->set('a', [1]), $cache->get('a'), $cache->has('a'));
var_dump($cache->map()->ttl('a') > 50, $cache->set('a', 1, new DateInterval('PT1H')), $cache->map()->ttl('a') > 3500);
var_dump($cache->set('a', 1, 0), $cache->has('a'), $cache->set('a', 1, -5), $cache->has('a'), $cache->delete('a'));
var_dump($cache->add('b', 1), $cache->add('b', 2), $cache->touch('b', 5), $cache->map()->ttl('b') <= 5, $cache->pop('b'), $cache->pop('b', 'none'));
var_dump($cache->setMultiple(['x' => 1, 'y' => 2]), $cache->getMultiple(['x', 'none'], 0), $cache->deleteMultiple(['x', 'none']));
$generator = (function () { yield 'g' => 1; yield 'h' => 2; })();
var_dump($cache->setMultiple($generator), $cache->getMultiple((function () { yield 'g'; yield 'h'; })()));
var_dump($cache->increment('i'), $cache->increment('i', 5), $cache->set('i', 10), $cache->increment('i', -3), $cache->get('i'));
var_dump($cache->set('i', 1.5), $cache->increment('i'), $cache->set('i', 'text'), $cache->increment('i'));
var_dump($cache->getOrCompute('f', fn($key) => "made of $key"), $cache->getOrCompute('f', fn() => 'again'));
try {
        $cache->getOrCompute('r', fn() => $cache->getOrCompute('r', fn() => 1));
} catch (Tslab\Exception $e) {
        echo $e->getMessage(), "\n";
}
try {
        $cache->getOrCompute('r', function () { throw new LogicException('none'); });
} catch (LogicException $e) {
        echo $e->getMessage(), "\n";
}
var_dump($cache->getOrCompute('r', fn() => 'after it'));

// A set that is refused leaves no old value
var_dump($cache->set('large', 'old'), @$cache->set('large', str_repeat('x', 2 << 20)), $cache->get('large'));
try {
        $cache->set('a', 1, 'soon');
} catch (TypeError $e) {
        echo $e->getMessage(), "\n";
}
var_dump($cache->clear(), count($cache->map()));

$limiter = new Tslab\Limiter(null, 'limits', 0.01, 2);
var_dump($limiter->allow('u'), $limiter->take('u'), $limiter->allow('u'), $limiter->take('u') > 50);
?>
--EXPECTF--
NULL
int(5)
bool(true)
array(1) {
  [0]=>
  int(1)
}
bool(true)
bool(true)
bool(true)
bool(true)
bool(true)
bool(false)
bool(true)
bool(false)
bool(true)
bool(true)
bool(false)
bool(true)
bool(true)
int(1)
string(4) "none"
bool(true)
array(2) {
  ["x"]=>
  int(1)
  ["none"]=>
  int(0)
}
bool(true)
bool(true)
array(2) {
  ["g"]=>
  int(1)
  ["h"]=>
  int(2)
}
int(1)
int(6)
bool(true)
int(7)
int(7)
bool(true)
float(2.5)
bool(true)
NULL
string(9) "made of f"
string(9) "made of f"
the computation of key "r" asks for that key
none
string(8) "after it"
tslab: a value could not be set: map cache: the key or the value is too large
bool(true)
bool(false)
NULL
Tslab\Cache::set(): Argument #3 ($ttl) must be of type DateInterval|int|float|null, string given
bool(true)
int(0)
bool(true)
float(0)
bool(false)
bool(true)
