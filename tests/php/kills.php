<?php
// Four workers of one parent, of which one is killed at a random moment, again and again:
// php kills.php STORE KILLS SEED FOLDER SECONDS. STORE is "apcu", or "tslab", whose workers also take locks and save
// sessions. All call apcu_*(). Prints what was found, as JSON; ends early if a worker does nothing for so many seconds.

const WORKERS = 4;
const SESSIONS = 3;

[, $store, $kills, $seed, $folder, $seconds] = $argv;
mt_srand((int) $seed);
// Kills from one look at all workers to the next. That each has done a step before the next kill is less at random.
$rollCall = $store === 'apcu' ? 1 : 20;

// A worker's file has a letter for each step. Small letters come before a change, capitals after it.
final class Worker {
        public int $pid;
        public string $path;

        public function __construct(public int $slot, int $number) {
                global $folder;
                $this->path = "$folder/steps-$number";
                touch($this->path);
        }

        public function size(): int {
                clearstatcache();
                return filesize($this->path);
        }
}

function begin(int $slot, int $number, int $least, int $most): Worker {
        $worker = new Worker($slot, $number);
        $worker->pid = pcntl_fork();
        if ($worker->pid === 0) {
                work($worker, $least, $most);
        }
        return $worker;
}

function work(Worker $worker, int $least, int $most): never {
        global $store;
        $out = fopen($worker->path, 'a');
        $parent = posix_getppid();
        pcntl_alarm(600); // one that hangs in APCu outlives a parent that was killed, but not for ever
        mt_srand(getmypid());
        // The last value that the worker before this one stored: it was told of $least, and had begun with $most.
        $own = "own $worker->slot";
        $n = apcu_fetch($own) ?: 0;
        if ($n !== $least && $n !== $most) {
                fwrite($out, 'L');
        }
        while (posix_getppid() === $parent) {
                fwrite($out, 'a');
                apcu_inc('sum');
                fwrite($out, 'A');

                // Its number of digits tells the parent how far this worker was.
                fwrite($out, 'n' . ++$n);
                apcu_store($own, $n);
                fwrite($out, 'N');

                $key = 'key' . mt_rand(0, 50);
                $value = apcu_entry($key, fn ($key) => [$key, str_repeat($key, mt_rand(0, 600))]);
                if (!is_array($value) || $value[0] !== $key || str_replace($key, '', $value[1]) !== '') {
                        fwrite($out, 'W');
                }
                if (mt_rand(0, 2) === 0) {
                        apcu_delete($key);
                }
                $text = 'text' . mt_rand(0, 9);
                apcu_store($text, str_repeat($text, mt_rand(1, 400)));
                if (str_replace($text, '', apcu_fetch($text)) !== '') {
                        fwrite($out, 'W');
                }
                if ($store === 'tslab') {
                        take_turns($out);
                        save_session($out);
                }
        }
        exit(1); // the test was killed
}

function take_turns($out): void {
        static $map;
        $map ??= Tslab\Pool::open()->map('turns');
        $lock = $map->lock('turn');
        if (!$lock->acquire(60)) {
                fwrite($out, 'H');
                return;
        }
        $map->put('owner', $mine = (string) getmypid());
        usleep(50);
        if ($map->get('owner') !== $mine) {
                fwrite($out, 'W');
        }
        $lock->release();
}

function save_session($out): void {
        session_id('session' . mt_rand(1, SESSIONS));
        if (!session_start()) {
                fwrite($out, 'H');
                return;
        }
        $_SESSION['n'] = ($_SESSION['n'] ?? 0) + 1;
        $_SESSION['text'] = str_repeat('x', mt_rand(0, 3000));
        fwrite($out, 's');
        session_write_close();
        fwrite($out, 'S');
}

// In a process of its own, as it may hang.
function sums(): array {
        global $store;
        $saved = 0;
        for ($i = 1; $store === 'tslab' && $i <= SESSIONS; $i++) {
                session_id("session$i");
                session_start();
                $saved += $_SESSION['n'] ?? 0;
                session_write_close();
        }
        return ['sum' => apcu_fetch('sum') ?: 0, 'saved' => $saved];
}

function within(float $seconds, callable $is_so): bool {
        for ($end = hrtime(true) + $seconds * 1e9; !$is_so(); usleep(100)) {
                if (hrtime(true) > $end) {
                        return false;
                }
        }
        return true;
}

function ends(Worker $worker): string {
        posix_kill($worker->pid, SIGKILL);
        pcntl_waitpid($worker->pid, $status);
        $steps = file_get_contents($worker->path);
        unlink($worker->path);
        return $steps;
}

$found = ['kills' => 0, 'hung' => 0, 'wrong' => 0, 'lost' => 0, 'begun' => 0, 'done' => 0, 'saves_begun' => 0, 'saves' => 0];

function count_steps(string $steps): void {
        global $found;
        foreach (['H' => 'hung', 'W' => 'wrong', 'L' => 'lost', 'a' => 'begun', 'A' => 'done', 's' => 'saves_begun', 'S' => 'saves'] as $letter => $name) {
                $found[$name] += substr_count($steps, $letter);
        }
}

// Each worker does a step, or hangs.
function roll_call(array $workers, float $seconds): int {
        $sizes = array_map(fn ($worker) => $worker->size(), $workers);
        $hung = 0;
        foreach ($workers as $i => $worker) {
                $hung += !within($seconds, fn () => $worker->size() > $sizes[$i] + 1);
        }
        return $hung;
}

$number = 0;
$workers = [];
for ($slot = 0; $slot < WORKERS; $slot++) {
        $workers[] = begin($slot, $number++, 0, 0);
}
// Most saves on a slow machine end with a kill: there it takes more kills until enough of them are done.
function is_enough(): bool {
        global $found, $kills, $store;
        return $found['kills'] >= $kills && $found['done'] > $kills && ($store === 'apcu' || $found['saves'] > $kills);
}

while (!is_enough() && !$found['hung']) {
        usleep(mt_rand(0, 3000));
        $slot = mt_rand(0, WORKERS - 1);
        $steps = ends($workers[$slot]);
        count_steps($steps);
        $found['kills']++;
        // The last step of the kind, and whether it was done; none: this one had no time to begin.
        if (preg_match('/.*n(\d+)(N?)/s', $steps, $last)) {
                $stored[$slot] = [$last[2] ? (int) $last[1] : $last[1] - 1, (int) $last[1]];
        }
        $workers[$slot] = begin($slot, $number++, ...($stored[$slot] ?? [0, 0]));
        if ($found['kills'] % $rollCall === 0) {
                $found['hung'] += roll_call($workers, (float) $seconds);
        }
}
foreach ($workers as $worker) {
        count_steps(ends($worker));
}
if (!$found['hung']) {
        $result = "$folder/sums";
        $pid = pcntl_fork();
        if ($pid === 0) {
                file_put_contents("$result.new", json_encode(sums()));
                rename("$result.new", $result);
                exit;
        }
        if (within((float) $seconds, fn () => file_exists($result))) {
                $found += json_decode(file_get_contents($result), true);
        } else {
                $found['hung']++;
                posix_kill($pid, SIGKILL);
        }
        pcntl_waitpid($pid, $status);
}
echo json_encode($found), "\n";
