--TEST--
Tslab\Cache: every kind of value comes back as it was, with each serializer
--FILE--
<?php
$cache = Tslab\Pool::open()->cache('values');
$values = [0, 1, -1, 23, 24, 255, 256, 65535, 65536, -4294967297, PHP_INT_MIN, PHP_INT_MAX, 1.5, -0.0, INF, true, false, null,
        '', 'a', "\xd9\xd9\xf7", "\xd9\xd9\xf7x", "\xd9\xd9", str_repeat('long', 5000), [], [1, 2, ['a' => null, 7 => 'x']],
        new ArrayObject([1, 2])];
foreach ($values as $value) {
        if (!$cache->set('k', $value))
                echo "not set: ", var_export($value, true), "\n";
        $found = $cache->get('k', 'absent');
        if (is_object($value) ? $found != $value : $found !== $value && var_export($found, true) !== var_export($value, true))
                echo var_export($value, true), ' became ', var_export($found, true), "\n";
}
var_dump(is_nan($cache->set('k', NAN) ? $cache->get('k') : 0));
ini_set('tslab.serializer', 'json');
$cache->set('j', ['a' => [1, 2.5, 'é/']]);
echo $cache->map()->get('j') === "\xd9\xd9\xf7\xd9\x01\x06\x73" . '{"a":[1,2.5,"é/"]}' ? "json\n" : bin2hex($cache->map()->get('j'));
var_dump($cache->get('j') === ['a' => [1, 2.5, 'é/']]);
var_dump(@ini_set('tslab.serializer', 'xml'), ini_get('tslab.serializer'));
ini_set('tslab.serializer', 'php');
var_dump($cache->get('j') === ['a' => [1, 2.5, 'é/']]);
echo bin2hex((function () use ($cache) { $cache->set('n', 500); return $cache->map()->get('n'); })()), "\n";

// Bytes that are no value, as another program may have put them
foreach (["\xd9\xd9\xf7", "\xd9\xd9\xf7\x1b\xff\xff\xff\xff\xff\xff\xff\xff", "\xd9\xd9\xf7\x5b\xff\xff\xff\xff\xff\xff\xff\xff",
        "\xd9\xd9\xf7\x18", "\xd9\xd9\xf7\xf8\xff", "\xd9\xd9\xf7\xda\x54\x53\x4c\x01\x44O:9:", "\xd9\xd9\xf7\x01\x01", "\xd9\xd9\xf7\xff"] as $bytes) {
        $cache->map()->put('bad', $bytes);
        var_dump($cache->get('bad', 'absent'));
}
$cache->map()->put('text', "\xd9\xd9\xf7\x63abc");
var_dump($cache->get('text'));
try {
        $cache->set('k', function () {});
} catch (Exception $e) {
        echo $e->getMessage(), "\n";
}
var_dump($cache->get('k'));
?>
--EXPECTF--
bool(true)
json
bool(true)
bool(false)
string(4) "json"
bool(true)
d9d9f71901f4
tslab: a value cannot be read here, and passes for absent: map values: Bad message
string(6) "absent"
string(6) "absent"
string(6) "absent"
string(6) "absent"
string(6) "absent"
string(6) "absent"
string(6) "absent"
string(6) "absent"
string(3) "abc"
Serialization of 'Closure' is not allowed
NULL
