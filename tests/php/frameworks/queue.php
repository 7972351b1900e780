<?php
// Workers of Laravel's queue, as Horizon runs them: a master that forks them and begins new ones, here also one that kills
// them. php queue.php PORT JOBS KILLS SEED. Their jobs compute values, take turns and count in the pool; whether they are
// to restart they read in the cache of tslab/laravel. Prints as JSON what became of it.

require __DIR__ . '/bootstrap.php';
foreach (['Queue', 'Redis', 'Events', 'Bus'] as $name) {
    require_once "/usr/share/php/Illuminate/$name/autoload.php";
}

use Illuminate\Bus\Dispatcher;
use Illuminate\Bus\Queueable;
use Illuminate\Cache\CacheManager;
use Illuminate\Config\Repository as Config;
use Illuminate\Container\Container;
use Illuminate\Contracts\Cache\Repository as Cache;
use Illuminate\Contracts\Debug\ExceptionHandler;
use Illuminate\Contracts\Queue\ShouldQueue;
use Illuminate\Queue\Capsule\Manager;
use Illuminate\Queue\Events\Looping;
use Illuminate\Queue\InteractsWithQueue;
use Illuminate\Queue\Middleware\WithoutOverlapping;
use Illuminate\Queue\Worker;
use Illuminate\Queue\WorkerOptions;
use Illuminate\Redis\RedisManager;
use Tslab\Laravel\TslabServiceProvider;

const WORKERS = 3;

final class Count implements ShouldQueue
{
    use InteractsWithQueue, Queueable;

    public function __construct(public int $n)
    {
    }

    // Of two jobs of a pair one runs; the other goes back to the queue. A worker that is killed has the lock for a second.
    public function middleware()
    {
        return [new WithoutOverlapping('pair ' . intdiv($this->n, 2), 0, 1)];
    }

    public function handle(Cache $cache)
    {
        $value = $cache->remember('value ' . $this->n % 7, 60, fn () => [$this->n % 7, str_repeat('x', 3000)]);
        $map = Tslab\Pool::open()->map('queue');
        if ($value !== [$this->n % 7, str_repeat('x', 3000)]) {
            $map->add('wrong');
        }
        $lock = $map->lock('turn');
        $map->put('at the lock ' . getmypid(), 'x');
        if (!$lock->acquire(60)) {
            $map->add('hung');
        }
        $map->put('owner', $mine = (string) getmypid());
        usleep(500);
        if ($map->get('owner') !== $mine) {
            $map->add('wrong');
        }
        $lock->release();
        $map->put("done $this->n", 'x');
    }
}

final class Tells implements ExceptionHandler
{
    public function report(Throwable $e)
    {
        Tslab\Pool::open()->map('queue')->add('exceptions');
        fwrite(STDERR, get_class($e) . ': ' . $e->getMessage() . "\n");
    }

    public function shouldReport(Throwable $e)
    {
        return true;
    }

    public function render($request, Throwable $e)
    {
    }

    public function renderForConsole($output, Throwable $e)
    {
    }
}

function application(int $port): array
{
    $app = new Container();
    Container::setInstance($app);
    $app->instance(Illuminate\Contracts\Container\Container::class, $app);
    $app->instance('config', new Config(['cache' => [
        'default' => 'tslab', 'prefix' => 'queue:', 'stores' => ['tslab' => ['driver' => 'tslab', 'map' => 'laravel']],
    ]]));
    (new TslabServiceProvider($app))->register();
    $app->singleton('cache', fn ($app) => new CacheManager($app));
    $app->bind(Cache::class, fn ($app) => $app['cache']->store());
    $app->singleton(Illuminate\Contracts\Bus\Dispatcher::class, fn ($app) => new Dispatcher($app));
    $app->singleton('redis', fn ($app) => new RedisManager($app, 'phpredis', ['default' => [
        'host' => '127.0.0.1', 'port' => $port, 'database' => 0,
    ]]));
    $queue = new Manager($app);
    $queue->addConnection(['driver' => 'redis', 'connection' => 'default', 'queue' => 'default', 'retry_after' => 1]);
    return [$app, $queue->getQueueManager()];
}

function work(int $port): never
{
    [$app, $queue] = application($port);
    $events = new Illuminate\Events\Dispatcher($app);
    $events->listen(Looping::class, fn () => Tslab\Pool::open()->map('queue')->put('in its loop ' . getmypid(), 'x'));
    $worker = new Worker($queue, $events, new Tells(), fn () => false);
    $worker->setCache($app['cache']->store());
    exit($worker->daemon('default', 'default', new WorkerOptions(sleep: 0.01, timeout: 60, maxTries: 0, maxJobs: 40)));
}

[, $port, $jobs, $kills, $seed] = array_map('intval', $argv);
mt_srand($seed);
[$app, $queue] = application($port);
$map = Tslab\Pool::open()->map('queue');
for ($n = 0; $n < $jobs; $n++) {
    $queue->connection()->push(new Count($n));
}
$workers = [];
$found = ['killed' => 0, 'ended' => 0, 'failed' => 0];
function begin_missing(): void
{
    global $workers, $port;
    while (count($workers) < WORKERS) {
        if (($pid = pcntl_fork()) === 0) {
            work($port);
        }
        $workers[$pid] = true;
    }
}
function reap(): void
{
    global $workers, $found;
    while (($pid = pcntl_waitpid(-1, $status, WNOHANG)) > 0) {
        unset($workers[$pid]);
        $found[pcntl_wifsignaled($status) ? 'killed' : (pcntl_wexitstatus($status) === 0 ? 'ended' : 'failed')]++;
    }
}
// Until all workers have said that they are there.
function await(string $place): void
{
    global $map, $workers, $end;
    do {
        usleep(1000);
        reap();
        begin_missing();
    } while (array_filter(array_keys($workers), fn ($pid) => $map->get("$place $pid") === null) && hrtime(true) < $end);
}
function is_done(): bool
{
    global $map, $jobs;
    for ($n = 0; $n < $jobs; $n++) {
        if ($map->get("done $n") === null) {
            return false;
        }
    }
    return true;
}

$end = hrtime(true) + 60e9;
while (!is_done() && hrtime(true) < $end) {
    begin_missing();
    usleep(mt_rand(0, 40_000));
    if ($found['killed'] < $kills) {
        posix_kill(array_rand($workers), SIGKILL);
    }
    usleep(1000);
    reap();
}
$found['done'] = is_done();
// Each worker in a wait for a lock, with Laravel's handlers of signals: SIGUSR2 and SIGCONT are met, and SIGTERM ends it.
$lock = $map->lock('turn');
$lock->acquire(60);
$map->deletePrefix('at the lock ');
for ($n = 0; $n < 2 * WORKERS; $n += 2) {
    $queue->connection()->push(new Count($jobs + $n));
}
await('at the lock');
foreach ([SIGUSR2, SIGCONT, SIGTERM] as $signal) {
    array_walk($workers, fn ($x, $pid) => posix_kill($pid, $signal));
    usleep(20_000);
}
reap();
$found['waiting'] = count($workers);
$before = $found['ended'];
$lock->release();
while ($workers && hrtime(true) < $end) {
    usleep(1000);
    reap();
}
$found['ended by SIGTERM'] = $found['ended'] - $before;
// queue:restart, as Laravel's command writes it.
await('in its loop');
$before = $found['ended'];
$app['cache']->store()->forever('illuminate:queue:restart', time());
while ($workers && hrtime(true) < $end) {
    usleep(1000);
    reap();
}
$found['restarted'] = $found['ended'] - $before;
foreach (['wrong', 'hung', 'exceptions'] as $name) {
    $found[$name] = $map->add($name, 0);
}
array_walk($workers, fn ($x, $pid) => posix_kill($pid, SIGKILL));
echo json_encode($found), "\n";
