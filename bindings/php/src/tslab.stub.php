<?php

/** @generate-class-entries */

namespace Tslab;

/** A call failed; its code is the errno that tslab(3) lists. */
class Exception extends \RuntimeException
{
}

/**
 * A pool of shared memory.
 * @not-serializable
 */
final class Pool
{
    private function __construct() {}

    /** Opens the pool of that socket or name; without one that of tslab.pool. It stays open in this process. */
    public static function open(?string $socket = null): Pool {}

    /** Opens the map of that name, and makes it where there is none; then the options count. */
    public function map(string $name, array $options = []): Map {}

    public function cache(string $name = "cache", ?float $ttl = null, array $options = []): Cache {}

    /** Whether the pool can be used now. */
    public function isOpen(): bool {}

    /** Counts of the pool, as struct tslab_stats has them. */
    public function statistics(): array {}
}

/**
 * Strings by key, shared by all processes of the pool. Lifetimes are seconds; INF is no end.
 * @not-serializable
 */
final class Map implements \Countable, \IteratorAggregate
{
    private function __construct() {}

    public function get(string $key): ?string {}

    /** The value and its version, for replace(). */
    public function getVersion(string $key): ?array {}

    /** With $tags, up to four of tag(), the entry is absent once invalidate() was called for one of them. */
    public function put(string $key, string $value, ?float $ttl = null, array $tags = []): void {}

    /** As put(), if the key is absent: whether it was. */
    public function insert(string $key, string $value, ?float $ttl = null, array $tags = []): bool {}

    /** As put(), if the key is present: whether it was. */
    public function update(string $key, string $value, ?float $ttl = null, array $tags = []): bool {}

    /** As put(), if the value has this version (0: if the key is absent): whether it had. */
    public function replace(string $key, int $version, string $value, ?float $ttl = null, array $tags = []): bool {}

    /** Whether it was there, with that version if one is named. */
    public function delete(string $key, ?int $version = null): bool {}

    /** Deletes the key and returns its value: of several callers one gets it. */
    public function pop(string $key): ?string {}

    /**
     * A tag as it is now, for puts within an hour. Ask before the value is computed: if the tag is invalidated after that,
     * be it before the put, the entry is absent.
     */
    public function tag(string $tag): int {}

    /** Makes all entries that have this tag absent at once, in all processes: whether there was such a tag. */
    public function invalidate(string $tag): bool {}

    /** Gives the entry another lifetime: whether it is there. */
    public function touch(string $key, float $ttl): bool {}

    /** The seconds until the entry ends; INF: it does not; null: it is absent. */
    public function ttl(string $key): ?float {}

    /** Adds to a counter and returns the sum. */
    public function add(string $key, int $delta = 1, int $initial = 0, ?float $ttl = null): int {}

    /** Takes tokens of the key's bucket. Returns null, or the seconds until there are enough. */
    public function limit(string $key, float $perSecond, int $burst, int $cost = 1): ?float {}

    /** A lock, which comes free after $limit seconds (30) if it is not extended. */
    public function lock(string $key, ?float $limit = null): Lock {}

    /** The value with "version", "ttl" in seconds, "stale" and "counter"; with $stale a value whose time is over will do. */
    public function info(string $key, bool $stale = false): ?array {}

    /**
     * Claims a key that has no value, to compute it or to be alone: the version of the claim, and whether it is this
     * caller's. Null: the key has a value. It stands for $limit seconds (30), or until replace() or delete() of that
     * version, and no longer than its process lives.
     */
    public function claim(string $key, ?float $limit = null): ?array {}

    /** Lets a claim stand for $limit seconds from now: its new version; null: it is no more. */
    public function extend(string $key, int $version, float $limit): ?int {}

    /** Waits until that claim (0: any) is no more, for $timeout seconds at most: whether it is. */
    public function wait(string $key, int $version = 0, float $timeout = INF): bool {}

    public function count(): int {}

    public function clear(): void {}

    /** Deletes all keys that begin so, and returns their number. Walks through the whole map. */
    public function deletePrefix(string $prefix): int {}

    /** Counts of the map, as struct tslab_map_statistics has them. */
    public function statistics(): array {}

    public function getIterator(): \Iterator {}
}

/**
 * Values that can be made again. A pool that fails is a miss, and a line in the log.
 * @not-serializable
 */
final class Cache
{
    public function __construct(?Pool $pool = null, string $name = "cache", ?float $ttl = null, array $options = []) {}

    public function get(string $key, mixed $default = null): mixed {}

    /** Whether the cache has the value now. If not, the key has none: the old value is gone. */
    public function set(string $key, mixed $value, null|int|float|\DateInterval $ttl = null): bool {}

    /** As set(), if the key is absent. */
    public function add(string $key, mixed $value, null|int|float|\DateInterval $ttl = null): bool {}

    public function has(string $key): bool {}

    /** Whether the key is absent now. */
    public function delete(string $key): bool {}

    public function clear(): bool {}

    public function getMultiple(iterable $keys, mixed $default = null): array {}

    public function setMultiple(iterable $values, null|int|float|\DateInterval $ttl = null): bool {}

    public function deleteMultiple(iterable $keys): bool {}

    /**
     * The value; if it is absent, the one that $make($key) returns, computed by one process while the others wait.
     */
    public function getOrCompute(string $key, callable $make, null|int|float|\DateInterval $ttl = null, float $timeout = 30): mixed {}

    /** Adds to a number; null if there is another value, or a number that was put with tags. */
    public function increment(string $key, int $delta = 1, int $initial = 0, null|int|float|\DateInterval $ttl = null): int|float|null {}

    public function touch(string $key, null|int|float|\DateInterval $ttl = null): bool {}

    /** Deletes the key and returns its value. */
    public function pop(string $key, mixed $default = null): mixed {}

    public function map(): Map {}
}

/**
 * A limit of a rate for each key, that holds over all processes.
 * @not-serializable
 */
final class Limiter
{
    public function __construct(?Pool $pool, string $name, float $perSecond, int $burst) {}

    /** Takes tokens: 0.0, or the seconds until there are enough. */
    public function take(string $key, int $cost = 1): float {}

    /** Whether the tokens were taken. */
    public function allow(string $key, int $cost = 1): bool {}
}

/**
 * A lock of all processes. It is free when its owner is killed, when the object is destroyed, and after its limit. A
 * forked child does not have its parent's.
 * @not-serializable
 */
final class Lock
{
    private function __construct() {}

    /** Whether the lock is held now; waits for $timeout seconds at most. */
    public function acquire(float $timeout = INF): bool {}

    /** Lets the lock stand for $limit seconds from now (as map->lock() has it): whether it is still held. */
    public function extend(?float $limit = null): bool {}

    /** Whether the lock was held until now. */
    public function release(): bool {}
}
