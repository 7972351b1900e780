"""Clauses have a noun for a subject: at most 3 in 1000 words are headless, and no comment opens with a word that has none.

Nor does one open with "the same", but for tests, which vary the test above them.

A word counts as headless where it stands in place of the noun that it should refer to:

        what, whatever, whoever     always, but for a question
        who                         at the start of a clause, or after a preposition, a conjunction or a form of "be"
        whose                       at the start of a clause
        those                       before a word that goes on to say which: those who, those that, those of, those we

A clause starts at the start of a comment and after . : ; ! ? ( and a dash. "The thread who waits", "objects whose epoch
is closed" and "those slabs" have their noun. A question, whose sentence ends with "?", and quoted text do not count.
Comments of C and Python, docstrings, and paragraphs of pages are looked at; the limit is for each folder at the top.

With --report after the root: a table by folder, with the plain number of these words too, however they are used.
"""

import collections
import re
import sys

import tree
import words

LIMIT = 3       # in 1000 words, for each folder
# A folder with few words may have one.
LEAST_WORDS = 1000

TOKEN = re.compile(r"[A-Za-z][A-Za-z'_]*|[.:;!?(](?=\s|$|\w)|--|[–—]")
STOPS = {'.', ':', ';', '!', '?', '(', '--', '–', '—'}
BEFORE_WHO = STOPS | set('about after and are as at be but by for from if in is nor of on or so than to was were with'.split())
AFTER_THOSE = set('in it not of that they we which who whose with without you'.split())
OPENERS = ('what', 'who', 'whoever', 'of', 'those', 'whose')
PLAIN = ('what', 'who', 'whoever', 'whose')


def sentences(text):
    return re.split(r'(?<=[.!?])\s+', text)


def headless(text):
    """The headless words of a comment, each with its neighbours."""
    found = []
    for sentence in sentences(text):
        if sentence.rstrip(' )*_').endswith('?'):
            continue
        tokens = TOKEN.findall(sentence)
        for i, token in enumerate(tokens):
            word = token.lower()
            before = tokens[i - 1].lower() if i > 0 else '.'
            after = tokens[i + 1].lower() if i + 1 < len(tokens) else '.'
            if word in ('what', 'whatever', 'whoever') or word == 'who' and before in BEFORE_WHO \
                    or word == 'whose' and before in STOPS or word == 'those' and after in AFTER_THOSE:
                found.append(' '.join(tokens[max(0, i - 2):i + 3]))
    return found


SAME = re.compile(r'[\W_]*the same(?:[;,.:]| (?:as|at|but|for|if|in|of|with|without)\b)', re.IGNORECASE)


def opener(text):
    """The word a comment opens with, if it is one of those that have no noun before them; None otherwise."""
    first = re.match(r'[\W_]*(\w+)', text)
    if not first or first[1].lower() not in OPENERS or sentences(text)[0].rstrip(' )*_').endswith('?'):
        return None
    # "Those slabs" and "What kind" have a noun.
    after = re.match(r'[\W_]*\w+\s+(\w+)', text)
    if first[1].lower() == 'those' and after and after[1].lower() not in AFTER_THOSE:
        return None
    return first[1]


class Folder:
    def __init__(self):
        self.n_words = self.n_plain = self.n_comments = 0
        self.headless, self.openers = [], []

    def per_thousand(self, n):
        return 1000 * n / self.n_words if self.n_words else 0

    def add(self, name, passages):
        for line, text in passages:
            found = re.findall(r"[A-Za-z][A-Za-z'_]*", text)
            self.n_words += len(found)
            self.n_plain += sum(word.lower() in PLAIN for word in found)
            self.n_comments += 1
            self.headless += [(name, line, where) for where in headless(text)]
            if opener(text) or (not name.startswith('tests/') and SAME.match(text)):
                self.openers.append((name, line, text[:40]))


def measure(root):
    folders = collections.defaultdict(Folder)
    for name in tree.files(root):
        if name == 'tests/lint/headless.py':
            continue    # it lists the words
        passages = words.passages(root, name)
        if passages:
            folders[name.split('/')[0] if '/' in name else '.'].add(name, passages)
    return folders


def check(root):
    problems = []
    for name, folder in sorted(measure(root).items()):
        problems += [f'{file}:{line}: a comment opens with "{text}"' for file, line, text in folder.openers]
        if len(folder.headless) > LIMIT * max(folder.n_words, LEAST_WORDS) / 1000:
            problems.append(f'{name}: {folder.per_thousand(len(folder.headless)):.1f} headless clauses in 1000 words, '
                            f'at most {LIMIT}:')
            problems += [f'{file}:{line}: {where}' for file, line, where in folder.headless]
    return problems


def report(root):
    print(f'{"":10} {"words":>7} {"comments":>8} {"plain":>6} {"/1000":>6} {"headless":>8} {"/1000":>6} {"openers":>7} {"%":>5}')
    for name, f in sorted(measure(root).items()):
        print(f'{name:10} {f.n_words:7} {f.n_comments:8} {f.n_plain:6} {f.per_thousand(f.n_plain):6.1f} '
              f'{len(f.headless):8} {f.per_thousand(len(f.headless)):6.1f} {len(f.openers):7} '
              f'{100 * len(f.openers) / f.n_comments:5.1f}')


PADDING = ' A thread takes a slot of the slab.' * 8     # 64 words
FINE = '/* The thread frees the slot.' + PADDING + ' */\n'



def much(text, times=4):
    return {'shm/a.c': f'/* The daemon waits; {text} */\n' * times}


CASES = [
    ('good', {'shm/a.c': FINE}, [], None),
    ('few in little text', much('what it does is said.', 3), [], None),
    ('what', much('what it does is said.'), [], 'in 1000 words'),
    ('whoever', much('it wakes whoever waits.'), [], 'in 1000 words'),
    ('who, headless', much('who waits is woken.'), [], 'in 1000 words'),
    ('who after a preposition', much('it is taken by who comes.'), [], 'in 1000 words'),
    ('who after a noun', much('the thread who waits is woken.'), [], None),
    ('whose, headless', much('whose slab it is knows.'), [], 'in 1000 words'),
    ('whose after a noun', much('the objects whose epoch is closed stay.'), [], None),
    ('whose after a preposition', much('the user in whose name it runs.'), [], None),
    ('those who', much('it wakes those who wait.'), [], 'in 1000 words'),
    ('those with a noun', much('it frees those slabs.'), [], None),
    ('a question', much('who asks?'), [], None),
    ('quoted', much('it answers "who waits" by what `who` prints.', 3), [], None),
    ('a short limit in much text', {'shm/a.c': FINE * 30 + much('what it does.', 5)['shm/a.c']}, [], None),
    ('another folder\'s words do not help', {'shm/a.c': FINE * 90, 'proto/a.c': much('what it does.')['shm/a.c']}, [],
     'proto: '),
    ('an opening', {'shm/a.c': '/* Of the slab. */\n'}, [], 'opens with'),
    ('an opening in small letters', {'shm/a.c': 'int x; /* whose it is */\n'}, [], 'opens with'),
    ('an opening in a second comment', {'shm/a.c': FINE + '\n/*\n * Who waits is woken.\n */\n'}, [], 'shm/a.c:3:'),
    ('those with a noun at the start', {'shm/a.c': '/* Those slabs are full. */\n'}, [], None),
    ('a question at the start', {'shm/a.c': '/* Who asks? The daemon. */\n'}, [], None),
    ('code', {'shm/a.c': 'int what, who; char *s = "what who";\n' * 9}, [], None),
    ('a docstring', {'bench/driver/a.py': 'def f():\n    """Those who wait."""\n'}, [], 'opens with'),
    ('a comment in Python', {'bench/driver/a.py': 'x = 1  # what it is\n'}, [], 'opens with'),
    ('a page', {'README.md': '# tslab\n\nThe pool.\n\nWhat is freed stays.\n'}, [], 'README.md:5:'),
    ('code in a page', {'README.md': '```sh\nwho\n```\n\n    what\n'}, [], None),
    ('a manual page', {'daemon/a.8.scd': '*-x*\n\tOf the slab.\n\n\tThose who wait.\n'}, [], 'a.8.scd:4:'),
    ('a script', {'tools/a.sh': '#!/bin/sh\n# Whose it is.\necho "# what"\n'}, [], 'tools/a.sh:2:'),
]

if __name__ == '__main__':
    if sys.argv[2:] == ['--report']:
        import pathlib
        report(pathlib.Path(sys.argv[1]))
    else:
        tree.main(check, CASES)
