"""Design page: its paths exist, and its walks are those of real requests."""

from __future__ import annotations

import re
import sys
import threading
from collections import defaultdict
from contextlib import contextmanager
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from app.doors.http.app import create_app
from app.services.application import Application
from app.settings import Settings
from tests.support.messages import ham, spam

ROOT = Path(__file__).parent.parent
APP = ROOT / "app"
BENCHMARKS = ROOT / "benchmarks"
DESIGN = ROOT / "docs" / "design.md"
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    BENCHMARKS / "README.md",
]

FOLDERS = "app|benchmarks|deploy|docs|migrations|requirements|scripts|tests"
# A path from the root of the repository, or a file below `app` or `benchmarks`.
PATH = re.compile(rf"(?<![\w./-])(?:(?:{FOLDERS})/[\w./-]*\w|[\w/]+/\w+\.py)")
MODULE = re.compile(r"(?<![\w./-])app(?:\.\w+)+")
PLACEHOLDER = re.compile(r"/[A-Z]{4,}\b.*")
ROW = re.compile(r"^\| `([\w/]+\.py)` \| (.+?) \|", re.MULTILINE)
NAME = re.compile(r"`([\w.]+)`")
COUNT = re.compile(r"through (\d+)\b")

RAW = {"Content-Type": "message/rfc822"}
# Pairs of messages: one row may then wait to be learned with others (a sixty-fourth
# of all may), and the weights of the views are not fitted anew on the walk.
TAUGHT = 40


def section(heading):
    """Return the text below a heading of the design page."""
    return (
        DESIGN.read_text(encoding="utf-8")
        .split(f"\n## {heading}\n")[1]
        .split("\n## ")[0]
    )


def rows(heading):
    """Return the files of a walk, each with its functions."""
    found = {path: NAME.findall(names) for path, names in ROW.findall(section(heading))}

    assert found
    return found


@contextmanager
def profiled():
    """Record the calls of functions of `app`, by thread, file and name.

    Only threads that start within see it.
    """
    calls = []

    def record(frame, event, _):
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(f"{APP}/"):
            path = Path(code.co_filename).relative_to(APP).as_posix()
            calls.append((threading.current_thread().name, path, code.co_qualname))

    before = threading.getprofile()
    threading.setprofile(record)
    try:
        yield calls
    finally:
        threading.setprofile(before)


def answering(calls):
    """Return the calls that an answer waits for, as functions by file.

    They are those of the door's thread, and those of the writer from its commit to
    the next wait, with what it learns, for which the next verdict waits; the upkeep goes
    on beside both.
    """
    found = defaultdict(set)
    commits = False
    for thread, path, function in calls:
        if thread == "writer":
            commits = function != "JobQueue.take" and (
                commits or function == "Writer._do"
            )
        if commits if thread == "writer" else thread.startswith("asyncio-portal"):
            found[path].add(function)
    return found


@pytest.fixture(scope="module")
def walks(tmp_path_factory):
    """The functions of a verdict, a feedback by id and one by message, by file."""
    if sys.version_info >= (3, 12):
        pytest.skip("from Python 3.12 on, a profiler does not see compiled functions")
    folder = tmp_path_factory.mktemp("walks")
    application = Application(Settings(database_url=f"sqlite:///{folder}/walks.db"))
    walked = {}
    with (
        profiled() as calls,
        TestClient(create_app(application), client=("127.0.0.1", 50000)) as client,
    ):

        def classify(number):
            return client.post("/classify", content=spam(number), headers=RAW)

        def teach(number):
            return client.post(
                "/feedback?label=spam", content=spam(number), headers=RAW
            )

        def teach_by_id(id_):
            return client.post("/feedback", json={"id": id_, "label": "spam"})

        for number in range(TAUGHT):
            teach(number)
            client.post("/feedback?label=ham", content=ham(number), headers=RAW)
        teach_by_id(classify(200).json()["id"])
        known = classify(201).json()["id"]
        for name, ask in (
            ("verdict", lambda: classify(202)),
            ("id", lambda: teach_by_id(known)),
            ("message", lambda: teach(203)),
        ):
            # A verdict adds the rows that wait, and scored messages are written, so
            # that the walk does not depend on whether the upkeep came before it.
            classify(204)
            application.recent.flush(application.engine)
            calls.clear()
            ask().raise_for_status()
            # It waits for what the writer learns behind the answer.
            assert application.live.get("default").revision
            walked[name] = answering(calls)
    return walked


def names(page):
    """Return the paths and modules that a page names."""
    text = page.read_text(encoding="utf-8")
    return {PLACEHOLDER.sub("", path) for path in PATH.findall(text)} | {
        *MODULE.findall(text)
    }


def is_there(name):
    """Tell whether a path exists, or a module with the names behind it.

    Files that Git ignores are those that a reader of the page makes.
    """
    if not MODULE.fullmatch(name):
        made = (ROOT / ".gitignore").read_text(encoding="utf-8").split()
        there = any((root / name).exists() for root in (ROOT, APP, BENCHMARKS))
        return there or name in made
    parts = name.split(".")
    for end in range(len(parts), 1, -1):
        module = ROOT.joinpath(*parts[:end])
        if module.is_dir() and end == len(parts):
            return True
        file = module / "__init__.py" if module.is_dir() else module.with_suffix(".py")
        if file.exists():
            code = file.read_text(encoding="utf-8")
            return all(part in code for part in parts[end:])
    return False


def test_every_path_that_a_page_names_exists():
    """A file that moves takes the pages that name it along."""
    named = {page: names(page) for page in PAGES}

    assert named[DESIGN]
    assert [] == sorted(
        (page.name, name)
        for page, found in named.items()
        for name in found
        if not is_there(name)
    )


def test_the_walk_of_a_verdict_is_what_the_page_says(walks):
    """Its tables name every file that a verdict runs through, and no other."""
    assert sorted(walks["verdict"]) == sorted(rows("The walk of a verdict"))


def test_the_walk_of_a_feedback_is_what_the_page_says(walks):
    """Its tables, and the reading of a message, name every file, and no other."""
    tables = {*rows("The walk of a lesson")}
    reading = {
        path
        for path in rows("The walk of a verdict")
        if path.startswith(("mail/", "features/", "kernels/text.py", "kernels/ids.py"))
    }
    walked = {*walks["id"], *walks["message"]}

    assert set() == walked - tables - reading
    assert set() == tables - walked


def test_the_functions_of_the_walks_are_called(walks):
    """A table names functions that the request really runs."""
    feedback = defaultdict(set)
    for kind in ("id", "message"):
        for path, functions in walks[kind].items():
            feedback[path] |= functions
    for heading, walked in (
        ("The walk of a verdict", walks["verdict"]),
        ("The walk of a lesson", feedback),
    ):
        for path, names in rows(heading).items():
            assert [] == [name for name in names if name not in walked[path]], path


def test_the_lengths_of_the_walks_are_those_that_the_page_states(walks):
    """The page counts the files of each walk."""
    verdict = COUNT.findall(section("The walk of a verdict"))
    feedback = COUNT.findall(section("The walk of a lesson"))

    assert [str(len(walks["verdict"]))] == verdict
    assert [str(len(walks["id"])), str(len(walks["message"]))] == feedback
