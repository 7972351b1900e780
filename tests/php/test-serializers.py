"""igbinary and msgpack as tslab.serializer: each kind of value comes back, in processes with another setting, too; where the
extension is not loaded, a value of it is absent, and new ones are of serialize()."""

import json
import subprocess

from daemon import SECONDS
from php import PHP, module, pool, settings

VALUES = r'''
class Part implements JsonSerializable
{
        public $open = 1;
        protected $near = [2.5];
        private $own = 'x';
        public $none;
        public function __sleep() { return ['open', 'near', 'own']; }
        public function jsonSerialize(): array { return get_object_vars($this); }
}
$text = str_repeat('long', 500);
$values = [
        'empty' => [], 'list' => [1, -1, 1 << 40, PHP_INT_MIN, 1.5, -0.0, true, false, null, '', "\0\xff", $text, $text],
        'keys' => ['a' => 1, 7 => 2, -3 => 4, '' => 5, "\xc3\xa9" => ['in' => ['deeper' => [[]]]]],
        'table' => array_map(fn ($i) => ['id' => $i, 'name' => "name $i"], range(0, 1999)),
        'object' => new Part(), 'array object' => new ArrayObject([1, [2]]), 'date' => new DateTimeImmutable('2001-02-03 04:05:06'),
        'same object twice' => [$part = new Part(), $part],
];
if (!extension_loaded('msgpack')) {     // which keeps no references
        $reference = [1, 2];
        $reference[0] = &$reference[1];
        $values['reference'] = $reference;
}
$cache = new Tslab\Cache();
$same = fn ($a, $b) => serialize($a) === serialize($b);
'''
STORE = VALUES + r'''
foreach ($values as $key => $value) {
        $cache->set($key, $value) || exit("not stored: $key");
        for ($i = 0; $i < 3; $i++)
                $same($cache->get($key), $value) || exit("$key is another one");
        $heads[] = bin2hex(substr($cache->map()->get($key), 0, 8));
}
// A part of a value passes for absent.
ini_set('error_log', '/dev/null');
foreach (['list', 'object'] as $key) {
        $bytes = $cache->map()->get($key);
        $cache->map()->put('part', substr($bytes, 0, strlen($bytes) - 1));
        $cache->get('part', 'absent') === 'absent' || exit("a part of $key");
}
$call = extension_loaded('igbinary') ? 'igbinary_serialize' : 'msgpack_pack';
foreach ([substr($call([1, 'two']), 0, -1), $call(5), '', "\xff\xff\xff"] as $bytes) {
        $cache->map()->put('part', hex2bin(substr($heads[0], 0, 16)) . "\x59\0" . chr(strlen($bytes)) . $bytes);
        ($found = @$cache->get('part', 'absent')) === 'absent' || exit(bin2hex($bytes) . ' is ' . var_export($found, true));
}
echo json_encode(array_values(array_unique($heads)));
'''
READ = VALUES + r'''
foreach ($values as $key => $value)
        $same($cache->get($key), $value) || exit("$key is another one");
$twice = $cache->get('same object twice');
echo json_encode($twice[0] === $twice[1]);
'''
WITHOUT = VALUES + r'''
ini_set('error_log', '/dev/null');
foreach ($values as $key => $value)
        $absent[] = $cache->get($key, 'absent') === 'absent';
$cache->set('table', $values['table']);
echo json_encode([min($absent), $cache->get('table') === $values['table'], bin2hex(substr($cache->map()->get('table'), 0, 8))]);
'''


def run(daemon, code, *modules, **more):
    done = subprocess.run([PHP, *settings(daemon, **more), *(f'-dextension={path}' for path in modules), '-r', code],
                          env=daemon.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=SECONDS)
    assert done.returncode == 0 and not done.stderr and done.stdout[:1] in ('[', 't'), (done.stdout, done.stderr)
    return json.loads(done.stdout)


left_out = []
for number, name in (2, 'igbinary'), (3, 'msgpack'):
    path = module(name)
    if not path:
        left_out.append(name)
        continue
    with pool() as daemon:
        setting = {'tslab.serializer': name}
        assert run(daemon, STORE, path, **setting) == [f'd9d9f7da54534c0{number}'], name
        assert run(daemon, READ, path) is True, name
        assert run(daemon, WITHOUT, **setting) == [True, True, 'd9d9f7da54534c01'], name
if left_out:
    print('left out, as it is not installed:', *left_out)
if len(left_out) == 2:
    raise SystemExit(77)
