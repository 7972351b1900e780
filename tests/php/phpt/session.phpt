--TEST--
session.save_handler = tslab: values, lifetimes, ids, locks
--INI--
session.save_handler=tslab
session.save_path="map=logins;wait=0.05"
session.use_cookies=0
session.use_strict_mode=1
session.cache_limiter=
session.gc_maxlifetime=100
--FILE--
<?php
ob_start();
$map = Tslab\Pool::open()->map('logins');
session_start();
$id = session_id();
$_SESSION['user'] = 'alice';
var_dump($map->lock("lock:$id")->acquire(0));
session_write_close();
var_dump($map->get($id), $map->ttl($id) > 90 && $map->ttl($id) <= 100);

// lazy_write: unchanged, but its lifetime begins anew
$map->touch($id, 5);
$version = $map->getVersion($id)[1];
session_start();
var_dump($_SESSION);
session_write_close();
var_dump($map->getVersion($id)[1] === $version, $map->ttl($id) > 90);

// A new id; the old session ends
session_start();
session_regenerate_id(true);
var_dump(session_id() !== $id, $map->get($id));
$id = session_id();
session_write_close();
var_dump($map->get($id));

// Another has changed it: refused
session_start();
$map->put($id, 'user|s:3:"bob";');
$_SESSION['user'] = 'carol';
var_dump(@session_write_close(), error_get_last()['message'], $map->get($id));

// Another has it: refused
$other = $map->lock("lock:$id");
$other->acquire();
var_dump(@session_start());
$other->release();

// An id that nobody gave out is not taken
session_id('made-up');
session_start();
var_dump(session_id() !== 'made-up');
session_destroy();
var_dump(count($map));

ini_set('session.save_path', 'maps=x');
var_dump(@session_start(), error_get_last()['message']);
?>
--EXPECTF--
bool(false)
string(%d) "user|s:5:"alice";"
bool(true)
array(1) {
  ["user"]=>
  string(5) "alice"
}
bool(true)
bool(true)
bool(true)
NULL
string(%d) "user|s:5:"alice";"
bool(true)
string(%d) "session_write_close(): Failed to write session data (tslab)%s"
string(15) "user|s:3:"bob";"
bool(false)
bool(true)
int(1)
bool(false)
string(%d) "%s"
