--TEST--
session.save_handler = tslab: abort, reset, renewed ids, large values, handlers around it, two maps: no lock is left
--INI--
session.save_handler=tslab
session.save_path="map=calls;wait=0.2"
session.use_cookies=0
session.use_strict_mode=0
session.cache_limiter=
--FILE--
<?php
ob_start();
$map = Tslab\Pool::open()->map('calls');
function begin(string $id, array $options = []): bool {
        session_id($id);
        return session_start($options);
}
function save(): bool {
        error_clear_last();
        @session_write_close();
        return error_get_last() === null;
}
function is_free(string $id): bool {
        global $map;
        return ($lock = $map->lock("lock:$id"))->acquire(0) && $lock->release();
}
function show(string $what, ...$values): void {
        echo $what, ': ', json_encode($values), "\n";
}

begin('one');
$_SESSION['a'] = 1;
save();
begin('one');
$_SESSION['a'] = 2;
show('abort', session_abort(), is_free('one'), $map->get('one'));
begin('one');
$_SESSION['a'] = 3;
show('reset', session_reset(), $_SESSION, is_free('one'));
$_SESSION['b'] = 4;
show('after it', session_reset(), $_SESSION, save(), is_free('one'));
begin('one', ['read_and_close' => true]);
show('read alone', $_SESSION, is_free('one'));
begin('one');
session_regenerate_id(false);
$new = session_id();
show('renewed', is_free('one'), is_free($new));
session_regenerate_id(true);
show('and again', save(), is_free('one'), is_free($new), is_free(session_id()), $map->get($new), $map->get('one'), $map->get(session_id()));
begin('one');
session_destroy();
show('ended', is_free('one'), $map->get('one'));

// More than the map takes: told, and what was saved before stays.
begin('large');
$_SESSION['x'] = 'small';
save();
begin('large');
$_SESSION['x'] = str_repeat('x', 5 << 20);
show('too large', save(), is_free('large'), $map->get('large'));
begin('large');
$_SESSION['x'] = str_repeat('x', 1_000_000);
show('nearly', save(), begin('large'), strlen($_SESSION['x']), save());

final class Throws { public function __serialize(): array { throw new LogicException('not packed'); } }
begin('throws');
$_SESSION['x'] = new Throws();
try {
        session_write_close();
} catch (LogicException $e) {
        show('throws', $e->getMessage(), is_free('throws'));
}
$_SESSION = [];

foreach (['one', 'two', 'one', 'two'] as $n => $name) {
        session_save_path("map=$name");
        begin('same');
        show('map', $_SESSION);
        $_SESSION['by'] = $n;
        save();
}

session_save_path('map=calls');
session_set_save_handler(new class extends SessionHandler {
        public function write(string $id, string $data): bool { return parent::write($id, "$data@"); }
        public function read(string $id): string|false { return rtrim(parent::read($id), '@'); }
}, true);
begin('around');
$_SESSION['a'] = 5;
save();
begin('around');
show('handler around it', $_SESSION, $map->get('around'), session_reset(), $_SESSION, session_destroy(), is_free('around'));
?>
--EXPECT--
tslab: a session could not be saved: map calls: the key or the value is too large
abort: [true,true,"a|i:1;"]
reset: [true,{"a":1},false]
after it: [true,{"a":1},true,true]
read alone: [{"a":1},true]
renewed: [true,false]
and again: [true,true,true,true,null,"a|i:1;","a|i:1;"]
ended: [true,null]
too large: [false,true,"x|s:5:\"small\";"]
nearly: [true,true,1000000,true]
throws: ["not packed",true]
map: [[]]
map: [[]]
map: [{"by":0}]
map: [{"by":1}]
handler around it: [{"a":5},"a|i:5;@",true,{"a":5},true,true]
