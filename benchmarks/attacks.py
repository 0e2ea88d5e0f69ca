"""What attacks cost: a hostile teacher, spam that teaches, and words added to spam.

    python -m benchmarks.attacks --index FILE [--train N] [--test N] [--attack PERCENT]
        [--orders N]

Learns the first messages of a stream, shuffled, and scores the next; with several
orders, the sums of them.  Nine honest teachers and a hostile one teach.  The hostile
one labels a share of the mail, always wrongly (*swapped*), or teaches as many messages
more, each with the commonest 20,000 words of the ham, labelled as spam (*dictionary*):
as it is, where suspects are refused (`POSTBAYES_SUSPECTS`), and where they are refused
and their lessons taken back in the end.  And *good words*: each spam message that is
scored gets 500 words more, once those that most ham messages have, which anybody can
guess, and once those with the most evidence for ham, which is what somebody knows who
reads the database.

References
----------
B. Nelson et al., "Exploiting machine learning to subvert your spam filter", *LEET*,
2008; D. Lowd and C. Meek, "Good word attacks on statistical spam filters", *CEAS*,
2005.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from app.classifier.snapshot import Snapshot, score
from app.classifier.specification import Specification
from app.corpora.source import read_index
from app.features.extract import extract
from app.ledger.entry import ScoredRow, learning
from app.ledger.teaching import Teaching, decide, scored
from app.mail.message import Text
from app.mail.parse import parse
from app.services.figures import EVERY, WINDOW, by_source, suspects
from app.storage.scored import Scored

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from app.classifier.verdict import Verdict
    from app.features.observation import Observation
    from app.ledger.entry import LedgerRow

TIME: Final = datetime(2026, 1, 1, tzinfo=UTC)
GOOD_WORDS: Final = 500
# Words of one message of the dictionary: more than fit into one that is read.
DICTIONARY: Final = 20_000


HOSTILE: Final = "hostile"
TEACHERS: Final = 9


class Watch:
    """Refuses suspects, as the service does.

    Parameters
    ----------
    takes_back : bool
        Whether somebody takes their lessons back.
    """

    def __init__(self, *, takes_back: bool) -> None:
        self.takes_back = takes_back
        self._labelled: list[tuple[str, bool, Verdict]] = []
        self._suspects: set[str] = set()

    def refuses(self, source: str) -> bool:
        """Return whether a teacher is a suspect."""
        return source in self._suspects

    def note(self, source: str, verdict: Verdict, *, spam: bool) -> None:
        """Note what a teacher says of a message, and what the filter said."""
        self._labelled.append((source, spam, verdict))
        if len(self._labelled) % EVERY == 0:
            found = suspects(by_source(_scored(self._labelled[-WINDOW:])))
            self._suspects = {each.source for each in found}


def _scored(labelled: list[tuple[str, bool, Verdict]]) -> Scored:
    """Return labelled messages as the ledger has them."""
    sources, spam, verdicts = zip(*labelled, strict=True)
    decisions = np.array([verdict.decision for verdict in verdicts])
    return Scored(
        revisions=np.arange(len(sources)),
        is_spam=np.array(spam),
        decided_spam=decisions == "spam",
        unsure=decisions == "unsure",
        log_odds=np.array([verdict.log_odds for verdict in verdicts]),
        sources=sources,
        times=(TIME,) * len(sources),
        corrected=(None,) * len(sources),
    )


def taught_by_many(
    mail: Iterable[tuple[str, bytes]], share: float
) -> list[tuple[str, bytes, str]]:
    """Return labelled messages with their teachers, of whom one swaps the labels."""
    chance = random.Random(2)  # noqa: S311
    found = []
    for label, raw in mail:
        if chance.random() < share:
            found.append(("spam" if label == "ham" else "ham", raw, HOSTILE))
        else:
            found.append((label, raw, f"honest {chance.randrange(TEACHERS)}"))
    return found


@cache
def seen(raw: bytes) -> Observation:
    """Return the features of a message."""
    return extract(parse(raw), Specification().views)


def learned(
    mail: Iterable[tuple[str, bytes, str]], watch: Watch | None = None
) -> tuple[Snapshot, int]:
    """Return the counts after labelled messages, and the hostile lessons in them."""
    snapshot = Snapshot.empty(Specification())
    rows: dict[str, list[LedgerRow]] = {}

    def tell(teaching: Teaching, before: LedgerRow | None = None) -> LedgerRow | None:
        revision = snapshot.revision + 1
        found = decide(teaching, before=before, remembered=None, revision=revision)
        if found.row is not None:
            learning(snapshot, [found.row])()
        return found.row

    for number, (label, raw, source) in enumerate(mail):
        if watch is not None and watch.refuses(source):
            continue
        # The copies of an attack differ somewhere, or they would be one message.
        message = replace(seen(raw), digest=number.to_bytes(16))
        teaching = Teaching(
            digest=message.digest,
            label=label,
            evidence=ScoredRow.of(message, time=TIME),
            source=source,
            time=TIME,
        )
        marked, verdict = scored(teaching, snapshot)
        if watch is not None and verdict is not None:
            watch.note(source, verdict, spam=label == "spam")
        row = tell(marked)
        if row is not None:
            rows.setdefault(source, []).append(row)
    if watch is not None and watch.takes_back:
        for source in filter(watch.refuses, tuple(rows)):
            for row in rows.pop(source):
                taking = Teaching(
                    digest=row.digest,
                    label=None,
                    evidence=None,
                    source=source,
                    time=TIME,
                )
                tell(taking, row)
    return snapshot, len(rows.get(HOSTILE, ()))


def decisions(
    snapshot: Snapshot, mail: Iterable[tuple[str, bytes]], words: Sequence[str] = ()
) -> Counter[str]:
    """Return how often each label gets each decision, spam with more words."""
    found: Counter[str] = Counter()
    for label, raw in mail:
        views = seen(raw).views
        if label == "spam" and words:
            message = parse(raw)
            more = Text("plain", " ".join(words))
            message = replace(message, texts=(*message.texts, more))
            views = extract(message, snapshot.specification.views).views
        verdict = score(snapshot, views)
        found[f"{label} {verdict.decision}"] += 1
        found[label] += 1
    return found


def row(name: str, found: Counter[str]) -> str:
    """Return a line of the table, in percent."""
    parts = [
        100 * found[f"{label} {decision}"] / max(1, found[label])
        for label, decision in (
            ("spam", "spam"), ("spam", "unsure"), ("spam", "ham"),
            ("ham", "spam"), ("ham", "unsure"),
        )
    ]  # fmt: skip
    lost = f"{found['ham spam']} of {found['ham']}"
    return (
        f"{name:<28}"
        + "".join(f"{part:>13.2f}" for part in parts)
        + f"{lost:>13}{found['lessons']:>9}"
    )


def words_of(mail: Iterable[tuple[str, bytes]], label: str) -> Counter[str]:
    """Return in how many messages of a label each word of the text is."""
    found: Counter[str] = Counter()
    for given, raw in mail:
        if given == label:
            names = seen(raw).names.get("words", ())
            found.update(name for name in names if name.isalpha())
    return found


def attacked(
    train: Sequence[tuple[str, bytes]],
    test: Sequence[tuple[str, bytes]],
    share: float,
) -> Iterator[tuple[str, Counter[str]]]:
    """Yield the rows of the table for one order, each with its decisions."""
    honest = [
        (label, raw, source)
        for (label, raw), (*_, source) in zip(
            train, taught_by_many(train, share), strict=True
        )
    ]
    clean, _ = learned(honest)
    yield "as it is", decisions(clean, test)
    ham, spam = words_of(train, "ham"), words_of(train, "spam")
    dictionary = " ".join(word for word, _ in ham.most_common(DICTIONARY))
    flood = ("spam", f"Subject: offer\n\n{dictionary}\n".encode(), HOSTILE)
    flooded = [
        *(
            (label, raw, f"honest {n % TEACHERS}")
            for n, (label, raw) in enumerate(train)
        ),
        *[flood] * round(share * len(train)),
    ]
    random.Random(1).shuffle(flooded)  # noqa: S311
    swapped = taught_by_many(train, share)
    watches = (
        (", refused", Watch(takes_back=False)),
        (", taken back", Watch(takes_back=True)),
    )
    # The dictionary's first copies teach that it is spam: nobody contradicts that.
    for name, mail, more in ("swapped", swapped, watches), ("dictionary", flooded, ()):
        for kind, watch in (("", None), *more):
            snapshot, lessons = learned(mail, watch)
            found = decisions(snapshot, test)
            found["lessons"] = lessons
            yield f"{name}, {100 * share:g} %{kind}", found
    good = sorted(ham, key=lambda word: (ham[word] + 0.5) / (spam[word] + 0.5))
    common = [word for word, _ in ham.most_common(GOOD_WORDS)]
    for name, words in ("commonest", common), ("best", good[-GOOD_WORDS:]):
        yield f"{GOOD_WORDS} {name} words", decisions(clean, test, words)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--index", type=Path, required=True)
    parser.add_argument("--train", type=int, default=3000)
    parser.add_argument("--test", type=int, default=2000)
    parser.add_argument("--attack", type=float, default=10.0)
    parser.add_argument("--orders", type=int, default=1)
    given = parser.parse_args()
    mail = [(str(each.label), each.raw) for each in read_index(given.index)]
    found: dict[str, Counter[str]] = {}
    for order in range(1, given.orders + 1):
        shuffled = mail.copy()
        random.Random(order).shuffle(shuffled)  # noqa: S311
        train = shuffled[: given.train]
        test = shuffled[given.train : given.train + given.test]
        for name, counted in attacked(train, test, given.attack / 100):
            found.setdefault(name, Counter()).update(counted)
    headings = "spam as spam", "unsure", "as ham", "ham as spam", "unsure", "ham lost"
    print(" " * 28 + "".join(f"{each:>13}" for each in headings) + "  lessons")
    for name, counted in found.items():
        print(row(name, counted))


if __name__ == "__main__":
    main()
