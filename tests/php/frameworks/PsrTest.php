<?php
// The suite of the PSRs' own integration tests on tslab/psr. Time passes for real.

use Cache\IntegrationTests\CachePoolTest;
use Cache\IntegrationTests\SimpleCacheTest;

class PsrSimpleCacheTest extends SimpleCacheTest
{
    public function createSimpleCache()
    {
        return new Tslab\Psr\SimpleCache(new Tslab\Cache(name: 'psr16'));
    }
}

class PsrPoolTest extends CachePoolTest
{
    public function createCachePool()
    {
        return new Tslab\Psr\Pool(new Tslab\Cache(name: 'psr6'));
    }
}
