<?php
// Symfony's own tests of its adapters, on ours.

use Psr\Cache\CacheItemPoolInterface;
use Psr\SimpleCache\CacheInterface;
use Symfony\Component\Cache\Adapter\TagAwareAdapter;
use Symfony\Component\Cache\Psr16Cache;
use Symfony\Component\Cache\Tests\Adapter\AdapterTestCase;
use Symfony\Component\Cache\Tests\Adapter\TagAwareTestTrait;
use Symfony\Component\Cache\Tests\Psr16CacheTest;
use Tslab\Symfony\TslabAdapter;

function adapter(string $name, int $lifetime): TslabAdapter
{
    return new TslabAdapter($name, $lifetime, new Tslab\Cache(name: "own-$name"));
}

class SymfonyOwnTest extends AdapterTestCase
{
    public function createCachePool(int $defaultLifetime = 0): CacheItemPoolInterface
    {
        return adapter('pool', $defaultLifetime);
    }
}

class SymfonyOwnTagAwareTest extends AdapterTestCase
{
    use TagAwareTestTrait;

    protected $skippedTests = ['testPrune' => 'Not a pruneable cache pool.'];

    public function createCachePool(int $defaultLifetime = 0): CacheItemPoolInterface
    {
        return new TagAwareAdapter(adapter('tags', $defaultLifetime));
    }
}

class SymfonyOwnPsr16Test extends Psr16CacheTest
{
    public function createSimpleCache(int $defaultLifetime = 0): CacheInterface
    {
        return new Psr16Cache(adapter('simple', $defaultLifetime));
    }
}
