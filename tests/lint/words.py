"""The English in the tree: comments of C, Python, shell and meson files, docstrings, and the paragraphs of pages."""

import ast
import io
import re
import tokenize

import tree

PAGES = ('.md', '.scd')
HASH = re.compile(r'^[ \t]*#(?!!)(.*)$|[ \t]#[ \t](.*)$')
# Text that is quoted keeps its words: code, messages. So does the title of a section of a file's head, see heads.py.
QUOTED = re.compile(r'`[^`]*`|"[^"]*"|<[^<>\s]*>|https?://\S+|\bWho may do what\b')


def joined(lines):
    """Comments on adjacent lines are one: (line, text) of each."""
    found = []
    for number, text in lines:
        if found and number == found[-1][1] + 1:
            found[-1][1:] = [number, f'{found[-1][2]} {text.strip()}']
        else:
            found.append([number, number, text.strip()])
    return [(first, text) for first, _, text in found]


def of_c(text):
    return [(first, words) for first, _, words in tree.comments(text)]


def of_python(text):
    try:
        parsed = ast.parse(text)
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (SyntaxError, tokenize.TokenError):
        return []
    found = joined((t.start[0], t.string.lstrip('#!')) for t in tokens
                   if t.type == tokenize.COMMENT and not re.match(r'#!|# *(noqa|pylint|type):?', t.string))
    for node in ast.walk(parsed):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            docstring = ast.get_docstring(node)
            if docstring:
                found += [(node.body[0].lineno, part) for part in docstring.split('\n\n')]
    return found


def of_script(text):
    matches = ((n, HASH.search(line)) for n, line in enumerate(text.split('\n'), 1))
    return joined((n, m[1] or m[2] or '') for n, m in matches if m and not (m[1] or '').startswith(' shellcheck '))


def of_page(text):
    """Paragraphs. Code, in a fence or indented by four spaces, and comments of scdoc are left out."""
    found, begin, part, fenced = [], 1, [], False
    for number, line in enumerate([*text.split('\n'), ''], 1):
        fenced ^= line.startswith('```')
        if not line.strip() or fenced or line.startswith(('```', '    ', '; ')):
            if part:
                found.append((begin, ' '.join(part)))
            part = []
            continue
        if not part:
            begin = number
        part.append(re.sub(r'^[\s#*>|-]+', '', line))
    return found


def reader(name):
    """The function that finds the passages of such a file, or None."""
    base = name.split('/')[-1]
    if name.endswith(('.c', '.h', '.hpp', '.cpp')):
        return of_c
    if name.endswith('.py') or name == 'bench/run':
        return of_python
    if name.endswith(PAGES):
        return of_page
    if base in ('meson.build', 'meson_options.txt', '.clang-tidy', '.editorconfig') or name.endswith('.sh') or name == 'dev':
        return of_script
    return None


def passages(root, name):
    """(line, words) of each comment or paragraph of a file."""
    read = reader(name)
    return [(line, QUOTED.sub(' it ', words)) for line, words in read(tree.read(root, name))] if read else []
