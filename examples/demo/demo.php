<?php
// The demo's log, served once more by workers of PHP; its numbers must be those of the demo in C:
//
//      php -d extension=tslab.so demo.php BUILD [OPTION...]
//
// Options are the demo's. First the demo runs, and writes the requests in the order in which it serves them. Then
// the workers of each period, forked from this process, take requests in turn, read and replace the session of each
// visitor, and get its page from another map. After a period, sessions end that were idle for the last two.

const IDLE_MAX = 2;
const CHUNK = 4;                        // requests taken at once: a client's next ones often go to other workers
const PATHS_MAX = 8;
const PAGE_MAX = 1 << 20;
const PAGE_PATH_MAX = 1024;
const SAME = ['requests', 'sessions', 'sessions_returning', 'clients', 'requests_booked', 'pages'];

final class Demo {
        public Tslab\Map $sessions, $ledger, $pages, $counts;
        /** @var string[][] the requests of each period */
        public array $periods = [];

        public function __construct(string $socket, int $cacheMib) {
                $pool = Tslab\Pool::open($socket);
                $this->sessions = $pool->map('sessions');
                $this->ledger = $pool->map('ledger');
                $this->counts = $pool->map('counts');
                $this->pages = $pool->map('pages', ['evict' => 'sieve', 'limit_bytes' => $cacheMib << 20, 'value_max' => PAGE_MAX]);
        }

        public function read(string $timeline): void {
                foreach (file($timeline, FILE_IGNORE_NEW_LINES) as $line) {
                        $this->periods[(int) $line][] = $line;
                }
        }

        public function count(string $name): int {
                return $this->counts->add($name, 0);
        }

        /** Serves a request: replaces the session if nobody else did so meanwhile. */
        private function serve(int $period, int $writer, array $request): void {
                [, , $client, $status, $size, , $path] = $request;
                for (;; $this->counts->add('retries')) {
                        [$value, $version] = $this->sessions->getVersion($client) ?? [null, 0];
                        $session = $value === null ? ['requests' => 0, 'errors' => 0, 'size' => 0, 'paths' => []]
                                : unserialize($value, ['allowed_classes' => false]);
                        $before = $session['writer'] ?? $writer;
                        $session['requests']++;
                        $session['errors'] += $status >= 400;
                        $session['size'] += (int) $size;
                        $session['paths'] = array_slice([...$session['paths'], $path], -PATHS_MAX);
                        $session['period'] = $period;
                        $session['writer'] = $writer;
                        if ($this->sessions->replace($client, $version, serialize($session))) {
                                break;
                        }
                }
                $this->counts->add('requests');
                $this->counts->add('others', (int) ($before !== $writer));
                if ($version === 0) {
                        $this->counts->add('sessions');
                        $this->counts->add('sessions_returning', (int) ($this->ledger->get($client) !== null));
                }
        }

        private function servePage(array $request): void {
                [, , , $status, $size, $isGet, $path] = $request;
                if ($isGet !== '1' || $status !== '200' || $size < 1 || $size > PAGE_MAX || strlen($path) > PAGE_PATH_MAX) {
                        return;
                }
                $this->counts->add('pages');
                if ($this->pages->get($path) !== null) {
                        $this->counts->add('pages_hit');
                        return;
                }
                try {
                        $this->pages->put($path, str_pad(substr($path, 0, (int) $size), (int) $size));
                } catch (Tslab\Exception $e) {
                        // Without room for it the page is served all the same.
                        if (!in_array($e->getCode(), [7, 12], true)) {
                                throw $e;
                        }
                }
        }

        public function work(int $period, int $writer): void {
                $requests = $this->periods[$period];
                while (($first = $this->counts->add("next in $period", CHUNK) - CHUNK) < count($requests)) {
                        foreach (array_slice($requests, $first, CHUNK) as $line) {
                                $request = explode("\t", $line, 7);
                                $this->serve($period, $writer, $request);
                                $this->servePage($request);
                        }
                }
        }

        /** Books and ends the sessions whose last request came before that period. */
        public function expire(int $period): void {
                foreach ($this->sessions as $client => $value) {
                        $session = unserialize($value, ['allowed_classes' => false]);
                        if ($session['period'] < $period) {
                                $this->ledger->add($client, $session['requests']);
                                $this->sessions->delete($client);
                        }
                }
        }

        /** "CLIENT REQUESTS" of each, in the order of bytes. */
        public function ledger(): string {
                $lines = [];
                foreach ($this->ledger as $client => $value) {
                        $lines[] = $client . ' ' . $this->ledger->add($client, 0) . "\n";
                }
                sort($lines, SORT_STRING);
                return implode($lines);
        }
}

function serve(Demo $demo, int $workers): float {
        $elapsed = 0;
        ksort($demo->periods);
        $last = array_key_last($demo->periods);
        for ($period = 0; $period <= $last; $period++) {
                $demo->expire($period - IDLE_MAX);
                $begin = hrtime(true);
                for ($i = 0; $i < $workers; $i++) {
                        if (pcntl_fork() === 0) {
                                $demo->work($period, $i);
                                exit(0);
                        }
                }
                for ($i = 0; $i < $workers; $i++) {
                        pcntl_wait($status);
                        if ($status !== 0) {
                                fail('a worker died');
                        }
                }
                $elapsed += hrtime(true) - $begin;
        }
        $demo->expire($last + 1);
        return $elapsed / 1e9;
}

function fail(string $text): never {
        fwrite(STDERR, "demo.php: $text\n");
        exit(1);
}

function start(string $daemon, string $folder) {
        $process = proc_open([$daemon, '--size=512M', '--log-level=warning'], [], $pipes, null, ['TSLAB_RUNTIME_DIR' => $folder]);
        for (;;) {
                try {
                        Tslab\Pool::open("$folder/default.sock");
                        return $process;
                } catch (Tslab\Exception $e) {
                        if (!proc_get_status($process)['running']) {
                                fail('the daemon does not start: ' . $e->getMessage());
                        }
                        usleep(1000);
                }
        }
}

function main(array $arguments): void {
        $build = array_shift($arguments) ?? fail('which build? ./dev demo --php knows');
        $options = ['--workers' => 4, '--cache' => 8];
        foreach ($arguments as $i => $argument) {
                [$name, $value] = explode('=', $argument, 2) + [1 => $arguments[$i + 1] ?? ''];
                if (in_array($name, ['--dump', '--timeline', '--json', '--keep'], true)) {
                        fail("$name is for the demo without --php");
                }
                if (isset($options[$name])) {
                        $options[$name] = (int) $value;
                }
        }
        $folder = sys_get_temp_dir() . '/tslab-demo-' . bin2hex(random_bytes(8));
        mkdir($folder, 0700);
        $me = getmypid();
        $daemon = null;
        register_shutdown_function(function () use ($folder, $me, &$daemon) {
                if (getmypid() === $me) {
                        if ($daemon) {
                                proc_terminate($daemon);
                                proc_close($daemon);
                        }
                        array_map(unlink(...), glob("$folder/*"));
                        rmdir($folder);
                }
        });
        $demo = proc_open(["$build/examples/tslab-demo", ...$arguments, '--json', "--timeline=$folder/timeline", "--dump=$folder/ledger"],
                [1 => ['pipe', 'w']], $pipes);
        $json = stream_get_contents($pipes[1]);
        if (proc_close($demo) !== 0 || !($c = json_decode($json, true))) {
                echo $json;                     // --help, or its error
                exit($json === '' ? 1 : 0);
        }
        $daemon = start("$build/daemon/tslabd", $folder);
        $demo = new Demo("$folder/default.sock", $options['--cache']);
        $demo->read("$folder/timeline");
        $seconds = serve($demo, $options['--workers']);
        $ledger = $demo->ledger();
        $php = [
                'requests' => $demo->count('requests'),
                'sessions' => $demo->count('sessions'),
                'sessions_returning' => $demo->count('sessions_returning'),
                'clients' => count($demo->ledger),
                'requests_booked' => array_sum(array_map(fn ($line) => (int) strrchr($line, ' '), explode("\n", $ledger))),
                'pages' => $demo->count('pages'),
        ];
        [$c['pages'], $c['pages_hit']] = [$c['pages']['requests'], $c['pages']['hits']];
        report($php, $c, $demo, $seconds);
        if ($ledger !== file_get_contents("$folder/ledger") || $php != array_intersect_key($c, $php)) {
                fail('PHP counts otherwise than C');
        }
        echo "Both count the same, in all and of each visitor.\n";
}

function report(array $php, array $c, Demo $demo, float $seconds): void {
        printf("%-20s%14s%14s\n", '', 'PHP', 'C');
        foreach (SAME as $name) {
                printf("%-20s%14d%14d\n", strtr($name, '_', ' '), $php[$name], $c[$name]);
        }
        printf("%-20s%14d%14d\n", 'by other workers', $demo->count('others'), $c['hits_by_others']);
        printf("%-20s%14d%14d\n", 'races', $demo->count('retries'), $c['retries']);
        printf("%-20s%14d%14d\n", 'pages found', $demo->count('pages_hit'), $c['pages_hit']);
        printf("%-20s%14d%14d\n", 'requests a second', $php['requests'] / $seconds, $c['requests_per_second']);
}

main(array_slice($argv, 1));
