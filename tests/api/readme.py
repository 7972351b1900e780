"""README's first C program, compiled as a user does, runs on a real daemon's pool.

readme.py README TSLABD INCLUDE-FOLDER LIBRARY COMPILER [FLAG...]
"""

import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'util'))
import daemon as tslab  # noqa: E402

SKIP = 77
SECONDS = 60


def first_program(text):
    block = re.search(r'^```c[ \t]*\n(.*?)^```[ \t]*$', text, re.MULTILINE | re.DOTALL)
    return block and block[1]


def compile_program(text, folder, include, library, compiler):
    source, program = os.path.join(folder, 'first.c'), os.path.join(folder, 'first')
    with open(source, 'w', encoding='utf-8') as f:
        f.write(text)
    lib_folder = os.path.dirname(os.path.abspath(library))
    subprocess.run([*compiler, '-std=gnu11', '-Wall', '-Wextra', '-Werror', '-I', include, source, '-o', program,
                    '-L', lib_folder, '-ltslab', '-Wl,-rpath,' + lib_folder], check=True, timeout=SECONDS)
    return program


def run(daemon, program, folder):
    # By name, as the text around it says.
    environment = dict(daemon.environment, TSLAB_POOL='default')
    done = subprocess.run([program], env=environment, cwd=folder, stdin=subprocess.DEVNULL, timeout=SECONDS,
                          stdout=subprocess.PIPE, text=True)
    print(done.stdout, end='')
    assert done.returncode == 0, f'it ended with {done.returncode}'
    assert done.stdout.strip(), 'it prints nothing, and so shows nothing'


def run_without_daemon(program, folder):
    """An error that is said, and neither success nor a crash."""
    environment = dict(os.environ, TSLAB_RUNTIME_DIR=folder, TSLAB_POOL='nobody_serves_this')
    done = subprocess.run([program], env=environment, cwd=folder, stdin=subprocess.DEVNULL, timeout=SECONDS,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode > 0, f'without a daemon it ends with {done.returncode}'
    assert done.stdout.strip(), 'without a daemon it says nothing'


def main():
    readme, tslabd, include, library, *compiler = sys.argv[1:]
    if not os.path.exists(readme):
        print('there is no README.md')
        return SKIP
    with open(readme, encoding='utf-8') as f:
        text = first_program(f.read())
    assert text, 'README.md has no ```c block'
    assert 'main(' in text and '#include <tslab.h>' in text, 'its first ```c block is not a whole program'
    with tempfile.TemporaryDirectory(prefix='tslab-readme-') as folder:
        program = compile_program(text, folder, include, library, compiler)
        with tslab.Daemon(tslabd, '--size=16M') as daemon:
            run(daemon, program, folder)
            run(daemon, program, folder)  # the files of a first run must not break the second
        run_without_daemon(program, folder)
    return 0


if __name__ == '__main__':
    sys.exit(main())
