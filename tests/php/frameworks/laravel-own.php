<?php
// For Laravel's own tests of its drivers of arrays: these names mean our drivers, with a map that is empty at first.

require __DIR__ . '/bootstrap.php';
require_once '/usr/share/php/Mockery/autoload.php';

class OwnStore extends Tslab\Laravel\TslabStore
{
    public function __construct()
    {
        $cache = new Tslab\Cache(name: 'laravel-own');
        $cache->clear();
        parent::__construct($cache);
    }
}

class OwnHandler extends Tslab\Laravel\TslabSessionHandler
{
    public function __construct(int $minutes)
    {
        $cache = new Tslab\Cache(name: 'laravel-own');
        $cache->clear();
        parent::__construct($cache, $minutes);
    }
}

class_alias(OwnStore::class, 'Illuminate\Cache\ArrayStore');
class_alias(OwnHandler::class, 'Illuminate\Session\ArraySessionHandler');
