"""All runs of an experiment: one process or several, begun once and taken up again."""

from __future__ import annotations

import pytest

from app.classifier.rule import VerdictRule, terms_of
from app.classifier.specification import Specification, classifiers_of
from app.corpora.parallel import readers
from app.corpora.source import IndexSource, survey
from app.errors import UnknownLabel, UnreadableSource
from app.evaluation.experiment import Configuration, Experiment, Folds, Online, Protocol
from tests.support.messages import ham, spam


@pytest.fixture
def index(tmp_path):
    """A stream of forty messages."""
    folder = tmp_path / "corpus"
    folder.mkdir()
    lines = []
    for n in range(20):
        for label, raw in (("ham", ham(n)), ("spam", spam(n))):
            (folder / f"{label}{n}").write_bytes(raw)
            lines.append(f"{label} {label}{n}\n")
    (folder / "index").write_text("".join(lines))
    return folder / "index"


def words_only():
    """Return a filter that goes by the words alone."""
    return Specification(
        classifiers=classifiers_of(("words",)),
        verdict=VerdictRule(terms=terms_of(("words",))),
    )


def experiment(index, plan=None, **how):
    """Return an experiment with two configurations."""
    return Experiment(
        sources=[IndexSource(index=index)],
        configurations={
            "shipped": Configuration(Specification()),
            "words": Configuration(words_only()),
        },
        protocol=Protocol(plan=plan or Online(), **how),
    )


class Bar:
    """Counts what it is told, and by which stage."""

    def __init__(self):
        self.done = {}

    def __call__(self, name, _):
        """Begin a stage."""
        self.done[name] = 0

        def advance(more):
            self.done[name] += more

        return advance


def scores(runs):
    """Return all scores of all runs."""
    return [run.log_odds.tolist() for run in runs]


def test_every_configuration_scores_every_message(index):
    """In the order of the stream; a message that is scored and learned counts once."""
    bar = Bar()
    runs = experiment(index).carry_out(show=bar)

    assert ["shipped", "words"] == [run.configuration for run in runs]
    assert all(list(range(40)) == run.scored["message"].tolist() for run in runs)
    assert {"looking through": 40, "reading": 40, "evaluating": 80} == bar.done
    assert runs[0].report().roca_pct < 10


def test_several_processes_come_to_the_same(index):
    """Nothing depends on who does it."""
    alone = experiment(index, Folds(folds=3)).carry_out(show=Bar())
    bar = Bar()
    with readers(2) as crew:
        together = experiment(index, Folds(folds=3)).carry_out(crew, show=bar)

    assert scores(alone) == scores(together)
    assert 2 * 3 * 40 == bar.done["evaluating"]


def test_what_is_kept_is_not_run_again(index, tmp_path):
    """A second run reads what the first one left, and finds the same."""
    kept = tmp_path / "kept"
    first = experiment(index).carry_out(cache=kept, show=Bar())
    next(kept.iterdir()).unlink()
    bar = Bar()
    again = experiment(index).carry_out(cache=kept, show=bar)
    rest = Bar()
    experiment(index).carry_out(cache=kept, show=rest)

    assert scores(first) == scores(again)
    assert 40 == bar.done["evaluating"]
    assert {"looking through": 40, "reading": 0, "evaluating": 0} == rest.done


@pytest.mark.parametrize(
    "how",
    [
        {"shuffle": 2},
        {"noise": 0.2},
        {"seed": 2, "noise": 0.2},
        {"plan": Online(delay=3)},
    ],
)
def test_another_protocol_is_another_run(index, tmp_path, how):
    """What was kept of one protocol is not taken for another's."""
    experiment(index).carry_out(cache=tmp_path / "kept", show=Bar())
    bar = Bar()
    experiment(index, **how).carry_out(cache=tmp_path / "kept", show=bar)

    assert bar.done["evaluating"] > 0


def test_changed_mail_is_another_run(index, tmp_path):
    """The digest of the mail is part of what was kept."""
    experiment(index).carry_out(cache=tmp_path / "kept", show=Bar())
    (index.parent / "ham3").write_bytes(b"Subject: else\n\nelse\n")
    bar = Bar()
    experiment(index).carry_out(cache=tmp_path / "kept", show=bar)

    assert 80 == bar.done["evaluating"]


def test_a_shuffled_stream_has_the_same_messages_in_another_order(index):
    """By its seed."""
    here, there = (
        experiment(index, shuffle=seed).carry_out(show=Bar())[0].scored
        for seed in (1, 2)
    )

    assert sorted(here["message"].tolist()) == sorted(there["message"].tolist())
    assert here["message"].tolist() != there["message"].tolist()


def test_wrong_labels_are_learned_but_not_scored_by(index):
    """The gold labels stay the measure, and the filter is worse."""
    true, wrong = (
        experiment(index, noise=noise).carry_out(show=Bar())[0] for noise in (0.0, 0.9)
    )

    assert true.is_spam.tolist() == wrong.is_spam.tolist()
    assert true.report().roca_pct < wrong.report().roca_pct


def decaying(index, **how):
    """Return an experiment with the shipped filter, and with one that forgets fast."""
    return Experiment(
        sources=[IndexSource(index=index)],
        configurations={
            "shipped": Configuration(Specification()),
            "forgets": Configuration(Specification().decaying(0.5)),
        },
        protocol=Protocol(plan=Online(), **how),
    )


def test_a_stream_of_one_month_is_scored_as_without_a_half_life(index):
    """Bit for bit, weights of the views and all."""
    whole, parts = decaying(index, months=1).carry_out(show=Bar())

    assert whole.log_odds.tolist() == parts.log_odds.tolist()


def test_a_stream_of_many_months_is_forgotten_as_it_goes(index):
    """A month with two messages knows little of the months before."""
    whole, parts = decaying(index, months=20).carry_out(show=Bar())

    assert whole.log_odds[:3].tolist() == parts.log_odds[:3].tolist()
    assert abs(whole.log_odds[20:]).mean() > 2 * abs(parts.log_odds[20:]).mean()


def test_the_dates_of_the_messages_say_how_old_they_are(tmp_path):
    """After a year's gap, the first year counts as nothing."""
    lines = []
    for number in range(120):
        for label, raw in (("ham", ham(number)), ("spam", spam(number))):
            received = b"Received: from a by b; 9 Mar %d 09:00:00 +0000\n" % (
                2025 + number // 60
            )
            (tmp_path / f"{label}{number}").write_bytes(received + raw)
            lines.append(f"{label} {label}{number}\n")
    (tmp_path / "index").write_text("".join(lines))
    whole, parts = decaying(tmp_path / "index").carry_out(show=Bar())

    assert whole.log_odds[:121].tolist() == parts.log_odds[:121].tolist()
    assert not (whole.log_odds[121:] == parts.log_odds[121:]).any()


def test_time_goes_on_in_whatever_order_the_messages_come(index):
    """A shuffled stream has the months of the stream, not of each message."""
    seen = survey(IndexSource(index=index))
    protocol = Protocol(plan=Online(), shuffle=3, months=4)
    months = protocol.months_of(seen, "mail")

    taken = [months[number] for number in protocol.order(seen.order)]
    assert sorted(months) == taken


def test_mail_without_dates_is_told_its_months(tmp_path):
    """Or it is refused, with the sentence that says so."""
    (tmp_path / "m1").write_bytes(b"Subject: lunch\n\nlunch\n")
    (tmp_path / "index").write_text("ham m1\n")

    with pytest.raises(UnreadableSource, match="--months"):
        decaying(tmp_path / "index").carry_out(show=Bar())


def test_folds_have_no_speed(index):
    """Messages are learned again and again: a rate would mislead."""
    [folds, _] = experiment(index, Folds(folds=2)).carry_out(show=Bar())
    [online, _] = experiment(index).carry_out(show=Bar())

    assert folds.report().messages_per_second is None
    assert online.report().messages_per_second > 0


def test_labels_are_looked_at_before_anything_is_run(index):
    """A stranger among the labels costs no hour's work."""
    index.write_text(index.read_text().replace("ham ham19", "eggs ham19"))
    bar = Bar()

    with pytest.raises(UnknownLabel, match="eggs"):
        experiment(index).carry_out(show=bar)
    assert {"looking through": 40} == bar.done


def test_a_folder_that_cannot_be_made_is_said(index):
    """A file in its place, say."""
    with pytest.raises(UnreadableSource, match="cannot be created"):
        experiment(index).carry_out(cache=index, show=Bar())
