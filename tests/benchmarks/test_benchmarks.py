"""The benchmarks run, on a stream small enough for a test.

Their figures are not looked at: they depend on the machine.
"""

from __future__ import annotations

import json
import re
from functools import partial
from importlib import import_module
from pathlib import Path

import pytest

from app.mail.parse import parse
from benchmarks.bombs import FAMILIES
from benchmarks.newsletters import newsletter
from tests.support.command import run_program

pytestmark = pytest.mark.slow

BENCHMARKS = Path(__file__).parent.parent.parent / "benchmarks"


def write_stream(folder, messages):
    """Write a stream of labelled messages, and return its index."""
    folder.mkdir(parents=True)
    lines = []
    for number in range(messages):
        label = "spam" if number % 3 == 0 else "ham"
        word = "watches" if label == "spam" else "minutes"
        (folder / str(number)).write_text(
            f"From: {label}@example.org\nSubject: {word} {number}\n\nMore {word}.\n"
        )
        lines.append(f"{label} {number}\n")
    index = folder / "index"
    index.write_text("".join(lines))
    return index


def call(program):
    """Run the main function of a benchmark."""
    import_module(f"benchmarks.{program}").main()


def run(program, *arguments):
    """Run a benchmark and return what it prints."""
    done = run_program(partial(call, program), arguments)
    assert 0 == done.returncode, done.stderr
    return done.stdout


def test_accuracy_has_a_row_for_each_stream_and_a_mean_for_each_family(tmp_path):
    """Streams that differ in a number at the end of their name are averaged."""
    for name in ["other", "site1", "site2"]:
        write_stream(tmp_path / name, 9)
    rows = run("accuracy", str(tmp_path)).splitlines()

    assert ["stream", "other", "site1", "site2", "site*"] == [
        row.split()[0] for row in rows
    ]
    assert all(row.split()[1] == "9" for row in rows[1:4])


def test_the_write_path_has_a_row_for_each_way_to_write(tmp_path):
    """The rows are below HTTP, one client, beside learning, and many clients."""
    index = write_stream(tmp_path / "stream", 130)
    sizes = ["--learn", "30", "--requests", "100"]
    printed = run("write_path", "--index", index, *sizes)

    for row in (
        "postbayes learn",
        "rows committed and in memory",
        "/feedback, id",
        "/classify, while learning",
        "32 clients, message",
        "32 clients, id",
        "the disk takes 8 kB in",
    ):
        assert row in printed


def test_archives_have_a_row_for_each_way_to_learn_them(tmp_path):
    """The rows are reading, learning message by message, and learning as sums."""
    index = write_stream(tmp_path / "stream", 12)
    rows = run("archives", "--index", index, "--repeats", "1").splitlines()

    assert ["read", "learn", "learn --sums"] == [row[:14].strip() for row in rows[1:4]]


def test_a_larger_archive_is_extrapolated(tmp_path):
    """Three sizes give the time to store and to read, and the disk space."""
    index = write_stream(tmp_path / "stream", 40)
    more = ["--upto", "1000", "--repeats", "1"]
    rows = run("archives", "--index", index, *more).splitlines()

    assert ["10", "20", "40"] == [row.split()[0] for row in rows[:3]]
    assert 3 == sum(row.startswith("1,000 messages: ") for row in rows[3:])


def test_growth_goes_on_where_it_was_interrupted(tmp_path):
    """A row in the file is not measured again, and each way has a picture."""
    small = ["--features", "10000", "--messages", "1000", "--profiles", "1"]
    large = ["--features", "10000", "--messages", "1000", "--profiles", "10"]
    folder, pictures = tmp_path / "growth", tmp_path / "pictures"
    pictures.mkdir()
    first = run("growth", folder, *small).splitlines()
    second = run("growth", folder, *large, "--pictures", pictures).splitlines()
    lines = (folder / "growth.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]

    assert ["10,000 features:", "1,000 messages:", "1 profiles:"] == [
        row[:22].strip() for row in first
    ]
    assert ["10 profiles:"] == [row[:22].strip() for row in second]
    assert [10_000, 1000, 1, 10] == [row["size"] for row in rows]
    assert ["growth-profiles.svg"] == [path.name for path in pictures.iterdir()]


def test_batches_are_compared_with_single_messages(tmp_path):
    """The table has the throughput, and the latency of clients without batches."""
    index = write_stream(tmp_path / "stream", 160)
    sizes = ["--learn", "30", "--requests", "120", "--size", "50"]
    printed = run("batch", "--index", index, *sizes)

    for row in (
        "one at a time",
        "in batches of 50",
        "/classify, beside batches",
        "messages in batches beside it",
    ):
        assert row in printed


def test_every_family_of_bombs_has_a_row():
    """Each message is made, read, scored and explained; here they are small."""
    printed = run("bombs", "--size", "20000")
    rows = printed.splitlines()[1:]

    assert list(FAMILIES) == [row[:36].strip() for row in rows]


def test_latency_has_a_row_for_each_kind_of_request(tmp_path):
    """A service is started, taught, asked and stopped."""
    index = write_stream(tmp_path / "stream", 160)
    printed = run(
        "http_latency", "--index", str(index), "--learn", "50", "--requests", "110"
    )

    assert [
        "parse and extract, no HTTP",
        "GET /healthz",
        "POST /classify",
        "POST /classify?explain=10",
        "POST /feedback, message",
        "POST /feedback, id",
        "postbayes learn:",
    ] == [row[:32].strip() for row in printed.splitlines()[2:-1]] + [
        printed.splitlines()[-1][:16]
    ]


def test_each_stage_of_a_verdict_has_a_row(tmp_path):
    """With the parts of the features, and the whole."""
    index = write_stream(tmp_path / "stream", 12)
    rows = run("stages", "--index", index, "--learn", "9").splitlines()

    assert rows[0].startswith("3 messages")
    assert ["parse", "features", "score", "learn and unlearn"] == [
        row[:38].strip()
        for row in rows[2:]
        if row.startswith(("parse", "features", "score", "learn"))
    ]


def test_a_newsletter_is_read_as_a_page_that_hides_a_line():
    """It is long enough to be one, and not too complex for a tree."""
    message = parse(newsletter(1))

    assert ("html-hidden-text",) == message.defects
    assert ["html", "alt", "hidden"] == [
        *dict.fromkeys(x.place for x in message.texts)
    ][:3]
    assert newsletter(1) == newsletter(1) != newsletter(2)


@pytest.mark.parametrize(
    ("program", "arguments", "sentence"),
    [
        ("accuracy", ["."], "no */index in"),
        ("http_latency", ["--index", "index"], "is too short to send"),
    ],
)
def test_a_benchmark_says_what_it_needs(tmp_path, program, arguments, sentence):
    """Without mail to measure on, nothing is measured."""
    index = write_stream(tmp_path / "stream", 2)
    done = run_program(partial(call, program), arguments, folder=index.parent)

    assert 2 == done.returncode
    assert sentence in done.stderr


@pytest.mark.parametrize("way", ["learn", "feedback", "sums"])
def test_sizes_are_told_four_times(tmp_path, way):
    """The four moments are written, learned, without vectors, and pruned."""
    index = write_stream(tmp_path / "stream", 60)
    rows = run("sizes", "--index", str(index), "--way", way).splitlines()

    assert "60 messages; kB, and bytes per message" == rows[0]
    assert ["fresh", "learned", "vectors", "dropped", "pruned"] == rows[1].split()
    assert ["all", "loaded", "learned"] == [row.split()[0] for row in rows[-3:]]


def test_a_start_is_measured():
    """Both the counts and the service start with the requested features."""
    counts, service = run("start", "--features", "600", "--times", "1").splitlines()

    assert counts.startswith("600 features in ")
    assert service.startswith("the service answers after ")


def test_campaigns_have_a_row_for_each_kind_of_headers(tmp_path):
    """Of another spam message, and of ham that was taught."""
    index = write_stream(tmp_path / "stream", 60)
    rows = run("campaigns", "--index", str(index), "--train", "30").splitlines()

    assert [["Postbayes", "spam"], ["Postbayes", "ham"]] == [
        row.split()[:2] for row in rows[2:]
    ]


def test_the_readme_lists_every_benchmark():
    """Each program has a section, and each module of helpers is named."""
    readme = (BENCHMARKS / "README.md").read_text()
    programs = {
        path.relative_to(BENCHMARKS).as_posix()
        for path in [*BENCHMARKS.glob("*.py"), *BENCHMARKS.glob("speed/*.py")]
        if path.name != "__init__.py"
    }

    assert set() == {name for name in programs if name not in readme}


def test_every_trick_names_code_and_a_line_that_exist():
    """Files, names in them, and experiments of the table exist."""
    readme = (BENCHMARKS / "README.md").read_text()
    [_, table] = readme.split("## Code for speed alone")
    rows = [line for line in table.splitlines() if line.startswith("| ")][1:]
    for row in rows:
        _, _, where, line, _ = row.split("|")
        code = [BENCHMARKS.parent / name for name in re.findall(r"`(app/\S+)`", where)]
        names = re.findall(r"`(\w+)`", where)
        records = re.findall(r"`([\w/]+\.py)`|\(\.\./(docs/[\w/.-]+)\)", line)
        paths = [
            BENCHMARKS.parent / record if record else BENCHMARKS / program
            for program, record in records
        ]

        assert code, row
        assert paths, row
        assert [] == [path for path in (*code, *paths) if not path.is_file()]
        assert [] == [
            name for name in names if not any(name in path.read_text() for path in code)
        ]
