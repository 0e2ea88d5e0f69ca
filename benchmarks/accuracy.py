"""Accuracy: 1-ROCA, ham lost and spam missed on streams of real mail.

Runs `postbayes evaluate` on every stream of a folder, one after the other,
and prints a table.  Streams whose names differ in a number at the end only
(`site1`, `site2`) are also averaged.

    python benchmarks/accuracy.py FOLDER [--limit N]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from statistics import mean

FIGURES = {
    "messages": "{:>9.0f}",
    "roca_pct": "{:>9.3f}",
    "ham_lost_pct": "{:>9.2f}",
    "spam_missed_pct": "{:>9.2f}",
    "lam_pct": "{:>9.2f}",
    "spam_missed_at_0_1_pct": "{:>9.1f}",
    "messages_per_second": "{:>9.0f}",
}
HEADINGS = ("messages", "1-ROCA %", "ham l. %", "spam m. %", "lam %", "at 0.1 %", "/s")

Figures = dict[str, float | None]


def evaluate(index: Path, limit: int | None) -> Figures:
    """Return what `postbayes evaluate --json` says of one stream."""
    command = [str(Path(sys.executable).with_name("postbayes")), "evaluate", "--json"]
    command += ["--index", str(index)]
    if limit is not None:
        command += ["--limit", str(limit)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    figures: Figures = json.loads(done.stdout)
    return figures


def average(streams: list[Figures]) -> Figures:
    """Return the mean of each figure over the streams that define it."""
    columns = {
        name: [value for figures in streams if (value := figures[name]) is not None]
        for name in FIGURES
    }
    return {name: mean(column) if column else None for name, column in columns.items()}


def row(name: str, figures: Figures) -> str:
    """Return one line of the table."""
    cells = [
        f"{'-':>9}" if figures[key] is None else form.format(figures[key])
        for key, form in FIGURES.items()
    ]
    return " ".join([f"{name:20}", *cells])


def main() -> None:
    """Evaluate all streams and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="a folder per stream, with `index`")
    parser.add_argument("--limit", type=int, help="take the first messages only")
    options = parser.parse_args()
    indexes = sorted(options.folder.glob("*/index"))
    if not indexes:
        parser.error(f"no */index in {options.folder}")

    print(" ".join([f"{'stream':20}", *(f"{heading:>9}" for heading in HEADINGS)]))
    families: dict[str, list[Figures]] = defaultdict(list)
    for index in indexes:
        name = index.parent.name
        figures = evaluate(index, options.limit)
        families[name.rstrip("0123456789")].append(figures)
        print(row(name, figures), flush=True)
    for name, streams in families.items():
        if len(streams) > 1:
            print(row(f"{name}* (mean)", average(streams)))


if __name__ == "__main__":
    main()
