"""Trials of all filters on the streams of a folder.

Runs filters that are installed on the streams of a folder (a folder with an
`index` for each), every message scored, then learned, and prints a table.

    python -m benchmarks.peers FOLDER [--peer NAME]... [--readme README.md]

Everything runs in a network namespace that has loopback and nothing else:
no filter can look anything up.  Needs, on Debian: bogofilter, spamassassin,
rspamd, redis-server, util-linux and iproute2; and `pip install scikit-learn river`.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
from pathlib import Path
from typing import Final

from app.corpora.parallel import carry_out, readers
from app.doors.cli.console import progress
from benchmarks.peers.entrants import ENTRANTS
from benchmarks.peers.loopback import alone_with_loopback
from benchmarks.peers.table import Row, every_stream, in_short, write
from benchmarks.peers.trial import Stream, Trial

ORDERS: Final = 2
"""Other orders of a stream that is shuffled: SpamAssassin takes minutes for each."""


def main() -> None:
    """Run what is not yet in the file of results, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="a folder per stream, with `index`")
    parser.add_argument(
        "--peer", action="append", choices=list(ENTRANTS), help="a filter; else all"
    )
    parser.add_argument(
        "--shuffle",
        action="append",
        default=[],
        metavar="STREAM",
        help="run this stream in other orders as well",
    )
    parser.add_argument(
        "--orders", type=int, default=ORDERS, help="how many; seeds from 1"
    )
    parser.add_argument("--limit", type=int, help="take the first messages only")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "--results",
        type=Path,
        default=Path("peers.jsonl"),
        help="what was run before, and is not run again: "
        "by the same program, on the same mail",
    )
    parser.add_argument("--readme", type=Path, help="write the table between its marks")
    parser.add_argument("--page", type=Path, help="so in this page, with every stream")
    options = parser.parse_args()
    alone_with_loopback("benchmarks.peers")

    streams = streams_of(options)
    if not streams:
        parser.error(f"no */index in {options.folder}")
    wanted = {
        (name, stream.name): Trial(
            peer=name, program=ENTRANTS[name].program(), stream=stream
        )
        for stream in streams
        for name in options.peer or ENTRANTS
    }
    digests = {stream.name: stream.sha256() for stream in streams}
    rows: dict[tuple[str, str], Row] = {}
    if options.results.exists():
        for line in options.results.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            if digests.get(row["stream"]) == row["sha256"]:
                rows[row["peer"], row["stream"]] = row
    trials = [
        trial
        for place, trial in wanted.items()
        if place not in rows or rows[place]["program"] != trial.program
    ]
    with (
        readers(options.processes) as crew,
        progress() as bar,
        options.results.open("a", encoding="utf-8") as file,
    ):
        task = bar.add_task("messages", total=None, rate="")
        for row in carry_out(
            trials, crew, advance=lambda done: bar.advance(task, done)
        ):
            file.write(json.dumps(row) + "\n")
            file.flush()
            rows[row["peer"], row["stream"]] = row
    ordered = [
        rows[name, stream.name]
        for name in ENTRANTS
        for stream in streams
        if (name, stream.name) in rows
    ]
    command = shlex.join(
        ["python", "-m", "benchmarks.peers", "FOLDER"]
        + [word for name in options.shuffle for word in ("--shuffle", name)]
        + ([] if options.orders == ORDERS else ["--orders", str(options.orders)])
        + (["--limit", str(options.limit)] if options.limit else [])
    )
    short = in_short(ordered, command=command)
    print(short)
    if options.readme is not None:
        write(options.readme, short)
    if options.page is not None:
        write(options.page, every_stream(ordered, command=command))


def streams_of(options: argparse.Namespace) -> list[Stream]:
    """Return the streams of the folder, and those in other orders after their own."""
    streams = []
    for index in sorted(options.folder.glob("*/index")):
        name = index.parent.name
        streams.append(Stream(name=name, index=index, limit=options.limit))
        streams += [
            Stream(
                name=f"{name}, shuffled {seed}",
                index=index,
                shuffle=seed,
                limit=options.limit,
            )
            for seed in range(1, options.orders + 1)
            if name in options.shuffle
        ]
    return streams


if __name__ == "__main__":
    main()
