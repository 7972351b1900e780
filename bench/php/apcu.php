<?php
// APCu, measured as web.c measures others: php -d apc.enable_cli=1 -d apc.shm_size=256M apcu.php WORKLOAD [OPERATIONS]
if (!function_exists('apcu_store') || !apcu_enabled()) {
        fwrite(STDERR, "no APCu here\n");
        exit(77);
}

const KEYS = 10000;
const COUNTERS = 1000;
const ROUNDS = 5;
const VALUES_BYTES = 16 << 20;
const ROUND_BYTES = 256 << 20;

function median(array $values): float {
        sort($values);
        return $values[intdiv(count($values), 2)];
}

function fail(string $message): void {
        fwrite(STDERR, "$message\n");
        exit(1);
}

function keys(string $prefix, int $n): array {
        $keys = [];
        for ($i = 0; $i < $n; $i++) {
                $keys[] = sprintf('%s:%08x', $prefix, ($i * 2654435761) & 0xffffffff);
        }
        return $keys;
}

function order(int $n, int $n_keys): array {
        mt_srand(1);
        $order = [];
        for ($i = 0; $i < $n; $i++) {
                $order[] = mt_rand(0, $n_keys - 1);
        }
        return $order;
}

function measure(array $order, callable $round): float {
        $ns = [];
        for ($i = 0; $i < ROUNDS; $i++) {
                $begin = hrtime(true);
                $round($order);
                $ns[] = (hrtime(true) - $begin) / count($order);
        }
        return median($ns);
}

// Put and get of one size. The time of the loop and of choosing key and value is subtracted.
function put_and_get(int $n, int $n_keys, int $size, string $prefix): array {
        $keys = keys($prefix, $n_keys);
        $value = str_repeat('x', $size - 4);
        // Large values differ in no byte: making each anew would cost more than storing it.
        $values = array_map(fn ($key) => $size > 65536 ? $value : pack('V', $key) . $value, range(0, $n_keys - 1));
        $order = order($n, $n_keys);
        $loop = measure($order, function ($order) use ($keys, $values) {
                foreach ($order as $key) {
                        $k = $keys[$key];
                        $v = $values[$key];
                }
        });
        $put = function ($order) use ($keys, $values) {
                foreach ($order as $key) {
                        apcu_store($keys[$key], $values[$key]);
                }
        };
        $put(range(0, $n_keys - 1));
        $get = function ($order) use ($keys, $values) {
                foreach ($order as $key) {
                        $v = apcu_fetch($keys[$key]);
                        if ($v === false || $v[0] !== $values[$key][0]) {
                                fail("another key's value");
                        }
                }
        };
        return [round(measure($order, $put) - $loop, 1), round(measure($order, $get) - $loop, 1)];
}

function add(array $keys, array $order): float {
        return measure($order, function ($order) use ($keys) {
                foreach ($order as $key) {
                        apcu_inc($keys[$key]);
                }
        });
}

// Two processes that add to one key; each is told the moment to begin.
function contended(int $n): float {
        $keys = keys('counter', 1);
        $order = array_fill(0, $n, 0);
        apcu_store('begin', microtime(true) + 0.2);
        $pid = pcntl_fork();
        time_sleep_until(apcu_fetch('begin'));
        $ns = add($keys, $order);
        if ($pid == 0) {
                apcu_store('other', $ns);
                // no destructors: they would take the cache away
                posix_kill(getmypid(), SIGKILL);
        }
        pcntl_waitpid($pid, $status);
        return ($ns + apcu_fetch('other')) / 2;
}

function sessions(int $n): array {
        [$put, $get] = put_and_get($n, KEYS, 256, 'session');
        return ['put_ns' => $put, 'get_ns' => $get];
}

function values(int $n): array {
        $found = [];
        foreach ([16, 128, 1024, 4096, 65536, 262144, 1048576] as $i => $size) {
                [$put, $get] = put_and_get(min($n, intdiv(ROUND_BYTES, $size)), min(KEYS, intdiv(VALUES_BYTES, $size)),
                        $size, "value-$i");
                $found["put_{$size}_ns"] = $put;
                $found["get_{$size}_ns"] = $get;
        }
        return $found;
}

// One key of 10,000, then puts of new keys and their deletes, as in cycle.c.
function cycle(int $n): array {
        $keys = keys('another', KEYS);
        $value = str_repeat('x', 64);
        $put = function ($keys) use ($value) {
                foreach ($keys as $key) {
                        apcu_store($key, $value);
                }
        };
        $put($keys);
        $one = array_fill(0, $n, $keys[0]);
        $loop = measure($one, function ($one) {
                foreach ($one as $key) {
                }
        });
        $found = [
                'get_ns' => measure($one, function ($one) {
                        foreach ($one as $key) {
                                $v = apcu_fetch($key);
                        }
                }),
                'replace_ns' => measure($one, $put),
                'delete_and_put_ns' => measure($one, function ($one) use ($value) {
                        foreach ($one as $key) {
                                apcu_delete($key);
                                apcu_store($key, $value);
                        }
                }),
        ];
        $new = keys('new-000', KEYS);
        $ns = ['put_new_ns' => [], 'delete_ns' => []];
        for ($i = 0; $i < ROUNDS; $i++) {
                $begin = hrtime(true);
                $put($new);
                $middle = hrtime(true);
                foreach ($new as $key) {
                        apcu_delete($key);
                }
                $ns['put_new_ns'][] = ($middle - $begin) / KEYS;
                $ns['delete_ns'][] = (hrtime(true) - $middle) / KEYS;
        }
        return array_map(fn ($v) => round($v - $loop, 1), $found + array_map('median', $ns));
}

function counters(int $n): array {
        $keys = keys('counter', COUNTERS);
        $order = order($n, COUNTERS);
        $loop = measure($order, function ($order) use ($keys) {
                foreach ($order as $key) {
                        $k = $keys[$key];
                }
        });
        $found = ['add_ns' => round(add($keys, $order) - $loop, 1)];
        if (function_exists('pcntl_fork') && function_exists('posix_kill')) {
                $found['contended_ns'] = round(contended($n) - $loop, 1);
        }
        return $found;
}

if (!in_array($argv[1] ?? '', ['sessions', 'values', 'cycle', 'counters'])) {
        exit(77);
}
echo json_encode($argv[1]((int) ($argv[2] ?? 300000))), "\n";
