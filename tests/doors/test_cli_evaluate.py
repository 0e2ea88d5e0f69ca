"""`postbayes evaluate`: what it prints and writes, and which options go together."""

from __future__ import annotations

import json
import os
import re
import sys
from itertools import islice
from pathlib import Path

import pytest

from app.corpora import source
from app.evaluation import page as reasons
from app.evaluation import subject
from tests.support.disk import mounted
from tests.support.messages import ham, spam


def figures(run, *arguments):
    """Run `evaluate --json` and return what it says."""
    code, out, err = run("evaluate", "--json", "--processes", "1", *arguments)
    assert (0, "") == (code, err)
    return json.loads(out)


def lines(path):
    """Return the objects of a file of JSON lines."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_stream_is_evaluated_without_a_database(run_anew, index, tmp_path):
    """The figures have their stable names; --jsonl has a line per message."""
    said = figures(run_anew, "--index", index, "--jsonl", tmp_path / "lines")

    assert (20, 10, 10) == (said["messages"], said["ham"], said["spam"])
    assert {
        "unsure",
        "roca_pct",
        "ham_lost_pct",
        "spam_missed_pct",
        "lam_pct",
        "spam_missed_at_0_1_pct",
        "ece_pct",
        "brier",
        "messages_per_second",
        "roca_interval_pct",
        "data_sha256",
    } <= said.keys()
    assert 20 == len(lines(tmp_path / "lines"))
    assert {"gold", "decision", "log_odds", "probability"} == lines(tmp_path / "lines")[
        0
    ].keys()
    assert {"corpus", "lines"} == {path.name for path in tmp_path.iterdir()}


@pytest.mark.parametrize(
    ("option", "first"), [("--jsonl", '{"gold":'), ("--report", "<!doctype html>")]
)
def test_lines_or_a_page_go_to_standard_output(run_anew, index, option, first):
    """For the next program of a pipe; the figures are for the person before it."""
    code, out, err = run_anew("evaluate", "--index", index, option, "-")

    assert 0 == code
    assert out.startswith(first)
    assert "1-ROCA" in err
    assert "The diagrams are in" not in err
    assert not Path("-").exists()


def test_a_message_that_cannot_be_read_is_named_at_the_end(
    run, index, tmp_path, monkeypatch
):
    """The others are evaluated as ever, and the code is that of a defect."""
    for module in (subject, source, reasons):
        real = module.parse
        monkeypatch.setattr(
            module,
            "parse",
            lambda raw, real=real: real(raw if b"agenda 7" not in raw else None),
        )
    code, out, err = run(
        *("evaluate", "--json", "--processes", "1", "--index", index),
        *("--months", "2", "--try", "half_life_months=6"),
        *("--report", tmp_path / "report.html"),
    )

    assert (70, 2) == (code, len(json.loads(out)["runs"]))
    assert "ham7 is treated as a message without features" in err
    assert "1 of the messages could not be read" in err


def test_the_figures_of_a_run_are_said_and_then_printed_one_by_one(run, index):
    """A sentence, then each with its unit; --limit ends the stream early."""
    _, out, _ = run("evaluate", "--index", index, "--limit", "7")

    first, *figures = out.splitlines()
    assert first.startswith("It would have lost 0 of 4 ham (0.00 %), and missed ")
    assert first.endswith(" and learned 7 messages.")
    assert re.match(r"1-ROCA +\d+\.\d{3} % \(\d+\.\d{3} to \d+\.\d{3}\) ", figures[0])
    assert re.match(r"Brier score +\d\.\d{4} ", figures[4])
    assert re.match(r"speed +[\d,]+/s ", figures[5])
    assert ["lam", "missed", "calibration", "Brier", "speed"] == [
        line.split()[0] for line in figures[1:]
    ]


def test_mail_in_folders_needs_no_index(run, tmp_path):
    """A folder of ham and one of spam are enough, and one page."""
    for name, make in (("ham", ham), ("spam", spam)):
        (tmp_path / name).mkdir()
        for n in range(4):
            (tmp_path / name / f"{n}.eml").write_bytes(make(n))
    report = tmp_path / "report.html"
    said = figures(run, "--ham", "ham", "--spam", "spam", "--report", report)

    assert (4, 4) == (said["ham"], said["spam"])
    assert "Postbayes on your mail" in report.read_text()


def test_several_streams_and_trials_stand_side_by_side(run, index, tmp_path):
    """The settings as they are come first; each trial is compared with them."""
    said = figures(
        run,
        *("--index", index, "--index", index, "--try", "text_views=words"),
        *("--try", "ham_cost=2  port=8026"),
        *("--jsonl", tmp_path / "lines"),
    )

    assert [
        ("corpus", name)
        for name in (*("as set", "text_views=words", "ham_cost=2 port=8026") * 2,)
    ] == [(each["stream"], each["configuration"]) for each in said["runs"]]
    assert ["text_views=words", "ham_cost=2 port=8026"] == [
        each["configuration"] for each in said["comparisons"]
    ]
    assert 2 == said["comparisons"][1]["tied"]
    assert 6 * 20 == len(lines(tmp_path / "lines"))
    assert {"stream", "configuration"} <= lines(tmp_path / "lines")[0].keys()


def test_what_is_learned_can_be_tried_beside_everything(run, index):
    """By itself, or with settings; all score the same messages."""
    said = figures(
        run,
        *("--index", index, "--try", "train=errors"),
        *("--try", "train=near:4 ham_cost=20", "--try", "train=auto:3"),
    )
    everything, errors, near, auto = said["runs"]

    assert 20 == everything["learned"] == auto["learned"]
    assert 0 < errors["learned"] < 20
    assert errors["learned"] <= near["learned"] <= 20
    assert {20} == {each["messages"] for each in said["runs"]}


def test_mail_without_dates_is_said_to_be_spread(run, tmp_path):
    """In the output and on the page, because the order is not that of arrival."""
    for label in ("ham", "spam"):
        (tmp_path / f"{label}.eml").write_text(f"Subject: {label}\n\nsome {label}\n")
    mail = "--ham", tmp_path / "ham.eml", "--spam", tmp_path / "spam.eml"
    page = tmp_path / "page.html"
    said = run("evaluate", "--processes", 1, "--report", page, *mail)[1]

    for text in (said, page.read_text()):
        assert "No message has a date, so those of each label were spread" in text


def test_a_comparison_is_printed_in_words(run, index):
    """Below the table of figures."""
    options = "--index", index, "--processes", 1
    _, out, _ = run("evaluate", *options, "--try", "text_views=words")

    assert "1-ROCA %" in out
    assert "text_views=words against as set: 1-ROCA" in out


@pytest.mark.parametrize(
    ("options", "scored"),
    [
        (["--folds", "4", "--seed", "3"], 20),
        (["--train-first", "12", "--shuffle", "1"], 8),
        (["--delay", "3", "--feedback-share", "0.5"], 20),
        (["--feedback-first", "6", "--noise", "0.2"], 20),
    ],
)
def test_there_are_other_ways_to_evaluate(run, index, options, scored):
    """Each of them scores the messages that it should."""
    assert scored == figures(run, "--index", index, *options)["messages"]


def test_folds_learn_more_messages_than_there_are(run, index):
    """Each fold learns the others, which is not so many of so many."""
    options = "--folds", "4", "--seed", "3", "--processes", "1"
    said = run("evaluate", "--index", index, *options)[1]

    assert "and learned 60 messages.\n" in said


def test_a_half_life_is_tried_on_a_stream_of_so_many_months(run, index):
    """Beside the same filter without one."""
    found = figures(
        run, "--index", index, "--months", 5, "--try", "half_life_months=0.25"
    )

    assert ["as set", "half_life_months=0.25"] == [
        each["configuration"] for each in found["runs"]
    ]


def test_what_is_finished_is_kept(run, index, monkeypatch):
    """Ctrl-C says so, and the same command goes on."""
    real = source.read_index
    options = ("--index", index, "--resume", "kept", "--try", "text_views=words")

    def interrupted(index):
        yield from islice(real(index), 5)
        raise KeyboardInterrupt

    monkeypatch.setattr(source, "read_index", interrupted)
    code, _, err = run("evaluate", *options)
    monkeypatch.setattr(source, "read_index", real)
    first = figures(run, *options)
    kept = {
        path: path.stat().st_mtime_ns for path in (index.parents[1] / "kept").iterdir()
    }
    again = figures(run, *options)

    assert 130 == code
    assert "stored in kept" in err
    assert 2 == len(kept)
    assert kept == {path: path.stat().st_mtime_ns for path in kept}
    assert first == again


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        ([], 65, "--ham PATH"),
        (["--index", "corpus/index", "--ham", "corpus"], 65, "--ham PATH"),
        (["--ham", "corpus", "--limit", "3"], 65, "--limit"),
        (["--index", "nowhere"], 65, "nowhere"),
        (["--index", "corpus/index", "--folds", "2", "--train-first", "3"], 65, "both"),
        (["--index", "corpus/index", "--folds", "2", "--delay", "3"], 65, "--delay"),
        (["--index", "corpus/index", "--folds", "2", "--shuffle", "3"], 65, "--seed"),
        (
            ["--index", "corpus/index", "--train-first", "2", "--feedback-share", "1"],
            65,
            "give --train-first or --feedback-share, not both",
        ),
        (["--index", "corpus/index", "--train-first", "20"], 65, "none to score"),
        (["--index", "corpus/index", "--folds", "21"], 65, "cannot be split"),
        (["--index", "corpus/index", "--noise", "5"], 65, "from 0 to 1"),
        (["--index", "corpus/index", "--months", "5"], 65, "--try half_life_months"),
        (["--index", "corpus/index", "--try", "half_life_months=0"], 78, "0.25"),
        (["--index", "corpus/index", "--feedback-share", "0"], 65, "above 0"),
        (["--index", "corpus/index", "--try", "port=1"], 78, "the same filter"),
        (["--index", "corpus/index", "--try", "eggs=1"], 78, "'eggs=1'"),
        (["--index", "corpus/index", "--try", " "], 78, "got nothing"),
        (["--index", "corpus/index", "--try", "train=eggs"], 78, "'eggs'"),
        (["--index", "corpus/index", "--try", "train=everything"], 78, "the same"),
        (["--index", "corpus/index", "--try", "text_views=tea"], 78, "tea"),
        (["--index", "corpus/index", "--report", "no/where.html"], 74, "no/where.html"),
        (["--index", "corpus/index", "--jsonl", "/dev/full"], 74, "/dev/full"),
        (
            ["--index", "corpus/index", "--resume", "corpus/index"],
            65,
            "the folder corpus/index cannot be created",
        ),
    ],
)
@pytest.mark.usefixtures("index")
def test_each_mistake_has_its_code_and_a_sentence(run, options, code, says):
    """Options that contradict each other are refused before anything is read."""
    got, _, err = run("evaluate", *options)

    assert code == got
    assert says in err
    assert "Traceback" not in err


def test_nothing_is_written_where_the_options_are_wrong(run_anew, tmp_path):
    """A page that was there before is still there."""
    (tmp_path / "report.html").write_text("last week's")
    run_anew("evaluate", "--report", "report.html")

    assert "last week's" == (tmp_path / "report.html").read_text()
    assert ["report.html"] == [path.name for path in tmp_path.iterdir()]


def test_a_report_may_have_a_name_that_is_no_text(
    run_anew, index, tmp_path, monkeypatch
):
    """Like the stream; its command, and the last line, have a mark in its place."""
    name = os.fsdecode(b"\xff.html")
    index = index.rename(index.with_name(os.fsdecode(b"index\xff")))
    arguments = ("evaluate", "--index", str(index), "--report", name)
    monkeypatch.setattr(sys, "argv", ["postbayes", *arguments])
    code, out, _ = run_anew(*arguments)

    assert 0 == code
    assert out.endswith("The diagrams are in \ufffd.html\n")
    assert "\ufffd.html" in (tmp_path / name).read_text()


@pytest.mark.disk
@pytest.mark.usefixtures("index")
def test_a_report_that_finds_no_room_leaves_what_was_there(run_anew, tmp_path):
    """On a full disk last week's page stays, and no empty one takes its place."""
    with mounted(tmp_path / "disk") as disk:
        (disk.path / "old.html").write_text("last week's")
        disk.fill()
        codes = [
            run_anew("evaluate", "--index", "corpus/index", "--report", page)[0]
            for page in (disk.path / "old.html", disk.path / "new.html")
        ]
        left = {path.name for path in disk.path.iterdir()}
        old = (disk.path / "old.html").read_text()

    assert [74, 74] == codes
    assert ({"ballast", "old.html"}, "last week's") == (left, old)


def test_of_several_labels_the_one_that_is_said_counts(run_anew, tmp_path, monkeypatch):
    """Macro-F1, and the label of each message; three labels of words of their own."""
    folder = tmp_path / "corpus"
    folder.mkdir()
    words = {"ham": "noon agenda", "news": "weekly edition", "spam": "free prize"}
    index = []
    for n in range(60):
        label = [*words][n % 3]
        (folder / f"{n}").write_text(f"Subject: {words[label]}\n\n{words[label]} {n}\n")
        index.append(f"{label} {n}\n")
    (folder / "index").write_text("".join(index))
    monkeypatch.setenv("POSTBAYES_LABELS", "ham,news,spam")
    arguments = ("--index", folder / "index", "--train-first", "30")
    said = figures(run_anew, *arguments, "--jsonl", tmp_path / "lines")

    assert 100.0 == said["macro_f1_pct"]
    assert all(line["gold"] == line["label"] for line in lines(tmp_path / "lines"))
    code, out, _ = run_anew("evaluate", *arguments)
    assert (0, True) == (code, "macro-F1         100.000 %" in out)
    _, out, _ = run_anew("evaluate", *arguments, "--try", "ham_cost=99")
    assert out.splitlines()[0].endswith("  F1 %")
