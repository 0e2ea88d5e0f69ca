"""House: names of files and first lines of modules, as CONTRIBUTING.md asks."""

from __future__ import annotations

import ast
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
APP = ROOT / "app"
MODULES = sorted(
    path
    for folder in ("app", "benchmarks", "migrations", "scripts")
    for path in (ROOT / folder).rglob("*.py")
)

LINE = 88
"""Columns of a line, as `pyproject.toml` gives them to the formatter."""
DOOR_KIT = {"codec", "session", "server"}
"""Files of the mail doors: their protocol, their conversation, their loop with answers."""
POETIC = {
    "again",
    "before",
    "bell",
    "chosen",
    "decided",
    "kept",
    "known",
    "latest",
    "marked",
    "newest",
    "news",
    "pending",
    "recorded",
    "told",
    "turn",
    "unseen",
    "whole",
}
"""Words that name a file after when or how, and hide that it is a cache or a queue."""


def named(path):
    """Return a path as the repository's own, for test ids."""
    return path.relative_to(ROOT).as_posix()


def room(path):
    """Return the room of a file: a folder of `app`, the command line, or the pages.

    The files of the command line have the names of commands or of their groups, those
    of the pages the names of pages, as those of the HTTP door have the names of routes.
    """
    parts = path.relative_to(APP).parts
    for own in (("doors", "cli"), ("doors", "http", "page")):
        if parts[: len(own)] == own:
            return "/".join(own)
    return parts[0]


@pytest.fixture(scope="module")
def trees():
    """The syntax tree of each file.

    They have 1.3 million objects, which each full pass of the collector would look at
    if they were kept: a second of CPU time.
    """
    paths = (*MODULES, *(ROOT / "tests").rglob("*.py"))
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in paths}


def first_line(tree):
    """Return the first line of a module's docstring."""
    return (ast.get_docstring(tree) or "").partition("\n")[0]


def test_modules_begin_with_a_noun_phrase(trees):
    """A first line is a statement that ends with a full stop, and no question."""
    lines = {named(path): first_line(trees[path]) for path in MODULES}

    assert lines
    assert {} == {
        path: line
        for path, line in lines.items()
        if not line.endswith(".") or "?" in line
    }


def test_no_file_has_a_poetic_name():
    """A cache is called a cache, and a queue a queue."""
    names = {path.stem for path in APP.rglob("*.py")}

    assert set() == names & POETIC


def test_no_file_name_occurs_twice_in_a_room():
    """A name leads to one file, but for the kit that every door has."""
    found = defaultdict(list)
    for path in APP.rglob("*.py"):
        place = room(path)
        if path.stem.startswith("__") or (place == "doors" and path.stem in DOOR_KIT):
            continue
        found[place, path.stem].append(named(path))

    assert [] == sorted(paths for paths in found.values() if len(paths) > 1)


def test_no_class_name_occurs_twice(trees):
    """A name of a class leads to one class, whatever room it is in."""
    found = defaultdict(list)
    for path in APP.rglob("*.py"):
        for node in ast.walk(trees[path]):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(named(path))

    assert found
    assert {} == {name: paths for name, paths in found.items() if len(paths) > 1}


def test_no_file_imports_a_module_under_two_names(trees):
    """Two names for one module are left where two files became one."""
    twice = {}
    for path, tree in trees.items():
        names = defaultdict(set)
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                for each in node.names:
                    names[node.module, each.name].add(each.asname or each.name)
        found = [of for of, known_as in names.items() if len(known_as) > 1]
        if found:
            twice[named(path)] = found

    assert {} == twice


def named_in_vain(path, tree):
    """Yield the lines whose sentence has a name, but would be shorter in its `raise`."""
    text = path.read_text(encoding="utf-8")
    bodies = (
        body
        for node in ast.walk(tree)
        for body in (getattr(node, "body", None), getattr(node, "orelse", None))
        if isinstance(body, list)
    )
    for named_, raised in (pair for body in bodies for pair in pairwise(body)):
        if not (isinstance(named_, ast.Assign) and isinstance(raised, ast.Raise)):
            continue
        if ast.unparse(named_.targets[0]) != "msg" or "(msg)" not in ast.unparse(
            raised
        ):
            continue
        value = ast.get_source_segment(text, named_.value)
        line = text.splitlines()[raised.lineno - 1].replace("(msg)", f"({value})")
        if named_.end_lineno > named_.lineno or len(line) <= LINE:
            yield named_.lineno


def test_a_sentence_has_a_name_only_where_that_saves_a_line(trees):
    """A sentence of several lines stands in its `raise`, and so does one that fits."""
    found = {named(path): [*named_in_vain(path, trees[path])] for path in MODULES}

    assert found
    assert {} == {path: lines for path, lines in found.items() if lines}
