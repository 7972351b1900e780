--TEST--
Values whose class throws, or calls the cache, as they are packed and unpacked; values that a serializer has not; long keys
--INI--
tslab.apcu_compat=1
--FILE--
<?php
$begin = hrtime(true);
final class Packs { public function __serialize(): array { throw new LogicException('not packed'); } }
final class Unpacks {
        public function __serialize(): array { return ['x' => str_repeat('x', 3000)]; }
        public function __unserialize(array $data): void { throw new LogicException('not unpacked'); }
}
final class Json implements JsonSerializable { public function jsonSerialize(): mixed { throw new LogicException('no JSON'); } }
final class Calls {
        public function __serialize(): array { return [(new Tslab\Cache())->set('inner', range(0, 999)) ? 'packed' : 'failed']; }
        public function __unserialize(array $data): void { $this->n = count((new Tslab\Cache())->get('inner')); (new Tslab\Cache())->delete('inner'); }
        public int $n = 0;
}
function attempt(callable $call): mixed {
        try {
                return $call();
        } catch (Exception $e) {
                return get_class($e) . ': ' . $e->getMessage();
        }
}
$cache = new Tslab\Cache(null, 'throws');
foreach ([
        fn () => $cache->set('packs', 'old') && $cache->set('packs', [1, new Packs()]),
        fn () => $cache->get('packs', 'absent'),
        fn () => $cache->add('packs', new Packs()),
        fn () => $cache->setMultiple(['before' => 1, 'packs' => new Packs(), 'after' => 2]),
        fn () => [$cache->get('before'), $cache->get('after')],
        fn () => $cache->getOrCompute('packs', fn () => new Packs()),
        fn () => $cache->getOrCompute('packs', fn () => 'computed'),
        fn () => apcu_store('packs', new Packs()),
        fn () => apcu_entry('packs', fn () => new Packs()),
        fn () => $cache->set('unpacks', [1, new Unpacks()]) && apcu_store('unpacks', new Unpacks()),
        fn () => [$cache->get('unpacks'), $cache->get('unpacks', 'absent'), $cache->getMultiple(['unpacks'], 'absent'), $cache->has('unpacks')],
        fn () => [apcu_fetch('unpacks', $found), $found, apcu_fetch(['unpacks']), apcu_entry('unpacks', fn () => 'made')],
        fn () => [$cache->pop('unpacks'), $cache->pop('unpacks', 'none'), $cache->set('unpacks', new Unpacks())],
        fn () => $cache->getOrCompute('unpacks', fn () => 'computed anew'),
        fn () => [$cache->set('calls', new Calls()), $cache->get('calls')->n, (new Tslab\Cache())->has('inner')],
        fn () => ini_set('tslab.serializer', 'json'),
        fn () => $cache->set('json', new Json()),
        fn () => [$cache->set('json', [1, INF]), $cache->set('json', [NAN]), $cache->set('json', ["\xff"]), $cache->get('json')],
        fn () => [$cache->set('json', [1.5, 'é']), $cache->get('json')],
        fn () => $cache->map()->lock(str_repeat('k', 100000))->acquire(),
        // Without a claim nobody notices the recursion.
        fn () => $cache->getOrCompute($key = str_repeat('k', 100000), fn () => $cache->getOrCompute($key, fn () => 1)),
] as $call)
        echo json_encode(attempt($call)), "\n";
// No claim stood, for which the next call would have waited.
var_dump(hrtime(true) - $begin < 20e9);
?>
--EXPECTF--
"LogicException: not packed"
"absent"
"LogicException: not packed"
"LogicException: not packed"
[1,null]
"LogicException: not packed"
"computed"
"LogicException: not packed"
"LogicException: not packed"
true
tslab: a value cannot be read here, and passes for absent: map throws: Bad message
[null,"absent",{"unpacks":"absent"},true]
tslab: a value cannot be read here, and passes for absent: map cache: Bad message
[false,false,[],"made"]
[null,"none",true]
"computed anew"
[true,1000,false]
"php"
"LogicException: no JSON"
[false,false,false,null]
[true,[1.5,"\u00e9"]]
"Tslab\\Exception: lock kkk%skkk: the key or the value is too large"
1
bool(true)
