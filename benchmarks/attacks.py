"""What attacks cost: a hostile teacher, spam that teaches, and words added to spam.

    python -m benchmarks.attacks --index FILE [--train N] [--test N] [--attack PERCENT]

Learns the first messages of a stream, shuffled, and scores the next.  Then the same
with a *dictionary attack*: a share of the taught mail is one spam message of all words
of the ham, labelled as spam as its receivers will.  And the same with *good words*:
each spam message that is scored gets 500 words more, once those that most ham messages
have, which anybody can guess, and once those with the most evidence for ham, which is
what somebody knows who reads the database.  The *hostile teacher* labels a tenth of
the taught mail, always wrongly, while nine others label the rest: as it is, and where
suspects are refused (`POSTBAYES_SUSPECTS`).

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
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from app.classifier.score import score
from app.classifier.snapshot import Snapshot
from app.classifier.specification import Specification
from app.corpora.source import read_index
from app.features.extract import extract
from app.features.observation import Observation
from app.figures.metrics import Errors
from app.ledger.teaching import ScoredRow, Teaching, decide, learning, scored
from app.mail.message import Text
from app.mail.parse import parse
from app.services.figures import SURE, SourceFigures, suspects
from app.services.teachers import EVERY

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from app.classifier.verdict import Verdict

TIME: Final = datetime(2026, 1, 1, tzinfo=UTC)
GOOD_WORDS: Final = 500
# Words of one message of the dictionary: more than fit into one that is read.
DICTIONARY: Final = 20_000


HOSTILE: Final = 0.1
"""Share of the taught mail that the hostile teacher labels."""
TEACHERS: Final = 9


class Watch:
    """Refuses suspects, as the service does."""

    def __init__(self) -> None:
        self._labelled: dict[str, list[tuple[bool, Verdict]]] = {}
        self._suspects: set[str] = set()
        self._noted = 0

    def refuses(self, source: str) -> bool:
        """Return whether a teacher is a suspect."""
        return source in self._suspects

    def note(self, source: str, verdict: Verdict, *, spam: bool) -> None:
        """Note what a teacher says of a message, and what the filter said."""
        self._labelled.setdefault(source, []).append((spam, verdict))
        self._noted += 1
        if self._noted % EVERY == 0:
            found = suspects([_figures(*each) for each in self._labelled.items()])
            self._suspects = {each.source for each in found}


def _figures(source: str, labelled: list[tuple[bool, Verdict]]) -> SourceFigures:
    """Return where a teacher contradicts the filter."""
    gold = np.array([spam for spam, _ in labelled])
    said = np.array([verdict.decision for _, verdict in labelled])
    sure = np.array([abs(verdict.log_odds) >= SURE for _, verdict in labelled])
    against = (gold != (said == "spam")) & (said != "unsure")
    return SourceFigures(
        source=source,
        errors=Errors.of(gold, said == "spam"),
        unsure=int((said == "unsure").sum()),
        contradicted=int(against.sum()),
        sure=int((against & sure).sum()),
    )


def taught_by_many(mail: Iterable[tuple[str, bytes]]) -> list[tuple[str, bytes, str]]:
    """Return labelled messages with their teachers, of whom one swaps the labels."""
    chance = random.Random(2)  # noqa: S311
    found = []
    for label, raw in mail:
        if chance.random() < HOSTILE:
            found.append(("spam" if label == "ham" else "ham", raw, "hostile"))
        else:
            found.append((label, raw, f"honest {chance.randrange(TEACHERS)}"))
    return found


def learned(
    mail: Iterable[tuple[str, bytes] | tuple[str, bytes, str]],
    watch: Watch | None = None,
) -> Snapshot:
    """Return the counts after labelled messages, scored as they come."""
    snapshot = Snapshot.empty(Specification())
    views = snapshot.specification.views
    for number, (label, raw, *by) in enumerate(mail):
        source = by[0] if by else "site"
        if watch is not None and watch.refuses(source):
            continue
        seen = extract(parse(raw), views)
        # The copies of an attack differ somewhere, or they would be one message.
        seen = Observation(number.to_bytes(16), seen.feature_set, seen.views)
        teaching = Teaching(
            digest=seen.digest,
            label=label,
            evidence=ScoredRow.of(seen, time=TIME),
            source=source,
            time=TIME,
        )
        marked, verdict = scored(teaching, snapshot)
        if watch is not None and verdict is not None:
            watch.note(source, verdict, spam=label == "spam")
        outcome = decide(
            marked, before=None, remembered=None, revision=snapshot.revision + 1
        )
        if outcome.row is not None:
            learning(snapshot, [outcome.row])()
    return snapshot


def decisions(
    snapshot: Snapshot, mail: Iterable[tuple[str, bytes]], words: Sequence[str] = ()
) -> Counter[str]:
    """Return how often each label gets each decision, spam with more words."""
    views = snapshot.specification.views
    found: Counter[str] = Counter()
    for label, raw in mail:
        message = parse(raw)
        if label == "spam" and words:
            more = Text("plain", " ".join(words))
            message = replace(message, texts=(*message.texts, more))
        verdict = score(snapshot, extract(message, views).views)
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
    return f"{name:<24}" + "".join(f"{part:>13.2f}" for part in parts)


def words_of(mail: Iterable[tuple[str, bytes]], label: str) -> Counter[str]:
    """Return in how many messages of a label each word of the text is."""
    found: Counter[str] = Counter()
    for given, raw in mail:
        if given == label:
            names = extract(parse(raw), ("words",)).names.get("words", ())
            found.update(name for name in names if name.isalpha())
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--index", type=Path, required=True)
    parser.add_argument("--train", type=int, default=3000)
    parser.add_argument("--test", type=int, default=2000)
    parser.add_argument("--attack", type=float, default=1.0)
    given = parser.parse_args()
    mail = [(str(each.label), each.raw) for each in read_index(given.index)]
    shuffled = random.Random(1)  # noqa: S311
    shuffled.shuffle(mail)
    train = mail[: given.train]
    test = mail[given.train : given.train + given.test]
    headings = "spam as spam", "unsure", "as ham", "ham as spam", "unsure"
    print(" " * 24 + "".join(f"{each:>13}" for each in headings))
    clean = learned(train)
    print(row("as it is", decisions(clean, test)), flush=True)
    by_many = taught_by_many(train)
    print(row("hostile teacher, 10 %", decisions(learned(by_many), test)), flush=True)
    found = decisions(learned(by_many, Watch()), test)
    print(row("the same, refused", found), flush=True)
    ham, spam = words_of(train, "ham"), words_of(train, "spam")
    copies = round(given.train * given.attack / 100)
    dictionary = [word for word, _ in ham.most_common(DICTIONARY)]
    flood = ("spam", f"Subject: offer\n\n{' '.join(dictionary)}\n".encode())
    attacked = [*train, *[flood] * copies]
    shuffled.shuffle(attacked)
    name = f"dictionary, {given.attack:g} %"
    print(row(name, decisions(learned(attacked), test)), flush=True)
    good = sorted(ham, key=lambda word: (ham[word] + 0.5) / (spam[word] + 0.5))
    common = [word for word, _ in ham.most_common(GOOD_WORDS)]
    for name, words in ("commonest", common), ("best", good[-GOOD_WORDS:]):
        found = decisions(clean, test, words)
        print(row(f"{GOOD_WORDS} {name} words", found), flush=True)


if __name__ == "__main__":
    main()
