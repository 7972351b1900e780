"""Classical mutants of C text: one small change each. Comments, strings and directives stay as they are."""

import dataclasses
import difflib
import pathlib
import random
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / 'lint'))
import tree  # noqa: E402

# These calls print for people: a mutant in them tells nothing about the tests. assert() is a check, not code under test.
TALK = re.compile(r'\b(?:assert|static_assert|_Static_assert|log_\w+)\s*\(')

COMPARISONS = {'==': ['!='], '!=': ['=='], '<': ['<=', '>='], '<=': ['<', '>'], '>': ['>=', '<='], '>=': ['>', '<']}
SWAPS = {'+': '-', '-': '+', '*': '/', '/': '*', '%': '/', '&&': '||', '||': '&&', '&': '|', '|': '&', '^': '&',
         '<<': '>>', '>>': '<<', '++': '--', '--': '++', '+=': '-=', '-=': '+=', '|=': '=', '&=': '=', '^=': '=',
         '<<=': '>>=', '>>=': '<<='}
KIND = {'&&': 'logic', '||': 'logic', '+': 'arithmetic', '-': 'arithmetic', '*': 'arithmetic', '/': 'arithmetic',
        '%': 'arithmetic', '++': 'arithmetic', '--': 'arithmetic', '+=': 'arithmetic', '-=': 'arithmetic'}

# clang-format puts spaces, or the end of a line, around operators between two operands, and around no others.
OPERATOR = re.compile(r'(?<= )(==|!=|<=|>=|<<=|>>=|<<|>>|[<>]|&&|\|\||[-+|&^]=|[-+*/%&|^])(?=[ \n])|(\+\+|--)')
NUMBER = re.compile(r'(?<![\w.])(?:0x[0-9a-fA-F]+|[1-9]\d*|0)(?=[uUlL]*\b)(?!\.)')
BOOLEAN = re.compile(r'\b(true|false)\b')
CONDITION = re.compile(r'\b(if|while) (?=\()')
NOT = re.compile(r'(?<![\w)])[!~](?=[\w(*])')
RETURN = re.compile(r'\breturn ([^;]+);')
WORDS = ('return', 'if', 'else', 'for', 'while', 'do', 'switch', 'case', 'default', 'break', 'continue', 'goto', 'typedef')
PLACE = r'\(?\**\(?\**\w+(?:(?:->|\.)\w+|\[[^\]]*\])*\)?'
ASSIGNMENT = re.compile(rf'{PLACE}\s*(?:[-+*/%&|^]|<<|>>)?=(?!=)|{PLACE}(?:\+\+|--)$|(?:\+\+|--)')
CALL = re.compile(r'(?:\(void\) )?\w+(?=\()')


@dataclasses.dataclass(frozen=True)
class Mutant:
    path: str
    kind: str
    start: int
    end: int
    new: str
    text: str = dataclasses.field(repr=False, compare=False)  # the whole file, unchanged

    @property
    def line(self):
        return tree.line_of(self.text, self.start)

    def apply(self):
        return self.text[:self.start] + self.new + self.text[self.end:]

    def diff(self):
        lines = difflib.unified_diff(self.text.splitlines(), self.apply().splitlines(), self.path, self.path,
                                     lineterm='', n=2)
        return '\n'.join(lines)


def closing(code, start):
    """Where the parenthesis that opens at `start` closes."""
    depth = 0
    for i in range(start, len(code)):
        depth += {'(': 1, ')': -1}.get(code[i], 0)
        if depth == 0:
            return i
    return len(code) - 1


def mask(text):
    """The text with spaces for all that no mutant touches."""
    code = tree.blank(text)
    code = re.sub(r'^[ ]*#(?:.*\\\n)*.*', lambda m: re.sub(r'[^\n]', ' ', m.group()), code, flags=re.MULTILINE)
    for match in list(TALK.finditer(code)):
        end = closing(code, match.end() - 1) + 1
        code = code[:match.start()] + re.sub(r'[^\n]', ' ', code[match.start():end]) + code[end:]
    return code


def operators(code):
    for match in OPERATOR.finditer(code):
        old = match.group()
        if old == '*' and re.search(r'\b(?:const|struct \w+|[A-Z]\w*|u?int\d+_t|char|void|bool) $', code[:match.start()]):
            continue  # a pointer
        for new in COMPARISONS.get(old, ()):
            yield 'comparison', match.start(), match.end(), new
        if old in SWAPS:
            yield KIND.get(old, 'bits'), match.start(), match.end(), SWAPS[old]


def constants(code):
    for match in NUMBER.finditer(code):
        value = int(match.group(), 0)
        for new in {value + 1, max(value - 1, 0)} - {value}:
            yield 'constant', match.start(), match.end(), hex(new) if 'x' in match.group() else str(new)
    for match in BOOLEAN.finditer(code):
        yield 'constant', match.start(), match.end(), 'false' if match.group() == 'true' else 'true'


def conditions(code):
    for match in CONDITION.finditer(code):
        start, end = match.end(), closing(code, match.end()) + 1
        yield 'negation', start, end, f'(!{code[start:end]})'
    for match in NOT.finditer(code):
        yield 'negation' if match.group() == '!' else 'bits', match.start(), match.end(), ''


def returns(code):
    for match in RETURN.finditer(code):
        value = match.group(1)
        if value in ('true', 'false', 'NULL'):
            continue  # true and false are constants
        yield 'return', match.start(1), match.end(1), '-22' if value == '0' else '0'


def statements(code):
    """Assignments and calls that stand alone, each from its first character to its semicolon."""
    for match in re.finditer(r'(?<=[;{})\n:])\s*\n +([^\s{}][^;{}]*);|\belse\n +([^\s{}][^;{}]*);', code):
        group = 1 if match.group(1) else 2
        start, body = match.start(group), match.group(group)
        while (head := re.match(r'(?:if|for|while|switch) (?=\()|else\s+', body)):  # the statement after it
            skip = closing(body, head.end()) + 1 if body[head.end():head.end() + 1] == '(' else head.end()
            skip += len(body[skip:]) - len(body[skip:].lstrip())
            start, body = start + skip, body[skip:]
        if re.match(r'\w+', body) and re.match(r'\w+', body).group() in WORDS:
            continue
        call = CALL.match(body)
        if ASSIGNMENT.match(body) or (call and closing(body, call.end()) == len(body) - 1):
            yield 'deletion', start, start + len(body), ''


def mutants(path, text):
    """All mutants of this file, in the order of their places."""
    code, found = mask(text), {}
    for find in (operators, constants, conditions, returns, statements):
        for kind, start, end, new in find(code):
            # The old condition is copied from the text, as the code has spaces for its strings.
            if kind == 'negation' and new:
                new = f'(!{text[start:end]})'
            # Lines keep their numbers, which assert() compiles in.
            new += '\n' * (text.count('\n', start, end) - new.count('\n'))
            if is_inside_function(code, start):
                found[start, end, new] = Mutant(path, kind, start, end, new, text)
    return [found[key] for key in sorted(found)]


def is_inside_function(code, position):
    """Declarations and tables stand at the left margin, and end there."""
    return code.rfind(') {\n', 0, position) > code.rfind('\n}', 0, position)


def choose(root, paths, seed, n):
    """n of all mutants of these files, no two on one line."""
    everything = [m for path in sorted(paths) for m in mutants(path, (root / path).read_text(encoding='utf-8'))]
    random.Random(seed).shuffle(everything)
    chosen, lines = [], set()
    for mutant in everything:
        if len(chosen) == n:
            break
        if (mutant.path, mutant.line) not in lines:
            lines.add((mutant.path, mutant.line))
            chosen.append(mutant)
    return chosen
