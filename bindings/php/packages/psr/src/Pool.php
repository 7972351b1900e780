<?php

namespace Tslab\Psr;

use Psr\Cache\CacheItemInterface;
use Psr\Cache\CacheItemPoolInterface;
use Tslab\Cache;

/** PSR-6 over a Tslab\Cache. */
final class Pool implements CacheItemPoolInterface
{
    private readonly Cache $cache;
    /** @var array<string, Item> */
    private array $deferred = [];

    public function __construct(?Cache $cache = null)
    {
        $this->cache = $cache ?? new Cache();
    }

    public function __destruct()
    {
        $this->commit();
    }

    public function getItem($key): CacheItemInterface
    {
        return $this->getItems([$key])[$key];
    }

    /** @return array<string, Item> */
    public function getItems(array $keys = []): iterable
    {
        $absent = new \stdClass();
        $found = $this->cache->getMultiple(array_map(InvalidKey::check(...), $keys), $absent);
        $items = [];
        foreach ($found as $key => $value) {
            $key = (string) $key;
            $deferred = $this->deferred[$key] ?? null;
            if ($deferred && ($deferred->ttl() ?? 1) > 0) {
                $items[$key] = $deferred->asHit();
            } else {
                $items[$key] = $value === $absent ? new Item($key, null, false) : new Item($key, $value, true);
            }
        }
        return $items;
    }

    public function hasItem($key): bool
    {
        return $this->getItem($key)->isHit();
    }

    public function clear(): bool
    {
        $this->deferred = [];
        return $this->cache->clear();
    }

    public function deleteItem($key): bool
    {
        return $this->deleteItems([$key]);
    }

    public function deleteItems(array $keys): bool
    {
        $keys = array_map(InvalidKey::check(...), $keys);
        foreach ($keys as $key) {
            unset($this->deferred[$key]);
        }
        return $this->cache->deleteMultiple($keys);
    }

    public function save(CacheItemInterface $item): bool
    {
        unset($this->deferred[$item->getKey()]);
        $ttl = $this->own($item)->ttl();
        if ($ttl !== null && $ttl <= 0) {
            return $this->cache->delete($item->getKey());
        }
        return $this->cache->set($item->getKey(), $item->get(), $ttl);
    }

    public function saveDeferred(CacheItemInterface $item): bool
    {
        $this->deferred[$item->getKey()] = clone $this->own($item);
        return true;
    }

    public function commit(): bool
    {
        $all = true;
        foreach ($this->deferred as $item) {
            $all = $this->save($item) && $all;
        }
        return $all;
    }

    private function own(CacheItemInterface $item): Item
    {
        return $item instanceof Item ? $item : throw new InvalidKey('an item must come from this kind of pool');
    }
}
