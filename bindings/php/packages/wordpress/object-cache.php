<?php

/**
 * Plugin Name: tslab object cache
 * Description: WordPress's object cache in a pool of shared memory. Copy this file to wp-content/object-cache.php.
 *
 * wp-config.php may define:
 *
 *      TSLAB_CACHE_MAP         the map; "wordpress"
 *      TSLAB_CACHE_LIMIT       its limit in bytes, at which it evicts; none
 *      WP_CACHE_KEY_SALT       what keeps apart sites that share the map; the name of the database and the tables' prefix
 *
 * Each group has a word in the map, made at random, which is part of its keys: to flush a group, it gets another word.
 * Nobody reads the entries of the old one any more; they expire, or are evicted. So it is if the word itself is evicted.
 */

class WP_Object_Cache
{
    public $cache_hits = 0;
    public $cache_misses = 0;
    public $global_groups = [];

    private Tslab\Cache $tslab;
    private string $salt;
    private string $blog = '';
    /** @var array<string, array<string, mixed>> by group and key: all that this request has read or set */
    private array $local = [];
    /** @var array<string, true> groups that end with the request */
    private array $transient = [];
    /** @var array<string, string> words of groups */
    private array $words = [];

    public function __construct()
    {
        $limit = defined('TSLAB_CACHE_LIMIT') ? ['limit_bytes' => TSLAB_CACHE_LIMIT, 'evict' => 'sieve'] : [];
        $this->tslab = new Tslab\Cache(null, defined('TSLAB_CACHE_MAP') ? TSLAB_CACHE_MAP : 'wordpress', null, $limit);
        $site = (defined('DB_NAME') ? DB_NAME : '') . '.' . ($GLOBALS['table_prefix'] ?? '');
        $this->salt = defined('WP_CACHE_KEY_SALT') ? WP_CACHE_KEY_SALT : $site;
        $this->switch_to_blog(function_exists('get_current_blog_id') ? get_current_blog_id() : 1);
    }

    public function add($key, $data, $group = 'default', $expire = 0)
    {
        if ((function_exists('wp_suspend_cache_addition') && wp_suspend_cache_addition())
            || !$this->is_valid($key) || $this->find($key, $group, false)[0]) {
            return false;
        }
        return $this->put($key, $data, $group, $expire, true);
    }

    public function replace($key, $data, $group = 'default', $expire = 0)
    {
        return $this->is_valid($key) && $this->find($key, $group, false)[0]
            && $this->put($key, $data, $group, $expire, false);
    }

    public function set($key, $data, $group = 'default', $expire = 0)
    {
        return $this->is_valid($key) && $this->put($key, $data, $group, $expire, false);
    }

    public function get($key, $group = 'default', $force = false, &$found = null)
    {
        [$found, $value] = $this->is_valid($key) ? $this->find($key, $group, $force) : [false, false];
        if ($found) {
            $this->cache_hits++;
        } else {
            $this->cache_misses++;
        }
        return is_object($value) ? clone $value : $value;
    }

    public function get_multiple($keys, $group = 'default', $force = false)
    {
        $group = $group ?: 'default';
        $valid = array_filter((array) $keys, $this->is_valid(...));
        $wanted = [];
        foreach ($valid as $key) {
            if (($force || !$this->has_local($key, $group)) && $this->is_kept($group)) {
                $wanted[$this->id($key, $group)] = $this->local_key($key, $group);
            }
        }
        $absent = new stdClass();
        foreach ($this->tslab->getMultiple(array_map('strval', array_keys($wanted)), $absent) as $id => $value) {
            if ($value !== $absent) {
                $this->local[$group][$wanted[$id]] = $value;
            } else {
                unset($this->local[$group][$wanted[$id]]);
            }
        }
        $values = array_fill_keys((array) $keys, false);
        foreach ($valid as $key) {
            if ($this->has_local($key, $group)) {
                $value = $this->local[$group][$this->local_key($key, $group)];
                $values[$key] = is_object($value) ? clone $value : $value;
            }
            $this->has_local($key, $group) ? $this->cache_hits++ : $this->cache_misses++;
        }
        return $values;
    }

    public function delete($key, $group = 'default')
    {
        $group = $group ?: 'default';
        if (!$this->is_valid($key)) {
            return false;
        }
        $was = $this->has_local($key, $group);
        unset($this->local[$group][$this->local_key($key, $group)]);
        if (!$this->is_kept($group)) {
            return $was;
        }
        try {
            return $this->tslab->map()->delete($this->id($key, $group));
        } catch (Tslab\Exception) {
            return $was;
        }
    }

    public function incr($key, $offset = 1, $group = 'default')
    {
        $group = $group ?: 'default';
        $offset = (int) $offset;
        [$found, $value] = $this->is_valid($key) ? $this->find($key, $group, true) : [false, false];
        if (!$found) {
            return false;
        }
        // An integer changes in place, so that no other request's change of it is lost.
        $sum = is_int($value) && $this->is_kept($group)
            ? $this->tslab->increment($this->id($key, $group), $offset)
            : (is_numeric($value) ? $value : 0) + $offset;
        if (!is_int($value) || !$this->is_kept($group) || $sum === null || $sum < 0) {
            $sum = max(0, $sum ?? $value + $offset);
            $this->put($key, $sum, $group, 0, false);
        }
        return $this->local[$group][$this->local_key($key, $group)] = $sum;
    }

    public function decr($key, $offset = 1, $group = 'default')
    {
        return $this->incr($key, -(int) $offset, $group);
    }

    public function flush()
    {
        $this->flush_runtime();
        return $this->tslab->clear();
    }

    public function flush_runtime()
    {
        $this->local = [];
        $this->words = [];
        return true;
    }

    public function flush_group($group)
    {
        unset($this->local[$group]);
        $this->words[$group] = self::new_word();
        return $this->tslab->set($this->word_key($group), $this->words[$group], INF);
    }

    public function add_global_groups($groups)
    {
        $this->global_groups = array_fill_keys((array) $groups, true) + $this->global_groups;
    }

    public function add_non_persistent_groups($groups)
    {
        $this->transient = array_fill_keys((array) $groups, true) + $this->transient;
    }

    public function switch_to_blog($blog_id)
    {
        $this->blog = function_exists('is_multisite') && is_multisite() ? (int) $blog_id . ':' : '';
    }

    public function stats()
    {
        echo "<p><strong>Cache Hits:</strong> {$this->cache_hits}<br />",
            "<strong>Cache Misses:</strong> {$this->cache_misses}<br /></p>";
    }

    private function is_valid($key): bool
    {
        if (is_int($key) || (is_string($key) && trim($key) !== '')) {
            return true;
        }
        if (function_exists('_doing_it_wrong') && function_exists('__')) {
            _doing_it_wrong(
                __CLASS__,
                is_string($key) ? __('Cache key must not be an empty string.')
                    : sprintf(__('Cache key must be integer or non-empty string, %s given.'), gettype($key)),
                '6.1.0',
            );
        }
        return false;
    }

    private function is_kept(string $group): bool
    {
        return !isset($this->transient[$group]);
    }

    private function local_key($key, string $group): string
    {
        return isset($this->global_groups[$group]) ? (string) $key : $this->blog . $key;
    }

    private function has_local($key, string $group): bool
    {
        return array_key_exists($this->local_key($key, $group), $this->local[$group] ?? []);
    }

    private function word_key(string $group): string
    {
        return "$this->salt:word:$group";
    }

    private static function new_word(): string
    {
        return bin2hex(random_bytes(8));
    }

    /** The word of a group; a new one if it has none. */
    private function word(string $group): string
    {
        $key = $this->word_key($group);
        $word = $this->tslab->get($key);
        if (is_string($word)) {
            return $word;
        }
        $word = self::new_word();
        // Where another request was faster, its word counts; without a pool, this request's own.
        return $this->tslab->add($key, $word, INF) ? $word : $this->tslab->get($key, $word);
    }

    private function id($key, string $group): string
    {
        $this->words[$group] ??= $this->word($group);
        return "$this->salt:$group:{$this->words[$group]}:" . $this->local_key($key, $group);
    }

    /** Whether there is a value, and the value. */
    private function find($key, $group, $force): array
    {
        $group = $group ?: 'default';
        $local = $this->local_key($key, $group);
        if (array_key_exists($local, $this->local[$group] ?? []) && !($force && $this->is_kept($group))) {
            return [true, $this->local[$group][$local]];
        }
        if (!$this->is_kept($group)) {
            return [false, false];
        }
        $absent = new stdClass();
        $value = $this->tslab->get($this->id($key, $group), $absent);
        if ($value === $absent) {
            unset($this->local[$group][$local]);
            return [false, false];
        }
        $this->local[$group][$local] = $value;
        return [true, $value];
    }

    /** Sets the value of this request, and everybody's if the pool takes it. */
    private function put($key, $data, $group, $expire, $is_add): bool
    {
        $group = $group ?: 'default';
        $ttl = (int) $expire > 0 ? (int) $expire : null;
        $data = is_object($data) ? clone $data : $data;
        if ($this->is_kept($group)) {
            $id = $this->id($key, $group);
            $done = $is_add ? $this->tslab->add($id, $data, $ttl) : $this->tslab->set($id, $data, $ttl);
            // Another request was faster; or the pool is full, or gone: then this request alone has the value.
            if (!$done && $is_add && $this->tslab->has($id)) {
                return false;
            }
        }
        $this->local[$group][$this->local_key($key, $group)] = $data;
        return true;
    }
}

function wp_cache_init()
{
    $GLOBALS['wp_object_cache'] = new WP_Object_Cache();
}

function wp_cache_add($key, $data, $group = '', $expire = 0)
{
    return $GLOBALS['wp_object_cache']->add($key, $data, $group, (int) $expire);
}

function wp_cache_add_multiple(array $data, $group = '', $expire = 0)
{
    return array_map(fn ($key) => wp_cache_add($key, $data[$key], $group, $expire), wp_cache_keys($data));
}

function wp_cache_replace($key, $data, $group = '', $expire = 0)
{
    return $GLOBALS['wp_object_cache']->replace($key, $data, $group, (int) $expire);
}

function wp_cache_set($key, $data, $group = '', $expire = 0)
{
    return $GLOBALS['wp_object_cache']->set($key, $data, $group, (int) $expire);
}

function wp_cache_set_multiple(array $data, $group = '', $expire = 0)
{
    return array_map(fn ($key) => wp_cache_set($key, $data[$key], $group, $expire), wp_cache_keys($data));
}

function wp_cache_get($key, $group = '', $force = false, &$found = null)
{
    return $GLOBALS['wp_object_cache']->get($key, $group, $force, $found);
}

function wp_cache_get_multiple($keys, $group = '', $force = false)
{
    return $GLOBALS['wp_object_cache']->get_multiple($keys, $group, $force);
}

function wp_cache_delete($key, $group = '')
{
    return $GLOBALS['wp_object_cache']->delete($key, $group);
}

function wp_cache_delete_multiple(array $keys, $group = '')
{
    return array_map(fn ($key) => wp_cache_delete($key, $group), array_combine($keys, $keys));
}

function wp_cache_incr($key, $offset = 1, $group = '')
{
    return $GLOBALS['wp_object_cache']->incr($key, $offset, $group);
}

function wp_cache_decr($key, $offset = 1, $group = '')
{
    return $GLOBALS['wp_object_cache']->decr($key, $offset, $group);
}

function wp_cache_flush()
{
    return $GLOBALS['wp_object_cache']->flush();
}

function wp_cache_flush_runtime()
{
    return $GLOBALS['wp_object_cache']->flush_runtime();
}

function wp_cache_flush_group($group)
{
    return $GLOBALS['wp_object_cache']->flush_group($group);
}

function wp_cache_supports($feature)
{
    return in_array($feature, ['add_multiple', 'set_multiple', 'get_multiple', 'delete_multiple', 'flush_runtime',
        'flush_group'], true);
}

function wp_cache_close()
{
    return true;
}

function wp_cache_add_global_groups($groups)
{
    $GLOBALS['wp_object_cache']->add_global_groups($groups);
}

function wp_cache_add_non_persistent_groups($groups)
{
    $GLOBALS['wp_object_cache']->add_non_persistent_groups($groups);
}

function wp_cache_switch_to_blog($blog_id)
{
    $GLOBALS['wp_object_cache']->switch_to_blog($blog_id);
}

/** The keys of an array by themselves, so that array_map() keeps them. */
function wp_cache_keys(array $data): array
{
    return array_combine(array_keys($data), array_keys($data));
}
