<?php
// For WordPress's own tests of its object cache (tests/phpunit/tests/cache.php of its development repository), on our drop-in:
// what they need of WordPress, without its database. WP_MULTISITE is 0 or 1.

define('WPINC', 'wp-includes');
define('ABSPATH', '/usr/share/wordpress/');
require ABSPATH . WPINC . '/plugin.php';
function __($text)
{
    return $text;
}
function _doing_it_wrong($function, $text, $version)
{
    WP_UnitTestCase::$wrong[] = $function;
}
function is_multisite()
{
    return (bool) $_SERVER['WP_MULTISITE'];
}
function get_current_blog_id()
{
    return 1;
}
function wp_suspend_cache_addition()
{
    return false;
}
// So that no test is left out, and each expects what WordPress's own cache does.
function wp_using_ext_object_cache()
{
    return false;
}

abstract class WP_UnitTestCase extends PHPUnit\Framework\TestCase
{
    /** @var string[] names of calls that _doing_it_wrong() was told of */
    public static array $wrong = [];
    /** @var string[] */
    private array $expected = [];

    public function set_up()
    {
    }

    public function tear_down()
    {
    }

    public function flush_cache()
    {
        wp_cache_flush();
    }

    public function setExpectedIncorrectUsage($function)
    {
        $this->expected[] = $function;
    }

    protected function setUp(): void
    {
        self::$wrong = [];
        $this->set_up();
    }

    protected function assertPostConditions(): void
    {
        // Theirs names the method, ours its class.
        $this->assertSame(count($this->expected) > 0, count(self::$wrong) > 0);
    }

    protected function tearDown(): void
    {
        $this->tear_down();
    }
}

require $_SERVER['DROPIN'];
require ABSPATH . WPINC . '/cache-compat.php';
wp_cache_init();
wp_cache_flush();
