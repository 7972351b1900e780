--TEST--
Tslab\Map: a tag makes its entries absent at once
--FILE--
<?php
$map = Tslab\Pool::open()->map('tags');
$shoes = $map->tag('shoes');
$hats = $map->tag('hats');
$map->put('both', 'v', null, [$shoes, $hats]);
$map->put('none', 'v');
var_dump($map->insert('hats', 'v', 50, [$hats]), $map->update('hats', 'w', tags: [$hats]));
[, $version] = $map->getVersion('hats');
var_dump($map->replace('hats', $version, 'x', tags: [$hats]));
var_dump($map->invalidate('shoes'), $map->invalidate('absent'), $map->get('both'), $map->get('hats'));

// A value that was computed before the invalidation does not come in after it.
$map->put('late', 'v', tags: [$shoes]);
var_dump($map->get('late'), $map->invalidate('hats'), $map->get('hats'), $map->get('none'));

foreach ([['shoes'], array_fill(0, 5, $hats)] as $tags) {
        try {
                $map->put('k', 'v', null, $tags);
        } catch (Error $e) {
                echo $e->getMessage(), "\n";
        }
}

// A number with tags keeps them.
$cache = new Tslab\Cache(null, 'numbers');
$cache->set('n', 5);
$map = $cache->map();
$map->put('n', $map->get('n'), null, [$map->tag('tag')]);
var_dump($cache->increment('n'), $map->invalidate('tag'), $cache->get('n'));
?>
--EXPECT--
bool(true)
bool(true)
bool(true)
bool(true)
bool(false)
NULL
string(1) "x"
NULL
bool(true)
NULL
string(1) "v"
Tslab\Map::put(): Argument #4 ($tags) must be an array of tags, each from tag()
Tslab\Map::put(): Argument #4 ($tags) has 4 tags at most
NULL
bool(true)
NULL
