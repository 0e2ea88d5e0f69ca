"""The other filters are asked fairly, and their table says what was measured."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

from benchmarks.peers.chi_square import log_tail
from benchmarks.peers.libraries import text_of
from benchmarks.peers.peer import Said
from benchmarks.peers.table import BEGIN, END, table, write
from benchmarks.peers.trial import PEERS, Stream, Trial, figures, with_header_end
from tests import clients
from tests.messages import ham, spam

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def stream(tmp_path):
    """A stream of forty messages."""
    lines = []
    for n in range(20):
        for label, raw in (("ham", ham(n)), ("spam", spam(n))):
            (tmp_path / f"{label}{n}").write_bytes(raw)
            lines.append(f"{label} {label}{n}\n")
    (tmp_path / "index").write_text("".join(lines))
    return Stream(name="small", index=tmp_path / "index")


def row(peer, stream, roca, lam=1.0):
    """Return the figures of a trial."""
    return {
        "peer": peer,
        "stream": stream,
        "ham": 600,
        "spam": 600,
        "roca_pct": roca,
        "lam_pct": lam,
    }


@given(st.floats(0.01, 500), st.integers(1, 300))
def test_the_tail_is_that_of_scipy(half, pairs):
    """Also where its probability is too small for a float."""
    expected = chi2.logsf(2 * half, 2 * pairs)

    assert expected == pytest.approx(log_tail(half, pairs), rel=1e-6, abs=1e-9)


def test_nothing_combined_says_nothing():
    """No token, no evidence."""
    assert 0.0 == log_tail(0.0, 0)


def test_what_is_finer_breaks_ties_of_the_score():
    """A filter that saturates is ranked by what it knows, not by its last digit."""
    gold = [False, True, False, True]
    said = [
        Said(1.0, 1.0, spam=True),
        Said(1.0, 2.0, spam=True),
        Said(0.0, 9.0, spam=False),
        Said(0.5, 0.0, spam=False),
    ]
    found = figures(gold, said)

    assert 25.0 == found["roca_pct"]
    assert (50.0, 50.0) == (found["ham_lost_pct"], found["spam_missed_pct"])


def test_without_something_finer_ties_count_half():
    """As everywhere."""
    said = [Said(0.5, 0.0, spam=False)] * 2

    assert 50.0 == figures([False, True], said)["roca_pct"]


@pytest.mark.parametrize("peer", ["Postbayes", "scikit-learn MultinomialNB"])
def test_a_filter_goes_through_a_stream(stream, peer):
    """Every message is scored, then learned."""
    ticks = []
    found = Trial(peer=peer, stream=stream)(lambda: ticks.append(1))

    assert 40 == len(ticks)
    assert (peer, "small", 20, 20) == tuple(
        found[key] for key in ("peer", "stream", "ham", "spam")
    )
    assert found["roca_pct"] < 20


def test_bogofilter_is_asked_by_its_command_line(stream):
    """It needs both classes before it says anything."""
    clients.find("bogofilter")
    found = Trial(peer="bogofilter", stream=stream)(lambda: None)

    assert found["roca_pct"] < 20


def test_every_filter_is_given_the_same_bytes(stream):
    """In its own order, or in another that its seed decides."""
    other = Stream(name="other", index=stream.index, shuffle=1, limit=10)

    assert stream.messages()[:10] != other.messages()
    assert sorted(stream.messages()[:10]) == sorted(other.messages())
    assert other.messages() == other.messages()


def test_a_message_with_a_header_is_left_as_it_is():
    """Only a Subject that stands alone is given an end."""
    assert ham(1) == with_header_end(ham(1))


def test_the_libraries_see_the_subject_and_all_text():
    """HTML without its tags, in whatever charset."""
    raw = (
        b"Subject: =?utf-8?q?caf=C3=A9?=\nContent-Type: text/html; charset=latin-1\n\n"
        b"<p>d\xe9j\xe0</p> vu"
    )

    assert ["caf\u00e9", "d\u00e9j\u00e0", "vu"] == text_of(raw).split()


def test_a_table_has_a_row_for_each_filter_and_the_mean_of_a_family():
    """A filter that was not run on all streams has no mean."""
    rows = [
        row("Postbayes", "mail", 0.1),
        row("Postbayes", "enron1", 0.2),
        row("Postbayes", "enron2", 0.4, lam=3.0),
        row("bogofilter", "enron1", 0.3),
        row("bogofilter", "mail", 0.5),
    ]
    lines = table(rows, peers=list(PEERS), date="2026-01-02", command="x").splitlines()

    assert "Run on 2026-01-02 by `x`:" == lines[0]
    assert [
        "| filter | mail (1,200) | Enron-Spam, mean of 2 (2,400) |",
        "|---|---|---|",
        "| Postbayes | 0.100 (1.00) | 0.300 (2.00) |",
        "| bogofilter | 0.500 (1.00) | not run |",
    ] == lines[2:]


def test_the_table_is_written_between_its_marks(tmp_path):
    """What stands around it is left alone; without the marks nothing is written."""
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    write(page, "new")

    assert f"before\n{BEGIN}\nnew\n{END}\nafter\n" == page.read_text()
    page.write_text("no marks")
    with pytest.raises(ValueError, match="must have the marks"):
        write(page, "new")


def test_the_readme_has_the_marks():
    """So that the table can be written anew."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")

    assert text.index(BEGIN) < text.index(END)
