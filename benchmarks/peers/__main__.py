"""How do other filters do on the same streams?

Runs filters that are installed on the streams of a folder (a folder with an
`index` for each), every message scored, then learned, and prints a table.

    python -m benchmarks.peers FOLDER [--peer NAME]... [--readme README.md]

Everything runs in a network namespace that has loopback and nothing else:
no filter can look anything up.  Needs, on Debian: bogofilter, spamassassin,
rspamd, redis-server, util-linux and iproute2; and `pip install scikit-learn river`.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import shlex
import socket
import sys
from pathlib import Path

from app.adapters.cli.console import progress
from app.evaluation.crew import carry_out
from benchmarks.peers.table import table, write
from benchmarks.peers.trial import PEERS, Stream, Trial


def main() -> None:
    """Run what is not yet in the file of results, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="a folder per stream, with `index`")
    parser.add_argument(
        "--peer", action="append", choices=list(PEERS), help="a filter; else all"
    )
    parser.add_argument(
        "--shuffle",
        action="append",
        default=[],
        metavar="STREAM",
        help="run this stream in another order as well, seed 1",
    )
    parser.add_argument("--limit", type=int, help="take the first messages only")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "--results",
        type=Path,
        default=Path("peers.jsonl"),
        help="what was run before, and is not run again",
    )
    parser.add_argument("--readme", type=Path, help="write the table between its marks")
    options = parser.parse_args()
    alone_with_loopback()

    indexes = sorted(options.folder.glob("*/index"))
    if not indexes:
        parser.error(f"no */index in {options.folder}")
    streams = []
    for index in indexes:
        name = index.parent.name
        streams.append(Stream(name=name, index=index, limit=options.limit))
        if name in options.shuffle:
            streams.append(
                Stream(
                    name=f"{name}, shuffled",
                    index=index,
                    shuffle=1,
                    limit=options.limit,
                )
            )
    results = options.results
    rows = []
    if results.exists():
        rows = [json.loads(line) for line in results.read_text().splitlines()]
    known = {(row["peer"], row["stream"]) for row in rows}
    trials = [
        Trial(peer=peer, stream=stream)
        for stream in streams
        for peer in options.peer or PEERS
        if (peer, stream.name) not in known
    ]
    with progress() as bar, results.open("a", encoding="utf-8") as file:
        task = bar.add_task("messages", total=None, rate="")
        for row in carry_out(
            trials,
            processes=options.processes,
            advance=lambda done: bar.advance(task, done),
        ):
            file.write(json.dumps(row) + "\n")
            file.flush()
            rows.append(row)
    order = {stream.name: at for at, stream in enumerate(streams)}
    rows = [row for row in rows if row["stream"] in order]
    rows.sort(key=lambda row: order[row["stream"]])
    command = shlex.join(
        ["python", "-m", "benchmarks.peers", "FOLDER"]
        + [word for name in options.shuffle for word in ("--shuffle", name)]
        + (["--limit", str(options.limit)] if options.limit else [])
    )
    today = dt.datetime.now(dt.UTC).date().isoformat()
    block = table(rows, peers=list(PEERS), date=today, command=command)
    print(block)
    if options.readme is not None:
        write(options.readme, block)


def alone_with_loopback() -> None:
    """Go on in a network namespace without the network, unless this is one."""
    if {name for _, name in socket.if_nameindex()} == {"lo"}:
        return
    again = shlex.join([sys.executable, "-m", "benchmarks.peers", *sys.argv[1:]])
    shell = f"ip link set lo up && exec {again}"
    command = ["unshare", "--net", "--map-root-user", "sh", "-c", shell]
    os.execvp(command[0], command)  # noqa: S606  unshare is the point


if __name__ == "__main__":
    main()
