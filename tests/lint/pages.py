"""Pages (*.md), and comments of C files, name files and functions that exist, and links of pages lead somewhere.

Checked are, in pages: links; paths with a slash and a suffix, from the root, from the page's folder or, in a page of a top folder, from
there; names with () behind, which some source must have with a parenthesis behind it; and that a file which stands right before
or, in a picture, behind such a name has it. NAME stands for any, and {a,b} for each of the two.
In comments: paths, from the root or from the top folder, tests by their file's name alone, and names with () behind, which
some C code must have.
"""

import re

import tree

LINK = re.compile(r'\]\(([^)\s]+)\)')
PATH = re.compile(r'(?<![\w/.$~:@*<>%-])(?!build)((?:[\w.@*-]+/)+(?:[\w.@*-]|\{[\w,-]+\})*\.(?:c|h|hpp|py|md|scd|proto|sym|build|conf|catalog|yml))(?![\w/*])')
NAME = re.compile(r'(?<![\w.:>-])([a-z][a-z0-9]*_[a-z0-9_]+)\(\)')
TEST = re.compile(r'(?<![\w/.{*-])test-[\w-]+\.(?:c|py)\b')
# "`file`, `name()`" in text, "name()   file" in pictures.
BEFORE = re.compile(r'`([\w./-]+/[\w.-]+\.(?:c|h|py))`, `([a-z]\w*)\(\)`')
BEHIND = re.compile(r'^ +([a-z]\w*)\(\) +([\w./-]+/[\w.-]+\.(?:c|h|py))\b', re.MULTILINE)
SYSTEM = {'epoll_wait', 'pidfd_getfd'}  # calls of the system that comments name, and no code makes
SOURCES = ('.c', '.h', '.hpp', '.py', '.cpp')


def anchors(text):
    """The names by which links call the headings, as in the usual viewers of Markdown."""
    heads = re.findall(r'^#+ (.*)$', re.sub(r'```.*?```', '', text, flags=re.DOTALL), re.MULTILINE)
    return {re.sub(r'[^\w -]', '', re.sub(r'\[([^]]*)\]\([^)]*\)', r'\1', h).lower()).replace(' ', '-') for h in heads}


def normal(folder, path):
    parts = [p for p in folder.split('/') if p]
    for part in path.split('/'):
        if part == '..' and parts:
            parts.pop()
        elif part not in ('.', ''):
            parts.append(part)
    return '/'.join(parts)


def check_links(root, name, text, names):
    folder = name.rpartition('/')[0]
    for match in LINK.finditer(text):
        path, _, anchor = match.group(1).partition('#')
        if '://' in path or path.startswith('mailto:'):
            continue
        target = normal(folder, path) if path else name
        if target not in names and not (root / target).is_dir():
            yield match.start(), f'a link to {match.group(1)}, which is not there'
        elif anchor and anchor not in anchors(tree.read(root, target)):
            yield match.start(), f'a link to {match.group(1)}: there is no such heading'


def alternatives(path):
    """The paths for which a path with {a,b} stands."""
    match = re.search(r'\{([^}]*)\}', path)
    return [path[:match.start()] + one + path[match.end():] for one in match[1].split(',')] if match else [path]


def matching(path, name, names):
    pattern = re.compile('/'.join(re.escape(p).replace(r'\*', '[^/]*') for p in path.split('/')))
    folders = {'', name.rpartition('/')[0] + '/', name.split('/')[0] + '/' if '/' in name else ''}
    return [n for n in names for f in folders if n.startswith(f) and pattern.fullmatch(n[len(f):])]


def check_places(root, name, text, names):
    pairs = [(m.start(), m[1], m[2]) for m in BEFORE.finditer(text)] + [(m.start(), m[2], m[1]) for m in BEHIND.finditer(text)]
    for at, path, function in pairs:
        files = matching(path, name, names)
        if files and not any(re.search(rf'^(?:[\w].*[\s*])?{function}\(', tree.read(root, f), re.MULTILINE) for f in files):
            yield at, f'{path} has no {function}()'


def check_comments(root, names):
    texts = {n: tree.read(root, n) for n in names if n.endswith(('.c', '.h', '.hpp', '.cpp'))}
    known = SYSTEM.union(*(re.findall(r'\b[a-z]\w*\b', tree.blank(text)) for text in texts.values()))
    bases = {n.rpartition('/')[2] for n in names}
    for name, text in texts.items():
        if not name.endswith(('.c', '.h')):
            continue
        for match in tree.TOKEN.finditer(text):
            words = match.group('comment') or ''
            found = [(m.start(), f'there is no function {m.group(1)}()') for m in NAME.finditer(words) if m.group(1) not in known]
            found += [(m.start(), f'there is no file {path}') for m in PATH.finditer(words) for path in alternatives(m.group(1))
                      if 'NAME' not in path and not matching(path, name, names)]
            found += [(m.start(), f'there is no file {m.group()}') for m in TEST.finditer(words) if m.group() not in bases]
            yield from (f'{name}:{tree.line_of(text, match.start() + at)}: {what}' for at, what in found)


def check(root):
    names = tree.files(root)
    pages = [n for n in names if n.endswith('.md')]
    called = set()
    for name in names:
        if name.endswith(SOURCES):
            called.update(re.findall(r'\b([a-z]\w*)\(', tree.read(root, name)))
    problems = list(check_comments(root, names))
    for name in pages:
        text = tree.read(root, name)
        found = list(check_links(root, name, text, set(names)))
        bare = LINK.sub(lambda m: ' ' * len(m.group()), text)
        found += [(m.start(), f'there is no file {path}') for m in PATH.finditer(bare) for path in alternatives(m.group(1))
                  if 'NAME' not in path and not matching(path, name, names)]
        found += [(m.start(), f'there is no function {m.group(1)}()') for m in NAME.finditer(text)
                  if m.group(1) not in called]
        found += check_places(root, name, text, names)
        problems += [f'{name}:{tree.line_of(text, at)}: {what}' for at, what in found]
    return problems


def page(text, name='shm/README.md'):
    return {name: text, 'shm/map/trie.c': 'int trie_link(void) {\n}\n', 'tests/README.md': '# Tests\n\n## How to: begin\n'}


CASES = [
    ('good', page('See `map/trie.c`, shm/map/*.c, `trie_link()`, map/NAME.c, `verb_NAME()`, [tests](../tests/README.md#how-to-begin), /usr/a/b.c\n'),
     [], None),
    ('a heading of its own', page('# One `two()`\n[there](#one-two)\n'), [], None),
    ('a folder', page('[there](map/)\n'), [], None),
    ('no link', page('[there](gone.md)\n'), [], 'gone.md'),
    ('no heading', page('[there](../tests/README.md#gone)\n'), [], 'no such heading'),
    ('no file', page('`map/gone.c`\n'), [], 'no file map/gone.c'),
    ('no file in a block', page('\n    walk    map/gone.c   and on\n'), [], 'no file map/gone.c'),
    ('several files', page('`tests/{a,b}.py`\n') | {'tests/a.py': '', 'tests/b.py': ''}, [], None),
    ('not each file', page('`tests/{a,b}.py`\n') | {'tests/a.py': ''}, [], 'no file tests/b.py'),
    ('its file', page('`map/trie.c`, `trie_link()`\n\n    trie_link()   map/trie.c   links\n'), [], None),
    ('not where it is called', page('`tests/a.py`, `trie_link()`\n') | {'tests/a.py': 'def f():\n    trie_link()\n'}, [], 'has no'),
    ('not its file', page('`tests/a.py`, `trie_link()`\n') | {'tests/a.py': ''}, [], 'tests/a.py has no trie_link()'),
    ('not its file in a picture', page('\n    trie_link()   tests/a.py   links\n') | {'tests/a.py': ''}, [], 'has no trie_link()'),
    ('good comment', {'shm/a.c': '/* f_g() of shm/a.c, or verb_NAME() in shm/NAME.c. */\nint f_g(void) {\n}\n'}, [], None),
    ('no function in a comment', {'shm/a.c': '/* See f_gone(). */\nint f_g(void) {\n}\n'}, [], 'shm/a.c:1: there is no function f_gone()'),
    ('only in a comment', {'shm/a.c': '/* f_gone() */\n', 'shm/b.h': '/* f_gone(x) */\n'}, [], 'no function f_gone()'),
    ('no file in a comment', {'shm/a.c': 'int a;\n/* See\n * shm/gone.c. */\n'}, [], 'shm/a.c:3: there is no file shm/gone.c'),
    ('a test', {'shm/a.c': '/* See test-b.c. */\n', 'tests/unit/test-b.c': ''}, [], None),
    ('no test', {'shm/a.c': '/* See test-gone.c. */\n'}, [], 'no file test-gone.c'),
    ('no function', page('`trie_gone()`\n'), [], 'no function trie_gone()'),
]

if __name__ == '__main__':
    tree.main(check, CASES)
