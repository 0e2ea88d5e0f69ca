"""An export that somebody made up: refused with a sentence, or harmless."""

from __future__ import annotations

import json
import struct
import zlib
from datetime import timedelta
from io import BytesIO
from itertools import count

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.bayes.counts import FeatureCounts
from app.bayes.state import State
from app.classifier.rule import FusionRule, VerdictRule
from app.classifier.specification import Specification
from app.errors import MalformedDump, MalformedExport, OtherProfile
from app.exchange.blocks import BlockReader
from app.exchange.dumps import LARGEST_COUNT, DumpTally, TokenCounts
from app.exchange.format import (
    LEDGER,
    NAMES,
    SUM,
    UNDOS,
    read_names,
    read_rows,
    read_undo,
    surveyed_rows,
    write_names,
    write_rows,
    write_sum,
)
from app.exchange.survey import survey
from app.ledger.entry import LedgerRow
from app.ledger.sums import MOST_OCCURRENCES, Amounts, encode_sum
from app.ledger.vector import encode_names
from app.services.cache import LiveProfiles
from app.services.figures import Figures
from app.storage import tables
from tests.support.builders import APRIL, feature, new_profile, rows_of, taught, teach
from tests.support.databases import on_one_database, on_sqlite
from tests.support.transfer import (
    altered,
    audited,
    exported,
    imported,
    is_there,
    rebuilt,
    state,
    taught_profile,
    transfer,
    undo,
)

# Fitted at each second row, so that whatever scores are imported are fitted to.
SPECIFICATION = Specification(verdict=VerdictRule(fusion=FusionRule(every=2)))
SCORES = {
    "decision": "spam",
    "log_odds": 1.5,
    "views": {"words": {"log_odds": 1.0, "features": 3}},
    "prior": [0.0, 0.5],
    "terms": {name: [0.0, 1.0] for name in SPECIFICATION.verdict.names},
}
NUMBERS = count()
HOSTILE = st.one_of(
    st.sampled_from(
        [
            *(None, True, "", "x", "\0", "\ud800", "x" * 300, [], {}, [1], {"a": 1}),
            *(float("nan"), float("inf"), 1e300, -1e308, 1.5, 0, -1, 1, 2, 202613),
            *(2**31, 2**53, 2**63 - 1, 2**63, -(2**63), 10**30, 10**400),
            *("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "2026-03-01"),
            *("import:x", "undo:1", "auto", "ham", "spam", "sum", "00" * 16, "counts"),
        ]
    ),
    st.integers(),
    st.floats(),
    st.text(st.characters(exclude_categories=()), max_size=9),
)


def ledger(engine):
    """Return the ledger of a profile that was scored, and undone in part."""
    profile = taught_profile(engine)
    teach(
        engine,
        profile,
        *(
            taught(n, label, {"a": 1, label: n}, {"size": n}, scores=SCORES)
            for n, label in enumerate(("spam", "ham") * 3, 1)
        ),
    )
    undo(engine, profile, since=APRIL, until=APRIL + timedelta(days=1))
    return exported(engine, profile, contents="ledger")


def paths(value, path=()):
    """Give the way to everything in a document, the document itself first."""
    yield path
    if isinstance(value, dict | list):
        for key, inner in (
            value.items() if isinstance(value, dict) else enumerate(value)
        ):
            yield from paths(inner, (*path, key))


def put(document, path, value):
    """Return a document with something else in one place."""
    if not path:
        return value
    copied = document.copy()
    copied[path[0]] = put(document[path[0]], path[1:], value)
    return copied


def documents(content):
    """Return the JSON of a block of rows, and what follows it."""
    (length,) = struct.unpack_from("<I", content)
    return json.loads(content[4 : 4 + length]), content[4 + length :]


def rewritten(data, change):
    """Return an export with other JSON of its rows, and other bytes behind it."""

    def block(content):
        rows, rest = change(*documents(content))
        text = json.dumps(rows).encode()
        return struct.pack("<I", len(text)) + text + rest

    return rebuilt(
        data,
        lambda blocks: [
            (kind, block(content) if kind == LEDGER else content)
            for kind, content in blocks
        ],
    )


def crafted(data, change):
    """Return an export with other JSON of its rows."""
    return rewritten(data, lambda rows, rest: (change(rows), rest))


def with_names(data, names):
    """Return an export whose first row has other bytes as names."""

    def change(rows, rest):
        start = rows[0]["vector"]
        rest = rest[:start] + names + rest[start + rows[0]["names"] :]
        return first(names=len(names))(rows), rest

    return rewritten(data, change)


def without_vector(data):
    """Return an export whose first row has lost its vector, but not its names."""
    return rewritten(
        data,
        lambda rows, rest: (first(vector=None)(rows), rest[rows[0]["vector"] :]),
    )


def mutated(data, draw):
    """Return an export with something else in one place of its JSON."""
    reader = BlockReader(BytesIO(data))
    header, blocks = json.loads(reader.header), list(reader)
    where = draw(st.sampled_from([LEDGER, UNDOS, b"header"]))
    if where == b"header":
        path = draw(st.sampled_from([p for p in paths(header) if p]))
        changed = put(header[path[0]], path[1:], draw(HOSTILE))
        return altered(data, **{path[0]: changed})
    if where == LEDGER:
        (rows,) = [documents(content)[0] for kind, content in blocks if kind == LEDGER]
        path = draw(st.sampled_from(list(paths(rows))))
        value = draw(HOSTILE)
        return crafted(data, lambda found: put(found, path, value))
    (written,) = [json.loads(content) for kind, content in blocks if kind == UNDOS]
    path = draw(st.sampled_from(list(paths(written))))
    text = json.dumps(put(written, path, draw(HOSTILE))).encode()
    return rebuilt(
        data,
        lambda found: [
            (kind, text if kind == UNDOS else content) for kind, content in found
        ],
    )


def require_whole(engine, name):
    """Raise if a profile does not add up, or no service can be started with it."""
    assert audited(engine, name).sound
    live = LiveProfiles(engine, lambda _: SPECIFICATION)
    live.refresh()
    assert Figures(live)(name, window=100).profile == name
    exported(engine, live.get(name).row, contents="ledger")


@on_sqlite
@given(data=st.data())
@on_one_database
def test_any_value_in_any_place_is_refused_or_harmless(engine, data):
    """Right checksums do not make a hostile file believed, and no start fails."""
    service = transfer(engine)
    if not is_there(engine, "copy"):
        imported(engine, ledger(engine), "copy")
    valid = exported(engine, service.profile("copy"), contents="ledger")
    name = f"other-{next(NUMBERS)}"
    before = state(engine, "copy")
    try:
        imported(engine, mutated(valid, data.draw), name)
    except (MalformedExport, OtherProfile):
        assert not is_there(engine, name)
        assert before == state(engine, "copy")
        return

    require_whole(engine, name)


def first(**values):
    """Return a change of the first row of a ledger."""
    return lambda rows: [rows[0] | values, *rows[1:]]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (first(scores=[1]), "scores: Input should be an object"),
        (first(scores={"log_odds": "abc"}), "log_odds: Input should be a valid number"),
        (
            first(scores={"decision": "\0", "log_odds": 1.0}),
            "decision: Input should be",
        ),
        (first(scores={"decision": "\ud800"}), "Invalid JSON"),
        (
            first(scores={"log_odds": float("nan")}),
            "log_odds: Input should be a finite number",
        ),
        (first(feature_set=10**30), "less than or equal to 2147483647"),
        (first(feature_set=2**31), "less than or equal to 2147483647"),
        (first(undo=10**30), "less than or equal to 2147483647"),
        (first(undo=2**31), "less than or equal to 2147483647"),
        (first(undo=2), "carries out undo 2, but there are only 1"),
        (first(revision=2**63), "less than or equal to 9223372036854775807"),
        (first(time="0001-01-01T00:00:00+14:00"), "not from 1970 to 9999"),
        (first(time="9999-12-31T23:59:59-14:00"), "not from 1970 to 9999"),
        (first(source="\ud800"), "Invalid JSON"),
        (first(source="x" * 256), "at most 255"),
        (first(kind="sum", label="ham"), "cannot be read"),
    ],
)
@on_sqlite
def test_a_row_that_cannot_be_stored_is_refused(engine, change, said):
    """Each of them was a traceback, or was stored and broke what reads it."""
    data = ledger(engine)

    with pytest.raises(MalformedExport, match=said):
        imported(engine, crafted(data, change), "new")
    assert not is_there(engine, "new")


@pytest.mark.parametrize("name", ["time", "kind", "label", "source"])
@on_sqlite
def test_a_value_is_not_quoted_at_length(engine, name):
    """The sentence goes to a terminal, or to the log of who follows a site."""
    data = crafted(ledger(engine), first(**{name: "x" * 1_000_000}))

    with pytest.raises(MalformedExport) as caught:
        survey(BytesIO(data))
    assert len(str(caught.value)) < 1_000


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (lambda: encode_names({"other": ("x",)}), "as many names as"),
        (lambda: zlib.compress(b"[" * 200_000), "recursion|Stack overflow"),
        (lambda: zlib.compress(b" " * 2**26 + b"{}"), "more than 33554432 bytes"),
    ],
)
@on_sqlite
def test_names_that_no_vector_has_are_refused(engine, names, said):
    """Names of missing views, nested without end, or unpacked without end."""
    data = ledger(engine)

    with pytest.raises(MalformedExport, match=said):
        survey(BytesIO(with_names(data, names())))


@on_sqlite
def test_names_without_features_are_refused(engine):
    """Once stored, they made every export of the counts fail."""
    data = ledger(engine)

    with pytest.raises(MalformedExport, match="names, but no features"):
        survey(BytesIO(without_vector(data)))


def undone(**values):
    """Return a block of an undo."""
    written = {
        "number": 1,
        "source": "x",
        "time": APRIL.isoformat(),
        "asked": {"ids": [], "source": None, "since": None, "until": None},
        "takes": [],
        "revisions": [1],
    }
    return UNDOS, json.dumps(written | values).encode()


@pytest.mark.parametrize(
    ("block", "said"),
    [
        (undone(asked={"ids": ["zz"]}), "cannot be read"),
        (undone(asked={"source": "\0"}), "source: String should match"),
        (undone(asked={"since": "9999-12-31T23:59:59-14:00"}), "not from 1970"),
        (undone(asked=[]), "asked: Input should be an object"),
        (undone(number=2**31), "less than or equal to 2147483647"),
        (undone(revisions="1"), "revisions: Input should be a valid array"),
        (undone(takes=[0, 0]), "not before it"),
        ((NAMES, write_names("odd", {1: "a"})), "missing in its header"),
    ],
)
@on_sqlite
def test_a_block_that_cannot_be_stored_is_refused(engine, block, said):
    """What an undo was asked for is stored, and so are the names of views."""
    data = exported(engine, taught_profile(engine), contents="ledger")

    with pytest.raises(MalformedExport, match=said):
        imported(engine, rebuilt(data, lambda blocks: [*blocks, block]), "new")


@pytest.mark.parametrize("reader", [read_names, surveyed_rows])
def test_json_that_takes_much_memory_is_not_parsed(reader):
    """Not even if it is well formed: lists take 28 times its size."""
    nothing = b"[" + b" " * 16 * 1024 * 1024 + b"]"
    length = 0 if reader is read_names else len(nothing)

    with pytest.raises(MalformedExport, match=r"bytes of JSON; 16777216 are allowed"):
        reader(struct.pack("<I", length) + nothing)


def test_an_undo_of_many_lists_is_not_parsed():
    """An undo of many rows may be large, but it has five lists and objects."""
    _, hostile = undone(takes=[[]] * 1_000)
    _, large = undone(source="[" * 255, takes=[], revisions=list(range(1, 300_000)))

    with pytest.raises(MalformedExport, match="more than 1000 lists"):
        read_undo(hostile)
    assert 299_999 == len(read_undo(large).revisions)


@pytest.mark.parametrize("view", ["a\0", "\ud800", "v" * 256])
@on_sqlite
def test_a_view_that_cannot_be_stored_is_refused(engine, view):
    """Not both databases have room for its name."""
    data = exported(engine, taught_profile(engine))

    with pytest.raises(MalformedExport, match=r"cannot be named|Invalid JSON"):
        imported(engine, altered(data, views={view: {"ham": 1}}), "new")


def statistics(messages, occurrences):
    """Return statistics of one feature of the word "a", in spam."""
    counts = FeatureCounts.of_counts(
        np.array([0, messages]),
        np.array([feature("a")]),
        np.array([[0, occurrences]]),
        np.array([[0, 1]]),
    )
    return State(words=counts)


def many(messages, occurrences):
    """Return a block of the statistics."""
    return SUM, write_sum(202603, statistics(messages, occurrences), ("ham", "spam"))


def counted(engine, *blocks):
    """Return an export of these counts."""
    profile = new_profile(engine)
    teach(engine, profile, taught("any", "spam", {"a": 1}))
    data = exported(engine, profile, words=False)
    return rebuilt(data, lambda _: blocks, created="2026-01-01T00:00:00+00:00")


@on_sqlite
@pytest.mark.parametrize(
    ("block", "said"),
    [
        (
            many(1, 2**63 - 1),
            r"9.223e\+18 occurrences, more than 1,125,899,906,842,624",
        ),
        (many(2**63 - 1, 1), r"9.223e\+18 messages, more than 2,147,483,647"),
    ],
)
def test_more_than_can_be_counted_is_refused(engine, block, said):
    """The next fold would have left 64 bits."""
    with pytest.raises(MalformedExport, match=said):
        imported(engine, counted(engine, block), "new")


@on_sqlite
def test_what_is_added_up_block_by_block_is_refused_as_well(engine):
    """Each has room by itself."""
    blocks = [many(1, MOST_OCCURRENCES // 2)] * 3

    with pytest.raises(MalformedExport, match="occurrences, more than"):
        imported(engine, counted(engine, *blocks), "new")


def test_the_sums_of_a_ledger_are_added_up_as_well():
    """Row by row, as its messages are."""
    half = encode_sum(statistics(1, MOST_OCCURRENCES // 2), ("ham", "spam"))
    rows = [
        LedgerRow.of_sum(
            half,
            profile_id=1,
            revision=revision,
            epoch=202603,
            encoded_names=None,
            feature_set=1,
            source="ann",
            time=APRIL,
        )
        for revision in (1, 2, 3)
    ]

    assert 1 == len(
        read_rows(write_rows(rows[:1], words=True), ("ham", "spam"), Amounts())
    )
    with pytest.raises(MalformedExport, match="occurrences, more than"):
        read_rows(write_rows(rows, words=True), ("ham", "spam"), Amounts())


@pytest.mark.parametrize("folded", [True, False])
def test_more_than_a_profile_can_count_beside_its_own_is_refused(engine, folded):
    """Whether that is in the tables or in the ledger; nothing is changed."""
    profile = new_profile(engine)
    teach(engine, profile, taught(1, "spam", {"a": 1}, {"size": 2**40}))
    half = counted(engine, many(1, MOST_OCCURRENCES // 2))
    other = counted(engine, many(2, MOST_OCCURRENCES // 2))
    if folded:
        imported(engine, half, profile.name)
    else:
        file = BytesIO(half)
        found = survey(file)
        file.seek(0)
        transfer(engine).add(profile.name, file, found, progress=lambda _: None)
    before = rows_of(engine, tables.ledger, profile)

    with pytest.raises(OtherProfile, match="too large together: 'words' comes"):
        imported(engine, other, profile.name)
    assert before == rows_of(engine, tables.ledger, profile)
    assert audited(engine, profile.name).sound


def test_a_dump_of_more_than_can_be_counted_is_refused(engine):
    """By itself, and beside what was learned."""
    profile = new_profile(engine)
    teach(engine, profile, taught(1, "spam", {"a": 1}))

    def add(messages):
        tally = DumpTally(program="SpamBayes", messages=messages)
        tally.add("words", "a", TokenCounts(1, 1))
        transfer(engine).add_dump(profile.name, tally, ham="", spam="", progress=print)

    with pytest.raises(MalformedDump, match="too large"):
        add(TokenCounts(LARGEST_COUNT, LARGEST_COUNT))
    with pytest.raises(OtherProfile, match="too large"):
        add(TokenCounts(0, LARGEST_COUNT))
    assert len(rows_of(engine, tables.ledger, profile)) == 1
