#!/usr/bin/env python3
"""How many problems each lint finds in the tree, by folder at the top: counts.py ROOT LINT..."""

import collections
import importlib
import pathlib
import re
import sys

sys.dont_write_bytecode = True


def top_folder(problem):
    return re.split(r'[/:]', problem.removeprefix('a circle: '))[0]


def main(root, *lints):
    for lint in lints:
        problems = importlib.import_module(lint).check(pathlib.Path(root)) or []
        count = sorted(collections.Counter(map(top_folder, problems)).items())
        print(f'{lint}: {len(problems)}' + (f' ({", ".join(f"{folder} {n}" for folder, n in count)})' if count else ''))


if __name__ == '__main__':
    main(*sys.argv[1:])
