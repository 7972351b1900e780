#!/usr/bin/env python3
"""Draws the table that test-soak prints: draw-soak.py TABLE FOLDER. Needs gnuplot.

Curves are relative to the mean of the second tenth of the run, which the test compares the last one with.
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / 'bench/driver'))
import plots  # noqa: E402
import soak  # noqa: E402


class Notes:
    """In place of the bench's runner."""

    failed = False

    def note(self, text):
        print(text, file=sys.stderr)


def main():
    rows, notes = soak.read_rows(pathlib.Path(sys.argv[1]).read_text()), Notes()
    pictures = plots.Pictures(notes, pathlib.Path(sys.argv[2]))
    plots.soak(pictures, {name: soak.relative(rows, column) for name, column in soak.COLUMNS.items()}, rows[-1][1])
    return notes.failed or not pictures.made


if __name__ == '__main__':
    sys.exit(main())
