<?php
// Laravel's managers of caches and sessions with the drivers of tslab/laravel.

use Illuminate\Cache\CacheManager;
use Illuminate\Config\Repository as Config;
use Illuminate\Container\Container;
use Illuminate\Contracts\Cache\LockTimeoutException;
use Illuminate\Session\SessionManager;
use Tslab\Laravel\TslabServiceProvider;

class LaravelTest extends PHPUnit\Framework\TestCase
{
    private Container $app;

    public function setUp(): void
    {
        $this->app = new Container();
        Container::setInstance($this->app);
        // The settings of frameworks.md, among those that Laravel's own files have.
        preg_match('~// config/cache.php\n(.*)// config/session.php\n(.*?)```~s', file_get_contents($_SERVER['PAGE']), $page);
        $this->app->instance('config', new Config([
            'cache' => eval("return [$page[1]];") + ['prefix' => 'test:'],
            'session' => eval("return [$page[2]];") + ['lifetime' => 10, 'cookie' => 'laravel', 'table' => null,
                'serialization' => 'php', 'encrypt' => false],
        ]));
        (new TslabServiceProvider($this->app))->register();
        $this->app->singleton('cache', fn ($app) => new CacheManager($app));
        $this->app->singleton('session', fn ($app) => new SessionManager($app));
        $this->app['cache']->flush();
    }

    public function test_values()
    {
        $cache = $this->app['cache'];
        $this->assertNull($cache->get('key'));
        $this->assertTrue($cache->put('key', ['a' => 1, 2], 60));
        $this->assertSame(['a' => 1, 2], $cache->get('key'));
        $this->assertFalse($cache->add('key', 'other', 60));
        $this->assertTrue($cache->add('another', 'other', 60));
        $this->assertTrue($cache->forever('always', new ArrayObject([1])));
        $this->assertEquals(new ArrayObject([1]), $cache->get('always'));
        $this->assertSame(['key' => ['a' => 1, 2], 'none' => null], $cache->many(['key', 'none']));
        $this->assertTrue($cache->putMany(['m1' => 1, 'm2' => 2], 60));
        $this->assertSame(3, $cache->increment('m1', 2));
        $this->assertSame(1, $cache->decrement('m2'));
        $this->assertSame(1, $cache->increment('new'));
        $this->assertSame('made', $cache->remember('made', 60, fn () => 'made'));
        $this->assertSame('made', $cache->remember('made', 60, fn () => 'again'));
        $this->assertTrue($cache->forget('key'));
        $this->assertFalse($cache->has('key'));
        $this->assertSame(2, $cache->pull('m2', 2) + 1);
        $this->assertFalse($cache->has('m2'));
        $this->assertTrue($cache->flush());
        $this->assertNull($cache->get('always'));
    }

    public function test_a_value_ends()
    {
        $this->app['cache']->put('short', 1, 1);
        usleep(1_100_000);
        $this->assertNull($this->app['cache']->get('short'));
    }

    public function test_tags()
    {
        $cache = $this->app['cache'];
        $cache->tags(['people', 'artists'])->put('John', 1, 60);
        $cache->tags(['people', 'authors'])->put('Anne', 2, 60);
        $this->assertSame(2, $cache->tags(['people', 'authors'])->get('Anne'));
        $cache->tags('authors')->flush();
        $this->assertNull($cache->tags(['people', 'authors'])->get('Anne'));
        $this->assertSame(1, $cache->tags(['people', 'artists'])->get('John'));
    }

    public function test_locks()
    {
        $cache = $this->app['cache'];
        $lock = $cache->lock('job', 60);
        $this->assertTrue($lock->get());
        $this->assertFalse($cache->lock('job', 60)->get());
        $this->assertFalse($cache->lock('job', 60)->release());
        $this->assertTrue($cache->restoreLock('job', $lock->owner())->release());
        $this->assertSame('done', $cache->lock('job', 60)->get(fn () => 'done'));
        $cache->lock('job', 60)->get();
        try {
            $cache->lock('job', 60)->block(0);
            $this->fail('two have the lock');
        } catch (LockTimeoutException) {
        }
        $cache->lock('job')->forceRelease();
        $this->assertTrue($cache->lock('job', 1)->get());
        usleep(1_100_000);
        $this->assertTrue($cache->lock('job', 60)->get());
    }

    public function test_sessions()
    {
        $session = $this->app['session']->driver();
        $session->start();
        $session->put('user', 'somebody');
        $session->save();
        $id = $session->getId();

        $this->app['session']->forgetDrivers();
        $again = $this->app['session']->driver();
        $again->setId($id);
        $again->start();
        $this->assertSame('somebody', $again->get('user'));
        $again->invalidate();
        $again->save();
        $this->assertNull((new Tslab\Cache(null, 'sessions'))->get($id));
    }
}
