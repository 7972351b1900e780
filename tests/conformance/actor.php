<?php
// The actor of the PHP extension: see README.md.
//
//      php ... actor.php SOCKET

function version(int $version): array {
        return ['version' => (string) $version];
}

// What a call returns instead of a value is an error here.
function expect(bool $done, string $error): void {
        if (!$done) {
                throw new DomainException($error);
        }
}

function seconds(array $r, string $name = 'ttl_ms'): ?float {
        return isset($r[$name]) ? $r[$name] / 1000 : null;
}

class Actor {
        private array $maps = [];
        private Tslab\Pool $pool;

        public function __construct(private string $socket) {
                $this->pool = Tslab\Pool::open($socket);
        }

        public function answer(array $r): array {
                foreach (['key', 'value'] as $name) {
                        if (isset($r[$name])) {
                                $r[$name] = hex2bin($r[$name]);
                        }
                }
                try {
                        $reply = $this->call($this->maps[$r['map'] ?? ''] ?? null, $r);
                } catch (DomainException $e) {
                        return ['error' => $e->getMessage()];
                } catch (ValueError) {
                        return ['error' => 'EINVAL'];
                } catch (Tslab\Exception $e) {
                        return ['error' => [7 => 'E2BIG', 12 => 'ENOMEM', 22 => 'EINVAL', 28 => 'ENOSPC', 35 => 'EDEADLK', 75 => 'EOVERFLOW',
                                90 => 'EMSGSIZE'][$e->getCode()] ?? (string) $e->getCode()];
                }
                return is_array($reply) && isset($reply['error']) ? $reply : ['ok' => $reply];
        }

        private function call(?Tslab\Map $map, array $r): mixed {
                $key = $r['key'] ?? '';
                switch ($r['call']) {
                case 'map':
                        $options = ['ttl' => seconds($r), 'stale' => seconds($r, 'stale_ms'), 'evict' => $r['evict'] ?? null,
                                'limit_bytes' => $r['limit_bytes'] ?? null, 'value_max' => $r['value_max'] ?? null];
                        $this->maps[$r['map']] = $this->pool->map($r['name'], $options);
                        return null;
                case 'get':
                case 'take':
                        $value = $r['call'] === 'get' ? $map->get($key) : $map->pop($key);
                        expect($value !== null, 'ENOENT');
                        return bin2hex($value);
                case 'info':
                        $info = $map->info($key, $r['stale'] ?? false);
                        expect($info !== null, 'ENOENT');
                        $info['ttl_left_ms'] = is_infinite($info['ttl']) ? null : $info['ttl'] * 1000;
                        unset($info['ttl']);
                        return ['value' => bin2hex($info['value'])] + version($info['version']) + $info;
                case 'put':
                        return $map->put($key, $r['value'], seconds($r));
                case 'insert':
                        return expect($map->insert($key, $r['value'], seconds($r)), 'EEXIST');
                case 'update':
                        return expect($map->update($key, $r['value'], seconds($r)), 'ENOENT');
                case 'replace':
                        return expect($map->replace($key, (int) $r['version'], $r['value']), 'EAGAIN');
                case 'touch':
                        return expect($map->touch($key, seconds($r)), 'ENOENT');
                case 'delete':
                        $done = $map->delete($key, isset($r['version']) ? (int) $r['version'] : null);
                        return expect($done, isset($r['version']) && $map->get($key) !== null ? 'EAGAIN' : 'ENOENT');
                case 'add':
                        return (string) $map->add($key, (int) $r['delta'], (int) ($r['initial'] ?? 0), seconds($r));
                case 'limit':
                        return ($map->limit($key, $r['per_second'], $r['burst'], $r['cost']) ?? 0) * 1000;
                case 'claim':
                        $claim = $map->claim($key, seconds($r, 'limit_ms'));
                        expect($claim !== null, 'EEXIST');
                        return $claim[1] ? version($claim[0]) : ['error' => 'EBUSY'] + version($claim[0]);
                case 'extend':
                        $version = $map->extend($key, (int) $r['version'], seconds($r, 'limit_ms'));
                        expect($version !== null, 'EAGAIN');
                        return version($version);
                case 'wait':
                        return expect($map->wait($key, (int) $r['version'], $r['timeout_ms'] / 1000), 'ETIMEDOUT');
                case 'get_many':
                        return array_map(fn ($k) => ($v = $map->get(hex2bin($k))) === null ? null : bin2hex($v), $r['keys']);
                case 'put_many':
                        foreach ($r['keys'] as $i => $k) {
                                $map->put(hex2bin($k), hex2bin($r['values'][$i]), seconds($r));
                        }
                        return null;
                case 'walk':
                        $all = [];
                        foreach ($map as $k => $value) {
                                $all[] = [bin2hex($k), bin2hex($value)];
                        }
                        return $all;
                case 'count':
                        return count($map);
                }
                return ['error' => 'ENOSYS'];
        }
}

$actor = new Actor($argv[1]);
echo json_encode(['binding' => 'php', 'lacks' => ['close', 'close_map', 'set_counter']]), "\n";
while (($line = fgets(STDIN)) !== false) {
        echo json_encode($actor->answer(json_decode($line, true))), "\n";
}
