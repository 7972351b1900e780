"""Nothing in the tree knows where it was made: no absolute path into a private folder, no host of a package registry."""

import re

import tree

# The patterns are written so that they do not match themselves.
FORBIDDEN = [
    ('a private path', re.compile(r'(?<![\w.-])/(?:work|root|home/\w+)/')),
    ('a registry', re.compile(r'\b(?:registry|artifactory|nexus|mirrors?|proxy)\.[a-z0-9.-]+'
                              r'\.(?:com|org|net|io|dev|cloud|corp|internal|local)\b')),
    ('a registry', re.compile(r'\b(?:(?:pypi|pythonhosted)\.org|npmjs\.(?:com|org)|crates\.io|docker\.io|ghcr\.io'
                              r'|quay\.io|deb\.debian\.org)\b')),
    ('a bare address', re.compile(r'\bhttps?://(?:localhost|\d+\.\d+\.\d+\.\d+)\b')),
]


def check(root):
    problems = []
    for name in tree.files(root):
        text = tree.read(root, name)
        if '\0' in text:
            continue
        for what, pattern in FORBIDDEN:
            problems += [f'{name}:{tree.line_of(text, m.start())}: {what}: {m.group()}' for m in pattern.finditer(text)]
    return problems


def said(*parts):
    return {'README.md': 'See ' + ''.join(parts) + '.\n'}


CASES = [
    ('good', said('/run/tslab/default.sock, /usr/lib, net', 'work/, chroot', '/x and tests/', 'work/a'), [], None),
    ('work', said('/wo', 'rk/main'), [], 'private path'),
    ('root', said('cd /ro', 'ot/x'), [], 'private path'),
    ('home', said('"/ho', 'me/ann/x"'), [], 'private path'),
    ('a registry by kind', said('https://regis', 'try.example.net/x'), [], 'a registry'),
    ('a member of that name', said('regis', 'try.first.next'), [], None),
    ('a registry by name', said('https://py', 'pi.org/simple'), [], 'a registry'),
    ('an address', said('http', '://10.0.0.1:8080/'), [], 'bare address'),
]

if __name__ == '__main__':
    tree.main(check, CASES)
