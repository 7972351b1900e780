<?php
// The frameworks' own adapters of APCu, unchanged, on tslab.apcu_compat.

use Cache\IntegrationTests\CachePoolTest;
use Illuminate\Cache\ApcStore;
use Illuminate\Cache\ApcWrapper;
use Illuminate\Cache\Repository;
use Symfony\Component\Cache\Adapter\ApcuAdapter;

class SymfonyApcuPoolTest extends CachePoolTest
{
    public function createCachePool()
    {
        return new ApcuAdapter('apcu');
    }
}

class LaravelApcuTest extends PHPUnit\Framework\TestCase
{
    public function test_values()
    {
        $cache = new Repository(new ApcStore(new ApcWrapper(), 'laravel'));
        $this->assertTrue($cache->put('key', [1, 2], 60));
        $this->assertSame([1, 2], $cache->get('key'));
        $this->assertTrue($cache->put('n', 5, 60));
        $this->assertSame(7, $cache->increment('n', 2));
        $this->assertSame('made', $cache->remember('made', 60, fn () => 'made'));
        $this->assertTrue($cache->forget('key'));
        $this->assertNull($cache->get('key'));
    }
}
