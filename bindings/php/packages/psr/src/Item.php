<?php

namespace Tslab\Psr;

use Psr\Cache\CacheItemInterface;

/** An item of a Pool. */
final class Item implements CacheItemInterface
{
    /** When it ends, in seconds since 1970; null: with the lifetime of the cache. */
    private ?float $end = null;

    /** @internal Items come from a Pool. */
    public function __construct(private readonly string $key, private mixed $value, private readonly bool $isHit)
    {
    }

    public function getKey(): string
    {
        return $this->key;
    }

    public function get(): mixed
    {
        return $this->value;
    }

    public function isHit(): bool
    {
        return $this->isHit;
    }

    public function set($value): static
    {
        $this->value = $value;
        return $this;
    }

    public function expiresAt($expiration): static
    {
        if ($expiration !== null && !$expiration instanceof \DateTimeInterface) {
            throw new InvalidKey('an end must be null or a DateTimeInterface, not ' . get_debug_type($expiration));
        }
        $this->end = $expiration === null ? null : (float) $expiration->format('U.u');
        return $this;
    }

    public function expiresAfter($time): static
    {
        if ($time instanceof \DateInterval) {
            return $this->expiresAt((new \DateTimeImmutable())->add($time));
        }
        if ($time !== null && !is_int($time)) {
            throw new InvalidKey('a lifetime must be null, an integer or a DateInterval, not ' . get_debug_type($time));
        }
        $this->end = $time === null ? null : microtime(true) + $time;
        return $this;
    }

    /** @internal The seconds that are left; null: as the cache has it. */
    public function ttl(): ?float
    {
        return $this->end === null ? null : $this->end - microtime(true);
    }

    /** @internal The item as a later getItem() returns it, before it is committed. */
    public function asHit(): self
    {
        $item = new self($this->key, is_object($this->value) ? clone $this->value : $this->value, true);
        $item->end = $this->end;
        return $item;
    }
}
