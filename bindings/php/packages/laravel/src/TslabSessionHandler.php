<?php

namespace Tslab\Laravel;

use Tslab\Cache;

/** Laravel's sessions in a map of a pool. They end by their lifetimes, so there is nothing to collect. */
class TslabSessionHandler implements \SessionHandlerInterface
{
    public function __construct(private Cache $cache, private int $minutes)
    {
    }

    public function open(string $path, string $name): bool
    {
        return true;
    }

    public function close(): bool
    {
        return true;
    }

    public function read(string $id): string|false
    {
        return (string) $this->cache->get($id, '');
    }

    public function write(string $id, string $data): bool
    {
        return $this->cache->set($id, $data, $this->minutes * 60);
    }

    public function destroy(string $id): bool
    {
        return $this->cache->delete($id);
    }

    public function gc(int $max_lifetime): int|false
    {
        return 0;
    }
}
