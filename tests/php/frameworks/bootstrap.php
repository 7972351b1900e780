<?php
// Composer's autoloader of tslab's packages, and Debian's of the frameworks.
require $_SERVER['VENDOR'] . '/autoload.php';
foreach (['Cache/IntegrationTests', 'Symfony/Component/Cache', 'Illuminate/Cache', 'Illuminate/Session', 'Illuminate/Config',
        'Illuminate/Container'] as $name) {
        if (is_file("/usr/share/php/$name/autoload.php")) {
                require_once "/usr/share/php/$name/autoload.php";
        }
}
// Tests of Symfony itself.
spl_autoload_register(function (string $class) {
        $prefix = 'Symfony\\Component\\Cache\\Tests\\';
        $file = ($_SERVER['SYMFONY'] ?? '') . '/' . str_replace('\\', '/', substr($class, strlen($prefix))) . '.php';
        if (str_starts_with($class, $prefix) && is_file($file)) {
                require $file;
        }
});
