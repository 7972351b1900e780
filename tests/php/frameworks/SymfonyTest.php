<?php
// The suites that Symfony runs on its own adapters, and what is Symfony's alone.

use Cache\IntegrationTests\CachePoolTest;
use Symfony\Component\Cache\Adapter\TagAwareAdapter;
use Symfony\Component\Cache\Marshaller\DefaultMarshaller;
use Symfony\Component\Cache\Psr16Cache;
use Tslab\Symfony\TslabAdapter;

class SymfonyPoolTest extends CachePoolTest
{
    public function createCachePool()
    {
        return new TslabAdapter('pool', 0, new Tslab\Cache(name: 'symfony-pool'));
    }
}

class SymfonySimpleCacheTest extends Cache\IntegrationTests\SimpleCacheTest
{
    public function createSimpleCache()
    {
        return new Psr16Cache(new TslabAdapter('simple', 0, new Tslab\Cache(name: 'symfony-simple')));
    }
}

class SymfonyAdapterTest extends PHPUnit\Framework\TestCase
{
    public function test_a_value_is_computed_once()
    {
        $adapter = new TslabAdapter('once');
        $n = 0;
        $make = function ($item) use (&$n) {
            $item->expiresAfter(60);
            return ['n' => ++$n];
        };
        $this->assertSame(['n' => 1], $adapter->get('key', $make));
        $this->assertSame(['n' => 1], (new TslabAdapter('once'))->get('key', $make));
    }

    public function test_a_namespace_is_cleared_alone()
    {
        [$one, $other] = [new TslabAdapter('one'), new TslabAdapter('other')];
        foreach ([$one, $other] as $adapter) {
            $adapter->save($adapter->getItem('key')->set('value'));
            $adapter->save($adapter->getItem('more.key')->set('value'));
        }
        $one->clear('more');
        $this->assertTrue($one->hasItem('key'));
        $this->assertFalse($one->hasItem('more.key'));
        $one->clear();
        $this->assertFalse($one->hasItem('key'));
        $this->assertTrue($other->hasItem('key'));
    }

    public function test_tags()
    {
        $cache = new TagAwareAdapter(new TslabAdapter('tags'));
        foreach (['a' => ['x'], 'b' => ['x', 'y'], 'c' => ['y']] as $key => $tags) {
            $cache->save($cache->getItem($key)->set($key)->tag($tags));
        }
        $this->assertTrue($cache->invalidateTags(['x']));
        $this->assertSame([false, false, true], array_map($cache->hasItem(...), ['a', 'b', 'c']));
    }

    public function test_a_marshaller()
    {
        $adapter = new TslabAdapter('marshalled', 0, null, new DefaultMarshaller(false));
        $adapter->save($adapter->getItem('key')->set([new ArrayObject([1])]));
        $this->assertEquals([new ArrayObject([1])], $adapter->getItem('key')->get());
        $this->assertFalse($adapter->save($adapter->getItem('closure')->set(fn () => 1)));
    }
}
