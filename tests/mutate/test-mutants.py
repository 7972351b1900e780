#!/usr/bin/env python3
"""The mutator's changes to C text."""

import pathlib
import sys
import tempfile
import unittest

import mutants

HEAD = '#define LIMIT (1 + 2)\nstatic const int table[] = { 1, 2 };\n\nstatic int f(int a, int b) {\n'


def of(*body):
    """(kind, changed line) of each mutant of a function with these lines."""
    text = HEAD + ''.join(f'        {line}\n' for line in body) + '}\n'
    found = []
    for mutant in mutants.mutants('a.c', text):
        before, after = text.splitlines(), mutant.apply().splitlines()
        assert len(before) == len(after), mutant
        changed = [i for i, line in enumerate(before) if line != after[i]]
        assert changed and changed[0] == mutant.line - 1, mutant
        found.append((mutant.kind, after[changed[0]].strip()))
    return found


class MutantsTest(unittest.TestCase):
    def expect(self, body, *wanted):
        """Expects these mutants and no others, in any order."""
        self.assertCountEqual(of(*body), wanted)

    def test_comparison(self):
        self.expect(['if (a < b)'], ('comparison', 'if (a <= b)'), ('comparison', 'if (a >= b)'),
                    ('negation', 'if (!(a < b))'))
        self.expect(['while (a == b)'], ('comparison', 'while (a != b)'), ('negation', 'while (!(a == b))'))

    def test_arrow_is_no_comparison(self):
        self.expect(['if (a->x)'], ('negation', 'if (!(a->x))'))

    def test_constant(self):
        self.expect(['b = a[8];'], ('constant', 'b = a[9];'), ('constant', 'b = a[7];'), ('deletion', ';'))
        self.expect(['b = x10;'], ('deletion', ';'))
        self.expect(['return true;'], ('constant', 'return false;'))
        self.assertIn(('constant', 'b = 0x11UL;'), of('b = 0x10UL;'))

    def test_arithmetic_and_logic(self):
        self.expect(['int c = a + b;'], ('arithmetic', 'int c = a - b;'))
        self.expect(['int c = a && b;'], ('logic', 'int c = a || b;'))
        self.expect(['int c = a &&', '        b;'], ('logic', 'int c = a ||'))
        self.expect(['a++;'], ('arithmetic', 'a--;'), ('deletion', ';'))

    def test_bits(self):
        self.expect(['a |= b;'], ('bits', 'a = b;'), ('deletion', ';'))
        self.expect(['int c = a << b & ~d;'], ('bits', 'int c = a >> b & ~d;'), ('bits', 'int c = a << b | ~d;'),
                    ('bits', 'int c = a << b & d;'))

    def test_pointers_are_no_arithmetic(self):
        self.expect(['const char *x = &a, *y = *b;'])

    def test_return(self):
        self.expect(['return 0;'], ('constant', 'return 1;'), ('return', 'return -22;'))
        self.expect(['return g(a);'], ('return', 'return 0;'))
        self.expect(['return;'])

    def test_deletion(self):
        self.expect(['g(a, "1 < 2");'], ('deletion', ';'))
        self.expect(['(void) g(a,', '         b);'], ('deletion', ''))
        self.expect(['if (a)', '        g(b);', 'else', '        h(b);'], ('negation', 'if (!(a))'), ('deletion', ';'),
                    ('deletion', ';'))
        self.expect(['*a->b[c] = d;'], ('deletion', ';'))

    def test_declarations_stay(self):
        self.expect(['int c;', '_cleanup_(freep) char *d = NULL;', 'Type e = g(a);', 'break;'])

    def test_talk_stays(self):
        self.expect(['assert(a < 1);', 'log_line(LOG_INFO, "%d", a + 1);', '/* a < 1 */', "// a < 1"])
        self.expect(["b = '<';"], ('deletion', ';'))

    def test_same_seed_same_mutants(self):
        with tempfile.TemporaryDirectory() as name:
            root = pathlib.Path(name)
            (root / 'a.c').write_text(HEAD + ''.join(f'        a[{i}] = b + {i};\n' for i in range(2, 50)) + '}\n')
            first, again, other = (mutants.choose(root, ['a.c'], seed, 20) for seed in (1, 1, 2))
        self.assertEqual(first, again)
        self.assertNotEqual(first, other)
        self.assertEqual(len({mutant.line for mutant in first}), 20)


if __name__ == '__main__':
    sys.dont_write_bytecode = True
    unittest.main()
