"""The Python in the package's README runs, block by block, as one program.

    test-readme.py TSLABD TSLABCTL README
"""

import os
import re
import sys
import unittest
from unittest import mock

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'util'))
import daemon  # noqa: E402

TSLABD, TSLABCTL, README = map(os.path.abspath, sys.argv[1:4])


class Blocks(unittest.TestCase):
    def test_run(self):
        with open(README, encoding='utf-8') as f:
            text = f.read()
        blocks = list(re.finditer(r'^```python\n(.*?)^```$', text, re.MULTILINE | re.DOTALL))
        self.assertGreaterEqual(len(blocks), 3)
        names = {'__name__': 'readme'}
        with daemon.Daemon(TSLABD, '--size=16M') as d, mock.patch.dict(os.environ, {'TSLAB_POOL': d.socket}):
            for block in blocks:
                if 'import flask' in block[1]:
                    try:
                        import flask  # noqa: F401
                    except ImportError:
                        continue
                line = text.count('\n', 0, block.start(1))
                exec(compile('\n' * line + block[1], README, 'exec'), names)
            names['pool'].close()


if __name__ == '__main__':
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
