"""Each counter of threads is counted somewhere, and all structs that show the counters have it.

The table is SHM_COUNTERS in shm/format/counters.h. With --renew after the root, rows that a struct lacks are written
behind its last member, with their help as the comment: members keep their places, which are ABI. Its macro
makes the code that copies the numbers, and tslabctl's rows, so the compiler checks those.
"""

import re

import tree

TABLE = 'shm/format/counters.h'
ROW = re.compile(r'^ +X\((\w+), (\w+),\s*(?:""|"\w+"|\w+),(?:\s|\\\n)*"([^"]*)"', re.MULTILINE)
# The file, how the struct begins and ends, how a member begins that stands behind the last one, and a comment.
STRUCTS = (
    ('proto/tslab.proto', 'message Counters {\n', '\n}', '        uint64 {field} = {number};', '// {help}'),
    ('libclient/tslab.h', 'struct tslab_stats {\n', '\n};', '        uint64_t {field};', '/* {help} */'),
    ('bindings/python/tslab/stats.py', 'class Stats:\n', '\n\n\n', '    {field}: int', '# {help}'),
    ('bindings/rust/tslab-sys/src/lib.rs', 'pub struct tslab_stats {\n', '\n}', '    pub {field}: u64,', None),
)
ENGINE = ('shm/', 'libclient/')


def body(text, begin, end):
    first = text.index(begin) + len(begin)
    return first, text.index(end, first - 1)       # the struct may be empty


def members(text, begin, end):
    """Names that are no part of a comment."""
    first, last = body(text, begin, end)
    return set(re.findall(r'\w+', re.sub(r'/\*.*?\*/|//[^\n]*|#[^\n]*', '', text[first:last], flags=re.DOTALL)))


def renew(root, rows):
    for name, begin, end, member, comment in STRUCTS:
        for field, text in rows:
            content = tree.read(root, name)
            if field in members(content, begin, end):
                continue
            first, last = body(content, begin, end)
            number = 1 + max(map(int, re.findall(r'= (\d+);', content[first:last])), default=0)
            line = member.format(field=field, number=number)
            indent = re.match(' *', line).group()
            help_lines = f'{indent}{comment.format(help=text[0].lower() + text[1:])}\n' if comment else ''
            (root / name).write_text(f'{content[:last]}\n{help_lines}{line}{content[last:]}', encoding='utf-8')


def check(root, *args):
    if not (root / TABLE).exists():
        return None
    table = tree.read(root, TABLE)
    rows = ROW.findall(table)
    if len(rows) != len(re.findall(r'^ +X\(', table, re.MULTILINE)):
        return [f'{TABLE}: a row has another form than this lint knows']
    if args == ('--renew',):
        renew(root, [(field, text) for _, field, text in rows])
    code = '\n'.join(tree.blank(tree.read(root, name)) for name in tree.c_files(root)
                     if name.startswith(ENGINE) and name != TABLE)
    problems = [f'{name}: does not have the counter {field}: tests/lint/counters.py . --renew writes it'
                for name, begin, end, _, _ in STRUCTS
                for _, field, _ in rows if field not in members(tree.read(root, name), begin, end)]
    for name, field, _ in rows:
        # The largest sizes are counted by shm_actor_count_too_large(), which computes their place.
        if not name.endswith('_MAX') and not re.search(rf'\bSHM_COUNT_{name}\b', code):
            problems.append(f'{TABLE}: nothing counts {field}')
    return problems


def planted(rows='        X(STALE, frees_stale, "", "Frees") \\\n', shown='frees_stale', code='f(SHM_COUNT_STALE);\n'):
    return {TABLE: f'#define SHM_COUNTERS(X) \\\n{rows}\n', 'shm/a.c': code,
            **{name: begin + member.format(field=shown, number=7) + end
               for name, begin, end, member, _ in STRUCTS}}


TWO = ('        X(STALE, frees_stale, "", "Frees") \\\n'
       '        X(LONG, long, WHOLE,                \\\n          "Words in a line of its own") \\\n')
CASES = [
    ('good', planted(), [], None),
    ('not shown', planted(shown='frees'), [], 'stats.py: does not have the counter frees_stale'),
    ('in a comment alone', {**planted(), 'libclient/tslab.h': 'struct tslab_stats {\n/* frees_stale */\n};'}, [],
     'tslab.h: does not have the counter frees_stale'),
    ('in another struct alone', {**planted(), 'proto/tslab.proto': 'message Counters {\n}\nuint64 frees_stale = 1;\n\n}'},
     [], 'tslab.proto: does not have'),
    ('renewed', planted(TWO, 'frees', 'f(SHM_COUNT_STALE, SHM_COUNT_LONG);'), ['--renew'], None),
    ('a row that is not read', planted('        X(STALE, frees_stale, f(x), "Frees") \\\n'), [], 'another form'),
    ('not counted', planted(code='/* SHM_COUNT_STALE */\n'), [], 'nothing counts frees_stale'),
    ('a largest size', planted('        X(TOO_MAX, too_bytes, "", "x")\n', 'too_bytes', ''), [], None),
]

if __name__ == '__main__':
    tree.main(check, CASES)
