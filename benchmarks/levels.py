"""Levels: what lessons of their own change for the users of one site.

Each stream is the mailbox of a user.  The site learns the first messages of all of
them, each user some lessons more, and the next messages are scored by the site alone,
by the user's profile alone, and by both together.

    python -m benchmarks.levels --index FILE --index FILE [--site N] [--reach N]
"""

from __future__ import annotations

import argparse
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from app.classifier import levels
from app.classifier.learn import delta, taught
from app.classifier.snapshot import Snapshot, score
from app.classifier.specification import Specification
from app.corpora.source import read_index
from app.evaluation.subject import Subject
from app.figures import roca_pct
from app.services.classify import observe

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from app.classifier.snapshot import Scorer

    Message = tuple[Mapping[str, Any], str]

SHIPPED = Specification()
LESSONS = (5, 10, 50, 200)
# Of them the lessons are taken, so that the same messages are scored after each.
ROOM = 500
TESTED = 1300
"""Messages of a user that are scored."""
LIKED = (0.1, 0.25)
"""Share of the spam that a user wants who does not share the taste of the others."""


def mailbox(index: Path, limit: int) -> list[Message]:
    """Return the first messages of a stream, with their labels."""
    return [
        (observe(message.raw, SHIPPED.views).views, str(message.label))
        for message in islice(read_index(index), limit)
    ]


def other_taste(messages: Sequence[Message]) -> list[Message]:
    """Return a mailbox whose user wants one kind of spam: that with a certain word."""
    sizes = Counter(label for _, label in messages)
    seen = {label: Counter[int]() for label in sizes}
    for views, label in messages:
        seen[label].update(views["words"].ids.tolist())
    low, high = (share * sizes["spam"] for share in LIKED)
    word = max(
        (each for each, n in seen["spam"].items() if low < n < high),
        key=lambda i: (
            seen["spam"][i] / sizes["spam"] - 5 * seen["ham"][i] / sizes["ham"]
        ),
    )
    return [
        (views, "ham" if word in set(views["words"].ids.tolist()) else label)
        for views, label in messages
    ]


class User:
    """A user of the site, who teaches a profile that backs off to that of the site."""

    def __init__(self, site: Snapshot) -> None:
        self.site = site
        self.own = Snapshot.empty(SHIPPED)

    @property
    def both(self) -> Scorer:
        """What answers: the counts of the user and of the site."""
        own = levels.Level("user", self.own)
        return levels.backed_off([own, levels.Level("site", self.site)])

    def learn(self, views: Mapping[str, Any], label: str) -> None:
        """Learn a message, as the service does."""
        at = SHIPPED.labels.index(label)
        verdict = score(self.both, views)
        found = taught(views, verdict, at, SHIPPED)
        lesson = delta(found, before=None, after=at, n_classes=SHIPPED.n_classes)
        self.own.learn(lesson, revision=self.own.revision + 1)


def figures(scorer: Scorer, messages: Sequence[Message]) -> NDArray[np.float64]:
    """Return 1-ROCA, ham lost, spam missed and ham unsure in per cent, and ham lost."""
    verdicts = [score(scorer, views) for views, _ in messages]
    odds = np.array([verdict.log_odds for verdict in verdicts])
    said = np.array([verdict.decision for verdict in verdicts])
    spam = np.array([label == "spam" for _, label in messages])
    roca = roca_pct(odds, spam)
    if roca is None:
        msg = "a mailbox needs ham and spam among the messages that are scored"
        raise SystemExit(msg)
    lost, unsure = said[~spam] == "spam", said[~spam] == "unsure"
    missed = said[spam] != "spam"
    shares = (100.0 * part.mean() for part in (lost, missed, unsure))
    return np.array([roca, *shares, lost.sum()])


def of_user(
    site: Snapshot, messages: Sequence[Message], *, first: int, errors: bool
) -> Iterator[tuple[int, NDArray[np.float64]]]:
    """Yield the figures by the site, and then after more and more lessons, of both.

    Parameters
    ----------
    site : Snapshot
        What the site has learned.
    messages : sequence
        The mailbox.
    first : int
        Its first message that the site has not learned.
    errors : bool
        Whether the user teaches only what the site had wrong.
    """
    tested = messages[first + ROOM : first + ROOM + TESTED]
    yield 0, figures(site, tested)
    user, taught_already = User(site), 0
    for views, label in messages[first : first + ROOM]:
        if errors and score(site, views).decision == label:
            continue
        user.learn(views, label)
        taught_already += 1
        if taught_already in LESSONS:
            yield taught_already, figures(user.both, tested)


def main() -> None:
    """Print a table for each way to teach."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--index", type=Path, action="append", required=True)
    parser.add_argument("--site", type=int, default=200, help="messages of each")
    parser.add_argument("--reach", type=int, default=levels.REACH)
    asked = parser.parse_args()
    levels.REACH = asked.reach  # type: ignore[misc]
    limit = asked.site + ROOM + TESTED
    boxes = [mailbox(index, limit) for index in asked.index]
    subject = Subject(SHIPPED)
    for each in zip(*(box[: asked.site] for box in boxes), strict=True):
        for views, label in each:
            subject.learn(views, label)
    site = subject.snapshot
    for taste in (False, True):
        for errors in (False, True):
            print(f"\n{'another taste' if taste else 'the same taste'}, ", end="")
            print("errors are taught" if errors else "all is taught")
            print("lessons  users  1-ROCA  ham lost  missed  ham unsure  more lost")
            found: dict[int, list[tuple[NDArray[np.float64], float]]] = {}
            for box in boxes:
                messages = other_taste(box) if taste else box
                lost = 0.0
                for n, row in of_user(site, messages, first=asked.site, errors=errors):
                    lost = row[-1] if n == 0 else lost
                    found.setdefault(n, []).append((row, row[-1] - lost))
            for n, rows in sorted(found.items()):
                mean = np.mean([row for row, _ in rows], axis=0)
                more = " ".join(f"{change:+.0f}" for _, change in rows)
                print(
                    f"{n:7} {len(rows):6} {mean[0]:7.3f} {mean[1]:9.2f} {mean[2]:7.2f} "
                    f"{mean[3]:11.2f}  {more}"
                )


if __name__ == "__main__":
    main()
