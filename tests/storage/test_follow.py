"""Sites that follow each other: what each counts is a function of all their rows."""

from __future__ import annotations

import random
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import event

from app.errors import OtherProfile, PostbayesError
from app.ledger.entry import sum_by_epoch
from app.ledger.undo import Selection
from app.services.upkeep import erase_some
from app.storage import follow, profiles, tables, undo_records
from app.storage.database.engine import reading, writing
from app.storage.fold import audit, load_by_epoch
from app.storage.ledger import append, rows_after
from tests.support.builders import (
    MARCH,
    begin_undo,
    drop_vectors,
    fold_all,
    new_profile,
    taught,
    teach,
)
from tests.support.databases import on_sqlite
from tests.support.eras import finish

SITES = ("amsterdam", "berlin", "calais")


class Site:
    """A profile with a clock of its own, and how it follows others."""

    def __init__(self, engine, name, *, skew=0):
        self.engine = engine
        self.name = name
        self.profile = new_profile(engine)
        self.now = MARCH + timedelta(days=15, minutes=skew)
        self.pages = []

    def teach(self, message, label, *, source="anna"):
        """Teach a message as the filter of this site sees it; None forgets it."""
        words = {f"word-{message}": 1, "pills": message}
        if message > 1:
            words[f"seen-{self.name}"] = 2
        given = taught(message, label, words, source=source, time=self.now)
        teach(self.engine, self.profile, given)

    def undo(self, source, *, whole=True):
        """Take back what somebody taught, or begin to."""
        with writing(self.engine) as connection:
            asked = Selection(source=source)
            begin_undo(connection, self.profile, asked, source="boss", time=self.now)
        if whole:
            self.finish()

    def finish(self):
        """Carry out what was begun."""
        finish(self.engine, self.profile)

    def offer(self, after=""):
        """Return a page."""
        with reading(self.engine) as connection:
            profile = profiles.find(connection, self.profile.name)
            return follow.offer(connection, profile, after=after)

    def pull(self, other, *, times=1, cut=False):
        """Take a page of another site, and return whether there is more."""
        with reading(self.engine) as connection:
            known = follow.cursor_of(connection, self.profile.id, other.name)
        page = other.offer(known)
        if any(word.time > self.now for word in page.words):
            return False
        self.pages.append((other.name, known, page))
        for _ in range(times):
            self.take(other.name, known, page, cut=cut)
        return page.left > 0

    def take(self, name, known, page, *, cut=False):
        """Take a page, or end in the middle of it."""
        with suppress(ZeroDivisionError), writing(self.engine) as connection:
            follow.take(
                connection,
                self.profile,
                name,
                page.words,
                known=known,
                cursor=page.cursor,
                time=self.now,
            )
            if cut:
                raise ZeroDivisionError

    def begin_anew(self):
        """Forget how far others were followed."""
        mine = tables.following.c.profile_id == self.profile.id
        with writing(self.engine) as connection:
            connection.execute(tables.following.delete().where(mine))

    def catch_up(self, sites):
        """Take all that other sites offer."""
        for other in sites:
            for _ in range(100):
                if other is self or not self.pull(other):
                    break

    def trust_again(self):
        """Take back the undos of what other sites taught."""
        while True:
            with reading(self.engine) as connection:
                undos = list(undo_records.read(connection, self.profile.id))
                standing = self.standing(connection)
            against = [
                undo.number
                for undo in undos
                if undo.number in standing
                and str(undo.asked["source"]).startswith("site:")
            ]
            if not against:
                return
            self.undo(f"undo:{against[0]}")

    def standing(self, connection):
        """Return the numbers of the undos in force."""
        taken, found = set(), set()
        for undo in reversed(undo_records.all_of(connection, self.profile.id)):
            if undo.number not in taken:
                found.add(undo.number)
                taken.update(undo.takes)
        return found

    def own_rows(self):
        """Return what people taught here, as the rule asks for it: row, in force."""
        with reading(self.engine) as connection:
            rows = rows_after(connection, self.profile.id, revision=0, limit=10_000)
            revisions = [row.revision for row in rows]
            gone = undo_records.taken_back(
                connection, self.profile.id, revisions, self.standing(connection)
            )
        return [(row, row.revision not in gone) for row in rows if row.undo is None]

    @property
    def counts(self):
        """What it has counted, month by month."""
        with reading(self.engine) as connection:
            return parts(load_by_epoch(connection, self.profile))

    def sound(self):
        """Return whether an audit finds no difference."""
        fold_all(self.engine, self.profile)
        with reading(self.engine) as connection:
            return audit(connection, self.profile).sound

    def erase(self):
        """Erase what is forgotten."""
        fold_all(self.engine, self.profile)
        erase_some(self.engine, self.profile, upto=10_000)


def reference(sites):
    """Return the counts of all sites together, from the rows that people wrote."""
    words = {}
    for site in sites:
        own, heard = {}, set()
        for row, in_force in site.own_rows():
            if row.source.startswith("site:"):
                heard.add(row.digest)
            elif row.label is None:
                own[row.digest] = row
            elif in_force:
                first, word = own.get(row.digest), row
                if first and first.label and row.digest not in heard:
                    word = replace(row, epoch=first.epoch, vector=first.vector)
                own[row.digest] = word
        for at, row in own.items():
            words.setdefault(at, []).append(row)
    said = [max(rows, key=order) for rows in words.values()]
    learned = [replace(row, label_before=None) for row in said if row.label]
    return parts(sum_by_epoch(learned, ("ham", "spam")))


def parts(counts):
    """Return what is not zero of counts, by month and view."""
    return {(epoch, view): x for epoch, view, x in counts.parts() if x.magnitude}


def order(row):
    """Return what orders words: time, forgotten, label, month, features."""
    if row.label is None:
        return row.time, True, "", 0, b""
    return row.time, False, row.label, row.epoch, row.vector


ACTS = {
    "teach": 8,
    "pull": 10,
    "undo": 3,
    "erase": 1,
    "anew": 1,
    "late": 2,
    "finish": 1,
    "fold": 1,
}


def live(sites, chance):
    """Let one thing happen at one of the sites."""
    site, other = chance.sample(sites, 2)
    site.now += chance.choice(
        [timedelta(), timedelta(), timedelta(minutes=1), timedelta(days=9)]
    )
    match chance.choices([*ACTS], [*ACTS.values()])[0]:
        case "teach":
            label = chance.choice(["ham", "spam", "ham", "spam", None])
            source = chance.choice(["anna", "ben"])
            site.teach(chance.randrange(1, 4), label, source=source)
        case "pull":
            times = chance.choice([1, 1, 2, 0])
            site.pull(other, times=times or 1, cut=not times)
        case "undo":
            source = chance.choice(
                ["anna", "ben", "undo:1", "undo:2", f"site:{other.name}"]
            )
            with suppress(PostbayesError):
                site.undo(source, whole=chance.random() < 0.7)
        case "erase":
            site.erase()
        case "late":
            # Another process had asked for it.
            for page in site.pages[-3:-1]:
                site.take(*page)
        case "anew":
            site.begin_anew()
        case "finish":
            site.finish()
        case "fold":
            fold_all(site.engine, site.profile)


@on_sqlite
@pytest.mark.parametrize("seed", range(24))
def test_sites_that_were_apart_have_the_same_counts(engine, seed):
    """Whatever they taught, undid and forgot, in whatever order they heard of it."""
    chance = random.Random(seed)  # noqa: S311  (a seed names a history)
    sites = [
        Site(engine, name, skew=chance.randrange(-1, 2))
        for name in SITES[: 2 + seed % 2]
    ]
    for _ in range(60):
        live(sites, chance)
    # What was said here after what was heard is a moment later than that.
    latest = max(site.now for site in sites) + timedelta(minutes=1)
    for site in sites:
        site.now = latest
        site.finish()
        site.trust_again()
    chance.shuffle(sites)
    for site in sites:
        site.catch_up(sites)
    late = Site(engine, "dover")
    late.now = latest
    late.catch_up(sites)
    expected = reference(sites)

    for site in (*sites, late):
        assert expected == site.counts
        assert site.sound()


@on_sqlite
@pytest.mark.parametrize("label", ["ham", None])
def test_what_is_said_after_a_word_was_heard_wins(engine, label):
    """Though the clocks give both the same moment."""
    here, there = Site(engine, "amsterdam"), Site(engine, "berlin")
    there.teach(1, "spam")
    here.pull(there)
    here.teach(1, label)
    there.now += timedelta(minutes=1)
    there.pull(here)

    assert reference([here, there]) == here.counts
    assert here.counts == there.counts
    assert [label] == [max(here.own_rows(), key=lambda each: each[0].time)[0].label]


@on_sqlite
def test_a_message_that_a_site_forgot_is_not_known_again_by_an_older_word(engine):
    """Its features are not even kept."""
    here, there = Site(engine, "amsterdam"), Site(engine, "berlin")
    there.teach(1, "spam")
    here.teach(1, "ham")
    here.now += timedelta(minutes=1)
    here.teach(1, None)
    here.pull(there)

    assert {} == here.counts
    assert [None] == [
        row.vector for row, _ in here.own_rows() if row.source == "site:berlin"
    ]


@on_sqlite
def test_a_page_that_comes_late_is_not_taken(engine):
    """Another process has taken what the site said since."""
    here, there = Site(engine, "amsterdam"), Site(engine, "berlin")
    there.teach(1, "spam")
    early = there.offer()
    here.pull(there)
    there.now = here.now = there.now + timedelta(minutes=1)
    there.teach(1, "ham")
    here.pull(there)
    before = here.counts
    here.take("berlin", "", early)

    assert reference([here, there]) == before == here.counts


@on_sqlite
def test_what_the_filter_learned_itself_counts_where_a_site_has_no_word_any_more(
    engine,
):
    """It gives way to the word of any site, and to nothing else."""
    here, there = Site(engine, "amsterdam"), Site(engine, "berlin")
    here.teach(1, "ham", source="auto")
    alone = here.counts
    there.teach(1, "spam")
    here.pull(there)
    heard = here.counts
    there.undo("anna")
    here.catch_up([there])

    assert there.counts == {}
    assert alone == here.counts != heard
    assert here.sound()


@on_sqlite
def test_a_message_whose_features_were_dropped_stays_as_it_is(engine):
    """Whatever others say of it later; the counts still are those of the ledger."""
    here, there = Site(engine, "amsterdam"), Site(engine, "berlin")
    here.teach(1, "ham")
    fold_all(engine, here.profile)
    with writing(engine) as connection:
        dropped = drop_vectors(
            connection, here.profile, before=here.now + timedelta(days=1), limit=9
        )
    there.now += timedelta(minutes=1)
    there.teach(1, "spam")
    before = here.counts
    here.now = there.now
    here.pull(there)

    assert (1, before) == (dropped, here.counts)
    assert here.sound()


@on_sqlite
def test_a_ledger_that_lost_rows_is_another_one(engine):
    """Reading cannot continue after a row that no longer exists."""
    site = Site(engine, "berlin")
    site.teach(1, "spam")
    cursor = site.offer().cursor
    with writing(engine) as connection:
        mine = tables.ledger.c.profile_id == site.profile.id
        connection.execute(tables.ledger.delete().where(mine))
        connection.execute(tables.profile.update().values(revision=0))

    with pytest.raises(OtherProfile, match="restored or replaced"):
        site.offer(cursor)


@on_sqlite
@pytest.mark.parametrize("cursor", ["x", "1.2.3", "1.2.x.y", "1.0.0.00"])
def test_a_cursor_that_nobody_gave_is_refused(engine, cursor):
    """It is invalid, or belongs to another ledger."""
    site = Site(engine, "berlin")

    with pytest.raises(OtherProfile):
        site.offer(cursor)


@on_sqlite
def test_a_long_ledger_is_offered_in_pages(engine):
    """Each row once, and then the rows of each undo."""
    there = Site(engine, "berlin")
    with writing(engine) as connection:
        append(
            connection,
            there.profile,
            [taught(n, "spam", {"pills": 1}, time=there.now) for n in range(300)],
        )
    here = Site(engine, "amsterdam")
    pages = 0
    while here.pull(there):
        pages += 1
    there.undo("anna")
    while here.pull(there):
        pages += 1

    assert 1 < pages < 6
    assert {} == here.counts
    assert here.sound()


@on_sqlite
@pytest.mark.parametrize("minutes", [0, 1])
def test_a_page_reads_one_word_of_the_site_on_each_message(engine, minutes):
    """However often it has changed its mind before, be it without a clock."""
    here, there = Site(engine, "here"), Site(engine, "there")
    here.teach(1, "ham")
    read = []

    @event.listens_for(engine, "after_cursor_execute")
    def note(_connection, cursor, statement, parameters, *_):
        if "ledger.vector" in statement and "revision IN" in statement:
            read.append(len(parameters) - 1)

    counted = []
    for n in range(6):
        there.now += timedelta(minutes=minutes)
        there.teach(1, ("spam", "ham")[n % 2])
        here.now = there.now
        page = there.offer()
        with reading(engine) as connection:
            known = follow.cursor_of(connection, here.profile.id, "there")
        read.clear()
        here.take("there", known, page)
        counted.append(sum(read))

    assert counted[2:4] == counted[4:]


def test_a_message_that_was_moved_often_is_offered_once(engine):
    """Its history is read once, and not for each of its rows."""
    there = Site(engine, "berlin")
    moves = [
        taught("moved", ("spam", "ham")[n % 2], {"pills": 1}, time=there.now)
        for n in range(300)
    ]
    with writing(engine) as connection:
        append(connection, there.profile, moves)
    page = there.offer()
    there.undo("anna")
    undone = there.offer(page.cursor)

    assert [("ham", 0), (None, 0)] == [
        (word.label, each.left) for each in (page, undone) for word in each.words
    ]


@on_sqlite
def test_a_page_ends_where_long_histories_were_read(engine, monkeypatch):
    """Messages that were moved often come in more pages, each of bounded work."""
    monkeypatch.setattr(follow, "_READ", 60)
    there = Site(engine, "berlin")
    moves = [
        taught(message, label, {"pills": 1}, time=there.now)
        for message in range(48)
        for label in ("spam", "ham")
    ]
    with writing(engine) as connection:
        append(connection, there.profile, moves)
    first = there.offer()
    second = there.offer(first.cursor)

    assert [(32, True), (16, False)] == [
        (len(page.words), page.left > 0) for page in (first, second)
    ]
