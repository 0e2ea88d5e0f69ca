"""Latency of Postbayes and of rspamd, measured in the same minute.

    python -m benchmarks.beside_rspamd --index FILE [--learn N] [--requests N]

Teaches both the first messages of an index, and sends both the messages that
follow, in turns of 25: a machine is slow for both, or for neither.  The client is
the same for both.  rspamd hangs up after each answer; Postbayes is also measured
with a connection that is kept, as a mail server does.

rspamd runs with its Bayes and nothing else, as for `benchmarks.peers`, and needs
what that needs.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from app.corpora.source import read_index
from benchmarks.clients import Connection, request, run_one
from benchmarks.http_latency import learn, serving
from benchmarks.peers.loopback import alone_with_loopback
from benchmarks.peers.rspamd import Rspamd
from benchmarks.write_path import marked, taught_by_id

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.corpora.mailbox import CorpusMessage

TURN: Final = 25
"""Requests of one kind in a row."""


class Kind(NamedTuple):
    """One row of the table.

    Parameters
    ----------
    name : str
        What is asked of whom.
    port : int
        Where.
    requests : sequence of bytes
        What is sent.
    kept : bool
        Whether a turn goes over one connection.
    """

    name: str
    port: int
    requests: Sequence[bytes]
    kept: bool


def turn(kind: Kind, start: int) -> Sequence[float]:
    """Send some requests, and return how long each took. Unit: seconds."""
    sent = kind.requests[start : start + TURN]
    if kind.kept:
        return run_one(kind.port, sent).seconds
    seconds = []
    for one in sent:
        begun = time.perf_counter()
        with Connection(kind.port) as connection:
            connection.ask(one)
        seconds.append(time.perf_counter() - begun)
    return seconds


def kinds(entries: Sequence[CorpusMessage], port: int, rspamd: Rspamd) -> list[Kind]:
    """Return what is asked of both."""
    checks = [request("/checkv2", each.raw) for each in entries]
    lessons = [
        request(f"/learn{each.label}", each.raw, Learn_Type="bulk") for each in entries
    ]
    found = [
        Kind("rspamd, check", rspamd.check, checks, kept=False),
        Kind("rspamd, learn", rspamd.control, lessons, kept=False),
    ]
    for kept, how in ((False, ""), (True, ", connection kept")):
        sent = marked(entries, f"kept {kept}")
        messages = [request(f"/feedback?label={e.label}", e.raw) for e in sent]
        ids = taught_by_id(port, marked(entries, f"by id, kept {kept}"))
        found += [
            Kind(
                f"Postbayes, /classify{how}",
                port,
                [request("/classify?explain=0", each.raw) for each in sent],
                kept=kept,
            ),
            Kind(f"Postbayes, /feedback, message{how}", port, messages, kept=kept),
            Kind(f"Postbayes, /feedback, id{how}", port, ids, kept=kept),
        ]
    return found


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--index", type=Path, required=True, help="labelled stream")
    parser.add_argument("--learn", type=int, default=2000, help="messages to learn")
    parser.add_argument("--requests", type=int, default=500, help="messages to send")
    options = parser.parse_args()
    alone_with_loopback("benchmarks.beside_rspamd")
    stream = (entry for entry in read_index(options.index) if entry.label)
    known = list(islice(stream, options.learn))
    fresh = list(islice(stream, options.requests))
    if len(fresh) < TURN:
        parser.error(f"{options.index} is too short to send {TURN} messages and more")

    with ExitStack() as stack:
        # rspamd's processes may still write while they end.
        folder = Path(
            stack.enter_context(
                tempfile.TemporaryDirectory(
                    prefix="postbayes-", ignore_cleanup_errors=True
                )
            )
        )
        rspamd = Rspamd(folder / "rspamd")
        stack.callback(rspamd.close)
        for entry in known:
            rspamd.learn(entry.raw, spam=entry.label == "spam")
        url = f"sqlite:///{folder / 'postbayes.db'}"
        environment = {**os.environ, "POSTBAYES_DATABASE_URL": url}
        learn(known, folder, environment)
        port = stack.enter_context(serving(environment))
        asked = kinds(fresh, port, rspamd)
        seconds: dict[str, list[float]] = {kind.name: [] for kind in asked}
        for start in range(0, len(fresh), TURN):
            for kind in asked:
                seconds[kind.name] += turn(kind, start)
    print(f"{len(known)} messages learned, and {len(fresh)} sent of each kind")
    unit = float(np.median(seconds["rspamd, learn"]))
    print(f"{'':46} {'median':>8} {'99 %':>8} {'x rspamd':>9}")
    print(f"{'':46} {'ms':>8} {'ms':>8} {'learns':>9}")
    for name, took in seconds.items():
        median, p99 = np.quantile(took, (0.5, 0.99)).tolist()
        print(f"{name:46} {1e3 * median:8.2f} {1e3 * p99:8.2f} {median / unit:9.2f}")


if __name__ == "__main__":
    main()
