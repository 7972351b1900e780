<?php
// A page that reads and writes a session of 2 KiB.
session_start();
$n = ($_SESSION['n'] ?? 0) + 1;
$_SESSION = ['n' => $n, 'user' => 'somebody', 'cart' => str_repeat('x', 2000)];
session_write_close();
if (isset($_GET['memory'])) {
        // What this worker has for itself alone.
        preg_match_all('/^Private_(?:Clean|Dirty):\s*(\d+)/m', file_get_contents('/proc/self/smaps_rollup'), $found);
        header('X-Private-KiB: ' . array_sum($found[1]));
        header('X-Worker: ' . getmypid());
}
echo $n;
