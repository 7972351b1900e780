"""The pages of the PHP extension, followed word by word (pages.py) in a Debian that has nothing of ours, under a systemd,
with Debian's packages from the servers that this machine uses, and our packages: test-pages.py SOURCE.

Exit status 77 where that cannot be: not root, no debootstrap, no server, or systemd does not come up here.
TSLAB_TEST_PACKAGES: a folder of packages, as './dev package' makes it, instead of new ones.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

for folder in 'systemd', 'languages':
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', folder))
import debian  # noqa: E402
from run import BOOT_FAILED, HERE, SKIP, boots  # noqa: E402

WORK = '/run/tslab-source'
PAGES = 'sessions.md', 'from-apcu.md', 'frameworks.md'
NEEDED = 'systemd,systemd-sysv,dbus,ca-certificates'
# The programs that the pages are for: a web server, and frameworks with what their tests need.
OTHERS = ('nginx-light curl python3 composer phpunit php-cache-integration-tests php-illuminate-cache '
          'php-illuminate-session php-illuminate-container php-illuminate-config php-symfony-cache php-symfony-framework-bundle '
          'php-symfony-yaml php8.2-xml php8.2-mbstring').split()


def install(log, root, folder, page):
    """Debian, and the packages that the page's command installs, so that it needs no network any more."""
    debian.install(log, root, NEEDED)
    shutil.copytree(folder, root / 'srv/packages')
    here = 'cd /srv/packages && export DEBIAN_FRONTEND=noninteractive && '
    command = next(line.strip() for line in page.splitlines() if line.startswith('       apt-get install'))
    for step in ('apt-get update', command.replace('install', 'install --download-only'),
                 f'apt-get install --no-install-recommends {" ".join(OTHERS)}'):
        debian.call(log, 'chroot', root, 'sh', '-c', here + step)


def main():
    source = pathlib.Path(sys.argv[1])
    if debian.missing():
        print(debian.missing())
        sys.exit(SKIP)
    with tempfile.TemporaryDirectory(prefix='tslab-pages-') as name, open(f'{name}/log', 'w+b') as log:
        folder, root = pathlib.Path(name, 'packages'), pathlib.Path(name, 'root')
        folder.mkdir()
        debian.build_packages(source, folder)
        for page in PAGES:
            shutil.copy(source / 'bindings/php' / page, folder)
        install(log, root, folder, (folder / PAGES[0]).read_text(encoding='utf-8'))
        status = subprocess.run(
            [HERE / 'with-systemd', '-i', '-t', '600', '-r', root, '-B', f'{source}:{WORK}', '-', '--',
             'python3', '-B', f'{WORK}/tests/php/pages.py', WORK], cwd='/').returncode
        if status == BOOT_FAILED and not boots(folder):
            sys.exit(SKIP)
    sys.exit(status)


if __name__ == '__main__':
    main()
