<?php
// APCu, measured as keys.c measures others: php -d apc.enable_cli=1 -d apc.shm_size=1G apcu-keys.php [MOST KEYS]
if (!function_exists('apcu_store') || !apcu_enabled()) {
        fwrite(STDERR, "no APCu here\n");
        exit(77);
}

const ROUNDS = 5;
const OPERATIONS = 200000;
const KEYS_MOST = 1000000; // ten times as many would take several GiB

function median(array $values): float {
        sort($values);
        return $values[intdiv(count($values), 2)];
}

// As many keys in random order as a round has operations. Making a key from its number costs as much as a fetch, so it
// is not in the time.
function order(int $n_keys): array {
        $keys = [];
        for ($i = 0; $i < OPERATIONS; $i++) {
                $keys[] = pack('P', mt_rand(0, $n_keys - 1));
        }
        return $keys;
}

function random_ns(int $n_keys, callable $function): float {
        $ns = [];
        for ($round = 0; $round < ROUNDS; $round++) {
                $keys = order($n_keys);
                $begin = hrtime(true);
                foreach ($keys as $key) {
                        $function($key);
                }
                $ns[] = (hrtime(true) - $begin) / OPERATIONS;
        }
        return median($ns);
}

$most = (int) ($argv[1] ?? 0) ?: KEYS_MOST;
$value = str_repeat('x', 32);
$found = ['series' => []];
mt_srand(1);
for ($n_keys = 1000; $n_keys <= min($most, KEYS_MOST); $n_keys *= 10) {
        apcu_clear_cache();
        $times = ['insert_ns' => 0, 'get_ns' => 0, 'replace_ns' => 0];
        for ($i = 0; $i < $n_keys; $i++) {
                $key = pack('P', $i);
                $begin = hrtime(true);
                apcu_store($key, $value);
                $times['insert_ns'] += (hrtime(true) - $begin) / $n_keys;
        }
        $times['get_ns'] = random_ns($n_keys, function ($key) {
                if (apcu_fetch($key) === false) {
                        fwrite(STDERR, "a key is missing\n");
                        exit(1);
                }
        });
        $times['replace_ns'] = random_ns($n_keys, fn ($key) => apcu_store($key, $value));
        foreach ($times as $name => $ns) {
                $found["{$name}_$n_keys"] = round($ns, 1);
                $found['series'][$name][] = [$n_keys, round($ns, 1)];
        }
}
echo json_encode($found), "\n";
