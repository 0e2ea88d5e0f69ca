"""Inspection: a message, a word or a ledger, as the pages of a profile show it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from app.bayes.smoothing import Lidstone
from app.bayes.sparse import SparseCounts
from app.classifier.shading import shade
from app.classifier.specification import PARTS
from app.classifier.statement import UNKNOWN, testimony
from app.features.extract import extract, meant, parts_of
from app.features.places import passages, placed
from app.services.classify import Head, classify_observation, read
from app.services.clock import now
from app.storage import ledger, runs, undo_records, undo_work
from app.storage.database.engine import reading
from app.storage.fold import folded_revision

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from app.classifier.shading import Shading
    from app.classifier.snapshot import Snapshot
    from app.classifier.specification import Specification
    from app.classifier.statement import Witness
    from app.kernels import Ints
    from app.ledger.entry import LedgerLine
    from app.ledger.undo import Selection
    from app.mail.message import Part
    from app.services.cache import LiveProfiles
    from app.services.classify import Classified
    from app.services.live import LiveProfile
    from app.services.recent import RecentMessages
    from app.storage.runs import EpochCount


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspected:
    """The answer about one message, with its evidence in the text."""

    classified: Classified
    shading: Shading
    attachments: tuple[Part, ...]

    @property
    def tricks(self) -> list[str]:
        """The tricks against filters in the message, such as `invisible` characters."""
        names = self.classified.observation.names.get("words", ())
        tags = (name.partition(":") for name in names)
        return [trick for tag, _, trick in tags if tag == "trick"]


def inspect(
    live: LiveProfiles,
    recent: RecentMessages,
    witnesses: Sequence[Witness],
    profile: str,
    raw: bytes,
    *,
    strongest: int,
) -> Inspected:
    """Read and score a message.

    An inspected message is not traffic: it is neither counted nor logged, and the
    filter does not learn it by itself.  It can be taught by its id.

    Raises
    ------
    UnknownProfile
        If there is no such profile.
    ProfileLoading
        If it is not in memory yet.
    EmptyMessage
        If the message is blank.
    """
    loaded = live.get_all((profile,))[profile]
    message = read(raw)
    found = passages(message)
    known = loaded.specification
    places = placed(found)
    observation = extract(message, known.views).keyed(known.key)
    classified = classify_observation(
        loaded, observation, strongest=strongest, head=Head.of(message, len(raw))
    )
    # Not while the profile is held: it takes 0.2 s for a long message.
    shading = shade(
        found,
        places,
        observation,
        classified.attribution,
        partial(_counts, loaded),
        key=known.key,
    )
    heard = testimony(witnesses, message, UNKNOWN)
    if heard is not None:
        classified = replace(classified, testimony=heard).stated_for(profile)
        # Statements have no place in the text.
        elsewhere = dict(shading.elsewhere)
        for each in classified.statements:
            elsewhere[each.kind] = elsewhere.get(each.kind, 0.0) + each.nats
        shading = replace(shading, elsewhere=elsewhere)
    recent.add(loaded.row.id, observation, now())
    return Inspected(
        classified=classified, shading=shading, attachments=message.attachments
    )


def _counts(live: LiveProfile, view: str, ids: Ints) -> list[dict[str, int]]:
    """Return the number of learned messages per label that had each feature."""
    with live.scoring() as snapshot:
        return snapshot.in_messages(view, ids)


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerPage:
    """Some rows of a ledger; see `app.doors.documents.history.LedgerOut`."""

    profile: str
    rows: tuple[LedgerLine, ...]
    taken_back: frozenset[int]
    next: int | None
    unfinished: int


def ledger_page(
    live: LiveProfiles,
    profile: str,
    selection: Selection,
    *,
    label: str | None = None,
    before: int | None = None,
    limit: int,
) -> LedgerPage:
    """Return the newest rows of a ledger that meet all conditions.

    Raises
    ------
    UnknownProfile, UnknownLabel
        If there is no such profile, or it has no such label.
    DatabaseUnavailable
        If the ledger cannot be read.
    """
    row = live.find(profile).row
    if label is not None:
        row.require_label(label)
    with reading(live.engine) as connection:
        found = ledger.lines(
            connection, row.id, selection, label=label, before=before, limit=limit + 1
        )
        rows = tuple(found[:limit])
        # Rows that an undo wrote carry it out; it does not take them back.
        revisions = {each.revision for each in rows}
        standing = undo_records.standing(connection, row.id)
        gone = undo_records.taken_back(connection, row.id, revisions, standing)
        unfinished = undo_work.rows_left(connection, row.id)
    return LedgerPage(
        profile=row.name,
        rows=rows,
        taken_back=frozenset(gone),
        next=rows[-1].revision if len(found) > limit else None,
        unfinished=unfinished,
    )


# Half a message with the word and half a message without: under this prior, the log of
# a share of few messages is least biased (J. B. S. Haldane, "The estimation and
# significance of the logarithm of a ratio of frequencies", Annals of Human Genetics 20,
# 1956, pages 309-311).
SHARE: Final = Lidstone(0.5 * PARTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class WordMonth:
    """The weight of a word after a month; see `app.doors.documents.figures`."""

    epoch: int
    weight: float
    log_odds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WordInView:
    """The counts of a word in one view; see `app.doors.documents.figures`."""

    learned: Mapping[str, int]
    messages: Mapping[str, int]
    occurrences: Mapping[str, int]
    log_odds: float
    epochs: tuple[EpochCount, ...] = ()
    months: tuple[WordMonth, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WordState:
    """The counts of a word in a profile; see `app.doors.documents.figures`."""

    word: str
    profile: str
    revision: int
    folded_revision: int
    messages: Mapping[str, int]
    half_life: float | None
    views: Mapping[str, WordInView]
    parts: Mapping[str, Mapping[str, WordInView]]


def word_state(live: LiveProfiles, profile: str, word: str) -> WordState:
    """Return the counts of a word.

    Raises
    ------
    UnknownProfile
        If there is no such profile.
    DatabaseUnavailable
        If the months cannot be read.
    """
    loaded = live.get(profile)
    features = meant(word, loaded.specification.key)
    with reading(live.engine) as connection:
        folded = folded_revision(connection, loaded.row.id)
        epochs = {
            view: runs.history(connection, loaded.row, view=view, feature=feature)
            for view, feature in features.items()
        }
    with loaded.held() as snapshot:
        specification = snapshot.specification
        decay, by_label = specification.decay, specification.by_label
        return WordState(
            word=word,
            profile=loaded.row.name,
            revision=snapshot.revision,
            folded_revision=folded,
            messages=by_label(snapshot.messages),
            half_life=None if decay is None else decay.half_life,
            views=dict(_in_views(snapshot, features, epochs)),
            parts={
                part: dict(_in_views(snapshot, meant(part, specification.key), {}))
                for part in parts_of(word)
            },
        )


def _in_views(
    snapshot: Snapshot,
    features: Mapping[str, int],
    epochs: Mapping[str, Sequence[EpochCount]],
) -> Iterator[tuple[str, WordInView]]:
    """Yield the counts of a word, by the views that have seen it."""
    by_label = snapshot.specification.by_label
    for view, feature in features.items():
        if view not in snapshot.tables:
            continue
        table, counts = snapshot.tables[view], epochs.get(view, ())
        ids = np.array([feature], np.int64)
        messages = by_label(table.look_up(ids, "presence")[0])
        # Counts that have decayed to nothing still have their months.
        if any(messages.values()) or any(x.messages for x in counts):
            yield (
                view,
                WordInView(
                    learned=by_label(table.messages),
                    messages=messages,
                    occurrences=by_label(table.look_up(ids, "occurrences")[0]),
                    log_odds=weight(snapshot, view, feature),
                    epochs=tuple(counts),
                    months=tuple(over_time(counts, snapshot.specification)),
                ),
            )


def over_time(
    counts: Sequence[EpochCount], specification: Specification
) -> Iterator[WordMonth]:
    """Yield the weight of a word at the end of each of its months."""
    decay = specification.decay
    for epoch in sorted({each.epoch for each in counts}):
        then = None if decay is None else replace(decay, epoch=epoch)
        # For other mail and for spam: messages with the word, and all messages.
        having, learned = np.zeros(2, np.int64), np.zeros(2, np.int64)
        for each in counts:
            if each.epoch > epoch:
                break
            side = int(each.label in specification.spam_labels)
            part = PARTS if then is None else then.weight(each.epoch)
            having[side] += part * each.messages
            learned[side] += part * each.learned
        shares = SHARE.log_probability(having, learned, 2)
        yield WordMonth(
            epoch=epoch,
            weight=1.0 if decay is None else decay.weight(epoch) / PARTS,
            log_odds=float(shares[1] - shares[0]),
        )


def weight(snapshot: Snapshot, view: str, feature: int) -> float:
    """Return how far a feature moves the log-odds of its view.  Unit: nats.

    The difference of the two log-likelihoods of the view's own classifier.
    """
    sides = snapshot.sides
    x = SparseCounts(np.array([feature], np.int64), np.ones(1, np.int64))
    parts = sides.likelihood(view).contributions(x)
    return float(parts.features[0] @ np.where(sides.specification.spam_mask, 1.0, -1.0))
