#!/usr/bin/env python3
"""Manual pages of the library's calls, made from the comments of its public headers.

        man.py list HEADER...                     names of the pages
        man.py pages VERSION FOLDER HEADER...     writes them: NAME.3
        man.py index PAGE.scd HEADER...           the page, with the calls in place of its line @CALLS@

A comment directly above a declaration is its page; of several declarations below one comment, the first has the page and the others
are links to it. A longer comment with an empty line, or a type without members, below it is about the calls that follow. Structs and
constants that a call takes are shown with it. The first comment of a header in HEADS is a page with the name of the header.
"""

import pathlib
import re
import sys

COMMENT = re.compile(r'/\*\n?(.*?)\*/', re.DOTALL)
DECLARATION = re.compile(r'^[a-z][^\n;{}()=/#]*?\b(tslab_\w+)\([^;{}]*\);', re.MULTILINE)
ITEM = re.compile(r'((?:-E[A-Z0-9]+(?:, )?)+)(?: {2,}(.*)| ?)$')
SHARED = ('attach errors', 'control errors')    # lists that many calls refer to
HEADS = ('tslab_map',)                          # tslab(3) and tslab_near(3) are files of their own


def lines_of(comment):
    return [re.sub(r'^ \* ?', '', line).rstrip() for line in comment.strip('\n').split('\n')]


def paragraphs(comment):
    """Lists of lines."""
    result = [[]]
    for line in lines_of(comment):
        if line.strip() in ('', '*'):
            result.append([])
        else:
            result[-1].append(line)
    return [p for p in result if p]


class Call:
    def __init__(self, header, name, declaration, comment, section):
        self.header, self.names, self.declarations, self.section = header, [name], [declaration], section
        self.paragraphs = paragraphs(comment)

    def text(self):
        return ' '.join(line.strip() for p in self.paragraphs for line in p)

    def summary(self):
        """The first sentence, to begin in the middle of a line."""
        text = re.match(r'(.*?)(?:[.:;](?=\s|$)|$)', self.text()).group(1).replace('`', '')
        return text[:1].lower() + text[1:]


class Header:
    def __init__(self, path):
        self.name, self.source = path.name, path.read_text(encoding='utf-8')
        self.calls, self.shared = [], {}
        self.head = paragraphs(COMMENT.search(self.source).group(1))
        self.find_calls()
        self.find_shared()

    def find_calls(self):
        section, end, declared = None, 0, -1
        for match in DECLARATION.finditer(self.source):
            before = self.source[end:match.start()]
            for comment in COMMENT.finditer(before):
                after = before[comment.end():]
                if comment.group().startswith('/*\n') and re.match(r'\n(?:\n|struct \w+;)', after):
                    section = comment.group(1)
            comments = list(COMMENT.finditer(before))
            name, declaration = match.group(1), match.group()
            if comments and not before[comments[-1].end():].strip():
                self.calls.append(Call(self.name, name, declaration, comments[-1].group(1), section))
            elif declared == len(self.calls) - 1 and not before.strip():
                self.calls[-1].names.append(name)
                self.calls[-1].declarations.append(declaration)
            else:
                sys.exit(f'{self.name}: {name}() has no comment')
            end, declared = match.end(), len(self.calls) - 1

    def find_shared(self):
        """Lists of errors, by the name that a sentence before or after gives them."""
        for comment in COMMENT.finditer(self.source):
            items = [p for p in paragraphs(comment.group(1)) if ITEM.match(p[0].strip())]
            for name in SHARED:
                if items and f'"the {name}"' in ' '.join(comment.group(1).replace('\n *', ' ').split()):
                    self.shared[name] = items

    def struct(self, name):
        match = re.search(rf'(?:/\*\n(?:(?!\*/).)*?\*/\n)?struct {name} {{\n.*?^}};\n', self.source, re.DOTALL | re.MULTILINE)
        return match.group() if match else None

    def constants(self, owner):
        """The enum under a comment that begins with the owner's name."""
        match = re.search(rf'^/\* {owner}(?:\(\)|\.)[^\n]*\*/\n((?:__extension__ )?enum \w+ {{.*?^}};\n)', self.source,
                          re.DOTALL | re.MULTILINE)
        return match.group() if match else None


# -- roff

def escape(text):
    return text.replace('\\', '\\e')


def inline(text, known):
    text = escape(text).replace('-E', '\\-E')
    text = re.sub(r'`([^`]*)`', r'\\fI\1\\fR', text)
    text = re.sub(r'\b(tslab_\w+)\(\)', lambda m: rf'\fB{m.group(1)}\fR({"3" if m.group(1) in known else ""})', text)
    text = re.sub(r'(<tslab\w*\.h(?:pp)?>)', r'\\fI\1\\fR', text)
    return re.sub(r'^([.\'])', r'\\&\1', text)


def verbatim(lines):
    yield from ['.PP', '.nf', '.RS 4']
    for line in lines:
        yield re.sub(r'^([.\'])', r'\\&\1', escape(line).replace('-', '\\-')) or '.sp'
    yield from ['.RE', '.fi']


def render_list(lines, known):
    for line in lines:
        match = ITEM.match(line.strip())
        if match:
            yield '.TP'
            yield '.B ' + match.group(1).rstrip().rstrip(',').replace('-E', '\\-E')
            yield inline((match.group(2) or '').strip(), known) or '\\&'
        elif line.startswith(('and ', 'As ', '-E')):
            yield '.PP'
            yield inline(line.strip(), known)
        else:
            yield inline(line.strip(), known)


def render_text(lines, known):
    """A paragraph, and the points of a list in it, which begin with "  - "."""
    yield '.PP'
    for before, line in zip(['', *lines], lines):
        if line.startswith('  - '):
            yield '.IP \\(bu 2'
        elif before.startswith('  ') and not line.startswith('  '):
            yield '.PP'
        yield inline(line.removeprefix('  - ').strip(), known)


def render(found, known):
    for lines in found:
        if ITEM.match(lines[0].strip()):
            yield from render_list(lines, known)
        elif all(line.startswith('     ') for line in lines):
            yield from verbatim([line[5:] for line in lines])
        else:
            yield from render_text(lines, known)


def is_error(lines):
    return re.match(r'-E[A-Z]', lines[0].strip()) is not None


def error_text(call, shared):
    """Paragraphs of errors, and the lists that they refer to."""
    errors = [p for p in call.paragraphs if is_error(p)]
    text = ' '.join(' '.join(p) for p in call.paragraphs)
    return errors, [(name, shared[name]) for name in SHARED if f'{name}' in text and name in shared]


def page(call, headers, version, known):
    shared = {name: items for h in headers for name, items in h.shared.items()}
    own = next(h for h in headers if h.name == call.header)
    errors, lists = error_text(call, shared)
    out = [f'.TH {call.names[0]} 3 "" "tslab {version}" "tslab"', '.SH NAME',
           ', '.join(call.names) + ' \\- ' + escape(call.summary()),
           '.SH SYNOPSIS', '.nf', f'.B #include <{call.header}>']
    for declaration in call.declarations:
        out += ['.PP'] + [f'.B "{escape(line)}"' for line in declaration.split('\n')]
    out += ['.fi', '.SH DESCRIPTION']
    out += render([p for p in call.paragraphs if p not in errors], known)
    types = dict.fromkeys(re.findall(r'struct (tslab_\w+) \*', ' '.join(call.declarations)))
    blocks = [h.struct(t) for t in types for h in headers] + [h.constants(n) for n in [*types, *call.names] for h in headers]
    for block in filter(None, blocks):
        out += verbatim(block.rstrip('\n').replace('\t', '        ').split('\n'))
    if call.section and (not call.section.lstrip(' *').startswith('Control calls') or 'control call' in call.text().lower()):
        out += ['.SH NOTES'] + list(render([p for p in paragraphs(call.section) if not is_error(p)], known))
    if errors or lists:
        out += ['.SH ERRORS'] + list(render(errors, known))
    for name, items in lists:
        out += [f'.SS The {name}'] + list(render(items, known))
    others = [n for n in sorted(known) if n.split('_')[1] == call.names[0].split('_')[1] and n not in call.names][:8]
    overviews = dict.fromkeys([own.name.removesuffix('.h'), 'tslab'])
    out += ['.SH SEE ALSO'] + [f'.BR {n} (3),' for n in [*others, *overviews]] + ['.BR tslab\\-arena (7)']
    text = '\n'.join(out)
    for heading in ('DESCRIPTION', 'NOTES', 'ERRORS'):
        text = text.replace(f'.SH {heading}\n.PP\n', f'.SH {heading}\n')
    return re.sub(r'(\n\.SS [^\n]*)\n\.PP\n', r'\1\n', text) + '\n'


def head_page(name, header, version, known):
    first, *rest = header.head
    out = [f'.TH {name} 3 "" "tslab {version}" "tslab"', '.SH NAME', escape(' '.join(first)).rstrip('.').replace(': ', ' \\- ', 1),
           '.SH SYNOPSIS', f'.B #include <{header.name}>', '.SH DESCRIPTION', *render(rest, known),
           '.SH SEE ALSO', *(f'.BR {c.names[0]} (3),' for c in header.calls), '.BR tslab (3)']
    return '\n'.join(out).replace('.SH DESCRIPTION\n.PP\n', '.SH DESCRIPTION\n') + '\n'


def heads_of(headers):
    return [(name, h) for h in headers for name in HEADS if h.name == name + '.h']


def write_pages(version, folder, headers):
    known = {name for h in headers for call in h.calls for name in call.names}
    for name, header in heads_of(headers):
        (folder / f'{name}.3').write_text(head_page(name, header, version, known), encoding='utf-8')
    for call in (call for h in headers for call in h.calls):
        (folder / f'{call.names[0]}.3').write_text(page(call, headers, version, known), encoding='utf-8')
        for name in call.names[1:]:
            (folder / f'{name}.3').write_text(f'.so man3/{call.names[0]}.3\n', encoding='utf-8')


def scd(text):
    return re.sub(r'([_*])', r'\\\1', text)


def print_index(template, headers):
    lines = []
    for header in headers:
        lines.append(f'*<{scd(header.name)}>*\n')
        for call in header.calls:
            names = ', '.join(f'*{name}*(3)' for name in call.names)
            lines.append(f'{names}\n\t{scd(call.summary())}\n')
    sys.stdout.write(template.read_text(encoding='utf-8').replace('@CALLS@', '\n'.join(lines).rstrip('\n')))


def main(verb, *args):
    if verb == 'list':
        headers = [Header(pathlib.Path(a)) for a in args]
        names = [name for name, _ in heads_of(headers)] + [name for h in headers for call in h.calls for name in call.names]
        print('\n'.join(f'{name}.3' for name in names))
    elif verb == 'pages':
        write_pages(args[0], pathlib.Path(args[1]), [Header(pathlib.Path(a)) for a in args[2:]])
    elif verb == 'index':
        print_index(pathlib.Path(args[0]), [Header(pathlib.Path(a)) for a in args[1:]])
    else:
        sys.exit(__doc__)


if __name__ == '__main__':
    main(*sys.argv[1:])
