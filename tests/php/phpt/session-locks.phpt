--TEST--
session.save_path: with lock=version the second save is refused, with lock=none it counts; neither has the lock
--INI--
session.save_handler=tslab
session.use_cookies=0
session.use_strict_mode=0
session.cache_limiter=
--FILE--
<?php
ob_start();
$map = Tslab\Pool::open()->map('locks');
// PHP's call returns true, and warns.
function save(): bool {
        error_clear_last();
        @session_write_close();
        return error_get_last() === null;
}

foreach (['version', 'none', 'claim'] as $lock) {
        session_save_path("map=locks;wait=0.05;lock=$lock");
        session_id($lock);
        session_start();
        $_SESSION['user'] = 'alice';
        session_write_close();

        // As another request that runs beside this one.
        session_start();
        $isFree = ($other = $map->lock("lock:$lock"))->acquire(0);
        $map->put($lock, 'user|s:3:"bob";');
        $_SESSION['user'] = 'carol';
        $isSaved = save();
        echo $lock, ': ', json_encode([$isFree, $isSaved, $map->get($lock)]), "\n";

        // One that reads alone is no save, and refuses nothing.
        $other->release();
        session_start();
        $map->put($lock, 'user|s:4:"dave";');
        echo json_encode([save(), $map->get($lock)]), "\n";

        // One that was ended meanwhile.
        session_start();
        $map->delete($lock);
        $_SESSION['user'] = 'erin';
        $isSaved = save();
        echo json_encode([$isSaved, $map->get($lock)]), "\n";
}
?>
--EXPECT--
version: [true,false,"user|s:3:\"bob\";"]
[true,"user|s:4:\"dave\";"]
[false,null]
none: [true,true,"user|s:5:\"carol\";"]
[true,"user|s:4:\"dave\";"]
[true,"user|s:4:\"erin\";"]
claim: [false,false,"user|s:3:\"bob\";"]
[true,"user|s:4:\"dave\";"]
[false,null]
