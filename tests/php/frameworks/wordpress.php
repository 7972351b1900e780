<?php
// Makes the calls of WordPress's object cache, with the drop-in or with WordPress's own cache, whose results are compared:
// wordpress.php DROP-IN WP-INCLUDES [again]. WordPress's own cache ends with the request, so only the drop-in runs again.
[, $dropin, $includes] = $argv;
define('WPINC', 'wp-includes');
define('ABSPATH', dirname($includes) . '/');
require "$includes/plugin.php";
function __($text) { return $text; }
function _doing_it_wrong($function, $text, $version) { echo "wrong: $text\n"; }
function is_multisite() { return true; }
function get_current_blog_id() { return 1; }
function wp_suspend_cache_addition() { return false; }
function show($what, $value) { echo $what, ': ', json_encode(var_export($value, true)), "\n"; }

require $dropin;
require "$includes/cache-compat.php";
wp_cache_init();
if (($argv[3] ?? '') !== 'again') {
        wp_cache_flush();
}
wp_cache_add_global_groups(['users', 'site']);
wp_cache_add_non_persistent_groups('counts');

if (($argv[3] ?? '') === 'again') {
        show('kept', wp_cache_get('kept', 'posts'));
        show('of a flushed group', wp_cache_get('b', 'group'));
        show('not kept', wp_cache_get('n', 'counts'));
        show('counter', wp_cache_get('counter', 'g3'));
        // A map that is full may evict the word of a group: that flushes the group, and brings nothing back.
        $map = Tslab\Pool::open()->map('wordpress');
        wp_cache_set('old', 'flushed', 'evicted');
        wp_cache_flush_group('evicted');
        wp_cache_set('new', 'kept', 'evicted');
        foreach ($map as $key => $value)
                if (str_ends_with($key, ':word:evicted'))
                        $words[] = $map->delete($key);
        wp_cache_init();
        show('evicted', [$words ?? [], wp_cache_get('old', 'evicted'), wp_cache_get('new', 'evicted'), wp_cache_set('new', 'anew', 'evicted'),
                wp_cache_get('new', 'evicted', true), wp_cache_flush_group('evicted'), wp_cache_get('new', 'evicted', true),
                wp_cache_get('old', 'evicted', true)]);
        wp_cache_init();
        wp_cache_add_non_persistent_groups('counts');
        show('many', wp_cache_get_multiple(['kept', 'none'], 'posts'));
        exit;
}

show('get none', [wp_cache_get('none', '', false, $found), $found]);
show('set', wp_cache_set('a', [1, 'x' => null]));
show('get', [wp_cache_get('a', '', false, $found), $found]);
show('default group', wp_cache_get('a', 'default'));
show('false', [wp_cache_set('f', false), wp_cache_get('f', '', false, $found), $found]);
show('null', [wp_cache_set('n', null), wp_cache_get('n', '', false, $found), $found]);
show('add', [wp_cache_add('a', 2), wp_cache_get('a'), wp_cache_add('new', 2), wp_cache_get('new')]);
show('replace', [wp_cache_replace('a', 3), wp_cache_get('a'), wp_cache_replace('nope', 3), wp_cache_get('nope')]);
show('integer key', [wp_cache_set(5, 'five'), wp_cache_get(5), wp_cache_get('5')]);
show('bad keys', [wp_cache_set('', 1), wp_cache_get(' '), wp_cache_add(null, 1), wp_cache_delete(1.5)]);
$object = new stdClass();
$object->n = 1;
show('object', wp_cache_set('o', $object));
$object->n = 2;
show('a copy', wp_cache_get('o')->n);
wp_cache_get('o')->n = 3;
show('another copy', wp_cache_get('o')->n);
show('delete', [wp_cache_delete('a'), wp_cache_delete('a'), wp_cache_get('a')]);
show('incr', [wp_cache_set('i', 5), wp_cache_incr('i'), wp_cache_incr('i', 3), wp_cache_decr('i', 2), wp_cache_get('i')]);
show('below 0', [wp_cache_decr('i', 100), wp_cache_get('i')]);
show('incr none', [wp_cache_incr('no'), wp_cache_decr('no')]);
show('incr text', [wp_cache_set('t', 'text'), wp_cache_incr('t', 4), wp_cache_get('t')]);
show('incr numeric text', [wp_cache_set('t', '7'), wp_cache_incr('t', 4), wp_cache_get('t')]);
show('incr float', [wp_cache_set('t', 1.5), wp_cache_incr('t', 4), wp_cache_get('t')]);
show('multiple', [wp_cache_set_multiple(['m1' => 1, 'm2' => [2]], 'g'), wp_cache_get_multiple(['m1', 'm2', 'm3'], 'g'),
        wp_cache_add_multiple(['m1' => 9, 'm4' => 4], 'g'), wp_cache_delete_multiple(['m1', 'm3'], 'g'),
        wp_cache_get_multiple(['m1', 'm4', ''], 'g')]);
show('groups', [wp_cache_set('b', 'of one', 'group'), wp_cache_set('b', 'of another', 'group2'),
        wp_cache_get('b', 'group'), wp_cache_get('b', 'group2')]);
show('flush group', [wp_cache_flush_group('group'), wp_cache_get('b', 'group'), wp_cache_get('b', 'group2')]);
show('after it', [wp_cache_add('b', 'again', 'group'), wp_cache_get('b', 'group'), wp_cache_delete('b', 'group')]);
show('blogs', [wp_cache_set('c', 1, 'posts'), wp_cache_set('c', 1, 'users'), wp_cache_switch_to_blog(2),
        wp_cache_get('c', 'posts'), wp_cache_get('c', 'users'), wp_cache_set('c', 2, 'posts'), wp_cache_switch_to_blog(1),
        wp_cache_get('c', 'posts')]);
show('of the request', [wp_cache_set('n', 1, 'counts'), wp_cache_get('n', 'counts'), wp_cache_incr('n', 2, 'counts'),
        wp_cache_get('n', 'counts', true), wp_cache_delete('n', 'counts'), wp_cache_get('n', 'counts'),
        wp_cache_add('n', 4, 'counts')]);
show('supports', array_map('wp_cache_supports', ['add_multiple', 'get_multiple', 'flush_runtime', 'flush_group', 'flying']));
show('forced', [wp_cache_set('k', 1, 'g2'), wp_cache_get('k', 'g2', true)]);
show('close', wp_cache_close());
show('flush', [wp_cache_flush(), wp_cache_get('b', 'group2'), wp_cache_get('n', 'counts')]);
wp_cache_set('kept', ['for' => 'later'], 'posts');
wp_cache_set('counter', 1, 'g3');
wp_cache_incr('counter', 2, 'g3');
wp_cache_set('n', 1, 'counts');
wp_cache_set('b', 1, 'group');
wp_cache_flush_group('group');
