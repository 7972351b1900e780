"""A Debian that has nothing of ours, for pages that are followed word by word: with packages from the servers that this
machine uses."""

import os
import pathlib
import re
import shutil
import subprocess
import sys


def servers():
    """The places of Debian's packages: address, release, components."""
    form = '$(REPO_URI) $(RELEASE) $(COMPONENT)'
    lines = subprocess.run(['apt-get', 'indextargets', '--format', form, 'Created-By: Packages'],
                           stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    return sorted({line for line in lines if re.search(r'/debian(-security)?/? (bookworm|12)', line)})


def missing():
    """Why there can be none here; '' where it can."""
    if os.geteuid() != 0 or not shutil.which('debootstrap') or not shutil.which('dh') or not servers():
        return 'not root, or no debootstrap, debhelper or server of Debian here'
    return ''


def call(log, *command, **more):
    if subprocess.run(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, **more).returncode:
        log.seek(0)
        print(log.read().decode(errors='replace')[-6000:])
        sys.exit(f'{command[0]} failed')


def build_packages(source, folder):
    """Our packages, new ones or those of the folder $TSLAB_TEST_PACKAGES."""
    given = os.environ.get('TSLAB_TEST_PACKAGES')
    if not given:
        subprocess.run([f'{source}/dev', 'package'], check=True, env={**os.environ, 'TSLAB_BUILD': f'{folder}/build'})
    for deb in pathlib.Path(given or folder / 'build/packages').glob('*_*.deb'):
        if 'dbgsym' not in deb.name:
            shutil.copy(deb, folder)


def install(log, root, needed):
    """A small Debian with these packages, in which apt-get asks nothing."""
    places = servers()
    main = next(line.split()[0] for line in places if 'security' not in line)
    call(log, 'debootstrap', '--variant=minbase', f'--include={needed}', 'bookworm', root, main)
    (root / 'etc/apt/sources.list').write_text(''.join(f'deb {line}\n' for line in places))
    (root / 'etc/apt/apt.conf.d/50yes').write_text('APT::Get::Assume-Yes "yes";\nAPT::Sandbox::User "root";\n'
                                                   'APT::Keep-Downloaded-Packages "yes";\n'
                                                   'Dpkg::Options { "--force-unsafe-io"; };\n')
