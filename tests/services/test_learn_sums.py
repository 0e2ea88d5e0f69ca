"""Archives learned as sums: the counts of `Learn`, without the features of a message."""

from __future__ import annotations

import logging
import os
import signal
from collections import Counter
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count

import dask
import pytest
from distributed import LocalCluster
from hypothesis import given
from hypothesis import strategies as st

from app.classifier import learn as classifying
from app.classifier.learn import MOST_TAUGHT
from app.corpora.mailbox import CorpusMessage
from app.corpora.parallel import cluster
from app.corpora.source import ArchivePart
from app.errors import (
    ClusterUnavailable,
    Expired,
    InvalidSetting,
    Irreversible,
    OtherProfile,
    UnknownMessage,
    UnreadableMessage,
    UnreadableSource,
)
from app.ledger.undo import Selection
from app.services import learn as learning
from app.services.learn import Learn, LearnSums
from app.services.upkeep import Folding
from app.storage.database.engine import reading, writing
from app.storage.ledger import latest_of
from app.storage.retention import prepare_erasure, write
from tests.support.application import running, teach
from tests.support.builders import drop_vectors, named, new_profile, seen
from tests.support.databases import on_one_database, on_sqlite
from tests.support.ledger import audited, contents, loaded
from tests.support.messages import ham, spam
from tests.support.transfer import exported, imported

JANUARY = datetime(2026, 1, 10, tzinfo=UTC)
DAY = timedelta(days=1)


@pytest.fixture
def app(database_url):
    """A service that drops no vector for its age, however long ago January was."""
    with running(database_url=database_url, vector_days=0) as app:
        yield app


def mail(numbers):
    """Return labelled messages, the even ones ham."""
    return [("spam", spam(n)) if n % 2 else ("ham", ham(n)) for n in numbers]


def digest(message):
    """Return what identifies a labelled message."""
    return seen(message[1]).digest


def learn(app, kind, messages, *, profile="default", part=100, **more):
    """Learn messages, a day for each part, and return what became of them."""
    parts = [messages[at : at + part] for at in range(0, len(messages), part)]
    return learn_parts(
        app,
        kind,
        [[CorpusMessage(*each, "here") for each in some] for some in parts],
        profile=profile,
        **more,
    )


def learn_parts(app, kind, parts, *, profile="default", readers=None, **more):
    """Learn parts, whoever reads them, and return what became of their messages."""
    days = count()
    more.setdefault("source", "archive")
    learner = kind(
        app.engine,
        app.live.get(profile),
        lambda: JANUARY + next(days) * DAY,
        store_words=True,
        **({"in_order": False} if kind is Learn else {}),
        **more,
    )
    became = sum(learner.batches(parts, readers=readers), Counter())
    app.live.refresh()
    return {kind: number for kind, number in became.items() if number}


def undo(app, **asked):
    """Take back some teachings of the profile, however many they are."""
    chosen = Selection(**asked)
    confirm = app.undo.forecast("default", chosen).confirm
    return app.undo("default", chosen, source="boss", confirm=confirm)


def state_of(app, profile="default"):
    """Return all that is counted, and its text, once the ledger is sound."""
    row = app.live.get(profile).row
    found = contents(app.engine, row), loaded(app.engine, row)

    assert audited(app.engine, row)[0]
    return found, named(app.engine, row)


def labels_of(app, messages):
    """Return what each message is learned as."""
    row = app.live.get("default").row
    with reading(app.engine) as connection:
        latest = latest_of(connection, row.id, map(digest, messages))
    return [latest[digest(each)].label for each in messages]


def messages_of(app):
    """Return how many messages of each label are learned."""
    return app.live.get("default").snapshot.messages.tolist()


numbers = st.lists(st.integers(0, 30), max_size=12)
steps = st.lists(
    st.tuples(st.sampled_from([Learn, LearnSums]), numbers, st.integers(1, 6)),
    max_size=4,
)


@on_sqlite
@given(steps)
@on_one_database
def test_the_counts_are_those_of_each_message_learned_once(app, story):
    """In whatever parts, whichever were known, and however often they came."""
    plain, parts = (new_profile(app.engine).name for _ in range(2))
    app.live.refresh()
    for kind, chosen, size in story:
        learn(app, kind, mail(chosen), profile=parts, part=size)
        learn(app, Learn, mail(chosen), profile=plain)

    assert state_of(app, plain) == state_of(app, parts)


class Changing:
    """A part with other messages whenever it is read."""

    def __init__(self, *readings):
        self._readings = iter(readings)

    def __iter__(self):
        """Read it once more."""
        return (CorpusMessage(*each, "here") for each in next(self._readings))


def test_a_part_that_changes_before_it_is_read_again_is_not_learned(app):
    """It is read again without the messages that are known."""
    learn(app, LearnSums, mail([1]))
    part = Changing(mail([1, 2, 3]), mail([1, 2, 4]))
    with pytest.raises(UnreadableSource, match="changed while it was learned"):
        learn_parts(app, LearnSums, [part])

    assert [0, 1] == messages_of(app)


@pytest.mark.parametrize("kind", [Learn, LearnSums])
def test_an_archive_teaches_nothing_to_views_that_learn_errors(app, kind):
    """Nobody knows what they would have said of it."""
    learn(app, kind, mail(range(8)))
    tables = app.live.get("default").snapshot.tables

    assert [4, 4] == tables["words"].messages.tolist()
    for view in ("corrections", "grams"):
        assert [0, 0] == tables[view].messages.tolist()


def long_message():
    """Return spam with more words and pairs of words than a message may teach."""
    words = b" ".join(b"word%d" % number for number in range(2 * MOST_TAUGHT))
    return b"Subject: long\n\n%s\n" % words


@on_sqlite
def test_a_long_message_teaches_as_much_in_an_archive_as_by_feedback(app):
    """A bounded number of features of each view, and their text; also in a sum."""
    rows, parts = (new_profile(app.engine).name for _ in range(2))
    app.live.refresh()
    teach(app, long_message(), "spam")
    learn(app, Learn, [("spam", long_message())], profile=rows)
    learn(app, LearnSums, [("spam", long_message())], profile=parts)
    (_, taught), names = state_of(app)
    (_, tables), names_of_sum = of_sum = state_of(app, parts)

    assert of_sum == state_of(app, rows)
    assert MOST_TAUGHT == tables["words"].vocabulary == tables["pairs"].vocabulary
    assert {view: taught[view] for view in tables} == tables
    assert names == names_of_sum
    assert MOST_TAUGHT == len(names["words"])


@on_sqlite
def test_a_message_that_was_taught_whole_is_taken_back_whole(app, monkeypatch):
    """The row has what was learned, whatever a message may teach today."""
    nothing = state_of(app)
    monkeypatch.setattr(classifying, "MOST_TAUGHT", 2**16)
    teach(app, long_message(), "spam")
    monkeypatch.undo()

    assert 2 * MOST_TAUGHT <= state_of(app)[0][1]["words"].vocabulary
    teach(app, long_message(), "ham")
    assert [1, 0] == messages_of(app)
    assert 2 * MOST_TAUGHT <= state_of(app)[0][1]["words"].vocabulary
    app.feedback.forget("default", digest(("ham", long_message())), source="ann")
    assert nothing == state_of(app)


def fatal(mark, messages):
    """Give messages, having ended the process that asks for them first."""
    if mark is not None and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    yield from messages


@pytest.mark.slow
@on_sqlite
def test_a_cluster_that_loses_a_worker_gives_the_same_counts(app, tmp_path):
    """Lost parts are read again; each is committed once, in its order."""
    plain, there = (new_profile(app.engine).name for _ in range(2))
    app.live.refresh()
    # The first label of a message stays, and one is in two parts.
    archive = [*mail(range(20)), ("ham", spam(1)), *mail([3])]
    mark = tmp_path / "killed"
    parts = [
        [CorpusMessage(*each, "here") for each in archive[at : at + 3]]
        for at in range(0, len(archive), 3)
    ]
    by_reference = [
        ArchivePart((partial(fatal, mark if number == 2 else None, each),))
        for number, each in enumerate(parts)
    ]
    alone = learn_parts(app, LearnSums, parts, profile=plain)
    with (
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            # None would be port 8787 of all addresses, which others may have.
            dashboard_address="127.0.0.1:0",
            silence_logs=logging.CRITICAL,
        ) as workers,
        cluster(workers.scheduler_address) as readers,
    ):
        became = learn_parts(
            app, LearnSums, by_reference, profile=there, readers=readers
        )

    assert mark.exists()
    assert {"learned": 20, "unchanged": 1, "expired": 1} == alone == became
    assert state_of(app, plain) == state_of(app, there)


def test_a_cluster_that_does_not_answer_is_named():
    """Nothing was learned, and the same command may do later."""
    with (
        pytest.raises(ClusterUnavailable, match=r"127\.0\.0\.1:1 does not answer"),
        dask.config.set({"distributed.comm.timeouts.connect": "100ms"}),
        cluster("tcp://127.0.0.1:1"),
    ):
        pass
    with (
        pytest.raises(InvalidSetting, match="is not the address of a Dask scheduler"),
        cluster("nowhere://x"),
    ):
        pass


@on_sqlite
def test_what_became_of_each_message_is_counted(app):
    """New, known, twice in one part, of two labels, blank."""
    first = learn(app, LearnSums, mail(range(6)))
    again = learn(app, LearnSums, [*mail(range(8)), *mail([7]), ("ham", spam(7))])
    blank = learn(app, LearnSums, [("ham", b" \n"), *mail([8])])

    assert {"learned": 6} == first
    assert {"learned": 2, "unchanged": 7, "expired": 1} == again
    assert {"empty": 1, "learned": 1} == blank
    assert labels_of(app, mail(range(9))) == [label for label, _ in mail(range(9))]


def test_a_message_that_cannot_be_read_is_left_out(app, monkeypatch):
    """The sum is that of the others."""
    monkeypatch.setattr("app.features.extract.digest", lambda _: 1 / 0)
    learner = LearnSums(
        app.engine,
        app.live.get("default"),
        lambda: JANUARY,
        source="archive",
        store_words=True,
    )
    part = [CorpusMessage(*each, "here") for each in mail([1])]
    with pytest.raises(UnreadableMessage):
        list(learner.batches([part]))

    (counted,) = learner.batches([part], on_unreadable=lambda *_: None)

    assert {"unreadable": 1} == +counted
    assert 0 == learner.revision


@on_sqlite
def test_a_message_with_features_of_its_own_is_relabelled(app):
    """Its row in the ledger has what is moved."""
    plain, both = (new_profile(app.engine).name for _ in range(2))
    app.live.refresh()
    other = [("ham", spam(1)), *mail([2])]
    for kind, name in ((Learn, plain), (LearnSums, both)):
        learn(app, Learn, mail([1, 3]), profile=name)
        became = learn(app, kind, other, profile=name)

        assert {"relabelled": 1, "learned": 1} == became

    assert state_of(app, plain) == state_of(app, both)


def test_what_is_taught_meanwhile_is_not_counted_twice(app, monkeypatch):
    """Between the reading of a part and its transaction."""
    other = new_profile(app.engine).name
    app.live.refresh()
    real = learning.observe

    def observe(raw, *more):
        """Read a message, which somebody teaches at that moment."""
        if raw == spam(1):
            app.feedback.teach("default", spam(1), label="spam", source="ann")
        return real(raw, *more)

    monkeypatch.setattr(learning, "observe", observe)
    became = learn(app, LearnSums, mail([1, 2, 3]))
    monkeypatch.undo()
    row = app.live.get(other).row
    learn(app, LearnSums, mail([1, 2, 3]), profile=other)

    assert {"learned": 2, "unchanged": 1} == became
    assert [1, 2] == messages_of(app)
    assert (
        loaded(app.engine, row)["words"]
        == loaded(app.engine, app.live.get("default").row)["words"]
    )


def test_an_undone_part_was_never_there(app):
    """The parts beside it stay; what was undone can be learned again."""
    learn(app, Learn, mail(range(4)), source="ann")
    before = state_of(app)
    learn(app, LearnSums, mail(range(2, 12)), part=5)
    day = JANUARY + DAY
    undone = undo(app, source="archive", since=day, until=day + DAY)
    one = labels_of(app, mail(range(4, 12)))
    undo(app, source="archive")

    assert {("ham", None): 2, ("spam", None): 3} == dict(undone.plan.messages)
    assert {"ham": 0, "spam": 0} == dict(undone.plan.summed)
    assert ["ham", "spam", "ham"] + [None] * 5 == one
    assert before == state_of(app)
    assert {"unchanged": 4, "learned": 8} == learn(app, LearnSums, mail(range(12)))
    assert {"unchanged": 12} == learn(app, Learn, mail(range(12)))


def test_the_undo_of_a_part_is_not_undone(app):
    """Its messages may have been taught since, and would count twice."""
    learn(app, LearnSums, mail(range(4)))
    name = undo(app, source="archive").name
    teach(app, spam(1), "ham")
    with pytest.raises(Irreversible, match="learn that archive again"):
        undo(app, source=name)
    learn(app, LearnSums, mail([9]), source="one")
    name = undo(app, source="one").name
    teach(app, spam(9), "spam")
    app.feedback.forget("default", digest(mail([9])[0]), source="ann")
    row = app.live.get("default").row
    list(Folding(app.engine).all(row))
    with reading(app.engine) as connection:
        erasure = prepare_erasure(connection, row, upto=10**6, limit=9)
    with writing(app.engine) as connection:
        assert write(connection, row, erasure)
    with pytest.raises(Irreversible, match="learn that archive again"):
        undo(app, source=name)

    assert {"learned": 3, "relabelled": 1} == learn(app, LearnSums, mail(range(4)))
    assert [2, 2] == messages_of(app)


def test_one_message_of_a_part_is_not_taken_back(app):
    """Neither undone, nor moved, nor forgotten: the sum has its features."""
    learn(app, LearnSums, mail(range(4)))
    before = state_of(app)
    one = digest(mail([1])[0])
    with pytest.raises(Expired, match="'archive', from 2026-01-10T00:00:00"):
        undo(app, ids=frozenset([one]))
    with pytest.raises(Expired, match="in a sum"):
        teach(app, spam(1), "ham")
    with pytest.raises(Expired, match=r"in a sum.* history were deleted"):
        app.feedback.forget("default", one, source="ann")

    assert "unchanged" == teach(app, spam(1), "spam").outcome.kind
    assert before == state_of(app)


def test_a_message_of_an_undone_part_is_known_by_nothing(app):
    """Its row has no features to teach it by, or to forget."""
    learn(app, LearnSums, mail([1]))
    undo(app, source="archive")
    one = digest(mail([1])[0])
    with pytest.raises(UnknownMessage):
        app.feedback.teach_by_id("default", one, label="ham", source="ann")
    with pytest.raises(UnknownMessage):
        app.feedback.forget("default", one, source="ann")

    assert "learned" == teach(app, spam(1), "ham").outcome.kind
    assert [1, 0] == messages_of(app)


def test_the_page_of_a_message_of_a_part_has_no_verdict(app):
    """Its row has nothing to score; of one that was scored, that is scored."""
    learn(app, LearnSums, mail([1, 2]))
    one, two = map(digest, mail([1, 2]))
    app.classify("default", spam(1), strongest=0)
    app.recent.flush(app.engine)
    scored, unscored = (
        app.history.stored(each, profile="default", strongest=0)[0]
        for each in (one, two)
    )

    assert scored.now is not None
    assert unscored.now is None


def test_a_part_that_is_too_old_is_sealed(app):
    """Counts and words stay as those of messages with rows of their own."""
    plain, parts = (new_profile(app.engine).name for _ in range(2))
    app.live.refresh()
    for kind, name in ((Learn, plain), (LearnSums, parts)):
        learn(app, kind, mail(range(9)), profile=name, part=3)
        row = app.live.get(name).row
        state_of(app, name)
        with writing(app.engine) as connection:
            until = JANUARY + 2 * DAY

            assert 6 <= drop_vectors(connection, row, before=until, limit=100)

    assert state_of(app, plain) == state_of(app, parts)
    with pytest.raises(Expired, match="POSTBAYES_VECTOR_DAYS"):
        app.undo.forecast(parts, Selection(source="archive"))


def test_a_ledger_with_parts_is_moved_whole(app):
    """Into a profile of its own, and not into one that may know its messages."""
    learn(app, LearnSums, mail(range(6)), part=3)
    undo(app, source="archive", until=JANUARY + DAY)
    data = exported(app.engine, app.live.get("default").row, contents="ledger")
    imported(app.engine, data, "moved")
    app.live.refresh()

    assert state_of(app) == state_of(app, "moved")
    with pytest.raises(OtherProfile, match=r"9 ledger rows.*in a sum"):
        imported(app.engine, data, "moved")


def test_a_service_follows_parts(app, database_url):
    """It answers by them, and by what was undone, as one that starts then."""
    with running(database_url=database_url, vector_days=0) as other:
        learn(app, LearnSums, mail(range(40)), part=10)
        other.live.refresh()
        undo(app, source="archive", until=JANUARY + DAY)
        other.live.refresh()
        there = other.classify("default", spam(99), strongest=0).verdict.log_odds
    with running(database_url=database_url, vector_days=0) as started:
        after_a_start = started.classify("default", spam(99), strongest=0).verdict

    assert there == after_a_start.log_odds
    assert "spam" == after_a_start.decision
