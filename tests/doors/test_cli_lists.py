"""Lists from the command line."""

from __future__ import annotations

import json

import pytest

ANN = "ann@example.org"


def shown(run, *more):
    """Return the entries with their nats."""
    _, out, _ = run("lists", "list", "--json", *more)
    return {each["entry"]: each["nats"] for each in json.loads(out)["entries"]}


def test_entries_are_added_shown_and_removed(run):
    """And a message of the sender says so."""
    added = run("lists", "add", ANN, ".example.net", "--allow", "--note", "friends")
    denied = run("lists", "add", "192.0.2.0/24", "--deny", "--nats", "8")
    listed = run("lists")
    raw = b"From: Ann <ann@example.org>\nSubject: hello\n\nhi"
    verdict = run("classify", "--explain", "1", stdin=raw)
    removed = run("lists", "remove", "ANN@example.org")

    assert (0, "entries set for default: 2\n", "") == added
    assert 0 == denied[0]
    assert listed[1].startswith(f"allow {ANN} nats=5 note=friends  # by cli:")
    assert "deny 192.0.2.0/24 nats=8  # by cli:" in listed[1]
    assert "-5.00  allowed by cli:" in verdict[1]
    assert verdict[1].startswith("ham")
    assert f"the entry {ANN} of default is removed\n" == removed[1]
    assert {".example.net": -5.0, "192.0.2.0/24": 8.0} == shown(run)
    assert {".example.net": -5.0} == shown(run, "*.example.net")


def test_what_is_listed_can_be_imported(run, tmp_path):
    """From a file or standard input, with nats, expiry and note."""
    file = tmp_path / "friends"
    file.write_text(
        f"# friends\nallow {ANN} nats=8 expires=2099-12-31 note='a friend'\n"
        "deny list-id:news.example.org\n"
    )
    done = run("lists", "import", file)
    before, first = shown(run), run("lists")[1]
    run("lists", "remove", ANN, "list-id:news.example.org")
    piped = run("lists", "import", "-", stdin=first.encode())

    assert (0, "entries set for default: 2\n", "") == done == piped
    assert {ANN: -8.0, "list-id:news.example.org": 5.0} == before == shown(run)
    assert "expires=2099-12-31T00:00:00Z note='a friend'" in run("lists")[1]


@pytest.mark.parametrize(
    ("arguments", "stdin", "sentence"),
    [
        (("add", ANN), b"", "--allow or --deny"),
        (("add", ANN, "--allow", "--deny"), b"", "and not both"),
        (("add", "ann", "--allow"), b"", "is not a list entry"),
        (("add", "192.0.2.7/24", "--deny"), b"", "an address with a length"),
        (("add", ANN, "--allow", "--nats", "0"), b"", "above 0"),
        (("add", ANN, "--allow", "--expires", "2020-01-01"), b"", "is in the past"),
        (("add", ANN, "--allow", "--expires", "soon"), b"", "is not an expiry"),
        (("remove", ANN), b"", "have no entry"),
        (("import", "-"), b"allow ann@example.org\nallow x\n", "line 2 of -: 'x'"),
        (("import", "-"), b"\xff", "not UTF-8"),
        (("import", "there-is-none"), b"", "cannot be read"),
        (("add", ANN, "--allow", "--profile", "x"), b"", "no profile 'x'"),
    ],
)
def test_bad_input_changes_nothing(run, arguments, stdin, sentence):
    """It ends with a sentence that says what to do."""
    code, out, err = run("lists", *arguments, stdin=stdin)

    assert (65, "") == (code, out)
    assert sentence in err
    assert {} == shown(run)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("add", "--allow"), "missing argument 'ENTRY"),
        (("remove",), "missing argument 'ENTRY"),
        (("import", "a", "b"), "unexpected extra argument"),
        (("remove", ANN, "--deny"), "no such option: --deny"),
    ],
)
def test_each_action_has_its_arguments(run, arguments, sentence):
    """Others are not ignored."""
    code, out, err = run("lists", *arguments)

    assert (2, "") == (code, out)
    assert sentence in err


def test_lists_stay_where_an_import_replaces_a_profile(run, tmp_path):
    """They are no part of what is learned, and no export has them."""
    file = tmp_path / "site.postbayes"
    run("lists", "add", ANN, "--allow")
    exported = run("export", file)
    imported = run("import", file, "--replace")

    assert (0, 0) == (exported[0], imported[0])
    assert b"ann@example" not in file.read_bytes()
    assert {ANN: -5.0} == shown(run)
