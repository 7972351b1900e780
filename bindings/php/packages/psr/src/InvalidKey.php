<?php

namespace Tslab\Psr;

/** A key, or another argument, that PSR-6 and PSR-16 forbid. */
final class InvalidKey extends \InvalidArgumentException implements
    \Psr\Cache\InvalidArgumentException,
    \Psr\SimpleCache\InvalidArgumentException
{
    /** Both standards reserve the same characters. */
    public static function check(mixed $key): string
    {
        if (!is_string($key)) {
            throw new self('a key must be a string, not ' . get_debug_type($key));
        }
        if ($key === '' || strpbrk($key, '{}()/\\@:') !== false) {
            throw new self("a key must not be empty, nor have one of {}()/\\@: in it: \"$key\"");
        }
        return $key;
    }
}
