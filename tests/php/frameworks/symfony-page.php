<?php
// The settings that frameworks.md has for Symfony, in a kernel with its FrameworkBundle: symfony-page.php PAGE FOLDER
// Computes a value in one kernel, and finds it in another. Prints the class of the cache, the value, and how many keys it
// has in the map of the page.
require __DIR__ . '/bootstrap.php';
foreach (['Bundle/FrameworkBundle', 'Component/Yaml'] as $name) {
        require_once "/usr/share/php/Symfony/$name/autoload.php";
}

use Symfony\Bundle\FrameworkBundle\FrameworkBundle;
use Symfony\Component\Config\Loader\LoaderInterface;
use Symfony\Component\DependencyInjection\ContainerBuilder;
use Symfony\Component\HttpKernel\Kernel;

class PageKernel extends Kernel
{
    public function __construct(private array $files, private string $folder)
    {
        parent::__construct('test', false);
    }

    public function registerBundles(): iterable
    {
        return [new FrameworkBundle()];
    }

    public function registerContainerConfiguration(LoaderInterface $loader)
    {
        foreach ($this->files as $file) {
            $loader->load($file);
        }
        $loader->load(fn (ContainerBuilder $container) => $container->loadFromExtension('framework',
            ['secret' => 'x', 'http_method_override' => false]));
    }

    public function getProjectDir(): string
    {
        return $this->folder;
    }
}

[, $page, $folder] = $argv;
preg_match('/```yaml\n(.*?)```/s', file_get_contents($page), $found);
// "# FILE", then its lines
$files = [];
foreach (preg_split('/^# /m', $found[1], -1, PREG_SPLIT_NO_EMPTY) as $part) {
    [$name, $text] = explode("\n", $part, 2);
    $file = "$folder/" . basename($name);
    file_put_contents($file, $text);
    $files[] = $file;
}
$kernel = new PageKernel($files, $folder);
$kernel->boot();
$cache = $kernel->getContainer()->get('cache.app');
$cache->get('page', fn ($item) => 'by the page');
$other = new PageKernel($files, $folder);
$other->boot();
$keys = array_filter(array_keys(iterator_to_array((new Tslab\Cache(null, 'symfony'))->map())),
    fn ($key) => str_ends_with($key, ':page'));
echo get_class($cache), ' ', $other->getContainer()->get('cache.app')->getItem('page')->get(), ' ', count($keys), "\n";
