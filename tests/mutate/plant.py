"""Planted faults name a piece of a source by its text. White space and comments do not count, so that neither the
formatter nor a better comment has to edit faults.
"""

import re

COMMENT = ('/*', '//')
TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|\w+|\S', re.DOTALL)


def tokens(text):
    return [match for match in TOKEN.finditer(text) if not match.group().startswith(COMMENT)]


def find(text, old):
    """Where the first such piece begins and ends; None: there is none."""
    at = text.find(old)
    if at >= 0:
        return at, at + len(old)
    wanted, have = [t.group() for t in tokens(old)], tokens(text)
    words = [t.group() for t in have]
    for i in range(len(words) - len(wanted) + 1 if wanted else 0):
        if words[i:i + len(wanted)] == wanted:
            return have[i].start(), have[i + len(wanted) - 1].end()
    return None


def replace(text, old, new):
    """The text with `new` for the first such piece; None: there is none."""
    found = find(text, old)
    return found and text[:found[0]] + new + text[found[1]:]
