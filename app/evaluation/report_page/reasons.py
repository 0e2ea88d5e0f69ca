"""What are the features called that spoke in the worst mistakes?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.features.extract import extract
from app.mail.parse import parse

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from app.evaluation.run import Run
    from app.evaluation.source import Source

Names = dict[tuple[str, str], str]
"""The text of a feature by its view and its id as `explain` writes it."""


def named(sources: Sequence[Source], runs: Sequence[Run]) -> Mapping[str, Names]:
    """Return the names of the features of the messages that were mistaken, by stream.

    An evaluation keeps ids only; for these few messages the stream is read
    once more.
    """
    found: dict[str, Names] = {}
    for at, source in enumerate(sources):
        each = len(runs) // len(sources)
        of_source = runs[at * each : (at + 1) * each]
        wanted = {m.message for run in of_source for m in run.mistakes}
        names = found.setdefault(source.name, {})
        views = {view for run in of_source for view in run.specification.views}
        for number, entry in enumerate(source.entries()):
            if number in wanted:
                seen = extract(parse(entry.raw), views)
                for view, texts in seen.names.items():
                    ids = seen.views[view].ids.tolist()
                    names |= {
                        (view, f"#{feature % 2**64:016x}"): text
                        for feature, text in zip(ids, texts, strict=True)
                    }
    return found
