#!/usr/bin/env python3
"""Draws the table that test-soak prints: draw-soak.py TABLE FOLDER. Needs gnuplot.

Curves are relative to the mean of the second tenth of the run, which the test compares the last one with.
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / 'bench/driver'))
import plots  # noqa: E402

COLUMNS = {'index of the map': 3, 'committed memory': 4, 'latency, median': 5, 'latency, 99 %': 6}


class Notes:
    """In place of the bench's runner."""

    failed = False

    def note(self, text):
        print(text, file=sys.stderr)


def read_rows(path):
    return [[float(field) for field in line.split()] for line in path.read_text().splitlines()
            if line.split() and line.split()[0].isdigit()]


def relative(rows, column):
    early = [row[column] for row in rows[len(rows) // 10:len(rows) // 5]]
    return [(row[0], row[column] * len(early) / sum(early)) for row in rows]


def main():
    rows, notes = read_rows(pathlib.Path(sys.argv[1])), Notes()
    pictures = plots.Pictures(notes, pathlib.Path(sys.argv[2]))
    curves = [(name, plots.SPARE[i], column < 5, 'using 1:2 with lines', relative(rows, column))
              for i, (name, column) in enumerate(COLUMNS.items())]
    pictures.draw('soak', f'{rows[-1][1] / 1e6:.0f} million sessions, 10,000 live, in 16 MiB; a process is killed each second',
                  ['set xlabel "seconds"', 'set ylabel "relative to the second tenth"', 'set yrange [0:2]'], curves)
    return notes.failed or not pictures.made


if __name__ == '__main__':
    sys.exit(main())
