--TEST--
Tslab\Cache: an array that nobody changed is not unserialized again, and what is done to it stays with the request
--INI--
tslab.memo_size=1M
--FILE--
<?php
class Counted
{
        public static $n = 0;
        public $x = 1;
        public function __wakeup() { self::$n++; }
}
$cache = Tslab\Pool::open()->cache('memo');
$table = ['empty' => [], 'one' => 'x', 'ref' => null];
for ($i = 0; $i < 500; $i++)
        $table["name $i"] = ['path' => "/way/$i", 5 => $i, 'list' => [1, 2.5, true, null, "é$i"]];
unset($table['name 7']);
$cache->set('t', $table);
for ($i = 0; $i < 5; $i++)
        var_dump($cache->get('t') === $table);
$mine = $cache->get('t');
$mine['name 8']['path'] .= ' changed';
$mine[] = 1;
unset($mine['one']);
foreach ($mine as &$value)
        $value = 1;
unset($value);
usort($mine, fn($a, $b) => 0);
var_dump($cache->get('t') === $table, serialize($cache->get('t')) === serialize($table));

$kept = $cache->get('t');
$cache->set('t', ['new']);
var_dump($cache->get('t'), $kept === $table);
$cache->delete('t');
var_dump($cache->get('t'), $kept === $table);

// Objects are made anew each time
$cache->set('o', [str_repeat('x', 2000), new Counted]);
for ($i = 0; $i < 4; $i++)
        $cache->get('o')[1]->x++;
var_dump(Counted::$n, $cache->get('o')[1]->x);

// More than tslab.memo_size: all are right all the same
for ($i = 0; $i < 100; $i++) {
        $cache->set("n$i", range($i, $i + 2000));
        for ($j = 0; $j < 3; $j++)
                if ($cache->get("n$i") !== range($i, $i + 2000))
                        echo "wrong\n";
}
?>
--EXPECT--
bool(true)
bool(true)
bool(true)
bool(true)
bool(true)
bool(true)
bool(true)
array(1) {
  [0]=>
  string(3) "new"
}
bool(true)
NULL
bool(true)
int(4)
int(1)
