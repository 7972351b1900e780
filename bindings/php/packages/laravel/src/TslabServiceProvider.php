<?php

namespace Tslab\Laravel;

use Illuminate\Support\ServiceProvider;
use Tslab\Cache;
use Tslab\Pool;

/**
 * The drivers "tslab" of caches and of sessions:
 *
 *      'stores' => ['tslab' => ['driver' => 'tslab', 'map' => 'laravel', 'limit' => 64 << 20]]     config/cache.php
 *      'driver' => 'tslab'                                                                         config/session.php
 */
class TslabServiceProvider extends ServiceProvider
{
    public function register()
    {
        $this->app->resolving('cache', fn ($cache) => $cache->extend('tslab', function ($app, $config) use ($cache) {
            $map = new Cache(
                isset($config['pool']) ? Pool::open($config['pool']) : null,
                $config['map'] ?? 'laravel',
                null,
                isset($config['limit']) ? ['limit_bytes' => $config['limit'], 'evict' => 'sieve'] : [],
            );

            return $cache->repository(new TslabStore($map, $config['prefix'] ?? $app['config']['cache.prefix'] ?? ''));
        }));
        $this->app->resolving('session', fn ($sessions) => $sessions->extend('tslab', function ($app) {
            $config = $app['config'];

            return new TslabSessionHandler(
                new Cache(null, $config['session.table'] ?? 'sessions'),
                $config['session.lifetime'],
            );
        }));
    }
}
