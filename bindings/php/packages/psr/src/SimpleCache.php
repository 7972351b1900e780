<?php

namespace Tslab\Psr;

use Psr\SimpleCache\CacheInterface;
use Tslab\Cache;

/** PSR-16 over a Tslab\Cache. Parameters have no types here, so that all versions of the interface fit. */
final class SimpleCache implements CacheInterface
{
    private readonly Cache $cache;

    public function __construct(?Cache $cache = null)
    {
        $this->cache = $cache ?? new Cache();
    }

    public function get($key, $default = null): mixed
    {
        return $this->cache->get(InvalidKey::check($key), $default);
    }

    public function set($key, $value, $ttl = null): bool
    {
        return $this->cache->set(InvalidKey::check($key), $value, self::ttl($ttl));
    }

    public function delete($key): bool
    {
        return $this->cache->delete(InvalidKey::check($key));
    }

    public function clear(): bool
    {
        return $this->cache->clear();
    }

    public function getMultiple($keys, $default = null): iterable
    {
        return $this->cache->getMultiple(self::keys($keys), $default);
    }

    public function setMultiple($values, $ttl = null): bool
    {
        if (!is_iterable($values)) {
            throw new InvalidKey('values must be iterable, not ' . get_debug_type($values));
        }
        $ttl = self::ttl($ttl);
        $checked = [];
        foreach ($values as $key => $value) {
            // PHP makes integers of numeric keys of arrays.
            $checked[InvalidKey::check(is_int($key) ? (string) $key : $key)] = $value;
        }
        return $this->cache->setMultiple($checked, $ttl);
    }

    public function deleteMultiple($keys): bool
    {
        return $this->cache->deleteMultiple(self::keys($keys));
    }

    public function has($key): bool
    {
        return $this->cache->has(InvalidKey::check($key));
    }

    /** @return list<string> */
    private static function keys(mixed $keys): array
    {
        if (!is_iterable($keys)) {
            throw new InvalidKey('keys must be iterable, not ' . get_debug_type($keys));
        }
        $checked = [];
        foreach ($keys as $key) {
            $checked[] = InvalidKey::check($key);
        }
        return $checked;
    }

    private static function ttl(mixed $ttl): null|int|\DateInterval
    {
        if ($ttl !== null && !is_int($ttl) && !$ttl instanceof \DateInterval) {
            throw new InvalidKey('a lifetime must be null, an integer or a DateInterval, not ' . get_debug_type($ttl));
        }
        return $ttl;
    }
}
