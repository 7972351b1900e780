"""The shells complete for tslabctl all that its help names, and nothing else; its manual page names all of it, too.

    test-completion.py TSLABCTL TSLABD CTL-CLIENT SOURCE-FOLDER [unittest arguments]
"""

import os
import re
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.abspath(sys.argv[4]), 'tests/util'))

from daemon import SECONDS
from verb import SOURCE, TSLABCTL, VerbTest, main

COMPLETION = f'{SOURCE}/daemon/ctl/completion'
BASH = '''
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
_tslabctl "$1"
printf '%s\\n' "${COMPREPLY[@]}"
'''
# zsh's own functions are there only within its line editor.
ZSH = '''
function compadd() { print -rl -- "${(@P)argv[2]}" }
function _files() { print -rl -- "${words[CURRENT]}"*(N) }
file=$1; shift
words=("$@"); CURRENT=$#
source "$file"
'''


class Completion:
    """For one shell each."""

    def complete(self, *words):
        # LeakSanitizer stops the program by ptrace() as it ends. zsh continues the jobs of a pipeline whose last one has
        # ended, which takes that stop away, and both wait for ever.
        environment = {**self.daemon.environment,
                       'ASAN_OPTIONS': os.environ.get('ASAN_OPTIONS', '') + ':detect_leaks=0'}
        done = subprocess.run([*self.SHELL, self.FILE, TSLABCTL, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, env=environment, check=False, timeout=SECONDS, cwd=self.daemon.dir)
        self.assertEqual((done.returncode, done.stderr), (0, ''))
        # bash gets the completions that begin like the word, zsh gets all
        return {line for line in done.stdout.splitlines() if line.startswith(words[-1]) and line}

    def help(self, section, *verb):
        lines = self.text(*verb, '--help').split(f'{section}:\n')[1].split('\n\n')[0].splitlines()
        return [line.strip() for line in lines if line.strip()]

    def verbs(self):
        return {tuple(re.match(r'[a-z]+( [a-z]+)?', line).group().split()) for line in self.help('Verbs')}

    def test_verbs(self):
        verbs = self.verbs()
        self.assertEqual(self.complete(''), {verb[0] for verb in verbs})
        self.assertEqual(self.complete('st'), {'status', 'stats'})
        self.assertEqual(self.complete('epoch', ''), {verb[1] for verb in verbs if verb[0] == 'epoch'})
        self.assertEqual(self.complete('--json', '--pool', 'epoch', 'epoch', 'cl'), {'close'})
        self.assertEqual(self.complete('stats', ''), set())

    def test_options(self):
        for verb in self.verbs():
            options = {re.match(r'(-[a-z], )?(--[a-z-]+)', line).group(2) for line in self.help('Options', *verb)}
            self.assertEqual(self.complete(*verb, '--'), options, verb)
        self.assertIn('--wait', self.complete('epoch', 'close', '3', '--w'))

    def test_values(self):
        self.assertEqual(self.complete('--pool', ''), {'default'})
        # a value is no verb
        for option in ('-d', '--delay', '-n', '--count', '-o', '--columns', '--sort', '--socket'):
            self.assertEqual(self.complete(option, '2', 'st'), {'status', 'stats'}, option)
            self.assertEqual(self.complete(option, ''), self.complete('clients', option, ''), option)
        self.assertEqual(self.complete('slabs', '--by', ''), {'place', 'epoch', 'class'})
        fields = self.run_ctl('clients', '--sort', '?').stderr.strip().split('one of: ')[1].split(', ')
        self.assertEqual(self.complete('clients', '--sort', ''), set(fields))
        self.assertEqual(self.complete('stats', '--socket', 'def'), {'default.sock', 'default.lock', 'default.run', 'default.settings'})

    def test_maps(self):
        """Names of maps, of the pool that is named; the file of a dump."""
        self.client().do('put 10 1')
        for verb in ('keys',), ('get',), ('put',), ('delete',), ('maps', 'set'), ('maps', 'top'), ('dump', 'file'), ('load', 'file'):
            self.assertEqual(self.complete(*verb, ''), {'values'}, verb)
            self.assertEqual(self.complete('--pool', 'default', *verb, 'v'), {'values'}, verb)
            self.assertEqual(self.complete('--pool', 'other', *verb, ''), set(), verb)
        self.assertEqual(self.complete('get', 'values', ''), set())
        self.assertIn('default.sock', self.complete('dump', 'def'))


class Bash(Completion, VerbTest):
    SHELL, FILE = ['bash', '--norc', '-c', BASH, 'bash'], f'{COMPLETION}/tslabctl.bash'


@unittest.skipUnless(shutil.which('zsh'), 'no zsh here')
class Zsh(Completion, VerbTest):
    SHELL, FILE = ['zsh', '-f', '-c', ZSH, 'zsh'], f'{COMPLETION}/_tslabctl'


if __name__ == '__main__':
    main()
