<?php
// Calls of one store, nanoseconds each: calls.php?store=STORE&n=ROUND&redis=SOCKET under php-fpm, as in production, or
// "php ... calls.php STORE ROUND SOCKET".
// "apcu" and "tslab" are the same functions: APCu's own, and those of tslab.apcu_compat. "cache" is Tslab\Cache, "redis"
// is phpredis by the Unix socket.

const ROUNDS = 5;
const KEYS = 1000;

// Each store's loops call it as a program does: apcu_fetch() by its name, which is compiled in, the others on an object.
function store(string $name): array {
        switch ($name) {
        case 'apcu':
        case 'tslab':
                return ['apcu_store', 'apcu_fetch', [
                        'store_ns' => function ($n, $keys, $value) {
                                for ($i = 0; $i < $n; $i++) {
                                        apcu_store($keys[$i % KEYS], $value);
                                }
                        },
                        'fetch_ns' => function ($n, $keys) {
                                for ($i = 0; $i < $n; $i++) {
                                        $v = apcu_fetch($keys[$i % KEYS]);
                                }
                        },
                        'inc_ns' => function ($n, $keys) {
                                for ($i = 0; $i < $n; $i++) {
                                        $v = apcu_inc('counter');
                                }
                        },
                ]];
        case 'cache':
                $cache = new Tslab\Cache();
                return [$cache->set(...), $cache->get(...), loops($cache, 'increment')];
        case 'redis':
                $redis = new Redis();
                $redis->connect(REDIS_SOCKET);
                return [
                        fn ($key, $value) => $redis->set($key, is_array($value) ? serialize($value) : $value),
                        fn ($key) => unserialize($redis->get($key)),
                        loops($redis, 'incr'),
                ];
        }
        fwrite(STDERR, "no such store: $name\n");
        exit(2);
}

function loops(object $store, string $increment): array {
        return [
                'store_ns' => function ($n, $keys, $value) use ($store) {
                        for ($i = 0; $i < $n; $i++) {
                                $store->set($keys[$i % KEYS], $value);
                        }
                },
                'fetch_ns' => function ($n, $keys) use ($store) {
                        for ($i = 0; $i < $n; $i++) {
                                $v = $store->get($keys[$i % KEYS]);
                        }
                },
                'inc_ns' => function ($n, $keys) use ($store, $increment) {
                        for ($i = 0; $i < $n; $i++) {
                                $v = $store->$increment('counter');
                        }
                },
        ];
}

// The median of rounds, less the loop.
function measure(int $n, callable $round, array $keys, mixed $value = null): float {
        $loop = function ($n, $keys) {
                for ($i = 0; $i < $n; $i++) {
                        $k = $keys[$i % KEYS];
                }
        };
        $ns = [];
        for ($i = 0; $i < ROUNDS; $i++) {
                $begin = hrtime(true);
                $round($n, $keys, $value);
                $middle = hrtime(true);
                $loop($n, $keys);
                $ns[] = (2 * $middle - $begin - hrtime(true)) / $n;
        }
        sort($ns);
        return round($ns[intdiv(ROUNDS, 2)], 1);
}

// A router's table: 5 MiB of patterns by name.
function routes(): array {
        $table = [];
        for ($i = 0; $i < 15500; $i++) {
                $table["route_$i"] = [
                        'path' => "/section-$i/{id}/edit/{field}",
                        'controller' => "App\\Controller\\Section{$i}Controller::edit",
                        'methods' => ['GET', 'POST'],
                        'regex' => "#^/section-$i/(?P<id>\\d+)/edit/(?P<field>[^/]++)\$#sDu",
                        'defaults' => ['_locale' => 'en', 'page' => $i, 'sorted' => true],
                ];
        }
        return $table;
}

function many(int $n): array {
        $array = [];
        for ($i = 0; $i < $n; $i++) {
                $array["key_$i"] = "value $i of the array";
        }
        return $array;
}

function calls(string $store, int $n): array {
        [$put, $get, $loops] = store($store);
        $keys = [];
        for ($i = 0; $i < KEYS; $i++) {
                $keys[] = sprintf('key:%08x', ($i * 2654435761) & 0xffffffff);
        }
        $n = $store === 'redis' ? intdiv($n, 20) : $n;
        $found = [];
        foreach ($loops as $name => $loop) {
                $found[$name] = measure($n, $loop, $keys, str_repeat('x', 256));
        }
        foreach (['array' => many(1000), 'routes' => routes()] as $name => $array) {
                $put($name, $array);
                for ($i = 0; $i < 3; $i++) {
                        if ($get($name) != $array) {
                                fwrite(STDERR, "another array: $name\n");
                                exit(1);
                        }
                }
                // A store that parses takes 0.2 ms and 30 ms for each.
                $parses = $store === 'apcu' || $store === 'redis';
                $rounds = max(3, intdiv($n, !$parses ? 10 : ($name === 'array' ? 1000 : 60000)));
                $found["{$name}_ns"] = measure($rounds, function ($n) use ($get, $name) {
                        for ($i = 0; $i < $n; $i++) {
                                $v = $get($name);
                        }
                }, $keys);
                $found["{$name}_bytes"] = strlen(serialize($array));
        }
        return $found;
}

[$name, $n, $socket] = isset($argv) ? array_slice($argv, 1) : [$_GET['store'], $_GET['n'], $_GET['redis']];
define('REDIS_SOCKET', $socket);
ini_set('memory_limit', -1);
set_time_limit(0);
echo json_encode(calls($name, (int) $n)), "\n";
