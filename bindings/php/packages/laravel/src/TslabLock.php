<?php

namespace Tslab\Laravel;

use Illuminate\Cache\Lock;
use Tslab\Cache;

/**
 * A lock of Laravel. Its owner is a name, with which a job in another process can restore the lock. So the lock is a
 * plain value, and expires after its seconds. Tslab\Map::lock() makes locks that end with their process.
 */
class TslabLock extends Lock
{
    public function __construct(private Cache $cache, $name, $seconds, $owner = null)
    {
        parent::__construct($name, $seconds, $owner);
    }

    public function acquire()
    {
        return $this->cache->add($this->name, $this->owner, $this->seconds > 0 ? $this->seconds : INF);
    }

    public function release()
    {
        try {
            $map = $this->cache->map();
            [$owner, $version] = $map->getVersion($this->name) ?? [null, 0];

            return $owner === $this->owner && $map->delete($this->name, $version);
        } catch (\Tslab\Exception) {
            return false;
        }
    }

    public function forceRelease()
    {
        $this->cache->delete($this->name);
    }

    protected function getCurrentOwner()
    {
        return $this->cache->get($this->name, '');
    }
}
