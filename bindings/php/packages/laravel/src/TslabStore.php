<?php

namespace Tslab\Laravel;

use Illuminate\Cache\TaggableStore;
use Illuminate\Contracts\Cache\LockProvider;
use Tslab\Cache;

/** A cache store of Laravel in a map of a pool. Stores with different prefixes can share it; flush() empties it. */
class TslabStore extends TaggableStore implements LockProvider
{
    public function __construct(private Cache $cache, private string $prefix = '')
    {
    }

    public function get($key)
    {
        return $this->cache->get($this->prefix . $key);
    }

    public function many(array $keys)
    {
        $found = $this->cache->getMultiple(array_map(fn ($key) => $this->prefix . $key, $keys));

        return array_combine($keys, array_map(fn ($key) => $found[$this->prefix . $key], $keys));
    }

    public function put($key, $value, $seconds)
    {
        return $this->cache->set($this->prefix . $key, $value, $seconds);
    }

    public function putMany(array $values, $seconds)
    {
        $prefixed = [];
        foreach ($values as $key => $value) {
            $prefixed[$this->prefix . $key] = $value;
        }

        return $this->cache->setMultiple($prefixed, $seconds);
    }

    /** Only if the key is absent; Repository::add() calls it. */
    public function add($key, $value, $seconds)
    {
        return $this->cache->add($this->prefix . $key, $value, $seconds);
    }

    public function increment($key, $value = 1)
    {
        return $this->cache->increment($this->prefix . $key, $value) ?? false;
    }

    public function decrement($key, $value = 1)
    {
        return $this->increment($key, -$value);
    }

    public function forever($key, $value)
    {
        return $this->cache->set($this->prefix . $key, $value, INF);
    }

    public function touch($key, $seconds)
    {
        return $this->cache->touch($this->prefix . $key, $seconds);
    }

    /** Whether it was there. */
    public function forget($key)
    {
        try {
            return $this->cache->map()->delete($this->prefix . $key);
        } catch (\Tslab\Exception) {
            return false;
        }
    }

    public function flush()
    {
        return $this->cache->clear();
    }

    public function getPrefix()
    {
        return $this->prefix;
    }

    public function lock($name, $seconds = 0, $owner = null)
    {
        return new TslabLock($this->cache, $this->prefix . $name, $seconds, $owner);
    }

    public function restoreLock($name, $owner)
    {
        return $this->lock($name, 0, $owner);
    }
}
