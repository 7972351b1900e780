"""The pages of Node, Go and Rust, followed word by word in a Debian 12 that has nothing of ours, with its own toolchains:
test-pages.py SOURCE [PAGE…].

A page's text names a file before each of its blocks; lines of a console that begin with `$ ` are commands, and the others
are printed by them. `apt-get` has the network, and all that comes behind it has none. Exit status 77 where no such Debian
can be. TSLAB_TEST_PACKAGES: a folder of packages, as './dev package' makes it, instead of new ones.
"""

import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

import debian

PAGES = 'node', 'go', 'rust'
SKIP = 77
TREE = 'root/tslab'
MARK = 'the output of command'
FILE = re.compile(r'`([\w./-]+)`:\n\n```\w+\n(.*?)^```$', re.MULTILINE | re.DOTALL)
CONSOLE = re.compile(r'^```console\n(.*?)^```$', re.MULTILINE | re.DOTALL)
ALONE = ['unshare', '--net', '--pid', '--fork', '--kill-child']
SECONDS = 900
APT = 'export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8; '


def commands(page):
    """The commands of a page, each with its output."""
    [text] = CONSOLE.findall(page)
    for command in re.split(r'^\$ ', text, flags=re.MULTILINE)[1:]:
        line, _, output = command.partition('\n')
        yield line, output


def follow(log, root, page):
    """The commands' outputs, where the page tells them, are those of the page."""
    for name, text in FILE.findall(page):
        (root / TREE / name).parent.mkdir(parents=True, exist_ok=True)
        (root / TREE / name).write_text(text, encoding='utf-8')
    (install, _), *rest = commands(page)
    assert install.startswith('apt-get install '), install
    debian.call(log, 'chroot', root, 'sh', '-c', f'{APT} cd /{TREE} && {install}')
    script = '\n'.join([APT, f'cd /{TREE}', *(f'echo {MARK}\n{line}' for line, _ in rest), f'echo {MARK}'])
    done = subprocess.run([*ALONE, f'--mount-proc={root}/proc', 'chroot', root, 'bash', '-c', script], stdout=subprocess.PIPE,
                          stderr=log, stdin=subprocess.DEVNULL, text=True, timeout=SECONDS)
    outputs = [text.partition('\n')[2] for text in done.stdout.split(MARK)[1:-1]]
    assert any(output for _, output in rest)
    for (line, expected), output in zip(rest, outputs):
        if expected and output != expected:
            log.seek(0)
            print(log.read().decode(errors='replace')[-6000:], f'{line}: {output!r}, not {expected!r}', sep='\n')
            sys.exit(1)


def main():
    source, *names = sys.argv[1:]
    if debian.missing():
        print(debian.missing())
        sys.exit(SKIP)
    with tempfile.TemporaryDirectory(prefix='tslab-pages-') as name, open(f'{name}/log', 'w+b') as log:
        root = pathlib.Path(name, 'root')
        packages = root / TREE / 'build/packages'
        debian.install(log, root, 'ca-certificates')
        (root / 'etc/apt/apt.conf.d/51few').write_text('APT::Install-Recommends "no";\n')
        (root / TREE).mkdir()
        files = f'git -C {shlex.quote(source)} ls-files -z | tar -C {shlex.quote(source)} --null -T - -c'
        debian.call(log, 'sh', '-c', f'{files} | tar -x -C {root / TREE}')
        packages.mkdir(parents=True)
        debian.build_packages(source, packages)
        debian.call(log, 'chroot', root, 'apt-get', 'update')
        for page in names or PAGES:
            follow(log, root, (pathlib.Path(source) / 'bindings' / page / 'README.md').read_text(encoding='utf-8'))
            print(f'bindings/{page}/README.md was followed', flush=True)


if __name__ == '__main__':
    main()
