<?php
// Composer's autoloader of tslab's packages, and Debian's of the frameworks.
require $_SERVER['VENDOR'] . '/autoload.php';
foreach (['Cache/IntegrationTests', 'Symfony/Component/Cache', 'Illuminate/Cache', 'Illuminate/Session', 'Illuminate/Config',
        'Illuminate/Container'] as $name) {
        if (is_file("/usr/share/php/$name/autoload.php")) {
                require_once "/usr/share/php/$name/autoload.php";
        }
}
