<?php

namespace Tslab\Symfony;

use Symfony\Component\Cache\Adapter\AbstractAdapter;
use Symfony\Component\Cache\Marshaller\MarshallerInterface;
use Tslab\Cache;

/**
 * A cache of Symfony in a map of a pool. Several namespaces can share a map; clearing one of them walks through the
 * whole map. For tags, put Symfony's TagAwareAdapter around this adapter.
 */
class TslabAdapter extends AbstractAdapter
{
    private Cache $cache;

    public function __construct(
        string $namespace = '',
        int $defaultLifetime = 0,
        ?Cache $cache = null,
        private ?MarshallerInterface $marshaller = null,
    ) {
        $this->cache = $cache ?? new Cache(name: 'symfony');
        parent::__construct($namespace, $defaultLifetime);
    }

    protected function doFetch(array $ids): iterable
    {
        $absent = new \stdClass();
        $found = array_filter($this->cache->getMultiple($ids, $absent), fn ($value) => $value !== $absent);

        return $this->marshaller ? array_map($this->marshaller->unmarshall(...), $found) : $found;
    }

    protected function doHave(string $id): bool
    {
        return $this->cache->has($id);
    }

    protected function doClear(string $namespace): bool
    {
        if ($namespace === '') {
            return $this->cache->clear();
        }
        try {
            $this->cache->map()->deletePrefix($namespace);
        } catch (\Tslab\Exception) {
            return false;
        }

        return true;
    }

    protected function doDelete(array $ids): bool
    {
        return $this->cache->deleteMultiple($ids);
    }

    /** Returns the ids that were not saved. */
    protected function doSave(array $values, int $lifetime): array|bool
    {
        $failed = [];
        if ($this->marshaller) {
            $values = $this->marshaller->marshall($values, $failed);
        }
        foreach ($values as $id => $value) {
            if (!$this->cache->set($id, $value, $lifetime > 0 ? $lifetime : null)) {
                $failed[] = $id;
            }
        }

        return $failed;
    }
}
