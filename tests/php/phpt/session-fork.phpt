--TEST--
A child that is forked within a session, and only ends, saves nothing: its parent goes on with the session
--INI--
session.save_handler=tslab
session.use_cookies=0
session.use_strict_mode=0
session.cache_limiter=
--FILE--
<?php
ob_start();     // no cookie is sent after the output has begun
foreach (['claim', 'version', 'none'] as $lock) {
        ini_set('session.save_path', "map=sessions-$lock;lock=$lock");
        session_id('abcdefghijklmnopqrstuvwxyz0123');
        session_start();
        $_SESSION = ['a' => 1];
        if (($pid = pcntl_fork()) === 0) {
                ob_end_clean();
                exit;
        }
        pcntl_waitpid($pid, $status);
        $_SESSION['b'] = 2;
        session_write_close();
        $_SESSION = [];
        session_start();
        echo $lock, ' ', $status, ' ', json_encode($_SESSION), "\n";
        session_write_close();
}
?>
--EXPECT--
claim 0 {"a":1,"b":2}
version 0 {"a":1,"b":2}
none 0 {"a":1,"b":2}
