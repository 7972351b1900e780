"""'./dev package' installs every package that the Debian package's Build-Depends names."""

import re

import tree

CONTROL = 'systemd/debian/control'
PACKAGES = 'tools/packages'
PURPOSES = ('build', 'package')  # that ./dev package needs
# Packages by which a name of Build-Depends comes.
PROVIDERS = {'debhelper-compat': 'debhelper', 'dh-sequence-installsysusers': 'debhelper',
             'dh-sequence-python3': 'dh-python', 'pkgconf': 'pkg-config'}

FIELD = re.compile(r'^Build-Depends:((?:.*\n)(?:[ \t].*\n)*)', re.MULTILINE)


def check(root):
    if not (root / CONTROL).exists():
        return None
    field = FIELD.search(tree.read(root, CONTROL))
    needed = [part.split()[0] for part in (field.group(1) if field else '').split(',') if part.strip()]
    lines = [line.split() for line in tree.read(root, PACKAGES).splitlines() if line.split()[:1] and line[0] != '#']
    installed = {name for purpose, *names in lines if purpose in PURPOSES for name in names}
    return [f'{PACKAGES}: ./dev package does not install {name}' for name in needed
            if name not in installed and PROVIDERS.get(name) not in installed]


def case(depends, packages):
    return {CONTROL: f'Source: a\nBuild-Depends: {depends}\nStandards-Version: 1\n', PACKAGES: packages}


CASES = [
    ('good', case('libc-dev (>= 2),\n               meson', '# comment\nbuild  libc-dev\npackage meson\n'), [], None),
    ('by another name', case('debhelper-compat (= 13)', 'package debhelper\n'), [], None),
    ('missing', case('libc-dev,\n               meson', 'build libc-dev\n'), [], 'does not install meson'),
    ('for another purpose', case('meson', 'test meson\n'), [], 'does not install meson'),
    ('not by another name', case('pkgconf', 'build a\n'), [], 'does not install pkgconf'),
]

if __name__ == '__main__':
    tree.main(check, CASES)
