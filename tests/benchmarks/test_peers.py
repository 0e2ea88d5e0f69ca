"""The other filters are asked fairly, and their table says what was measured."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

from benchmarks.peers.chi_square import log_tail
from benchmarks.peers.entrants import ENTRANTS
from benchmarks.peers.libraries import ScikitLearn, text_of
from benchmarks.peers.linear import (
    FollowTheLeader,
    FourGramRegression,
    RelaxedSVM,
    four_grams,
    tokens_of,
)
from benchmarks.peers.markov import Markov, add
from benchmarks.peers.osbf import SparsePairs, log_odds, sparse_pairs
from benchmarks.peers.peer import Said
from benchmarks.peers.table import BEGIN, END, every_stream, in_short, write
from benchmarks.peers.trial import Stream, Trial, figures, with_header_end
from tests.support import clients
from tests.support.messages import ham, spam

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


def row(peer, stream, roca, lam=1.0, date="2026-01-02"):
    """Return the figures of a trial."""
    return {
        "peer": peer,
        "program": f"{peer} 1.0",
        "stream": stream,
        "sha256": f"{stream:0<64}",
        "date": date,
        "ham": 600,
        "spam": 600,
        "roca_pct": roca,
        "lam_pct": lam,
        "spam_missed_at_0_1_pct": 20 * roca,
        "brier": roca / 100,
        "ece_pct": lam / 2,
    }


ROWS = (
    row("Postbayes", "enron1", 0.2),
    row("Postbayes", "enron2", 0.4, lam=3.0),
    row("Postbayes", "mail", 0.1),
    row("bogofilter", "enron1", 0.3),
    row("bogofilter", "mail", 0.5, date="2026-01-01"),
)


@given(st.floats(0.01, 500), st.integers(1, 300))
def test_the_tail_is_that_of_scipy(half, pairs):
    """They agree even if the probability is too small for a float."""
    expected = chi2.logsf(2 * half, 2 * pairs)

    assert expected == pytest.approx(log_tail(half, pairs), rel=1e-6, abs=1e-9)


def test_nothing_combined_says_nothing():
    """Without tokens, there is no evidence."""
    assert 0.0 == log_tail(0.0, 0)


def test_what_is_finer_breaks_ties_of_the_score():
    """A filter with a saturated score is ranked by its finer score."""
    gold = [False, True, False, True]
    said = [
        Said.by_probability(1.0, 1.0, spam=True),
        Said.by_probability(1.0, 2.0, spam=True),
        Said.by_probability(0.0, 9.0, spam=False),
        Said.by_probability(0.5, 0.0, spam=False),
    ]
    found = figures(gold, said)

    assert 25.0 == found["roca_pct"]
    assert (50.0, 50.0) == (found["ham_lost_pct"], found["spam_missed_pct"])
    assert (1.0 + 0.25) / 4 == found["brier"]


def test_without_something_finer_ties_count_half():
    """Without a finer score, ties count half, as elsewhere."""
    said = [Said.by_log_odds(0.0)] * 2

    assert 50.0 == figures([False, True], said)["roca_pct"]


def test_log_odds_are_the_probability_that_the_libraries_say():
    """The log-odds agree with `predict_proba`: 90 % is log 9."""
    said = Said.by_log_odds(math.log(9))

    assert (0.9, True) == (pytest.approx(said.probability), said.spam)
    assert Said.by_log_odds(0.0) == ScikitLearn("MultinomialNB").score(ham(1))


LEARNERS = [
    "sparse pairs, near errors",
    "relaxed SVM, 4-grams",
    "Markov compression",
    "logistic regression, 4-grams",
    "FTRL, hashed tokens",
]


@pytest.mark.parametrize("peer", ["Postbayes", "scikit-learn MultinomialNB", *LEARNERS])
def test_a_filter_goes_through_a_stream(stream, peer):
    """Every message is scored, then learned."""
    ticks = []
    found = Trial(peer=peer, program="x 1.0", stream=stream)(lambda: ticks.append(1))

    assert 40 == len(ticks)
    assert (peer, "x 1.0", "small", stream.sha256(), 20, 20) == tuple(
        found[key] for key in ("peer", "program", "stream", "sha256", "ham", "spam")
    )
    assert found["roca_pct"] < 20
    assert found["brier"] < 0.25


@pytest.mark.clients
def test_bogofilter_is_asked_by_its_command_line(stream):
    """It needs both classes before it gives a verdict."""
    clients.find("bogofilter")
    program = ENTRANTS["bogofilter"].program()
    found = Trial(peer="bogofilter", program=program, stream=stream)(lambda: None)

    assert program.startswith("bogofilter version")
    assert found["roca_pct"] < 20


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="this is no repository")
def test_ours_are_known_by_their_commit():
    """Results of another commit are not reused, and the table says so."""
    assert re.fullmatch(
        r"Postbayes [0-9a-f]{10,}|Postbayes, not committed",
        ENTRANTS["Postbayes"].program(),
    )


def test_every_filter_is_given_the_same_bytes(stream):
    """In its own order, or in another that its seed decides."""
    other = Stream(name="other", index=stream.index, shuffle=1, limit=10)

    assert stream.messages()[:10] != other.messages()
    assert sorted(stream.messages()[:10]) == sorted(other.messages())
    assert other.messages() == other.messages()
    assert stream.sha256() != other.sha256()


def test_a_message_with_a_header_is_left_as_it_is():
    """Only a Subject without other headers gets an end of the header."""
    assert ham(1) == with_header_end(ham(1))


def test_the_libraries_see_the_subject_and_all_text():
    """The libraries get HTML without tags, decoded from any charset."""
    raw = (
        b"Subject: =?utf-8?q?caf=C3=A9?=\nContent-Type: text/html; charset=latin-1\n\n"
        b"<p>d\xe9j\xe0</p> vu"
    )

    assert ["caf\u00e9", "d\u00e9j\u00e0", "vu"] == text_of(raw).split()


def test_the_short_tables_have_the_mean_of_a_family():
    """A filter that was not run on all streams has no mean."""
    lines = in_short(ROWS, command="x").splitlines()

    assert [
        "Run on 2026-01-01 to 2026-01-02 by `x` (Postbayes 1.0, bogofilter 1.0).",
        "",
        "| 1-ROCA % (lam %) | enron, mean of 2 (2,400) | mail (1,200) |",
        "|---|---|---|",
        "| Postbayes | 0.300 (2.00) | 0.100 (1.00) |",
        "| bogofilter | not run | 0.500 (1.00) |",
        "",
        "| Brier score times 100 (calibration error %) | enron, mean of 2 (2,400) "
        "| mail (1,200) |",
        "|---|---|---|",
        "| Postbayes | 0.30 (1.00) | 0.10 (0.50) |",
        "| bogofilter | not run | 0.50 (0.50) |",
    ] == lines


def test_the_long_tables_have_every_stream():
    """The long tables have every stream, and its digest."""
    text = every_stream(ROWS, command="x")

    assert "| bogofilter | 6.0 | not run | 10.0 |" in text
    assert "enron2                     enron20000000000\n" in text


def test_the_table_is_written_between_its_marks(tmp_path):
    """Only the text between the marks changes; without marks nothing is written."""
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    write(page, "new")

    assert f"before\n{BEGIN}\nnew\n{END}\nafter\n" == page.read_text()
    page.write_text("no marks")
    with pytest.raises(ValueError, match="must have the marks"):
        write(page, "new")


def test_the_readme_has_the_marks():
    """The marks are there, so the tables can be written again."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")

    assert text.index(BEGIN) < text.index(END)


def test_grams_are_counted_once():
    """Each gram of the first bytes counts once; three bytes have no gram."""
    assert 2 == four_grams(b"abcde", 100).size
    assert 2 == four_grams(b"aaaaaaaab", 100).size
    assert 1 == four_grams(b"aaaaaaaab", 8).size
    assert 0 == four_grams(b"abc", 100).size


def test_a_step_of_logistic_regression():
    """Half of the rate for a message of unit length that was as good as unknown."""
    peer = FourGramRegression()
    peer.learn(spam(1), spam=True)

    assert pytest.approx(peer.RATE / 2) == peer.score(spam(1)).score


def test_a_pass_of_the_machine():
    """A margin of one, and of one on the other side after the opposite was learned."""
    peer = RelaxedSVM()
    peer.learn(spam(1), spam=True)
    first = peer.score(spam(1)).score
    peer.learn(spam(1), spam=False)

    assert [1.0, -1.0] == pytest.approx([first, peer.score(spam(1)).score])


def test_a_step_of_the_leader():
    """By the formulas of the paper: gradient one half, its root over alpha, and l1."""
    peer = FollowTheLeader()
    message = b"Subject: money\n\n"
    peer.learn(message, spam=True)

    assert ["money"] == list(tokens_of(message))
    assert pytest.approx((0.5 - 0.001) / ((1 + 0.5) / 2 + 0.0001)) == (
        peer.score(message).score
    )


def test_a_byte_under_a_model_that_has_seen_it_once():
    """One visit more than a fifth in each of its eight states, and the other unseen."""
    peer = Markov()
    peer.learn(b"a", spam=True)

    assert pytest.approx(8 * (math.log(2) - math.log(1.4 / 1.2))) == (
        peer.score(b"a").score
    )


def test_a_split_state_shares_its_visits():
    """None is lost and none is made up: there is one for each bit, and the first."""
    ways = np.zeros((9, 2), np.int32)
    counts = np.full((9, 2), 0.2, np.float32)
    used = add(np.frombuffer(b"to be or not", np.uint8), ways, counts, 1)

    assert 1 < used <= 9
    assert pytest.approx(0.4 + 8 * 12) == float(counts[:used].sum())
    assert (ways < used).all()


def test_a_feature_of_one_class_says_nearly_all():
    """Its confidence is that of one hit, less by how far its words are apart."""
    hits, learned = np.array([[0.0], [1.0]]), np.array([2000.0, 2000.0])
    near, far = (log_odds(hits, learned, np.array([apart])) for apart in (1, 4))
    sure = [0.75**2 / (1 + 8 / weight) for weight in (5**5, 2**2)]

    assert pytest.approx(
        [math.log((1 - each + each / 1000) / (1 - each)) for each in sure]
    ) == [near, far]


def test_a_feature_of_both_classes_says_nothing():
    """A feature that both classes have about equally often has no evidence."""
    both = np.array([[5.0], [6.0]])

    assert abs(log_odds(both, np.array([10.0, 10.0]), np.array([1]))) < 1e-4


def test_only_errors_and_near_errors_are_learned():
    """A message that was learned a few times is sure, and is left out."""
    peer = SparsePairs()
    for _ in range(50):
        peer.learn(spam(1), spam=True)
        peer.learn(ham(1), spam=False)

    assert peer.learned.max() < 12


def test_a_header_is_learned_again_after_a_lesson_that_gains_little():
    """Four times, and the message itself once."""
    peer = SparsePairs()
    peer.learn(b"Subject: offer\n\nlunch", spam=True)

    of_header, of_text = (
        peer.hits[1, sparse_pairs(part)[0]] for part in (b"offer", b"lunch")
    )

    assert [5.0, 1.0] == [of_header[0], of_text[0]]
    assert [1.0, 2.0] == peer.learned.tolist()


def test_pairs_are_of_five_words():
    """Five words have five, four, three, two and one of each distance."""
    places, distances = sparse_pairs(b"a b c d e")

    assert 15 == places.size
    assert [5, 4, 3, 2, 1] == np.unique(distances, return_counts=True)[1].tolist()
