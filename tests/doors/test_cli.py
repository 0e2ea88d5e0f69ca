"""The command line: what it prints, and with which code it ends."""

from __future__ import annotations

import importlib
import io
import json
import mailbox
import os
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice
from pathlib import Path
from shutil import copyfile

import pytest
from alembic import command

from app.doors.cli import __main__ as entry
from app.doors.cli import upkeep
from app.doors.cli.main import EXIT, exit_code, main
from app.errors import (
    DatabaseTooNew,
    DatabaseUnavailable,
    DatabaseUnprepared,
    PostbayesError,
    UnknownLabel,
)
from app.exchange.blocks import BlockWriter
from app.services.application import Application
from app.services.startup import open_database
from app.settings import Settings
from app.storage.database.engine import (
    alembic_config,
    migrating,
    open_engine,
    revision_of,
)
from tests.support.application import running, teach
from tests.support.command import on_path
from tests.support.databases import sqlite_url
from tests.support.messages import HAM, SPAM, ham, spam
from tests.support.service import served


def learned(run, *arguments, stdin=b""):
    """Run `learn --json` and return its counts."""
    code, out, err = run("learn", "--json", *arguments, stdin=stdin)
    assert (0, "") == (code, err)
    figures = json.loads(out)
    assert 0 == figures["unreadable"]
    return {k: figures[k] for k in ("learned", "relabelled", "unchanged", "empty")}


def test_an_index_is_learned_once(run, index):
    """Run again, it changes nothing."""
    first = learned(run, "--index", index)
    again = learned(run, "--index", index, "--batch", "3")

    assert {"learned": 20, "relabelled": 0, "unchanged": 0, "empty": 0} == first
    assert {"learned": 0, "relabelled": 0, "unchanged": 20, "empty": 0} == again
    assert (0, "default: difference 0\n", "") == run("audit")


def test_an_archive_is_learned_as_sums(run, index):
    """Once, whatever the parts are; it can be undone as a whole."""
    first = learned(run, "--sums", "--index", index)
    again = learned(run, "--sums", "--index", index, "--batch", "3")
    index.write_text(index.read_text().replace("ham ham5\n", "spam ham5\n"))
    said = run("learn", "--sums", "--index", index)[1]
    out = run("undo", "--source", "learn")[1]

    assert {"learned": 20, "relabelled": 0, "unchanged": 0, "empty": 0} == first
    assert {"learned": 0, "relabelled": 0, "unchanged": 20, "empty": 0} == again
    assert "19 unchanged, 0 empty, 1 not changed because they are too old" in said
    assert "as an archive, without scores" not in said
    assert "10 messages: ham -> not learned" in out
    assert "messages of imports" not in out
    assert "To have them back, learn the archive again." in out
    assert "learned 0 ham, 0 spam" in run("profiles")[1]
    assert (0, "default: difference 0\n", "") == run("audit")
    assert (
        "as an archive, without scores" in run("learn", "--sums", "--index", index)[1]
    )


def scores(tmp_path):
    """Return the score records of the ledger, in its order."""
    with closing(sqlite3.connect(tmp_path / "postbayes.db")) as db:
        rows = db.execute("SELECT scores FROM ledger ORDER BY revision").fetchall()
    return [row[0] and json.loads(row[0]) for row in rows]


def test_a_stream_is_scored_in_its_order_whatever_the_batches_are(run, index, tmp_path):
    """Each message is scored by all before it: the figures are those of feedback."""
    learned(run, "--index", index)
    together = scores(tmp_path)
    figures = json.loads(run("figures", "--json")[1])
    (tmp_path / "postbayes.db").unlink()
    run("profiles", "create", "default")
    for line in index.read_text().splitlines():
        label, file = line.split()
        run("feedback", "--label", label, index.parent / file)

    alone = json.loads(run("figures", "--json")[1])
    assert scores(tmp_path) == together
    assert (20, alone["roca_pct"], alone["ece_pct"]) == (
        figures["messages"],
        figures["roca_pct"],
        figures["ece_pct"],
    )


@pytest.mark.parametrize("batch", [1, 200])
def test_an_archive_of_one_label_after_the_other_is_in_no_figure(
    run, index, tmp_path, batch
):
    """Nor is a folder or a sorted index: scores after ham alone mean nothing."""
    first = index.parent / "sorted"
    first.write_text("".join(sorted(index.read_text().splitlines(keepends=True))))
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "a").write_bytes(ham(77))

    said = run("learn", "--index", first, "--batch", batch)[1]
    run("learn", "--label", "ham", "--batch", batch, tmp_path / "more")

    assert "without scores" in said
    assert [None] * 21 == scores(tmp_path)
    assert "It has learned 21 messages in all; archives," in run("figures")[1]
    figures = json.loads(run("figures", "--json")[1])
    assert (0, 21, None) == (
        figures["messages"],
        figures["learned"],
        figures["ece_pct"],
    )


def test_an_interrupted_run_keeps_whole_batches(run, index):
    """A stream that breaks in the middle leaves what was committed, and resumes."""
    lines = index.read_text()
    index.write_text(lines.replace("ham ham5\n", "ham nowhere\n"))

    code, _, err = run("learn", "--index", index, "--batch", "4")

    assert 65 == code
    assert "nowhere" in err
    index.write_text(lines)
    assert {"learned": 12, "unchanged": 8, "relabelled": 0, "empty": 0} == learned(
        run, "--index", index
    )


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_a_message_that_cannot_be_read_is_named_and_passed_over(
    run, index, monkeypatch, form
):
    """The others are learned; the command ends with the code of a defect."""
    module = importlib.import_module("app.services.learn")
    real = module.observe

    def observe(raw, *more):
        if b"agenda 7" in raw:
            raise IndexError
        return real(raw, *more)

    monkeypatch.setattr(module, "observe", observe)
    code, out, err = run("learn", "--index", index, *form)

    assert 70 == code
    assert "ham7 was skipped: the message cannot be read" in err
    assert "1 of the messages could not be read" in err
    assert ('"unreadable": 1' if form else "1 skipped") in out
    assert ('"learned": 19' if form else "19 learned") in out


def test_a_folder_an_mbox_and_a_maildir_are_learned(run, tmp_path):
    """Mail is learned from wherever people keep it."""
    box = mailbox.mbox(tmp_path / "spam.mbox")
    for raw in SPAM:
        box.add(raw)
    box.close()
    maildir = mailbox.Maildir(tmp_path / "Maildir", create=True)
    maildir.add(HAM[0])
    maildir.add_folder("Junk").add(spam(8))
    folder = tmp_path / "letters"
    folder.mkdir()
    (folder / "a.eml").write_bytes(HAM[1])

    assert 3 == learned(run, "--label", "spam", tmp_path / "spam.mbox")["learned"]
    both = learned(run, "--label", "ham", "--junk", "spam", tmp_path / "Maildir")
    assert 2 == both["learned"]
    assert 1 == learned(run, "--label", "ham", folder)["learned"]
    with closing(sqlite3.connect(tmp_path / "postbayes.db")) as db, db:
        rows = dict(db.execute("SELECT label, messages FROM class_count").fetchall())
    assert {"ham": 2, "spam": 4} == rows


def test_each_message_of_an_mbox_gets_a_verdict_and_one_is_taught(run, tmp_path):
    """All of it as one message would be scored or taught by its first header alone."""
    box = mailbox.mbox(tmp_path / "some.mbox")
    for raw in SPAM[:2]:
        box.add(raw)
    box.close()

    code, out, err = run("classify", tmp_path / "some.mbox", "--json")
    assert (0, "") == (code, err)
    ids = [json.loads(line)["id"] for line in out.splitlines()]
    assert 2 == len(set(ids))
    code, _, err = run("feedback", tmp_path / "some.mbox", "--label", "spam")
    assert 64 <= code < 70
    assert "some.mbox is a mailbox with several messages; `postbayes learn" in err
    assert 2 == learned(run, "--label", "spam", tmp_path / "some.mbox")["learned"]
    code, out, _ = run("feedback", "--id", ids[0], "--label", "ham", "--json")
    assert (0, "relabelled") == (code, json.loads(out)["outcome"])


def test_an_mbox_of_separators_alone_is_an_empty_message(run, tmp_path):
    """Not a success without a verdict."""
    box = tmp_path / "some.mbox"
    box.write_text("From ann@example.org Mon Mar  2 10:00:00 2026\n")

    code, out, err = run("classify", box)

    assert (65, "") == (code, out)
    assert "the message is empty" in err


def test_a_table_shows_which_folder_gets_which_label(run, tmp_path):
    """Before anything is learned: a folder that is taken for another can be seen."""
    maildir = mailbox.Maildir(tmp_path / "Maildir", create=True)
    maildir.add(HAM[0])
    maildir.add_folder("Unerw&APw-nscht").add(spam(8))
    maildir.add_folder("Sent").add(HAM[1])
    arguments = ("learn", "--label", "ham", "--junk", "spam", tmp_path / "Maildir")

    _, out, _ = run(*arguments)
    _, as_json, _ = run(*arguments, "--json")

    shown = [" ".join(line.split()) for line in out.splitlines()]
    assert {"─"} == set(shown.pop(1))
    assert [
        "label files folder",
        f"ham 1 {tmp_path}/Maildir",
        f"left out: sent 1 {tmp_path}/Maildir/.Sent",
        f"spam 1 {tmp_path}/Maildir/.Unerwünscht",
    ] == shown[:4]
    assert "2 messages in" in shown[4]
    assert [("ham", None), (None, "sent"), ("spam", "junk")] == [
        (each["label"], each["use"]) for each in json.loads(as_json)["folders"]
    ]


def test_files_that_were_named_are_not_listed(run, tmp_path):
    """They have the label that was given, and a shell may name thousands."""
    files = [tmp_path / f"letter{n}.eml" for n in range(3)]
    for n, file in enumerate(files):
        file.write_bytes(spam(n))

    _, out, _ = run("learn", "--label", "spam", *files)

    assert out.startswith("3 messages in")


@pytest.mark.parametrize(
    ("labels", "doubts"),
    [
        (("--label", "ham"), 1),
        (("--label", "spam"), 0),
        (("--label", "ham", "--junk", "ham"), 0),
        # Nothing is learned, for want of a label.
        ((), 0),
    ],
)
def test_junk_that_is_learned_as_ham_is_named(run, tmp_path, labels, doubts):
    """Unless somebody said so: a forgotten option would teach spam as wanted mail."""
    maildir = mailbox.Maildir(tmp_path / "Maildir", create=True)
    maildir.add(HAM[0])
    maildir.add_folder("Junk").add(spam(8))

    code, _, err = run("learn", *labels, tmp_path / "Maildir")

    said = f"{tmp_path}/Maildir/.Junk is a junk folder by its name, and is learned as"
    assert (0 if labels else 65, doubts) == (code, err.count(said))


def test_what_is_no_mail_is_not_learned(run, tmp_path):
    """A folder that was mistyped teaches nothing, and the sentence shows why."""
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "passwd").write_bytes(b"root:x:0:0:root:/root:/bin/sh\n")

    code, out, err = run("learn", "--label", "ham", tmp_path / "etc")

    assert (65, "") == (code, out)
    assert f"nothing at {tmp_path}/etc looks like mail: " in err
    assert "/etc/passwd begins with 'root:x:0:0:" in err


@pytest.mark.parametrize("kind", ["folder", "Maildir"])
def test_an_empty_folder_is_an_error(run, tmp_path, kind):
    """Nothing was learned, which a script has to notice."""
    for part in ("cur", "new") if kind == "Maildir" else ("letters",):
        (tmp_path / "empty" / part).mkdir(parents=True)

    code, out, err = run("learn", "--label", "ham", tmp_path / "empty")

    assert (65, "") == (code, out)
    assert f"there is no message at {tmp_path}/empty\n" in err


def test_a_message_is_classified_and_explained(run, index, tmp_path):
    """The decision stands first; --explain lists the reasons."""
    learned(run, "--index", index)
    (tmp_path / "new").write_bytes(spam(77))

    code, out, _ = run("classify", "--explain", "3", tmp_path / "new")

    lines = out.splitlines()
    assert 0 == code
    assert lines[0].startswith("spam")
    assert re.search(r"^ +[+-]\d+\.\d\d  (words|pairs|headers)$", lines[1])
    at = next(n for n, line in enumerate(lines) if "of it by those shown" in line)
    assert 3 + 3 + 1 == len(lines) - at - 1
    assert "other features" in lines[-1]


# An export of another site can have any text as a source.
EVE = "eve's\x1b[2J"


def test_teachers_are_listed_with_the_way_back(run, tmp_path):
    """A suspect has a line that is not cut; nobody at all is said, too."""
    nobody = run("teachers")[1]
    with running(database_url=f"sqlite:///{tmp_path}/postbayes.db") as app:
        app.scheduler.stop()
        for n in range(80):
            teach(app, ham(n), "ham")
            app.feedback.teach("default", spam(n), label="spam", source="ann")
        for n in range(80, 95):
            app.feedback.teach("default", ham(n), label="spam", source=EVE)

    code, out, _ = run("teachers")
    lines = run("teachers", "--json")[1].splitlines()

    assert "no scored message has been labelled yet" in nobody
    assert 0 == code
    assert re.search(
        r"eve's\ufffd\[2J +0 +15 +\d+ +\d+ \(\d+\.\d\d %\) +\d+ +0 +\d{4}-\d\d-\d\d\s",
        out,
    )
    assert "--profile default --source 'eve'\"'\"'s\ufffd[2J' --dry-run" in out
    assert "\x1b" not in out
    assert {"test": False, "ann": False, EVE: True} == {
        each["source"]: each["suspect"] for each in map(json.loads, lines)
    }


def test_what_each_level_adds_is_printed(run, index, tmp_path):
    """Of a profile that backs off, before the families."""
    learned(run, "--index", index)
    (tmp_path / "new").write_bytes(spam(77))
    run("profiles", "create", "ann@example.org")

    _, out, _ = run(
        "classify", "--profile", "ann@example.org", "--explain", "3", tmp_path / "new"
    )

    first, ann, site, by_family = out.splitlines()[:4]
    assert first.startswith("spam")
    assert re.search(r" \+0\.00  ann@example\.org +ham 0 · spam 0$", ann)
    assert re.search(r" \+\d+\.\d\d  default +ham \d+ · spam \d+$", site)
    assert "by family" == by_family.strip()


@pytest.mark.parametrize("file", [(), ("-",)])
def test_json_of_a_message_on_standard_input(run, index, file):
    """--json prints the document of the HTTP door."""
    learned(run, "--index", index)

    code, out, _ = run("classify", "--json", *file, stdin=ham(78))

    assert 0 == code
    assert "ham" == json.loads(out)["decision"]


def test_feedback_is_taught_moved_and_forgotten(run):
    """One message from standard input; then by its id."""
    code, out, _ = run("feedback", "--label", "spam", "--json", stdin=HAM[0])
    taught = json.loads(out)
    moved = run("feedback", "--label", "ham", "--id", taught["id"])
    forgotten = run("feedback", "--forget", "--id", taught["id"])
    again = run("feedback", "--forget", "--id", taught["id"])

    assert (0, "learned", 1) == (code, taught["outcome"], taught["revision"])
    assert moved[1].startswith("relabelled: ham, was spam")
    assert forgotten[1].startswith("forgotten: was ham")
    assert (65, "nothing to forget") == (again[0], again[2].strip()[-17:])


def test_an_audit_finds_a_changed_count(run, index, tmp_path):
    """A count that somebody changed is a difference, and exit code 1."""
    learned(run, "--index", index)
    with closing(sqlite3.connect(tmp_path / "postbayes.db")) as db, db:
        db.execute("UPDATE class_count SET messages = messages + 1 WHERE label = 'ham'")

    code, out, _ = run("audit", "--json")

    document = json.loads(out)
    assert 1 == code
    assert document["difference"] > 0
    assert document["difference"] == document["profiles"]["default"]["difference"]


def test_damaged_counts_are_built_anew_from_the_ledger(run, index, tmp_path):
    """The audit names the profile and the way out, which loses nothing."""
    learned(run, "--index", index)
    run("lists", "add", "ann@example.org", "--allow")
    before = run("profiles")
    with closing(sqlite3.connect(tmp_path / "postbayes.db")) as db, db:
        db.execute("UPDATE run SET vector = x'6a756e6b6a756e6b'")

    code, _, err = run("audit")
    exported = run("export", "--with-ledger", "default.pbx")
    replaced = run("import", "--replace", "--yes", "default.pbx")

    assert 70 == code
    assert "the profile 'default' cannot be audited: A stored sum has" in err
    assert "docs/troubleshooting.md" in err
    assert (0, 0) == (exported[0], replaced[0])
    assert (0, "default: difference 0\n", "") == run("audit")
    assert before == run("profiles")
    assert run("lists")[1].startswith("allow ann@example.org")


def test_profiles_are_made_and_listed(run):
    """Labels of a profile are chosen when it is made."""
    code, out, _ = run(
        "profiles",
        "create",
        "site",
        "--labels",
        "ham,spam,phishing",
        "--spam-labels",
        "spam,phishing",
    )

    assert 0 == code
    assert "site  revision 0  learned 0 ham, 0 spam (spam), 0 phishing (spam)" in out
    assert "default  revision 0" in out
    listed = json.loads(run("profiles", "--json")[1])["profiles"]
    assert {
        "default": {"ham": 0, "spam": 0},
        "site": {"ham": 0, "spam": 0, "phishing": 0},
    } == {each["name"]: each["messages"] for each in listed}
    code, _, err = run("profiles", "create", "site", "--labels", "a,spam")
    assert 65 == code
    assert "site" in err


def test_a_kind_of_profile_has_its_labels(run):
    """Mail is more than wanted and unwanted."""
    code, out, _ = run("profiles", "create", "site", "--kind", "mail")

    assert 0 == code
    assert (
        "site  revision 0  learned 0 ham, 0 newsletter, 0 notification, "
        "0 phishing (spam), 0 spam (spam)"
    ) in out


@pytest.mark.parametrize(
    "arguments",
    [
        ["--labels", "a,b"],
        ["--spam-labels", "spam"],
    ],
)
def test_a_kind_is_no_other_labels(run, arguments):
    """Nothing is made of what contradicts itself."""
    code, _, err = run("profiles", "create", "x", "--kind", "mail", *arguments)

    assert (65, True) == (code, "--kind gives a profile its labels" in err)
    assert "x  revision" not in run("profiles")[1]


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["learn"], 65, "--index FILE"),
        (["learn", "--index", "i", "--label", "ham", "x"], 65, "--index FILE"),
        (["learn", "--index", "nowhere"], 65, "nowhere"),
        (["learn", "nowhere", "--label", "ham"], 65, "nowhere"),
        (["learn", "-", "--label", "ham"], 65, "postbayes feedback --label LABEL"),
        (["learn", "."], 65, "--label spam"),
        (["classify", "nowhere"], 65, "nowhere"),
        (["classify", "--profile", "nobody"], 65, "nobody"),
        (["feedback"], 65, "--label"),
        (["feedback", "--label", "junk"], 65, "ham, spam"),
        (["feedback", "--forget"], 65, "--id"),
        (["feedback", "--forget", "--id", "zz"], 65, "32 hexadecimal"),
        (["feedback", "--label", "ham", "--id", "00", "file"], 65, "not both"),
        (["feedback", "--label", "ham", "--source", "a\nb"], 65, "source"),
        (["learn", "--label", "ham", "--source", "x" * 65, "x"], 65, "source"),
        (["audit", "--profile", "nobody"], 65, "nobody"),
        (["profiles", "create", "x", "--labels", "spam"], 78, "labels"),
        (["profiles", "create", "a b"], 78, "the name of a profile"),
        (["classify", "--url", "http://127.0.0.1:1"], 75, "does not answer"),
    ],
)
@pytest.mark.usefixtures("index")
def test_each_mistake_has_its_code_and_a_sentence(run, arguments, code, says):
    """Mistakes end with a code of sysexits.h and say what to do."""
    got, _, err = run(*arguments, stdin=b"Subject: x\n\ny\n")

    assert code == got
    assert says in err
    assert "Traceback" not in err


def test_ctrl_c_says_what_is_kept(run, index, monkeypatch):
    """An interrupted command ends with the code of its signal, and a sentence."""

    def interrupted(index, *, most):
        yield from islice(real(index, most=most), 5)
        raise KeyboardInterrupt

    module = importlib.import_module("app.doors.cli.learn")
    real = module.index_parts
    monkeypatch.setattr(module, "index_parts", interrupted)

    code, _, err = run("learn", "--index", index)

    assert 130 == code
    assert "interrupted" in err


def test_something_else_at_the_url_is_said(run, tmp_path):
    """An answer of another service does not cause a traceback."""
    (tmp_path / "classify").write_text("<html>")

    class Quiet(SimpleHTTPRequestHandler):
        """Serves the folder for any method, and logs nothing."""

        def do_POST(self):
            """Answer a POST as a GET."""
            self.do_GET()

        def log_message(self, *_):
            """Log nothing."""

    here = partial(Quiet, directory=str(tmp_path))
    with served(ThreadingHTTPServer(("127.0.0.1", 0), here)) as server:
        url = f"http://127.0.0.1:{server.server_port}"
        code, _, err = run("classify", "--url", url, stdin=HAM[0])

    assert (65, True) == (code, "not Postbayes" in err)


def test_a_bad_setting_names_its_variable(run, monkeypatch):
    """A setting that cannot be used names itself and its value."""
    monkeypatch.setenv("POSTBAYES_PORT", "eighty")

    code, _, err = run("profiles")

    assert 78 == code
    assert "POSTBAYES_PORT" in err
    assert "eighty" in err


@pytest.mark.parametrize(
    ("variable", "said"),
    [
        ("POSTBAYES_WORKER", "is not a setting; the nearest is POSTBAYES_WORKERS"),
        ("POSTBAYES_QUARANTINE", "the nearest is POSTBAYES_QUARANTINE_FROM"),
    ],
)
def test_a_setting_that_does_not_exist_is_refused(run, monkeypatch, variable, said):
    """One that is misspelt would decide nothing, and nobody knew."""
    monkeypatch.setenv(variable, "2")

    code, _, err = run("profiles")

    assert (78, True) == (code, f"{variable} is not a setting;" in err)
    assert said in err


def test_all_wrong_lines_of_a_settings_file_are_refused_at_once(run, tmp_path):
    """With the file; lines of other programs are left to them."""
    (tmp_path / "postbayes.env").write_text(
        "POSTBAYES_PROT=1\npostbayes_prot=2\n"
        "POSTBAYES_SETTINGS_FILE=x\nPOSTGRES_PASSWORD=y\n"
    )

    code, _, err = run("profiles")

    assert 78 == code
    assert (
        "POSTBAYES_PROT in postbayes.env is not a setting; the nearest is "
        "POSTBAYES_PORT; POSTBAYES_SETTINGS_FILE in postbayes.env cannot name another "
        "file; set it in the environment\n"
    ) in err


def test_variables_of_the_programs_beside_it_are_no_settings(run, monkeypatch):
    """Scripts in `deploy` and `docker-compose.yml` read variables of their own."""
    root = Path(__file__).parents[2]
    texts = [
        (root / name).read_text()
        for name in ("docker-compose.yml", "deploy/dovecot/postbayes-teach")
    ]
    read = set(re.findall(r"\$\{(POSTBAYES_[A-Z_]+)", "".join(texts)))
    settings = {f"POSTBAYES_{name.upper()}" for name in Settings.model_fields}
    for name in read - settings:
        monkeypatch.setenv(name, "127.0.0.1:8025")

    assert 0 == run("profiles")[0]


def test_a_settings_file_is_read(run, tmp_path):
    """`postbayes.env` in the working directory; the last line with a name counts."""
    (tmp_path / "postbayes.env").write_text(
        "POSTBAYES_PROFILE=other\nPOSTBAYES_PROFILE=mine\n"
    )

    _, out, _ = run("profiles", "create", "yours")

    assert ["default", "mine", "yours"] == re.findall(r"(?m)^\w+", out)


def test_lines_of_a_settings_file_that_would_be_skipped_are_refused(run, tmp_path):
    """With their numbers, and without their text: it may be a password."""
    (tmp_path / "postbayes.env").write_text(
        "# settings\n\nPOSTBAYES_STORE_WORDS false\nPOSTBAYES_PROFILE=mine\n"
        "POSTBAYES_MILTER\nPOSTBAYES_IMAP_PASSWORD='long\n"
    )

    code, _, err = run("profiles")

    assert (78, False) == (code, "long" in err)
    assert "'postbayes.env' has lines that are not NAME=value" in err
    assert err.endswith(": 3, 5, 6\n")


def test_a_settings_file_that_may_not_be_read_is_said(run, tmp_path):
    """In one sentence, to users who may not see the settings of the service."""
    # What a command imports may be where another user can read nothing, as below /root.
    run("profiles")
    (tmp_path / "postbayes.env").touch(mode=0)
    user = os.geteuid()
    os.seteuid(user or 65534)
    try:
        code, _, err = run("profiles")
    finally:
        os.seteuid(user)

    assert (78, True) == (code, "'postbayes.env' cannot be read" in err)


def test_a_settings_file_that_is_missing_is_said(run, monkeypatch):
    """A named file that is not there is an error, not a silent default."""
    monkeypatch.setenv("POSTBAYES_SETTINGS_FILE", "nowhere.env")

    code, _, err = run("profiles")

    assert (78, True) == (code, "'nowhere.env', which does not exist" in err)


def test_a_folder_with_the_name_of_the_settings_file_is_refused(run, tmp_path):
    """Docker makes one where the file of a mount is missing."""
    (tmp_path / "postbayes.env").mkdir()

    code, _, err = run("profiles")

    assert (78, True) == (code, "'postbayes.env' cannot be read" in err)


def test_the_version_is_printed(run):
    """--version prints it and stops."""
    code, out, _ = run("--version")

    assert (0, True) == (code, out.startswith("postbayes "))


def test_profiles_are_listed_with_what_they_have_learned(run, index):
    """Folded or not, and without what was moved to another label."""
    run("learn", "--index", index)
    run("feedback", "--label", "spam", stdin=ham(1))

    assert "learned 9 ham, 11 spam  feature" in run("profiles")[1]


def test_a_profile_is_renamed_and_keeps_what_it_has_learned(run, index):
    """It cannot go on under the name of another, or under one that cannot be used."""
    run("profiles", "create", "old")
    run("learn", "--index", index, "--profile", "old")

    taken = run("profiles", "rename", "old", "default")
    unusable = run("profiles", "rename", "old", "new name")
    code, out, _ = run("profiles", "rename", "old", "new@example.org")

    assert (78, True) == (unusable[0], "got 'new name'" in unusable[2])
    assert (65, True) == (taken[0], "the profile 'default' already exists" in taken[2])
    assert (0, False) == (code, "old" in out)
    assert "new@example.org  revision 20  learned 10 ham, 10 spam" in out
    assert (0, "new@example.org") == (
        run("audit", "--profile", "new@example.org", "--json")[0],
        out.splitlines()[1].split()[0],
    )


def test_a_profile_is_deleted_with_all_that_it_has_learned(run, index, tmp_path):
    """Once somebody has agreed; no row of any table is left."""
    run("profiles", "create", "gone")
    run("learn", "--index", index, "--profile", "gone")

    asked = run("profiles", "delete", "gone")
    code, out, _ = run("profiles", "delete", "gone", "--yes")

    assert (65, True) == (asked[0], "give --yes as well" in asked[2])
    assert (0, ["default"]) == (code, [line.split()[0] for line in out.splitlines()])
    with closing(sqlite3.connect(tmp_path / "postbayes.db")) as db:
        for table in ("ledger", "run", "class_count", "fold"):
            [(left,)] = db.execute(
                f"SELECT count(*) FROM {table} WHERE profile_id <> 1"  # noqa: S608
            )
            assert (table, 0) == (table, left)


@pytest.mark.parametrize("answer", [b"n\n", b"\n", b""], ids=["no", "enter", "end"])
def test_a_no_to_the_question_changes_nothing(run, capsys, monkeypatch, answer):
    """In one line, with the code 1."""

    class Terminal(io.TextIOWrapper):
        def isatty(self):
            """Say that somebody can be asked."""
            return True

    run("profiles", "create", "kept")
    monkeypatch.setattr(sys, "stdin", Terminal(io.BytesIO(answer)))
    with pytest.raises(SystemExit) as end:
        main(["profiles", "delete", "kept"])

    assert 1 == end.value.code
    assert capsys.readouterr().err.endswith("postbayes: stopped at the question\n")
    assert "kept" in run("profiles")[1]


@pytest.mark.parametrize(
    "arguments", [("delete", "default", "--yes"), ("rename", "default", "x")]
)
def test_the_profile_of_the_site_stays(run, arguments):
    """It answers where no other does."""
    code, _, err = run("profiles", *arguments)

    assert (65, True) == (code, "name another one in POSTBAYES_PROFILE first" in err)


@pytest.fixture(scope="module")
def older_file(tmp_path_factory):
    """A database with the tables of an older version."""
    folder = tmp_path_factory.mktemp("older")
    engine = open_database(Settings(database_url=sqlite_url(folder)), make=True)
    config = alembic_config()
    with migrating(engine) as connection:
        config.attributes["connection"] = connection
        command.downgrade(config, "0005")
    engine.dispose()
    return folder / "postbayes.db"


@pytest.fixture
def older(older_file, tmp_path, run):
    """The engine of a copy of it."""
    copyfile(older_file, tmp_path / "postbayes.db")
    engine = open_engine(f"sqlite:///{tmp_path}/postbayes.db")
    yield engine
    engine.dispose()


@pytest.mark.parametrize(
    "arguments",
    [
        ("audit",),
        ("backup", "copy.db"),
        ("classify",),
        ("export", "profile"),
        ("feedback", "--label", "spam"),
        ("figures",),
        ("fold",),
        ("learn", "--label", "ham", "mail"),
        ("policy",),
        ("profiles",),
        ("profiles", "create", "ann"),
        ("prune", "--max-messages", 1),
        ("undo", "--source", "learn"),
        ("word", "money"),
    ],
)
def test_a_command_leaves_an_older_database_as_it_is(older, run, tmp_path, arguments):
    """The service that still runs on it would be refused at its next start."""
    (tmp_path / "mail").write_bytes(ham(1))

    code, _, err = run(*arguments, stdin=ham(1))

    assert (75, "0005") == (code, revision_of(older))
    assert "at migration 0005, but this version of Postbayes needs 00" in err
    assert "then run `postbayes migrate`; `postbayes serve` migrates it too." in err


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OIDC_ISSUER", "nonsense"),
        ("FOLLOW", "nonsense"),
        ("WEBHOOK", "https://hooks.example.org/"),
    ],
)
@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])  # noqa: S104
def test_a_service_that_cannot_start_leaves_an_older_database_as_it_is(
    older, run, monkeypatch, host, name, value
):
    """The version before can be started again."""
    monkeypatch.setenv(f"POSTBAYES_{name}", value)
    code, _, err = run("serve", "--port", "0", "--host", host)

    assert (78, "0005") == (code, revision_of(older))
    assert name in err


def test_a_refused_database_is_closed(older, tmp_path):
    """Otherwise the files of SQLite's log stay beside it, and its connections open."""
    older.dispose()
    settings = Settings(database_url=str(older.url))
    # The traceback has the engine, so nobody else closes it.
    with pytest.raises(DatabaseUnprepared) as caught:
        open_database(settings, make=False)

    assert caught.tb is not None
    assert ["postbayes.db"] == [path.name for path in tmp_path.glob("postbayes.db*")]


def test_an_older_database_is_migrated_where_that_is_asked_for(older, run):
    """Once; then there is nothing to do, and all other commands go on."""
    code, out, _ = run("migrate")
    newest = revision_of(older)
    again = run("migrate")
    listed = run("profiles")

    assert (0, f"the database was migrated from 0005 to {newest}\n") == (code, out)
    assert (
        0,
        f"the database is at migration {newest}, as this version needs it\n",
    ) == (again[:2])
    assert 0 == listed[0]


def test_a_service_migrates_an_older_database_and_says_so(older, caplog):
    """The log of the start has the migration."""
    caplog.set_level("INFO")
    url = str(older.url)

    settings = Settings(database_url=url)
    Application(settings, upgrade=True).engine.dispose()

    newest = revision_of(older)
    assert f"the database was migrated from 0005 to {newest}" in caplog.text


def test_nothing_is_migrated_where_there_is_nothing(run_anew):
    """A folder that is not the service's gets no tables."""
    code, _, err = run_anew("migrate")

    assert (78, True) == (code, "no database" in err), err


def test_every_error_has_an_exit_code():
    """The nearest ancestor decides; mail servers try again after a 75."""
    assert 75 == exit_code(DatabaseUnavailable("x"))
    assert 65 == exit_code(UnknownLabel("x"))
    assert 70 == exit_code(DatabaseTooNew("x"))
    assert PostbayesError in EXIT


def test_figures_are_printed_for_a_person(run, index):
    """Errors, ranking and both tables, of messages that were learned."""
    run("learn", "--index", index)

    code, out, _ = run("figures", "--window", 12)

    assert 0 == code
    assert "the newest 12 messages, scored and then labelled: " in out
    for expected in ("ham lost", "1-ROCA", "Errors over time", "Predicted and actual"):
        assert expected in out


def test_figures_of_nothing_say_so(run):
    """An empty profile has no errors to show, and no traceback."""
    assert (0, "") == run("figures")[::2]
    assert "the newest 0 messages" in run("figures")[1]


def test_figures_of_one_message_are_of_one(run, index):
    """The window of one message is no plural."""
    run("learn", "--index", index)

    assert "the newest 1 message, scored" in run("figures", "--window", 1)[1]


def test_what_was_said_of_a_message_is_shown(run, index):
    """Each feedback with the verdict before it, and the explanation of now."""
    run("learn", "--index", index)
    message = index.parent / "spam7"
    id_ = json.loads(run("classify", "--json", message)[1])["id"]
    run("feedback", "--label", "ham", message)
    code, out, _ = run("why", id_, "--explain", 3)
    found = json.loads(run("why", id_, "--json", "--profile", "default")[1])

    assert 0 == code
    assert "labelled spam; the filter had decided " in out
    assert "labelled ham, was spam; the filter had decided spam" in out
    assert f"{id_}  as of revision 21" in out
    [said] = found["profiles"]
    assert ["spam", "ham"] == [each["label"] for each in said["taught"]]
    assert id_ == said["now"]["id"]


def test_the_verdict_of_the_time_is_shown_with_its_reasons(run, tmp_path):
    """Beside the current one, which names the same reasons, pairs of words as well."""
    with running(database_url=f"sqlite:///{tmp_path}/postbayes.db") as app:
        teach(app, spam(1), "spam")
        teach(app, ham(1), "ham")
        answer = app.delivery.together((), spam(2), strongest=3, door="milter")
        id_ = answer.classified.observation.id
    code, out, _ = run("why", id_, "--explain", 3)
    found = json.loads(run("why", id_, "--json")[1])

    [said] = found["profiles"]
    [then] = said["entries"]
    texts = [each["text"] for each in then["reasons"]]
    assert 0 == code
    assert f"  {then['decision']}, " in out
    assert f"(by milter); reasons: {texts[0]} " in out
    # A reason of many features is stored with the strongest of them.
    reasons = {text.partition(": ")[0] for text in texts}
    assert reasons <= {each["text"] for each in said["now"]["explanation"]}


def test_a_message_that_nobody_knows_is_told_so(run):
    """With the settings that decide how long one is known, and what an id is."""
    code, _, err = run("why", "0" * 32)

    assert (65, True) == (code, "POSTBAYES_SCORED_DAYS" in err)
    assert "32 hexadecimal digits" in run("why", "x")[2]


def test_a_word_is_shown_with_its_counts(run, index):
    """How many messages of each label have it; an unknown one is told so."""
    run("learn", "--index", index)

    assert "words: agenda in 10 of 10 ham, 0 of 10 spam" in run("word", "agenda")[1]
    assert (
        "default has not seen 'zyzzyva' in the 20 messages"
        in (run("word", "zyzzyva")[1])
    )


def test_a_word_without_blanks_is_shown_by_its_parts(run, tmp_path):
    """The filter reads it as pairs of letters; the archive has two of the three."""
    mail = tmp_path / "a.eml"
    mail.write_text("Subject: x\n\n代开 发票\n", encoding="utf-8")
    run("learn", "--label", "spam", mail)
    out = run("word", "代开发票")[1]
    parts = json.loads(run("word", "代开发票", "--json")[1])["parts"]

    assert "the filter reads '代开发票' as 代开, 开发, 发票; default has seen 2" in out
    assert "has not seen" not in out
    assert ["words"] == list(parts["代开"])
    assert {"ham": 0, "spam": 1} == parts["发票"]["words"]["messages"]
    assert {} == parts["开发"] == parts["代开 开发"]
    assert {} == json.loads(run("word", "发票", "--json")[1])["parts"]


def test_a_word_is_shown_month_by_month(run, index, monkeypatch):
    """With its evidence and, with a half-life, the present weight of each month."""
    run("learn", "--index", index)
    without = run("word", "agenda")[1]
    monkeypatch.setenv("POSTBAYES_HALF_LIFE_MONTHS", "6")
    out = run("word", "agenda")[1]

    # 0.5 of 11 spam to 10.5 of 11 ham; what one occurrence adds is something else, and
    # stands once.
    assert "1 : 21" in without
    assert 1 == without.count("nats")
    assert "weight" not in without
    assert "weight" in out
    assert "1.000" in out
    assert 1 == max(line.count("10 of 10") for line in out.splitlines()[1:])


def test_a_word_is_headed_by_what_its_view_has_learned(run, index):
    """A dump has no pairs, and so what it counts is not of their messages."""
    run("learn", "--index", index)
    dumps = Path(__file__).parent.parent / "golden" / "dumps"
    run("import", dumps / "bogofilter.txt", "--from", "bogofilter")

    assert "words: usual in 5 of 11 ham, 0 of 11 spam" in run("word", "usual")[1]
    pair = run("word", "usual place")[1]
    assert "pairs: usual place in 4 of 10 ham, 0 of 10 spam" in pair


def test_figures_and_words_are_the_documents_of_http(run, index):
    """`--json` is one object with the fields of the HTTP door."""
    run("learn", "--index", index)

    figures = json.loads(run("figures", "--json")[1])
    word = json.loads(run("word", "agenda", "--json")[1])

    assert 20 == figures["messages"]
    assert {"ham": 10, "spam": 0} == word["views"]["words"]["messages"]


def test_a_profile_is_exported_and_imported(run, index, tmp_path):
    """The way of a profile to another machine, and what each step says."""
    run("learn", "--index", index)
    code, out, _ = run("export", tmp_path / "site.pbx")
    assert (code, "10 ham, 10 spam" in out) == (0, True)
    assert (tmp_path / "site.pbx").stat().st_mode & 0o777 == 0o600
    assert not list(tmp_path.glob("*.part"))

    code, out, _ = run("import", tmp_path / "site.pbx", "--profile", "copy")
    assert (code, "'copy' learned 10 ham, 10 spam" in out) == (0, True)
    code, out, _ = run("import", tmp_path / "site.pbx", "--profile", "copy")
    assert (code, "Nothing to do" in out) == (0, True)
    assert run("audit")[0] == 0


def test_the_profile_of_a_site_becomes_keyed(run, index, tmp_path, monkeypatch):
    """As the page on operation has it: the same verdicts and lists, and keyed hashes.

    The same but for the grams, which a keyed profile does not have.
    """
    page = (Path(__file__).parents[2] / "docs/operating.md").read_text("utf-8")
    (script,) = (each for each in page.split("```") if "rename keyed default" in each)
    monkeypatch.setenv("POSTBAYES_TEXT_VIEWS", "words,headers,pairs,corrections")
    asked = "classify", "--json", index.parent / "spam3"
    run("learn", "--index", index)
    run("lists", "add", "ann@example.org", "--allow")
    before = json.loads(run(*asked)[1])
    monkeypatch.setenv("POSTBAYES_STORE_WORDS", "false")
    with on_path() as folder:
        monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
        subprocess.run(["bash", "-euc", script.removeprefix("sh\n")], check=True)
    after = json.loads(run(*asked)[1])

    assert re.fullmatch(r"default .*  key [0-9a-f]{16}\n", run("profiles")[1])
    assert run("lists")[1].startswith("allow ann@example.org nats=5")
    assert before["log_odds"] == pytest.approx(after["log_odds"])
    assert 0 == run("audit")[0]
    assert (tmp_path / "var" / "postbayes.key").stat().st_mode & 0o777 == 0o600


def test_without_the_key_file_nothing_is_scored_or_learned(
    run_anew, index, tmp_path, monkeypatch
):
    """The sentence names the file and the key; the counts can still be audited."""
    monkeypatch.setenv("POSTBAYES_STORE_WORDS", "false")
    run_anew("learn", "--index", index)
    (tmp_path / "var" / "postbayes.key").rename("elsewhere")
    ends = [
        run_anew(*command)
        for command in (
            ["learn", "--index", index],
            ["classify", index.parent / "spam3"],
        )
    ]
    audited, _, _ = run_anew("audit")
    (tmp_path / "elsewhere").rename(tmp_path / "var" / "postbayes.key")

    for code, _, err in ends:
        assert (78, 1) == (code, err.count("'var/postbayes.key', which is not there"))
    assert 0 == audited
    assert 0 == run_anew("classify", index.parent / "spam3")[0]


def test_an_export_goes_through_a_pipe(run, index, monkeypatch, capsys):
    """Standard output has the export and nothing else; standard input takes it."""
    run("learn", "--index", index)
    pipe = io.TextIOWrapper(io.BytesIO())
    with monkeypatch.context() as piped:
        piped.setattr(sys, "stdout", pipe)
        with pytest.raises(SystemExit, match="0"):
            main(["export", "-", "--with-ledger"])
    export = pipe.buffer.getvalue()
    assert export.startswith(b"POSTBAYES-EXPORT 1\n")
    assert "revision 20" in capsys.readouterr().err

    given = ("import", "-", "--profile", "copy", "--json")
    code, out, _ = run(*given, stdin=export)
    result = json.loads(out)
    assert (code, result["outcome"], result["rows"]) == (0, "added", 20)
    assert result["messages"] == {"ham": 10, "spam": 10}


@pytest.mark.parametrize(
    ("encoding", "errors", "printed"),
    [
        ("latin-1", "strict", b"gr\xfcn \\u2603.eml\n"),
        # In the locale C, where PYTHONUTF8=0 and PYTHONCOERCECLOCALE=0.
        ("ascii", "surrogateescape", b"gr\\xfcn \\u2603.eml\n"),
    ],
)
@pytest.mark.usefixtures("run")
def test_a_locale_without_the_characters_of_mail_gets_escapes(
    tmp_path, monkeypatch, encoding, errors, printed
):
    """Rather than a traceback; its own characters stay as they are."""
    message = tmp_path / "grün ☃.eml"
    message.write_bytes(spam(3))
    out = io.TextIOWrapper(io.BytesIO(), encoding, errors)
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "argv", ["postbayes", "classify", str(message)])
    with pytest.raises(SystemExit, match="0"):
        entry.main()
    out.flush()

    assert out.buffer.getvalue().endswith(printed)


def test_a_profile_is_replaced_only_if_somebody_says_so(run, index, tmp_path):
    """What is learned is not lost to a slip; without a terminal, --yes says it."""
    run("learn", "--index", index)
    run("export", tmp_path / "site.pbx")
    code, _, err = run("import", tmp_path / "site.pbx")
    assert (code, "count twice" in err) == (65, True)
    code, _, err = run("import", tmp_path / "site.pbx", "--replace")
    assert (code, "--yes" in err) == (65, True)
    code, out, _ = run("import", tmp_path / "site.pbx", "--replace", "--yes")
    assert (code, "forgot what it knew" in out) == (0, True)
    assert "revision 1 " in run("profiles")[1]


def test_what_is_no_export_changes_nothing(run, index, tmp_path):
    """A file cut short, another file, and none at all."""
    run("learn", "--index", index)
    run("export", tmp_path / "site.pbx")
    whole = (tmp_path / "site.pbx").read_bytes()
    (tmp_path / "cut.pbx").write_bytes(whole[:-1])
    for name, said in (
        ("cut.pbx", "cut short"),
        ("corpus/ham0", "not an export"),
        ("none", "cannot be read"),
    ):
        code, out, err = run("import", tmp_path / name, "--profile", "copy")
        assert (code, out, said in err) == (65, "", True)
    assert "copy" not in run("profiles")[1]


def contents(tmp_path):
    """Return all that the database holds, but for the clock that each start notes."""
    with closing(sqlite3.connect(tmp_path / "postbayes.db")) as database:
        database.execute("DELETE FROM service_secret WHERE name = 'clock'")
        return list(database.iterdump())


IMPOSSIBLE = [
    (["feedback", "--label", "junk", "new.eml"], "no label 'junk'"),
    (["feedback", "--label", "ham", "old.eml"], "learned too long ago"),
    (["feedback", "--forget", "--id", "OLD"], "learned too long ago"),
    (["undo", "OLD"], "row 1 of the ledger is too old"),
    (["undo", "--source", "ann"], "row 1 of the ledger is too old"),
    (["undo", "--source", "nobody"], "never taught by 'nobody'"),
    (["undo", "--source", "undo:7"], "never taught by 'undo:7'"),
    (["undo", "--from", "2026-05-02", "--until", "2026-05-01"], "ends before it"),
    (["undo", "--from", "yesterday"], "'yesterday' is not a time"),
    (["undo", "--from", ""], "'' is not a time"),
    (["undo", "00ff"], "'00ff' is not the id of a message"),
    (["import", "cut.pbx"], "cut short"),
    (["import", "cut.pbx", "--replace", "--yes"], "cut short"),
    (["import", "other.pbx", "--profile", "copy"], "its header was changed"),
    (["import", "damaged.pbx", "--profile", "copy"], "block 1 of this export"),
    (["import", "strange.pbx", "--profile", "copy"], "has feature set 99"),
    (["import", "strange.pbx", "--replace", "--yes"], "has feature set 99"),
]


def test_what_cannot_be_done_is_said_and_changes_nothing(run, tmp_path):
    """Not a byte of the database: neither what was learned nor a new profile."""
    (tmp_path / "old.eml").write_bytes(spam(1))
    (tmp_path / "new.eml").write_bytes(ham(1))
    told = run("feedback", "--label", "spam", "--source", "ann", "old.eml")[1]
    identity = re.search(r"id ([0-9a-f]{32})", told)[1]
    run("export", "site.pbx")
    whole = (tmp_path / "site.pbx").read_bytes()
    (tmp_path / "cut.pbx").write_bytes(whole[:300])
    changed = re.sub(rb'"feature_set": \d+', b'"feature_set": 99', whole)
    (tmp_path / "other.pbx").write_bytes(changed)
    at = whole.index(b"\n", 20) + 50
    flipped = bytes((whole[at] ^ 1,))
    (tmp_path / "damaged.pbx").write_bytes(whole[:at] + flipped + whole[at + 1 :])
    with (tmp_path / "strange.pbx").open("wb") as file:
        of_another = BlockWriter(file, changed.split(b"\n", 2)[1])
        of_another.close()
    with closing(sqlite3.connect(tmp_path / "postbayes.db")) as database, database:
        database.execute("UPDATE ledger SET vector = NULL, names = NULL")
    before = contents(tmp_path)
    for arguments, says in IMPOSSIBLE:
        code, out, err = run(*(identity if a == "OLD" else a for a in arguments))

        assert (arguments, 65, "") == (arguments, code, out)
        assert says in err
        assert before == contents(tmp_path)


def test_an_export_that_cannot_be_written_says_so(run, tmp_path):
    """A folder that is not there; and no profile of that name."""
    code, _, err = run("export", tmp_path / "none" / "site.pbx")
    assert (code, "cannot be written" in err) == (74, True)
    code, _, err = run("export", "site.pbx", "--profile", "nobody")
    assert (code, "there is no profile 'nobody'" in err) == (65, True)


def test_a_dump_of_another_filter_is_imported_once(run):
    """The table says what carried over, and what could not."""
    dumps = Path(__file__).parent.parent / "golden" / "dumps"
    code, out, _ = run("import", dumps / "bogofilter.txt", "--from", "bogofilter")
    assert (code, "words of subjects" in out, "learned 1 ham, 1 spam" in out) == (
        0,
        True,
        True,
    )
    again = run("import", dumps / "bogofilter.txt", "--from", "bogofilter", "--json")[1]
    assert json.loads(again)["outcome"] == "unchanged"
    assert run("audit")[0] == 0
    # What was learned there speaks here.
    out = run("classify", "--explain", "50", dumps / "spam.eml")[1]
    assert re.search(r"subject: .*\bfree\b", out)


@pytest.mark.parametrize("program", ["spamassassin", "spambayes"])
def test_every_program_that_can_be_read_is_read(run, tmp_path, program):
    """SpamAssassin's words are looked for among those that are given."""
    dumps = Path(__file__).parent.parent / "golden" / "dumps"
    words = tmp_path / "words"
    words.write_text("prize money lunch agenda\n")
    file = {"spamassassin": "spamassassin.txt", "spambayes": "spambayes.csv"}[program]
    given = ["--words", words] if program == "spamassassin" else []
    code, out, err = run("import", dumps / file, "--from", program, *given)

    assert (0, "") == (code, err)
    assert "learned" in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["spamassassin.txt", "--from", "spamassassin"], "--words"),
        (["bogofilter.txt", "--from", "rspamd"], "Learn from the mail folders"),
        (["bogofilter.txt", "--from", "bogofilter", "--replace"], "profiles create"),
        (["bogofilter.txt", "--words", "x"], "--from"),
        (["bogofilter.txt", "--from", "bogofilter", "--spam-label", "x"], "no label"),
        (["bogofilter.txt", "--from", "bogofilter", "--profile", "x"], "no profile"),
        (["bogofilter.txt", "--from", "spambayes"], "first line"),
        (
            ["spamassassin.txt", "--from", "spamassassin", "--words", "none"],
            "cannot be read",
        ),
    ],
)
def test_a_dump_that_cannot_be_imported_says_why(run, tmp_path, arguments, said):
    """And what to do instead; the files of SQLite's log do not stay."""
    dumps = Path(__file__).parent.parent / "golden" / "dumps"
    code, _, err = run("import", dumps / arguments[0], *arguments[1:])

    assert (65, True) == (code, said in err)
    assert [] == list(tmp_path.glob("postbayes.db-*"))
    assert "revision 0 " in run("profiles")[1]


def test_a_database_is_backed_up_and_checked(run, index, tmp_path):
    """The copy is of a mode that keeps others out, and can be used as it is."""
    run("learn", "--index", index)
    code, out, _ = run("backup", "copy.db", "--audit")
    assert (code, "agree with their ledger" in out) == (0, True)
    assert "with the profiles default (revision 20)" in out
    assert (tmp_path / "copy.db").stat().st_mode & 0o777 == 0o600

    before = run("classify", "--json", index.parent / "ham0")[1]
    (tmp_path / "copy.db").replace(tmp_path / "postbayes.db")
    for log in tmp_path.glob("postbayes.db-*"):
        log.unlink()
    assert before == run("classify", "--json", index.parent / "ham0")[1]


def test_a_backup_names_the_profiles_that_learned_most(run, index, monkeypatch):
    """A site with a mailbox each has thousands."""
    monkeypatch.setattr(upkeep, "_LISTED", 1)
    run("profiles", "create", "ann@example.org")
    run("learn", "--index", index)
    _, out, _ = run("backup", "copy.db")

    assert "with the profiles default (revision 20) and 1 more; the file" in out


@pytest.mark.parametrize("name", ["a?b.db", "a%41b.db", "a b#c.db", "caf\udce9.db"])
def test_a_backup_may_be_named_like_a_part_of_a_url(run, tmp_path, name):
    """The copy is opened by a URL, and no other file is made; nor if it is no UTF-8."""
    run("profiles", "create", "ann")
    before = {*tmp_path.iterdir()}
    code, out, _ = run("backup", "--audit", name)

    assert (0, True) == (code, "all counts agree" in out)
    assert {tmp_path / name} == {*tmp_path.iterdir()} - before


def test_a_backup_of_what_does_not_add_up_says_so(run, index, tmp_path):
    """The copy is kept, as it may be the only one; the exit code is not 0."""
    run("learn", "--index", index)
    with closing(sqlite3.connect(tmp_path / "postbayes.db")) as database, database:
        database.execute("UPDATE class_count SET messages = messages + 1")
    code, out, _ = run("backup", "copy.db", "--audit")
    assert (code, "counts and ledger disagree in default" in out) == (1, True)
    code, out, _ = run("backup", "again.db", "--json")
    assert (code, json.loads(out)["unsound"]) == (0, [])
    assert (tmp_path / "copy.db").exists()


@pytest.mark.parametrize(
    ("options", "change"),
    [
        ((), "UPDATE ledger SET vector = x'026a756e6b6a756e6b'"),
        (("--audit",), "UPDATE run SET vector = x'6a756e6b'"),
    ],
)
def test_a_backup_of_damaged_features_says_so(run, index, tmp_path, options, change):
    """SQLite finds the file sound; else older backups would be deleted for it."""
    learned(run, "--index", index)
    with closing(sqlite3.connect(tmp_path / "postbayes.db")) as database, database:
        database.execute(change)
    code, out, _ = run("backup", "copy.db", *options)
    again, document, _ = run("backup", "again.db", "--json", *options)

    assert (code, "but stored features in default are damaged" in out) == (1, True)
    assert (again, json.loads(document)["unsound"]) == (1, ["default"])
    assert (tmp_path / "copy.db").exists()


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE ledger SET vector = x'026a756e6b6a756e6b' WHERE revision = 7",
        "UPDATE ledger SET names = x'6a756e6b' WHERE revision = 7",
    ],
)
def test_a_ledger_with_a_damaged_lesson_is_not_exported(run, index, tmp_path, change):
    """No import takes it, and it must not be found then that it was the backup."""
    learned(run, "--index", index)
    with closing(sqlite3.connect(tmp_path / "postbayes.db")) as database, database:
        database.execute(change)
    code, _, err = run("export", "--with-ledger", "ledger.pbx")

    assert 70 == code
    assert "the ledger row 7 cannot be exported: " in err
    assert not (tmp_path / "ledger.pbx").exists()


def test_a_backup_that_has_no_place_changes_nothing(run, tmp_path):
    """A folder that is not there."""
    code, _, err = run("backup", tmp_path / "none" / "copy.db")
    assert (code, "cannot be written" in err) == (74, True)


@pytest.mark.parametrize("command", ["backup", "export"])
@pytest.mark.parametrize("name", ["postbayes.db", "postbayes.db-wal", "other.db"])
def test_a_copy_replaces_no_file(run, index, tmp_path, command, name):
    """Neither the database in use nor another copy, nor what an old link points to."""
    run("learn", "--index", index)
    (tmp_path / "other.db").write_bytes(b"the only good copy")
    before = (tmp_path / "postbayes.db").read_bytes()

    code, out, err = run(command, name)

    assert (65, "") == (code, out)
    assert "exists and is not replaced: give another name" in err
    assert before == (tmp_path / "postbayes.db").read_bytes()
    assert b"the only good copy" == (tmp_path / "other.db").read_bytes()


@pytest.mark.parametrize(
    "command",
    [
        ["audit"],
        ["backup", "copy.db"],
        ["classify", "message"],
        ["export", "copy.pbx"],
        ["feedback", "--label", "ham", "message"],
        ["figures"],
        ["fold"],
        ["policy"],
        ["profiles"],
        ["prune"],
        ["undo", "--source", "ann"],
        ["word", "money"],
    ],
    ids=lambda command: command[0],
)
def test_a_command_that_looks_makes_no_database(
    run_anew, tmp_path, monkeypatch, command
):
    """It says where it looked: an empty database in a wrong folder is not praised."""
    (tmp_path / "message").write_bytes(HAM[0])
    for place in ("sqlite:///var/postbayes.db", "sqlite:///message.db"):
        monkeypatch.setenv("POSTBAYES_DATABASE_URL", place)
        code, out, err = run_anew(*command)

        assert (78, "") == (code, out)
        assert f"is no database of Postbayes at {tmp_path / place[10:]}." in err
    assert ["message"] == [file.name for file in tmp_path.iterdir()]


def test_a_database_in_a_closed_folder_is_not_called_missing(
    run_anew, tmp_path, monkeypatch
):
    """Users who may not enter the folder of the service have the error of SQLite."""
    assert 0 == run_anew("profiles", "create", "ann")[0]
    monkeypatch.chdir("/")
    user = os.geteuid()
    tmp_path.chmod(0)
    os.seteuid(user or 65534)
    try:
        code, _, err = run_anew("profiles")
    finally:
        os.seteuid(user)
        tmp_path.chmod(0o700)

    assert (75, True) == (code, "postbayes.db cannot be opened: check" in err)


@pytest.mark.parametrize("content", ["nothing", "tables"])
def test_an_empty_database_is_none(run_anew, tmp_path, content):
    """An empty file, and one with tables and no profile."""
    if content == "tables":
        sqlite_url(tmp_path)
    else:
        (tmp_path / "postbayes.db").touch()

    code, out, err = run_anew("audit")

    assert (78, "") == (code, out)
    assert "There is no database of Postbayes at" in err
    assert 0 == run_anew("profiles", "create", "ann")[0]
    assert (0, "ann: difference 0\ndefault: difference 0\n", "") == run_anew("audit")


def lines(out):
    """Return the lines of `policy` by their first word."""
    return {line.split()[0]: line.split(maxsplit=1)[1] for line in out.splitlines()}


def test_a_policy_is_shown_changed_and_reset(run):
    """In log-odds and as a probability; a change shows the old value too."""
    run("profiles")
    shown = lines(run("policy")[1])
    changed = lines(run("policy", "--ham-cost", "99", "--reject-from", "99.999%")[1])
    own = lines(run("policy", "--quarantine-from", "9")[1])
    document = json.loads(run("policy", "--json")[1])
    reset = lines(run("policy", "--reset")[1])

    assert "+2.197  90 %" == shown["spam_threshold"]
    assert "never" == shown["reject_from"]
    assert changed["ham_cost"].startswith("99 missed spam")
    assert changed["spam_threshold"].startswith("+4.595  99 % ")
    assert changed["spam_threshold"].endswith(" was +2.197  90 %")
    assert changed["reject_from"].startswith("+11.513  99.999 %")
    assert changed["reject_from"].endswith("was never")
    assert own["reject_from"].endswith("its own")
    assert {"ham_cost": 99.0, "quarantine_from": 9.0} == {
        name: document["policy"][name] for name in ("ham_cost", "quarantine_from")
    }
    assert 9.0 == document["quarantine_from"]["log_odds"]
    assert pytest.approx(0.99999) == document["reject_from"]["probability"]
    assert reset["spam_threshold"].endswith("was +4.595  99 %")
    assert shown == lines(run("policy")[1])


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (
            ["--reject-from", "1"],
            "reject_from is 1 nats, below the spam threshold of 2.197",
        ),
        (["--reject-from", "50%"], "reject_from is 0 nats, below the spam threshold"),
        (
            ["--reject-from", "often"],
            "--reject-from must be log-odds in nats such as 6.9",
        ),
        (["--quarantine-from", "100%"], "--quarantine-from must be log-odds"),
        (["--ham-threshold", "never"], "--ham-threshold must be log-odds"),
        (["--ham-threshold", "nan"], "--ham-threshold must be log-odds"),
        (["--ham-cost", "90%"], "--ham-cost must be a number of missed spam"),
        (["--ham-cost", "0.5"], "ham_cost is 0.5; it is the number of missed spam"),
        (["--profile", "nowhere"], "no profile 'nowhere'"),
    ],
)
def test_a_policy_that_cannot_be_is_told(run, options, says):
    """With the code of bad input, and nothing is changed."""
    run("profiles")
    before = run("policy")
    code, out, err = run("policy", *options)

    assert (65, "") == (code, out)
    assert says in err
    assert before == run("policy")


def test_a_value_goes_back_to_the_settings(run, monkeypatch):
    """`never` is a choice of the profile, and `default` removes the choice."""
    run("profiles")
    monkeypatch.setenv("POSTBAYES_REJECT_FROM", "8")
    never = lines(run("policy", "--reject-from", "never")[1])
    back = lines(run("policy", "--reject-from", "default")[1])

    assert never["reject_from"].startswith("never")
    assert never["reject_from"].endswith("was +8.000  99.966 %")
    assert back["reject_from"].startswith("+8.000  99.966 %")
