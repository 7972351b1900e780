--TEST--
apcu_entry() of a key inside of its own computation is an error at once, and no other key's
--INI--
tslab.apcu_compat=1
--FILE--
<?php
$begin = hrtime(true);
foreach ([
        fn () => apcu_entry('a', fn ($key) => apcu_entry('a', fn () => 'again')),
        fn () => apcu_entry('a', fn ($key) => apcu_entry('b', fn () => apcu_entry('a', fn () => 'again'))),
        fn () => apcu_entry('a', fn ($key) => apcu_entry('b', fn () => 'inner') . ' and outer'),
        fn () => apcu_entry('c', fn ($key) => (string) apcu_fetch('c') . (string) apcu_exists('c') . 'none'),
] as $call) {
        try {
                var_dump($call());
        } catch (Tslab\Exception $e) {
                echo $e->getMessage(), "\n";
                var_dump(apcu_exists('a'), apcu_exists('b'));
        }
}
// No wait for itself, which takes 30 seconds.
var_dump(hrtime(true) - $begin < 20e9, apcu_fetch('a'), apcu_fetch('b'));
?>
--EXPECT--
the computation of key "a" asks for that key
bool(false)
bool(false)
the computation of key "a" asks for that key
bool(false)
bool(false)
string(15) "inner and outer"
string(4) "none"
bool(true)
string(15) "inner and outer"
string(5) "inner"
