<?php
// Get and put of a 256-byte session in APCu, as web.c measures others: php -d apc.enable_cli=1 apcu.php [OPERATIONS]
if (!function_exists('apcu_store') || !apcu_enabled()) {
        fwrite(STDERR, "no APCu here\n");
        exit(77);
}

const KEYS = 10000;
const ROUNDS = 5;
$n = (int) ($argv[1] ?? 300000);
$keys = [];
for ($i = 0; $i < KEYS; $i++) {
        $keys[] = sprintf('session:%08x', ($i * 2654435761) & 0xffffffff);
}
$value = str_repeat('x', 252);
mt_srand(1);
$order = [];
for ($i = 0; $i < $n; $i++) {
        $order[] = mt_rand(0, KEYS - 1);
}

function median(array $values): float {
        sort($values);
        return $values[intdiv(count($values), 2)];
}

// The time of the loop, of choosing a key and of making the value is subtracted.
function measure(array $order, callable $round): float {
        $ns = [];
        for ($i = 0; $i < ROUNDS; $i++) {
                $begin = hrtime(true);
                $round($order);
                $ns[] = (hrtime(true) - $begin) / count($order);
        }
        return median($ns);
}

$numbers = array_map(fn ($key) => pack('V', $key) . $value, range(0, KEYS - 1));
$empty = function ($order) use ($keys, $numbers) {
        foreach ($order as $key) {
                $k = $keys[$key];
                $v = $numbers[$key];
        }
};
$put = function ($order) use ($keys, $numbers) {
        foreach ($order as $key) {
                apcu_store($keys[$key], $numbers[$key]);
        }
};
$get = function ($order) use ($keys, $numbers) {
        foreach ($order as $key) {
                $v = apcu_fetch($keys[$key]);
                if ($v[0] !== $numbers[$key][0]) {
                        fwrite(STDERR, "another key's value\n");
                        exit(1);
                }
        }
};

$put(range(0, KEYS - 1));
$loop = measure($order, $empty);
echo json_encode([
        'put_ns' => round(measure($order, $put) - $loop, 1),
        'get_ns' => round(measure($order, $get) - $loop, 1),
]), "\n";
