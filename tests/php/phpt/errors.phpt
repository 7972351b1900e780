--TEST--
Tslab: bad input gets a clear error, and a pool that is not there is a miss for caches
--FILE--
<?php
$pool = Tslab\Pool::open();
$map = $pool->map('errors');
foreach ([
        fn() => $pool->map("with\0nul"),
        fn() => $pool->map(''),
        fn() => $pool->map('x', ['evict' => 'lru']),
        fn() => $pool->map('x', ['size' => 5]),
        fn() => $pool->map('x', ['ttl' => -1]),
        fn() => $map->put('k', 'v', 0),
        fn() => $map->put('k', 'v', NAN),
        fn() => $map->put(str_repeat('k', 5000), 'v'),
        fn() => $map->put('k', str_repeat('v', 5 << 20)),
        fn() => $map->limit('k', -1, 5),
        fn() => new Tslab\Limiter($pool, 'x', 0, 1),
        fn() => clone $map,
        fn() => serialize($map),
        fn() => new Tslab\Map(),
        fn() => Tslab\Pool::open('/no/socket'),
] as $call) {
        try {
                $call();
                echo "no error\n";
        } catch (Throwable $e) {
                echo get_class($e), ' ', $e->getCode(), ': ', $e->getMessage(), "\n";
        }
}
ini_set('error_log', '/dev/null');
$map->put('text', 'x');
try {
        $map->add('text');
} catch (Tslab\Exception $e) {
        echo $e->getCode(), "\n";
}
?>
--EXPECTF--
ValueError 0: Tslab\Pool::map(): Argument #1 ($name) must not contain any null bytes
Tslab\Exception 22: map : Invalid argument
ValueError 0: Tslab\Pool::map(): Argument #2 ($options) must have the keys ttl, stale, limit_bytes, value_max or evict, with numbers or 'sieve'
ValueError 0: Tslab\Pool::map(): Argument #2 ($options) must have the keys ttl, stale, limit_bytes, value_max or evict, with numbers or 'sieve'
ValueError 0: Tslab\Pool::map(): Argument #2 ($options) must have the keys ttl, stale, limit_bytes, value_max or evict, with numbers or 'sieve'
ValueError 0: Tslab\Map::put(): Argument #3 ($ttl) must be greater than 0
ValueError 0: Tslab\Map::put(): Argument #3 ($ttl) must be greater than 0
Tslab\Exception 7: map errors: the key or the value is too large
Tslab\Exception 7: map errors: the key or the value is too large
Tslab\Exception 22: map errors: Invalid argument
ValueError 0: Tslab\Limiter::__construct(): Argument #3 ($perSecond) must be greater than 0, and 1e9 at most
Error 0: Trying to clone an uncloneable object of class Tslab\Map
Exception 0: Serialization of 'Tslab\Map' is not allowed
Error 0: Call to private Tslab\Map::__construct() from global scope
Tslab\Exception 2: pool /no/socket: no daemon answers: is tslabd running?
22
