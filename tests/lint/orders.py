"""Only shm/arch/atomic.h names memory orders, and every use of its wrappers gives the reason for its order.

A use carries, on its line or at most two lines above, a comment

        ORDER: <rlx|acq|rel|acqrel|sc>[, pairs with f() [and g()]]; <text>

with the order of the call; a comment may serve several calls in its reach and may hold several ORDERs. f and g must be
functions of this tree. Tests and benchmarks may call wrappers without a reason, and
hints (shm_hint_load() and its sisters) need none.

No argument has `++` or `--` in it: wrappers are macros, which evaluate an argument twice in the explorer's build.
"""

import re

import tree

ATOMICS = 'shm/arch/atomic.h'
REACH = 2

RAW = re.compile(r'\b(memory_order_|__ATOMIC_|__sync_|__atomic_)\w*')
# These calls are sequentially consistent, and name no memory_order_.
GENERIC = re.compile(r'\batomic_(load|store|exchange|compare_exchange|fetch|flag|thread_fence|signal_fence)\w*\s*\(')
# Only wrappers have these endings: shm_load_acq, shm_pair_cas_acqrel.
WRAPPER = re.compile(r'\bshm_\w+_(rlx|acq|rel|acqrel|sc)\s*\(')
ORDER = re.compile(r'(rlx|acq|rel|acqrel|sc)(?:, pairs with (\w+\(\)(?:(?:, and |, | and )\w+\(\))*))?; *(\S.*)')

DEFINITION = re.compile(r'^(?:[A-Za-z_][^\n;{}()=]*[\s*])?(\w+)\s*\([^;{}]*\)[\s\w]*\{', re.MULTILINE)
ATTRIBUTE = re.compile(r'__attribute__\s*\(\(.*?\)\)|^[ \t]*#(?:.*\\\n)*.*', re.MULTILINE)


def functions(texts):
    """Names of all functions defined; definitions begin in column 0."""
    return {name for text in texts for name in DEFINITION.findall(ATTRIBUTE.sub('', tree.blank(text)))}


def order_comments(name, text, known):
    """Orders by the lines they reach, and the problems of the comments."""
    reached, problems = {}, []
    for first, last, words in tree.comments(text):
        for statement in words.split('ORDER:')[1:]:
            parsed = ORDER.match(statement.strip())
            if not parsed:
                problems.append(f'{name}:{first}: not of the form "ORDER: <order>[, pairs with f()]; <text>"')
                continue
            order, pairs, _ = parsed.groups()
            for partner in re.findall(r'\w+', re.sub(r'\band\b', '', pairs or '')):
                if partner not in known:
                    problems.append(f'{name}:{first}: pairs with {partner}(), which does not exist')
            for line in range(first, last + REACH + 1):
                reached.setdefault(line, set()).add(order)
    return reached, problems


def argument_ends(code, start):
    """Where the parenthesis that is open at `start` is closed."""
    depth = 1
    for at in range(start, len(code)):
        depth += (code[at] == '(') - (code[at] == ')')
        if depth == 0:
            return at
    return len(code)


def check_uses(name, text, known):
    code = tree.blank(text)
    reached, problems = order_comments(name, text, known)
    for match in WRAPPER.finditer(code):
        line = tree.line_of(code, match.start())
        if match.group(1) not in reached.get(line, ()):
            call = match.group().rstrip('( ')
            problems.append(f'{name}:{line}: {call}() without "ORDER: {match.group(1)}..." here or just above')
        if re.search(r'\+\+|--', code[match.end():argument_ends(code, match.end())]):
            problems.append(f'{name}:{line}: a wrapper may evaluate an argument twice: step outside the call')
    return problems


def check(root):
    texts = {name: tree.read(root, name) for name in tree.c_files(root)}
    known = functions(texts.values())
    problems = []
    for name, text in texts.items():
        if name == ATOMICS:
            continue
        code = tree.blank(text)
        outside = tree.is_test(name) or name.startswith('bench/')
        for pattern in (RAW,) if outside else (RAW, GENERIC):
            for match in pattern.finditer(code):
                line = tree.line_of(code, match.start())
                problems.append(f'{name}:{line}: {match.group().rstrip("( ")} belongs in {ATOMICS}')
        if not outside:
            problems += check_uses(name, text, known)
    return problems


def use(comment, call='shm_load_acq(&w)', between='\n'):
    return {'shm/a.c': f'static int f(int a,\n             int b) {{\n{comment}{between}        return {call};\n}}\n'}


GOOD = '/* ORDER: acq, pairs with f(); what f() wrote is seen. */'

CASES = [
    ('a good use', use(GOOD), [], None),
    ('on its own line', use('', 'shm_load_acq(&w); ' + GOOD), [], None),
    ('two lines above', use(GOOD, between='\n\n'), [], None),
    ('three lines above', use(GOOD, between='\n\n\n'), [], 'without'),
    ('a long comment', use('/* ORDER: rlx;\n * one\n * two\n * three\n */', 'shm_add_rlx(&w, 1)'), [], None),
    ('two orders', use('/* ORDER: rlx; x. ORDER: rel; y. */', 'shm_cas_rel(&w, shm_load_rlx(&w))'), [], None),
    ('a step in an argument', use(GOOD, 'shm_load_acq(f(w)[i++])'), [], 'twice'),
    ('a step after the call', use(GOOD, 'shm_load_acq(&w) + i++'), [], None),
    ('no comment', use(''), [], 'without'),
    ('a hint', use('', 'shm_hint_load(&w)'), [], None),
    ('a pair', use('', 'shm_pair_load_acq(&w)'), [], 'shm_pair_load_acq() without'),
    ('in a string', use('        puts("ORDER: acq; no");'), [], 'without'),
    ('another order', use(GOOD, 'shm_fetch_or_acqrel(&w, 1)'), [], 'ORDER: acqrel'),
    ('no reason', use('/* ORDER: rlx; */', 'shm_load64_rlx(&w)'), [], 'not of the form'),
    ('no such partner', use('/* ORDER: acq, pairs with f() and nobody(); x. */'), [], 'nobody()'),
    ('a partner only called', use('/* ORDER: acq, pairs with g(); x. */', 'g(shm_load_acq(&w))'), [], 'g()'),
    ('a raw order', {'bench/a.c': 'int x = memory_order_relaxed;\n'}, [], 'belongs in'),
    ('a raw builtin', {'daemon/a.c': 'int f(void) {\n        return __sync_fetch_and_add(&x, 1);\n}\n'}, [], 'belongs'),
    ('a generic call', {'shm/a.c': 'int f(void) {\n        return atomic_load(&x);\n}\n'}, [], 'belongs in'),
    ('the wrappers', {'shm/arch/atomic.h': 'x = memory_order_relaxed;\n'}, [], None),
    ('a test', {'tests/unit/a.c': 'int y = shm_load_acq(&x);\n'}, [], None),
    ('a test of a library', {'slab-alloc/tests/a.c': 'int y = shm_load_acq(&x);\n'}, [], None),
]

if __name__ == '__main__':
    tree.main(check, CASES)
